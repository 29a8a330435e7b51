"""Transfers on links of their starter's own: worked out for each actor alone, as soon as it waits.

Tensor-parallel traffic inside a node meets nothing but itself, and an actor that waits for one
starts no other meanwhile. So what is under way together is known at every wait, and each actor's
share can be followed on its own time, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simnet.engine.fair_sets import FairSets
from simnet.engine.flatten import Flat
from simnet.engine.joints import Joint

FloatArray = NDArray[np.float64]

SCALAR_BYTES = 4096
"""A message no larger is all latency: what it takes from those that it passes is not counted."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Under:
    """A use under way."""

    use: int
    transfer: int
    begin_s: FloatArray
    is_waited: bool = False
    moving_s: FloatArray | None = None
    """What each bundle takes beside all of its chain; None if that is to be found anew."""


class Private:
    """The uses of such transfers."""

    def __init__(self, flat: Flat, sets: FairSets) -> None:
        self._flat, self._sets = flat, sets
        self.is_private = _private(flat, sets)
        """Per transfer."""
        self._chains: dict[int, list[_Under]] = {}

    def start(self, use: int, begin_s: FloatArray) -> None:
        """Note the begin of each bundle of a use."""
        transfer = self._flat.uses[use].transfer
        geometry = self._flat.program.transfers[transfer].geometry
        chain = self._chains.setdefault(geometry, [])
        if all(one.is_waited for one in chain):
            chain.clear()
        for one in chain:
            one.moving_s = None
        chain.append(_Under(use=use, transfer=transfer, begin_s=begin_s))

    def moving(self, use: int) -> FloatArray:
        """Return what each bundle of a use that someone waits for takes [s]."""
        transfer = self._flat.uses[use].transfer
        geometry = self._flat.program.transfers[transfer].geometry
        chain = self._chains[geometry]
        place = next(index for index, one in enumerate(chain) if one.use == use)
        chain[place].is_waited = True
        known = chain[place].moving_s
        if known is None:
            self._follow(geometry, chain)
            known = chain[place].moving_s
        assert known is not None
        return known

    def pending(self) -> list[int]:
        """Return the uses that nobody has waited for."""
        return [one.use for chain in self._chains.values() for one in chain if not one.is_waited]

    def _follow(self, geometry: int, chain: list[_Under]) -> None:
        takes_s = [[self._takes(geometry, n + 1, one.transfer) for one in chain] for n in range(len(chain))]
        if len(chain) == 1:
            chain[0].moving_s = takes_s[0][0]
        elif len(chain) == 2 and (chain[0].begin_s <= chain[1].begin_s).all():
            chain[0].moving_s, chain[1].moving_s = _of_two(chain[1].begin_s - chain[0].begin_s, *takes_s)
        else:
            begin_s = np.stack([one.begin_s for one in chain])
            moving_s = _ends(begin_s, np.stack([np.stack(row) for row in takes_s])) - begin_s
            for one, moving in zip(chain, moving_s, strict=True):
                one.moving_s = moving

    def _takes(self, geometry: int, count: int, transfer: int) -> FloatArray:
        return self._sets.takes(self._sets.rates(((geometry, count),), ()), transfer).each_s


def _of_two(
    later_s: FloatArray, alone_s: Sequence[FloatArray], beside_s: Sequence[FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Return what each of two takes, the second of which begins so much later [s]."""
    rest = np.maximum(1 - later_s / alone_s[0], 0)
    first_s, second_s = rest * beside_s[0], np.where(rest > 0, beside_s[1], alone_s[1])
    both_s = np.minimum(first_s, second_s)
    is_first = first_s <= second_s
    one = np.where(is_first, later_s + both_s, later_s + both_s + (rest - both_s / beside_s[0]) * alone_s[0])
    two = np.where(is_first, both_s + (1 - both_s / beside_s[1]) * alone_s[1], both_s)
    return np.where(rest > 0, one, alone_s[0]), two


def _ends(begin_s: FloatArray, takes_s: FloatArray) -> FloatArray:
    """Return when each is over; ``takes_s[n]`` is what each takes while n + 1 are under way, [s]."""
    left = np.ones(begin_s.shape)
    end_s = np.full(begin_s.shape, np.inf)
    now = begin_s.min(axis=0)
    columns = np.arange(begin_s.shape[1])
    while np.isinf(end_s).any():
        is_on = (begin_s <= now) & np.isinf(end_s)
        count = np.maximum(is_on.sum(axis=0), 1)
        takes = takes_s[count - 1, :, columns].T
        done_s = np.where(is_on, now + left * takes, np.inf)
        later = np.where(begin_s > now, begin_s, np.inf)
        then = np.minimum(done_s.min(axis=0), later.min(axis=0))
        then = np.where(np.isinf(then), now, then)
        is_over = is_on & (done_s <= then)
        end_s = np.where(is_over, done_s, end_s)
        left = np.where(is_on & ~is_over, left - (then - now) / takes, left)
        now = then
    return end_s


def _private(flat: Flat, sets: FairSets) -> list[bool]:
    program = flat.program
    large = {t.geometry for t in program.transfers if t.size_bytes.max() > SCALAR_BYTES}
    roles: dict[int, set[tuple[int, ...]]] = {}
    is_plain: dict[int, bool] = {}
    for transfer, joint in zip(program.transfers, flat.joints, strict=True):
        g = transfer.geometry
        is_plain[g] = is_plain.get(g, True) and _is_own(joint)
        roles.setdefault(g, set()).add(joint.starts)
    found = {
        g
        for g, plain in is_plain.items()
        if plain
        and len(roles[g]) == 1
        and sets.is_alone(g)
        and not large.intersection(sets.members(sets.above(1 << g)))
    }
    return [transfer.geometry in found for transfer in program.transfers]


def _is_own(joint: Joint) -> bool:
    """Whether each actor of one role starts a bundle and is the only one who waits for it."""
    if joint.alone is None or not joint.alone.is_same or tuple(joint.waits) != joint.starts:
        return False
    (wait,) = joint.waits.values()
    return wait.members is None and wait.bundles.is_same
