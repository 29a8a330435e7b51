"""Whether switches still join two leaves once cables are dead: the exact answer, for the few flows that need it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simnet.topology.wiring import Ints, Tier, Wiring, offsets


def pair_starts(wiring: Wiring) -> Ints:
    """Return where the pairs of each tier start among all pairs of switch cables, and the end."""
    return offsets(np.array([tier.num_pairs for tier in wiring.tiers]))


def dead_pairs(wiring: Wiring, dead: Ints) -> list[npt.NDArray[np.bool_]]:
    """Return for each tier which elements have a dead pair, in either direction."""
    starts = pair_starts(wiring)
    pairs = dead % starts[-1]
    flags = []
    for index, tier in enumerate(wiring.tiers):
        own = pairs[(pairs >= starts[index]) & (pairs < starts[index + 1])] - starts[index]
        touched = np.zeros(tier.num_elements, dtype=bool)
        touched[tier.pair_element[own]] = True
        flags.append(touched)
    return flags


def has_live_path(wiring: Wiring, dead: Ints, source: int, target: int) -> bool:
    """Return whether a way up and down joins two leaves without a dead pair.

    Parameters
    ----------
    dead
        Pairs without bandwidth upwards, counted over all tiers; downwards, plus their number.
    """
    if source == target:
        return True
    starts = pair_starts(wiring)
    gone = set(dead.tolist())
    up = _reach(wiring, gone, starts, source, shift=0)
    down = _reach(wiring, gone, starts, target, shift=int(starts[-1]))
    if any(up[level] & down[level] for level in range(len(up))):
        return True
    return _over_pairs(wiring, gone, starts, (up[-1] | up[1] | up[0], down[-1] | down[1] | down[0]))


def _reach(wiring: Wiring, gone: set[int], starts: Ints, leaf: int, *, shift: int) -> list[set[int]]:
    """Return the spines, cores and join switches that a leaf reaches, climbing live pairs only."""
    group, top = int(wiring.leaf_group[leaf]), int(wiring.leaf_top[leaf])
    core_set = int(wiring.group_core_set[group]) if group >= 0 else -1
    here = {leaf}
    levels: list[set[int]] = []
    for number, element in enumerate((leaf if group >= 0 else -1, group if core_set >= 0 else -1, top)):
        tier = wiring.tiers[number]
        above = _step(tier, element, here, gone, int(starts[number]) + shift) if element >= 0 else set()
        levels.append(above)
        here = above if element >= 0 and number < 2 else here
    return levels


def _step(tier: Tier, element: int, here: set[int], gone: set[int], start: int) -> set[int]:
    first = int(tier.first_pair[element])
    low, count = int(tier.lower_first[element]), max(int(tier.lower_count[element]), 1)
    high, uppers = int(tier.upper_first[element]), max(int(tier.upper_count[element]), 1)
    return {
        high + pair % uppers
        for pair in range(int(tier.first_pair[element + 1]) - first)
        if low + pair % count in here and start + first + pair not in gone
    }


def _over_pairs(wiring: Wiring, gone: set[int], starts: Ints, ends: tuple[set[int], set[int]]) -> bool:
    """Return whether live pairwise links lead from one set of switches to another; modules pass traffic on."""
    if not wiring.pairs.num_elements:
        return False
    low, high = wiring.pairs.ends()
    base, total = int(starts[3]), int(starts[-1])
    links = list(enumerate(zip(low.tolist(), high.tolist(), strict=True)))
    tops = {int(switch): int(element) for element in range(len(wiring.top_module))
            for switch in range(int(wiring.join.lower_first[element]),
                                int(wiring.join.lower_first[element] + wiring.join.lower_count[element]))}  # fmt: skip
    reached = set(ends[0])
    passed: set[int] = set()
    while True:
        grown = {b for n, (a, b) in links if a in reached and base + n not in gone}
        grown |= {a for n, (a, b) in links if b in reached and base + n + total not in gone}
        if (reached | grown) & ends[1]:
            return True
        news = {tops[switch] for switch in grown if switch in tops} - passed
        if not news:
            return False
        passed |= news
        reached |= {switch for switch, top in tops.items() if top in news}
