"""Water-filling by the book: one bottleneck level a round, dense matrices, no shortcut."""

from __future__ import annotations

import numpy as np


def water_filling(capacity, usage, cap, weight):
    """Max-min fair rates; ``usage`` is the dense (num_links, num_flows) matrix of coefficients."""
    num_flows = usage.shape[1]
    rate = np.zeros(num_flows)
    rising = np.ones(num_flows, dtype=bool)
    while rising.any():
        left = capacity - usage[:, ~rising] @ rate[~rising]
        load = usage[:, rising] @ weight[rising]
        level = np.full(len(capacity), np.inf)
        np.divide(left, load, out=level, where=load > 0)
        cap_level = cap[rising] / weight[rising]
        lowest = max(min(level.min(initial=np.inf), cap_level.min()), 0.0)
        tight = level <= lowest * (1 + 1e-12)
        stop = rising & (usage[tight] > 0).any(axis=0)
        stop |= rising & (cap / weight <= lowest * (1 + 1e-12))
        if not np.isfinite(lowest):
            rate[rising] = np.inf
            return rate
        rate[stop] = weight[stop] * lowest
        rising &= ~stop
    return rate
