"""Which tiers a flow climbs, by arithmetic on coordinates: up to the first set of switches that both ends share."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simnet.topology.wiring import Ints, Wiring

Mask = npt.NDArray[np.bool_]
LEAF_SPINE_TIER, SPINE_CORE_TIER, JOIN_TIER, PAIR_TIER = range(4)
"""Places of the tiers in :attr:`Wiring.tiers`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One crossing of a tier by each flow, in order along the path."""

    tier: int
    is_up: bool
    """Whether switches are climbed; of a pairwise link, whether it runs from its first module to its second."""
    element: Ints
    """Element whose cables the flow uses, -1 for flows that do not; ``(num_flows,)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Climb:
    """The legs of many flows between leaves."""

    legs: tuple[Leg, ...]
    is_reached: Mask
    """Whether switches join the two leaves at all."""
    meeting: Ints
    """Tier at which a flow turns down; -1 on its own leaf."""
    num_switches: Ints
    """Switches on the path."""


def climb(wiring: Wiring, source: Ints, target: Ints) -> Climb:
    """Return the legs from leaf *source* to leaf *target*, ``(num_flows,)`` each."""
    group = wiring.leaf_group[source], wiring.leaf_group[target]
    core = _core_sets(wiring, group[0]), _core_sets(wiring, group[1])
    top = wiring.leaf_top[source], wiring.leaf_top[target]
    is_crossing = source != target
    has_spines = (group[0] >= 0) & (group[1] >= 0)
    at_spine = is_crossing & has_spines & (group[0] == group[1])
    rest = is_crossing & ~at_spine
    at_core = rest & has_spines & (core[0] >= 0) & (core[0] == core[1])
    rest &= ~at_core
    at_pair, hops = _pair_hops(wiring, top, rest)
    at_join = rest & ~at_pair & _share_join(wiring, top)
    far = at_pair | at_join
    none = np.int64(-1)
    spine_legs = [np.where((at_spine | at_core | far) & (side >= 0), leaf, none)
                  for side, leaf in zip(group, (source, target), strict=True)]  # fmt: skip
    core_legs = [np.where((at_core | far) & (set_ >= 0), side, none) for set_, side in zip(core, group, strict=True)]
    join_legs = [np.where(at_join, side, none) for side in top]
    legs = (
        Leg(tier=LEAF_SPINE_TIER, is_up=True, element=spine_legs[0]),
        Leg(tier=SPINE_CORE_TIER, is_up=True, element=core_legs[0]),
        Leg(tier=JOIN_TIER, is_up=True, element=join_legs[0]),
        *hops,
        Leg(tier=JOIN_TIER, is_up=False, element=join_legs[1]),
        Leg(tier=SPINE_CORE_TIER, is_up=False, element=core_legs[1]),
        Leg(tier=LEAF_SPINE_TIER, is_up=False, element=spine_legs[1]),
    )
    meeting = np.full(len(source), -1)
    for tier, mask in enumerate((at_spine, at_core, at_join, at_pair)):
        meeting[mask] = tier
    crossed = np.array([leg.element >= 0 for leg in legs])
    legs = tuple(leg for leg in legs if (leg.element >= 0).any())
    return Climb(
        legs=legs,
        is_reached=~is_crossing | at_spine | at_core | far,
        meeting=meeting,
        num_switches=1 + crossed.sum(axis=0),
    )


def components(wiring: Wiring) -> Ints:
    """Return a number for each leaf, equal for leaves that switches join, ``(num_leaves,)``."""
    num_tops = len(wiring.top_module)
    label = np.arange(num_tops)
    is_joined = wiring.join.cables > 0 if wiring.join.block.max(initial=-1) >= 0 else np.zeros(num_tops, dtype=bool)
    for block in np.unique(wiring.join.block[is_joined]):
        members = np.flatnonzero(is_joined & (wiring.join.block == block))
        label[np.isin(label, label[members])] = label[members].min()
    for low, high in zip(wiring.pair_first_top, wiring.pairs.block, strict=True):
        label[label == max(label[low], label[high])] = min(label[low], label[high])
    return label[wiring.leaf_top]


def _core_sets(wiring: Wiring, group: Ints) -> Ints:
    if not len(wiring.group_core_set):
        return np.full(len(group), -1)
    return np.where(group >= 0, wiring.group_core_set[np.maximum(group, 0)], -1)


def _share_join(wiring: Wiring, top: tuple[Ints, Ints]) -> Mask:
    block, cables = wiring.join.block, wiring.join.cables
    if not len(block):
        return np.zeros(len(top[0]), dtype=bool)
    is_same = (block[top[0]] == block[top[1]]) & (block[top[0]] >= 0)
    is_cabled = (cables[top[0]] > 0) & (cables[top[1]] > 0) & (top[0] != top[1])
    return np.asarray(is_same & is_cabled, dtype=np.bool_)


def _pair_hops(wiring: Wiring, top: tuple[Ints, Ints], rest: Mask) -> tuple[Mask, tuple[Leg, ...]]:
    """Return the flows that take pairwise links, and their legs; a core is preferred to a detour over modules."""
    if not wiring.pairs.num_elements or not rest.any():
        return np.zeros(len(rest), dtype=bool), ()
    ends = np.stack([top[0][rest], top[1][rest]], axis=1)
    wanted, inverse = np.unique(ends, axis=0, return_inverse=True)
    has_core = _share_join(wiring, (wanted[:, 0], wanted[:, 1]))
    ways = [_shortest(wiring, int(one), int(two)) for one, two in wanted]
    ways = [() if core and len(way) > 1 else way for core, way in zip(has_core, ways, strict=True)]
    table = np.full((len(ways), max(map(len, ways), default=0)), 0, dtype=np.int64)
    for row, way in enumerate(ways):
        table[row, : len(way)] = way
    signed = np.zeros((len(rest), table.shape[1]), dtype=np.int64)
    signed[rest] = table[inverse.ravel()]
    legs = []
    for column in signed.T:
        legs.append(Leg(tier=PAIR_TIER, is_up=True, element=np.where(column > 0, column - 1, -1)))
        legs.append(Leg(tier=PAIR_TIER, is_up=False, element=np.where(column < 0, -column - 1, -1)))
    return (signed != 0).any(axis=1), tuple(legs)


def _shortest(wiring: Wiring, start: int, goal: int) -> tuple[int, ...]:
    """Return the links from one top element to another, number + 1, negative if run from second to first."""
    near: dict[int, list[tuple[int, int]]] = {}
    for number, (low, high) in enumerate(zip(wiring.pair_first_top.tolist(), wiring.pairs.block.tolist(), strict=True)):
        near.setdefault(low, []).append((high, number + 1))
        near.setdefault(high, []).append((low, -number - 1))
    came: dict[int, tuple[int, int]] = {start: (start, 0)}
    queue = deque([start])
    while queue and goal not in came:
        here = queue.popleft()
        for there, link in near.get(here, ()):
            if there not in came:
                came[there] = (here, link)
                queue.append(there)
    way: list[int] = []
    while goal in came and goal != start:
        goal, link = came[goal]
        way.append(link)
    return tuple(reversed(way))
