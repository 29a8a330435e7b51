"""Active transfers on the clock: groups of tasks that move at one rate.

A group starts with one size, moves at one rate, and splits where a solve gives its tasks
different rates. When groups come or go, only the connected components that they touch are
looked up again; a group whose rate did not change keeps its finish time to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from simnet.engine.participants import Instance
from simnet.engine.rates import Key, RateBook, Upstream

SAME_RATE = 1e-12
"""Relative: a rate this close to the old one leaves the finish time as it was."""


@dataclass(slots=True, kw_only=True, eq=False)
class Group:
    """Tasks of one transfer instance that started together and move at one rate."""

    serial: int
    owner: Instance
    geometry: int
    mask: int
    """Tasks, as a bit mask."""
    left_bytes: float
    """Still to move, as of ``since_s``."""
    started_s: float
    """When the last starter was ready (before any latency)."""
    since_s: float
    rate: float = 0.0
    finish_s: float = float("inf")
    is_active: bool = True
    near: dict[int, Group] = field(default_factory=dict)
    """Active groups with which it can hold one another back, by serial number."""
    above: dict[int, Group] = field(default_factory=dict)
    """Active groups whose leavings it shares."""
    below: dict[int, Group] = field(default_factory=dict)
    """Active groups that share its leavings."""

    key: Key = field(init=False)
    """What a solve has to know of the group."""

    def __post_init__(self) -> None:
        """Make the key once; it is asked for often."""
        self.key = (self.geometry, self.mask)


@dataclass(slots=True, kw_only=True)
class Network:
    """The groups under way and their rates."""

    book: RateBook
    full: tuple[int, ...]
    """Bit mask of all tasks, by geometry."""
    _by_geometry: dict[int, dict[int, Group]] = field(default_factory=dict)
    _neighbours: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """Geometries beside, above and below each, as bit masks."""
    _on_wire: int = 0
    """Geometries that have active groups, as a bit mask."""
    _touched: dict[int, dict[int, Group]] = field(default_factory=dict)
    """Groups whose rates may have changed, by level of their block."""
    _serial: int = 0

    def begin(
        self,
        owner: Instance,
        geometry: int,
        mask: int,
        size: float,
        started_s: float,
        now_s: float,
    ) -> Group:
        """Put tasks on the wire; their rate comes with the next ``settle``."""
        group = Group(
            serial=self._next_serial(),
            owner=owner,
            geometry=geometry,
            mask=mask,
            left_bytes=size,
            started_s=started_s,
            since_s=now_s,
        )
        self._insert(group)
        self._touch(group)
        return group

    def end(self, group: Group) -> None:
        """Take a finished group off; those that it coupled with will be settled anew."""
        self._remove(group)
        for other in (*group.near.values(), *group.below.values()):
            self._touch(other)

    def settle(self, now_s: float) -> list[Group]:
        """Rates of every touched component, upstream blocks first; groups whose finish is new."""
        changed: list[Group] = []
        touched = self._touched
        while touched:
            level = min(touched)
            groups = touched[level]
            if not groups:
                del touched[level]
                continue
            _, seed = groups.popitem()
            if not seed.is_active:
                continue
            component = _component(seed) if seed.near else (seed,)
            for group in component:
                groups.pop(group.serial, None)
            self._apply(component, now_s, changed)
        return changed

    def _touch(self, group: Group) -> None:
        level = self.book.blocks.level[group.geometry]
        self._touched.setdefault(level, {})[group.serial] = group

    def active(self) -> list[Group]:
        """Return the groups under way, oldest first."""
        found = [g for groups in self._by_geometry.values() for g in groups.values()]
        return sorted(found, key=lambda group: group.serial)

    def _apply(self, component: Sequence[Group], now_s: float, changed: list[Group]) -> None:
        solution = self.book.solve(tuple(group.key for group in component), _upstream(component))
        for group, parts in zip(component, solution.parts, strict=True):
            if len(parts) == 1:
                if _set_rate(group, parts[0][1], now_s):
                    changed.append(group)
                    for other in group.below.values():
                        self._touch(other)
                continue
            self._remove(group)
            for other in group.below.values():
                self._touch(other)
            for mask, rate in parts:
                piece = Group(
                    serial=self._next_serial(),
                    owner=group.owner,
                    geometry=group.geometry,
                    mask=mask,
                    left_bytes=group.left_bytes,
                    started_s=group.started_s,
                    since_s=group.since_s,
                    rate=group.rate,
                    finish_s=group.finish_s,
                )
                _set_rate(piece, rate, now_s)
                self._insert(piece)
                changed.append(piece)

    def _insert(self, group: Group) -> None:
        """Add a group and note which others it depends on, and which on it."""
        near, above, below = self._neighbours.get(group.geometry) or self._around(group.geometry)
        book, on_wire, serial = self.book, self._on_wire, group.serial
        if near & on_wire:
            for other in self._groups_of(near & on_wire):
                if self._are_full(group, other) or book.couples(group.key, other.key):
                    group.near[other.serial] = other
                    other.near[serial] = group
        if above & on_wire:
            for other in self._groups_of(above & on_wire):
                if self._are_full(group, other) or book.feeds(other.key, group.key):
                    group.above[other.serial] = other
                    other.below[serial] = group
        if below & on_wire:
            for other in self._groups_of(below & on_wire):
                if self._are_full(group, other) or book.feeds(group.key, other.key):
                    group.below[other.serial] = other
                    other.above[serial] = group
        self._by_geometry.setdefault(group.geometry, {})[serial] = group
        self._on_wire = on_wire | 1 << group.geometry

    def _groups_of(self, geometries: int) -> list[Group]:
        """Active groups of the geometries of a bit mask."""
        found: list[Group] = []
        while geometries:
            lowest = geometries & -geometries
            found.extend(self._by_geometry[lowest.bit_length() - 1].values())
            geometries ^= lowest
        return found

    def _around(self, geometry: int) -> tuple[int, int, int]:
        """Geometries beside, above and below one, as bit masks."""
        book = self.book
        above = sum(1 << g for g in range(len(self.full)) if geometry in book.downstream(g))
        beside = sum(1 << g for g in book.neighbours(geometry))
        below = sum(1 << g for g in book.downstream(geometry))
        self._neighbours[geometry] = (beside, above, below)
        return beside, above, below

    def _are_full(self, group: Group, other: Group) -> bool:
        full = self.full
        return group.mask == full[group.geometry] and other.mask == full[other.geometry]

    def _remove(self, group: Group) -> None:
        groups = self._by_geometry[group.geometry]
        del groups[group.serial]
        if not groups:
            self._on_wire &= ~(1 << group.geometry)
        group.is_active = False
        for other in group.near.values():
            del other.near[group.serial]
        for other in group.above.values():
            del other.below[group.serial]
        for other in group.below.values():
            del other.above[group.serial]

    def _next_serial(self) -> int:
        self._serial += 1
        return self._serial


def _component(seed: Group) -> list[Group]:
    """Everything that is coupled with a group, over any number of others, in order of keys."""
    seen = {seed.serial: seed}
    stack = [seed]
    while stack:
        for serial, other in stack.pop().near.items():
            if serial not in seen:
                seen[serial] = other
                stack.append(other)
    return sorted(seen.values(), key=_by_key)


def _upstream(component: Sequence[Group]) -> tuple[Upstream, ...]:
    """Rates that a component has to take as they are."""
    above: dict[int, Group] = {}
    for group in component:
        above.update(group.above)
    return tuple(sorted((g.geometry, g.mask, g.rate) for g in above.values()))


def _by_key(group: Group) -> tuple[Key, int]:
    return (group.key, group.serial)


def _set_rate(group: Group, rate: float, now_s: float) -> bool:
    """Move the group to a new rate; False if it is the one that it has."""
    if rate > 0 and (rate == group.rate or abs(rate - group.rate) <= SAME_RATE * group.rate):
        return False
    group.left_bytes -= group.rate * (now_s - group.since_s)
    group.left_bytes = max(group.left_bytes, 0.0)
    group.since_s = now_s
    group.rate = rate
    group.finish_s = now_s + group.left_bytes / rate if rate > 0 else float("inf")
    return True
