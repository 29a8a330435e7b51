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


def dense(incidence, num_links):
    """The (num_links, num_flows) matrix of an incidence."""
    usage = np.zeros((num_links, incidence.num_flows))
    flow = np.repeat(np.arange(incidence.num_flows), np.diff(incidence.indptr))
    np.add.at(usage, (incidence.link, flow), incidence.coef)
    return usage


def why_unfair(capacity, usage, cap, weight, rate, tolerance=1e-9):
    """What contradicts max-min fairness, as text; empty when the rates are the fair ones.

    Rates are fair exactly if they are feasible and each flow sits at its own cap or has a
    saturated link on which no flow has a larger rate per weight (Bertsekas & Gallager, Data
    Networks, section 6.5.2).
    """
    used = usage @ rate
    if (used > capacity * (1 + tolerance)).any():
        return f"links {np.flatnonzero(used > capacity * (1 + tolerance))} carry more than they can"
    if (rate > cap * (1 + tolerance)).any():
        return f"flows {np.flatnonzero(rate > cap * (1 + tolerance))} pass their caps"
    saturated = used >= capacity * (1 - tolerance)
    share = rate / weight
    for flow in range(len(rate)):
        is_largest = [
            share[flow] >= share[usage[link] > 0].max() * (1 - tolerance)
            for link in np.flatnonzero(saturated & (usage[:, flow] > 0))
        ]
        if not any(is_largest) and rate[flow] < cap[flow] * (1 - tolerance):
            return f"flow {flow} could have more"
    return ""
