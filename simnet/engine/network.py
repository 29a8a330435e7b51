"""Active transfers on the clock: groups of tasks that move at one rate.

A group starts with one size, moves at one rate, and splits where a solve gives its tasks
different rates. When groups come or go, only the connected components that they touch are
looked up again; a group whose rate did not change keeps its finish time to the last bit.

Fixed-rate arithmetic: a group that meets no other keeps the rate that it has alone, so its end is
known when its latency begins. Such a group is *reserved*: it costs one event, its end. When
another that it could meet is announced, it becomes an ordinary group again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from simnet.engine.couplings import Key
from simnet.engine.filling import CrowdedError, Part
from simnet.engine.participants import Instance
from simnet.engine.rates import RateBook, Upstream

SAME_RATE = 1e-12
"""Relative: a rate this close to the old one leaves the finish time as it was."""


class Group:
    """Tasks of one transfer instance that started together and move at one rate."""

    __slots__ = (
        "above",
        "below",
        "finish_s",
        "is_active",
        "key",
        "left_bytes",
        "near",
        "owner",
        "rate",
        "serial",
        "since_s",
        "started_s",
    )

    def __init__(
        self, serial: int, owner: Instance, key: Key, left_bytes: float, started_s: float, since_s: float
    ) -> None:
        """Start without a rate.

        Parameters
        ----------
        serial
            Number of the group; later ones have larger numbers.
        owner
            The use of a transfer that its tasks belong to.
        key
            Geometry and tasks: what a solve has to know of the group.
        left_bytes
            Still to move, as of ``since_s``.
        started_s
            When the last starter was ready (before any latency).
        """
        self.serial, self.owner, self.key = serial, owner, key
        self.left_bytes, self.started_s, self.since_s = left_bytes, started_s, since_s
        self.rate, self.finish_s, self.is_active = 0.0, inf, True
        self.near: dict[int, Group] = {}  # active groups with which it can hold one another back, by serial number
        self.above: dict[int, Group] = {}  # active groups whose leavings it shares
        self.below: dict[int, Group] = {}  # active groups that share its leavings


@dataclass(slots=True, kw_only=True)
class Network:
    """The groups under way and their rates."""

    book: RateBook
    on_wire: int = 0
    """Geometries that have active groups, as a bit mask."""
    reserved: int = 0
    """Geometries that have a reserved group, as a bit mask."""
    announced: int = 0
    """Geometries that have groups in their latency, the reserved left out, as a bit mask."""
    put_off: list[Group] = field(default_factory=list)
    """Groups that were reserved and now begin as others do; whoever keeps the clock empties the list."""
    _by_geometry: dict[int, dict[int, Group]] = field(default_factory=dict)
    _reserved: dict[int, dict[int, Group]] = field(default_factory=dict)
    _announced: dict[int, list[Key]] = field(default_factory=dict)
    _touched: dict[int, dict[int, Group]] = field(default_factory=dict)
    """Groups whose rates may have changed, by level of their block."""
    _serial: int = 0

    # -- before the first byte --------------------------------------------------------------

    def reserve(self, owner: Instance, key: Key, size: float, started_s: float, begin_s: float) -> Group | None:
        """Group whose end is known because it meets no other; None if it may meet one."""
        if self._meets(key):
            return None
        try:
            parts = self.book.alone(key)
        except CrowdedError:
            return None
        rate = parts[0][1]
        if len(parts) > 1 or rate <= 0:
            return None
        group = Group(self._next_serial(), owner, key, size, started_s, begin_s)
        group.rate, group.finish_s = rate, begin_s + size / rate
        self._reserved.setdefault(key[0], {})[group.serial] = group
        self.reserved |= 1 << key[0]
        return group

    def announce(self, key: Key, now_s: float) -> None:
        """Expect tasks after their latency; reserved groups that they could meet become ordinary ones."""
        self._announced.setdefault(key[0], []).append(key)
        self.announced |= 1 << key[0]
        beside, above, below = self.book.couplings.around(key[0])
        meets = (beside | above | below) & self.reserved
        for geometry in _bits(meets) if meets else ():
            for group in list(self._reserved[geometry].values()):
                if self._is_met(key, group.key):
                    self._release(group, now_s)

    def _release(self, group: Group, now_s: float) -> None:
        """Make a reserved group an ordinary one: under way, or put off until its latency is over."""
        self._unreserve(group)
        if group.since_s <= now_s:
            self.book.solve((group.key,))
            self._insert(group)
            return
        group.is_active = False
        self._announced.setdefault(group.key[0], []).append(group.key)
        self.announced |= 1 << group.key[0]
        self.put_off.append(group)

    def begin(self, owner: Instance, key: Key, size: float, started_s: float, now_s: float) -> None:
        """Put announced tasks on the wire; their rate comes with the next ``settle``."""
        expected = self._announced[key[0]]
        expected.remove(key)
        if not expected:
            self.announced &= ~(1 << key[0])
        group = Group(self._next_serial(), owner, key, size, started_s, now_s)
        self._insert(group)
        self._touch(group)

    def _meets(self, key: Key) -> bool:
        """Whether tasks could meet others that are under way, reserved or announced."""
        beside, above, below = self.book.couplings.around(key[0])
        meets = (beside | above | below) & (self.on_wire | self.reserved | self.announced)
        if not meets:
            return False
        for geometry in _bits(meets):
            for groups in (self._by_geometry.get(geometry), self._reserved.get(geometry)):
                if groups and any(self._is_met(key, group.key) for group in groups.values()):
                    return True
            if any(self._is_met(key, other) for other in self._announced.get(geometry, ())):
                return True
        return False

    def _is_met(self, key: Key, other: Key) -> bool:
        """Whether two sets of tasks, of geometries that are coupled, can change each other's rates."""
        couplings = self.book.couplings
        beside, above, below = couplings.around(key[0])
        bit = 1 << other[0]
        return bool(
            (beside & bit and couplings.couples(key, other))
            or (above & bit and couplings.feeds(other, key))
            or (below & bit and couplings.feeds(key, other))
        )

    # -- on the wire ------------------------------------------------------------------------

    def end(self, group: Group) -> None:
        """Take a finished group off; those that it coupled with will be settled anew."""
        if self.reserved >> group.key[0] & 1 and group.serial in self._reserved[group.key[0]]:
            self._unreserve(group)
            self.book.solve((group.key,))
            group.is_active = False
            return
        self._remove(group)
        for other in group.near.values():
            self._touch(other)
        for other in group.below.values():
            self._touch(other)

    def settle(self, now_s: float) -> list[Group]:
        """Rates of every touched component, upstream blocks first; groups whose finish is new."""
        changed: list[Group] = []
        while True:
            try:
                self._settle(now_s, changed)
            except CrowdedError:
                self._coarsen(now_s)
            else:
                return changed

    def _settle(self, now_s: float, changed: list[Group]) -> None:
        touched = self._touched
        while touched:
            level = next(iter(touched)) if len(touched) == 1 else min(touched)
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
            solution = self.book.solve(tuple([group.key for group in component]), _upstream(component))
            for group, parts in zip(component, solution.parts, strict=True):
                self._apply(group, parts, now_s, changed)

    def _coarsen(self, now_s: float) -> None:
        """Go on with a coarser split: what was solved so far stands, what is under way is linked anew."""
        for group in [group for groups in self._reserved.values() for group in groups.values()]:
            self._release(group, now_s)
        under_way = [group for groups in self._by_geometry.values() for group in groups.values()]
        self.book = self.book.coarser()
        self.on_wire = 0
        self._by_geometry.clear()
        self._touched.clear()
        for group in under_way:
            group.near, group.above, group.below = {}, {}, {}
            self._insert(group)
            self._touch(group)

    def active(self) -> list[Group]:
        """Return the groups under way, oldest first."""
        every = (*self._by_geometry.values(), *self._reserved.values())
        return sorted((g for groups in every for g in groups.values()), key=lambda group: group.serial)

    def _touch(self, group: Group) -> None:
        level = self.book.blocks.level[group.key[0]]
        groups = self._touched.get(level)
        if groups is None:
            groups = self._touched[level] = {}
        groups[group.serial] = group

    def _apply(self, group: Group, parts: tuple[Part, ...], now_s: float, changed: list[Group]) -> None:
        """Move a group at its new rate, in pieces where its tasks have different ones."""
        if len(parts) == 1:
            if _set_rate(group, parts[0][1], now_s):
                changed.append(group)
                for other in group.below.values():
                    self._touch(other)
            return
        self._remove(group)
        for other in group.below.values():
            self._touch(other)
        for mask, rate in parts:
            key = (group.key[0], mask)
            piece = Group(self._next_serial(), group.owner, key, group.left_bytes, group.started_s, group.since_s)
            piece.rate, piece.finish_s = group.rate, group.finish_s
            _set_rate(piece, rate, now_s)
            self._insert(piece)
            changed.append(piece)

    def _insert(self, group: Group) -> None:
        """Add a group and note which others it depends on, and which on it."""
        key, serial, on_wire = group.key, group.serial, self.on_wire
        couplings = self.book.couplings
        beside, above, below = couplings.around(key[0])
        if beside & on_wire:
            for other in self._groups_of(beside & on_wire):
                if couplings.couples(key, other.key):
                    group.near[other.serial] = other
                    other.near[serial] = group
        if above & on_wire:
            for other in self._groups_of(above & on_wire):
                if couplings.feeds(other.key, key):
                    group.above[other.serial] = other
                    other.below[serial] = group
        if below & on_wire:
            for other in self._groups_of(below & on_wire):
                if couplings.feeds(key, other.key):
                    group.below[other.serial] = other
                    other.above[serial] = group
        self._by_geometry.setdefault(key[0], {})[serial] = group
        self.on_wire = on_wire | 1 << key[0]

    def _groups_of(self, geometries: int) -> list[Group]:
        """Active groups of the geometries of a bit mask."""
        return [group for geometry in _bits(geometries) for group in self._by_geometry[geometry].values()]

    def _remove(self, group: Group) -> None:
        geometry, serial = group.key[0], group.serial
        groups = self._by_geometry[geometry]
        del groups[serial]
        if not groups:
            self.on_wire &= ~(1 << geometry)
        group.is_active = False
        for other in group.near.values():
            del other.near[serial]
        for other in group.above.values():
            del other.below[serial]
        for other in group.below.values():
            del other.above[serial]

    def _unreserve(self, group: Group) -> None:
        groups = self._reserved[group.key[0]]
        del groups[group.serial]
        if not groups:
            self.reserved &= ~(1 << group.key[0])

    def _next_serial(self) -> int:
        self._serial += 1
        return self._serial


def _bits(mask: int) -> list[int]:
    """Positions of the set bits of a mask of few bits."""
    found: list[int] = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found


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
        if group.above:
            above.update(group.above)
    if not above:
        return ()
    return tuple(sorted((*g.key, g.rate) for g in above.values()))


def _by_key(group: Group) -> tuple[Key, int]:
    return (group.key, group.serial)


def _set_rate(group: Group, rate: float, now_s: float) -> bool:
    """Move the group at a new rate; False if it is the one that it has."""
    if rate > 0 and (rate == group.rate or abs(rate - group.rate) <= SAME_RATE * group.rate):
        return False
    group.left_bytes -= group.rate * (now_s - group.since_s)
    group.left_bytes = max(group.left_bytes, 0.0)
    group.since_s = now_s
    group.rate = rate
    group.finish_s = now_s + group.left_bytes / rate if rate > 0 else inf
    return True
