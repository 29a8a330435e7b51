"""Sets of tasks as bit masks: bit ``i`` of a Python integer stands for task ``i``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simnet.sharing.incidence import Incidence, take_rows

IntArray = NDArray[np.int64]


def bits_to_index(mask: int, count: int) -> IntArray:
    """Positions of the set bits of ``mask``, ascending, shape (popcount,)."""
    data = np.frombuffer(mask.to_bytes((count + 7) // 8, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(data, bitorder="little", count=count))


def index_to_bits(index: IntArray, count: int) -> int:
    """Bit mask with the given positions set."""
    flags = np.zeros(count, dtype=np.uint8)
    flags[index] = 1
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def rows_of(incidence: Incidence, mask: int) -> Incidence:
    """Rows of an incidence whose bits are set."""
    if mask.bit_count() == incidence.num_flows:
        return incidence
    return take_rows(incidence, bits_to_index(mask, incidence.num_flows))
