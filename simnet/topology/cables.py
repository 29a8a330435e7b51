"""Which single cable a flow takes under static and ECMP routing, on every tier that it crosses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simnet.topology.climb import JOIN_TIER, LEAF_SPINE_TIER, PAIR_TIER, SPINE_CORE_TIER, Climb, Leg, Mask
from simnet.topology.wiring import Ints, Tier, Wiring

_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # splitmix64, Steele et al. 2014
_STEP = np.uint64(0x9E3779B97F4A7C15)  # the same generator's increment
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


@dataclass(frozen=True, slots=True, kw_only=True)
class Picks:
    """Numbers from which cables follow, ``(num_flows,)`` each."""

    turn: Ints
    """Picks the cable of the tier where the flow turns down."""
    place: tuple[Ints, Ints]
    """Picks among parallel cables below the turn, of leaf–spine and spine–core: the target's place on its leaf, and
    among the end points of its group."""
    is_hashed: bool


def static_picks(wiring: Wiring, climb: Climb, target: Ints, position: Ints, *, has_offset: bool) -> Picks:
    """Return destination-based picks: the place of the target among the end points below the turning tier.

    With an offset the places of a group's leaves follow one another, so that every target of a 1:1
    tree has a cable of its own on its way down. Without it, targets at the same place of different
    leaves share cables.
    """
    turn = position.copy()
    if has_offset:
        turn += np.where(climb.meeting == SPINE_CORE_TIER, wiring.leaf_start[target], 0)
        turn += np.where(climb.meeting >= JOIN_TIER, wiring.leaf_top_start[target], 0)
    inside = wiring.leaf_start[target] if has_offset else 0
    return Picks(turn=turn, place=(position, position + inside), is_hashed=False)


def hashed_picks(src: Ints, dst: Ints, flow_id: Ints, seed: int) -> Picks:
    """Return picks by a seeded hash of end points and flow number, equal for equal flows."""
    key = _hash(np.full(len(src), seed))
    for part in (src, dst, flow_id):
        key = _hash(key.astype(np.int64) ^ _hash(part).astype(np.int64))
    turn, further = (part >> _SHIFTS[0] for part in (key, _hash(key.astype(np.int64))))
    place = further.astype(np.int64)
    return Picks(turn=turn.astype(np.int64), place=(place, place), is_hashed=True)


def _hash(value: Ints) -> npt.NDArray[np.uint64]:
    """Return splitmix64 of each value."""
    mixed = value.astype(np.uint64) + _STEP
    mixed = (mixed ^ (mixed >> _SHIFTS[0])) * _MIX[0]
    mixed = (mixed ^ (mixed >> _SHIFTS[1])) * _MIX[1]
    return mixed ^ (mixed >> _SHIFTS[2])


def choose_cables(wiring: Wiring, climb: Climb, picks: Picks) -> tuple[list[Ints], Mask]:
    """Return for each leg of *climb* the cable within its element (-1 where not crossed), and which flows have a way.

    Notes
    -----
    From the turning tier outwards: the cable there names an upper switch, which both sides must
    reach, and a lower switch on each side. The next tier down must use a cable to that switch, and
    so on to the leaf. Where an element has several cables to it, ``place`` (static) or a further
    hash (ECMP) picks one. A group of a last pod that is not full may lack the cable asked for; such
    a flow has no way with this pick and must turn elsewhere.
    """
    sides = {(leg.tier, leg.is_up): leg.element for leg in climb.legs if leg.tier != PAIR_TIER}
    absent = np.full(len(climb.meeting), -1)
    cables: dict[tuple[int, bool], Ints] = {}
    has_way = np.ones(len(climb.meeting), dtype=np.bool_)
    for is_up in (True, False):
        wanted = _pair_end(wiring, climb, picks, is_up=is_up)
        for tier in (JOIN_TIER, SPINE_CORE_TIER, LEAF_SPINE_TIER):
            if (tier, is_up) not in sides:
                continue
            below = sides.get((SPINE_CORE_TIER, is_up), absent) if tier == JOIN_TIER else absent
            side = _Side(
                tier=wiring.tiers[tier],
                number=tier,
                is_up=is_up,
                element=sides[tier, is_up],
                other=sides.get((tier, not is_up), sides[tier, is_up]),
                wanted=wanted,
                limit=_lower_limit(wiring, below),
            )
            has_way &= _reaches(side, climb)
            cables[tier, is_up], wanted = _descend(side, climb, picks)
    chosen = [_pair_cable(wiring, leg, picks) if leg.tier == PAIR_TIER else cables[leg.tier, leg.is_up]
              for leg in climb.legs]  # fmt: skip
    return chosen, has_way


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """One tier on the way up or down."""

    tier: Tier
    number: int
    is_up: bool
    element: Ints
    other: Ints
    """Element of the other side."""
    wanted: Ints
    """Upper switch, within the element, that the tier above asks for; -1 if it asks for none."""
    limit: Ints
    """Lower switches that the tier below can reach."""


def _reaches(side: _Side, climb: Climb) -> Mask:
    """Return whether an element has a cable to the switch that the tier above asks for."""
    element = np.maximum(side.element, 0)
    is_asked = (side.element >= 0) & (climb.meeting != side.number) & (side.wanted >= 0)
    return np.asarray(~is_asked | (side.wanted < side.tier.cables[element]), dtype=np.bool_)


def _descend(side: _Side, climb: Climb, picks: Picks) -> tuple[Ints, Ints]:
    """Return the cable on one tier and side, and the lower switch (within the element) that it starts from."""
    tier, element, other = side.tier, np.maximum(side.element, 0), np.maximum(side.other, 0)
    cables, upper = np.maximum(tier.cables[element], 1), np.maximum(tier.upper_count[element], 1)
    own_reach = np.minimum(cables, upper)
    is_turn = climb.meeting == side.number
    reach = np.minimum(own_reach, np.maximum(tier.cables[other], 1))
    place = picks.place[0 if side.number == 0 else 1]
    switch = np.where(is_turn, picks.turn % reach, np.where(side.wanted >= 0, side.wanted, picks.turn) % own_reach)
    among = np.maximum(-(-(cables - switch) // upper), 1)
    further = np.where(is_turn, picks.turn // reach, place // upper)
    if picks.is_hashed:
        further = (_hash(place + 2 * side.number + side.is_up) >> _SHIFTS[0]).astype(np.int64)
    lower_count = np.maximum(tier.lower_count[element], 1)
    cable = switch + upper * (further % among)
    for step in range(1, int(among.max(initial=1))):
        is_dead_end = cable % lower_count >= side.limit
        if not is_dead_end.any():
            break
        cable = np.where(is_dead_end, switch + upper * ((further + step) % among), cable)
    is_crossed = side.element >= 0
    return np.where(is_crossed, cable, -1), np.where(is_crossed, cable % lower_count, side.wanted)


def _lower_limit(wiring: Wiring, group: Ints) -> Ints:
    """Return how many cores a group reaches; unlimited where no group is below."""
    no_limit = np.iinfo(np.int64).max
    if not wiring.spine_core.num_elements:
        return np.full(len(group), no_limit)
    return np.where(group >= 0, wiring.spine_core.cables[np.maximum(group, 0)], no_limit)


def _pair_cable(wiring: Wiring, leg: Leg, picks: Picks) -> Ints:
    count = np.maximum(wiring.pairs.cables[np.maximum(leg.element, 0)], 1)
    return np.where(leg.element >= 0, picks.turn % count, -1)


def _pair_end(wiring: Wiring, climb: Climb, picks: Picks, *, is_up: bool) -> Ints:
    """Return the top switch from which a flow takes its first pairwise link, or at which its last one ends."""
    wanted = np.full(len(climb.meeting), -1)
    legs = [leg for leg in climb.legs if leg.tier == PAIR_TIER]
    for leg in reversed(legs) if is_up else legs:
        element = np.maximum(leg.element, 0)
        starts_low = leg.is_up == is_up
        count = (wiring.pairs.lower_count if starts_low else wiring.pairs.upper_count)[element]
        wanted = np.where(leg.element >= 0, _pair_cable(wiring, leg, picks) % np.maximum(count, 1), wanted)
    return wanted
