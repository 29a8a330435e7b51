"""Active transfers on the clock: groups of tasks that move at one rate.

A group starts with one size, moves at one rate, and splits where a solve gives its tasks
different rates. When groups come or go, only the connected components that they touch are
looked up again; a group whose rate did not change keeps its finish time to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from simnet.engine.rates import Key, RateBook, Upstream

SAME_RATE = 1e-12
"""Relative: a rate this close to the old one leaves the finish time as it was."""


@dataclass(slots=True, kw_only=True, eq=False)
class Group:
    """Tasks of one transfer instance that started together and move at one rate."""

    serial: int
    transfer: int
    instance: int
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
    _neighbours: dict[int, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)
    _touched: dict[int, dict[int, Group]] = field(default_factory=dict)
    """Groups whose rates may have changed, by level of their block."""
    _serial: int = 0

    def begin(
        self,
        transfer: int,
        instance: int,
        geometry: int,
        mask: int,
        size: float,
        started_s: float,
        now_s: float,
    ) -> Group:
        """Put tasks on the wire; their rate comes with the next ``settle``."""
        group = Group(
            serial=self._next_serial(),
            transfer=transfer,
            instance=instance,
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
                    transfer=group.transfer,
                    instance=group.instance,
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
        near, above, below = self._around(group.geometry)
        book, by_geometry = self.book, self._by_geometry
        for geometry in near:
            for other in by_geometry.get(geometry, _NONE).values():
                if self._are_full(group, other) or book.couples(group.key, other.key):
                    group.near[other.serial] = other
                    other.near[group.serial] = group
        for geometry in above:
            for other in by_geometry.get(geometry, _NONE).values():
                if self._are_full(group, other) or book.feeds(other.key, group.key):
                    group.above[other.serial] = other
                    other.below[group.serial] = group
        for geometry in below:
            for other in by_geometry.get(geometry, _NONE).values():
                if self._are_full(group, other) or book.feeds(group.key, other.key):
                    group.below[other.serial] = other
                    other.above[group.serial] = group
        by_geometry.setdefault(group.geometry, {})[group.serial] = group

    def _around(self, geometry: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Geometries beside, above and below one."""
        known = self._neighbours.get(geometry)
        if known is None:
            book = self.book
            known = self._neighbours[geometry] = (
                book.neighbours(geometry),
                book.upstream(geometry),
                book.downstream(geometry),
            )
        return known

    def _are_full(self, group: Group, other: Group) -> bool:
        full = self.full
        return group.mask == full[group.geometry] and other.mask == full[other.geometry]

    def _remove(self, group: Group) -> None:
        groups = self._by_geometry[group.geometry]
        del groups[group.serial]
        if not groups:
            del self._by_geometry[group.geometry]
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


_NONE: dict[int, Group] = {}


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
