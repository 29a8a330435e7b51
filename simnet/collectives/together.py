"""Several collectives at the same time: they share the links, and those that end leave theirs to the others."""

from __future__ import annotations

import numpy as np

from simnet.collectives.fabric_like import Float64
from simnet.collectives.tasks import TaskSet
from simnet.sharing.incidence import Incidence, take_rows
from simnet.sharing.max_min import max_min_rates

_DONE = 1e-12
"""Share of a task's bytes that counts as nothing."""


def shared_times_s(tasks: TaskSet, capacity_bytes_per_s: Float64) -> Float64:
    """Return the time of each task if all start together and share the links max-min fairly [s], ``(num_tasks,)``.

    Latency comes first and needs no link; then bytes move, at rates that are solved anew whenever a
    task starts or ends.

    Parameters
    ----------
    tasks
        Tasks of communicators that run at the same time.
    capacity_bytes_per_s
        Usable payload rate of each resource.

    Examples
    --------
    Two tasks of 1 and 3 GB on one link of 2 GB/s: both move at 1 GB/s for a second, then the other at 2 GB/s.
    """
    rows = _merged(tasks)
    left, end = tasks.size_bytes.copy(), tasks.latency_s.copy()
    waits = left > 0
    now = 0.0
    while waits.any():
        moves = np.flatnonzero(waits & (tasks.latency_s <= now))
        later = tasks.latency_s[waits & (tasks.latency_s > now)]
        step = float(later.min()) - now if len(later) else np.inf
        if len(moves):
            rate = max_min_rates(
                capacity_bytes_per_s,
                take_rows(rows, moves),
                cap=tasks.rate_cap_bytes_per_s[moves],
                weight=tasks.weight[moves],
            ).rate
            step = min(step, float((left[moves] / rate).min()))
            left[moves] -= rate * step
        now += step
        over = moves[left[moves] <= _DONE * tasks.size_bytes[moves]]
        waits[over] = False
        end[over] = now
    return end


def _merged(tasks: TaskSet) -> Incidence:
    """Return the links of each task with one entry for each that it loads."""
    size = int(tasks.resource.max(initial=0)) + 1
    keep = tasks.coef > 0
    key, inverse = np.unique(tasks.entry_task[keep] * size + tasks.resource[keep], return_inverse=True)
    task, link = np.divmod(key, size)
    indptr = np.zeros(tasks.num_tasks + 1, dtype=np.int64)
    np.cumsum(np.bincount(task, minlength=tasks.num_tasks), out=indptr[1:])
    coef = np.bincount(inverse, weights=tasks.coef[keep], minlength=len(key)).astype(np.float64)
    return Incidence(indptr=indptr, link=link.astype(np.int32), coef=coef)
