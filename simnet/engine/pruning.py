"""Which links can hold a flow back at all.

All traffic on a link entered the network through some narrow port (a NIC, a GPU's NVLinks). If the
ports behind a link add up to no more than the link carries, the link is no constraint, whatever
the rates: the ports bind first. The same holds for the ports through which traffic leaves.

A port counts with the largest share of its traffic that any task may put on the link: a task of
rate ``x`` that puts ``a x`` on the port and ``b x`` of that on the link uses a share ``b / a``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simnet.sharing.max_min import Incidence

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
ROUNDING = 1e-9
"""Relative: ports that add up to a link's rate but for rounding do not exceed it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PortUse:
    """Entries of tasks with the ports through which their traffic enters and leaves."""

    indptr: IntArray
    """Start of each task's entries, shape (num_tasks + 1,)."""
    link: NDArray[np.int32]
    coef: FloatArray
    """Bytes that the entry puts on the link per byte of its task."""
    source_port: NDArray[np.int32]
    """Resource, or -1 where unknown."""
    target_port: NDArray[np.int32]
    """Resource, or -1 where unknown."""


def links_that_can_bind(capacity: FloatArray, uses: Sequence[PortUse]) -> NDArray[np.bool_]:
    """Mark the links whose traffic can exceed what they carry.

    Parameters
    ----------
    capacity
        Usable rates [bytes/s], shape (num_links,).
    uses
        All traffic that may ever be under way.

    Returns
    -------
    numpy.ndarray
        Shape (num_links,); ports themselves always can.
    """
    is_port = np.zeros(len(capacity), dtype=bool)
    for use in uses:
        for port in (use.source_port, use.target_port):
            is_port[port[port >= 0]] = True
    by_source = _offered(capacity, is_port, [(use, use.source_port) for use in uses])
    by_target = _offered(capacity, is_port, [(use, use.target_port) for use in uses])
    can_bind: NDArray[np.bool_] = is_port | (np.minimum(by_source, by_target) > capacity * (1 + ROUNDING))
    return can_bind


def without_twins(
    capacity: FloatArray, can_bind: NDArray[np.bool_], incidences: Sequence[Incidence]
) -> NDArray[np.bool_]:
    """Return the links that can bind, less those that another one always binds before.

    Links that exactly the same tasks load with the same coefficients (all NICs of one ring, say)
    are one constraint: that of the smallest.

    Parameters
    ----------
    capacity
        Usable rates [bytes/s], shape (num_links,).
    can_bind
        What is left so far, shape (num_links,).
    incidences
        All traffic that may ever be under way.
    """
    signature = np.zeros(len(capacity), dtype=np.uint64)
    first_task = 0
    for rows in incidences:
        task = np.repeat(np.arange(rows.num_flows), np.diff(rows.indptr)) + first_task
        first_task += rows.num_flows
        mark = _mixed(task.astype(np.uint64) ^ _mixed(rows.coef.view(np.uint64)))
        np.add.at(signature, rows.link, mark)
    order = np.lexsort((capacity, signature))
    order = order[can_bind[order]]
    is_twin = np.zeros(len(order), dtype=bool)
    is_twin[1:] = signature[order[1:]] == signature[order[:-1]]
    kept = can_bind.copy()
    kept[order[is_twin]] = False
    return kept


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Values scattered over all 64 bits (the finaliser of SplitMix64, Steele et al. 2014)."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _offered(
    capacity: FloatArray, is_port: NDArray[np.bool_], uses: Sequence[tuple[PortUse, NDArray[np.int32]]]
) -> FloatArray:
    """Most that the distinct ports behind each link can put on it [bytes/s]; nothing is told of ports themselves."""
    size = len(capacity)
    keys: list[IntArray] = [np.zeros(0, dtype=np.int64)]
    shares: list[FloatArray] = [np.zeros(0)]
    for use, port in uses:
        entry = np.flatnonzero(~is_port[use.link])
        if not len(entry):
            continue
        share = _share(use, port, entry)
        keys.append(use.link[entry].astype(np.int64) * (size + 1) + np.where(np.isinf(share), 0, port[entry] + 1))
        shares.append(share)
    key, largest = _largest(np.concatenate(keys), np.concatenate(shares))
    link, port_key = key // (size + 1), key % (size + 1)
    rate = np.where(port_key > 0, capacity[port_key - 1], np.inf) * largest
    return np.bincount(link, weights=rate, minlength=size).astype(np.float64, copy=False)


def _largest(key: IntArray, share: FloatArray) -> tuple[IntArray, FloatArray]:
    """Distinct keys, ascending, with the largest share of each; most shares are one, and need no order of their own."""
    is_whole = share == 1
    whole = np.sort(key[is_whole])  # a tenth of the time of np.unique, which hashes
    whole = whole[_is_first(whole)]
    if is_whole.all():
        return whole, np.ones(len(whole))
    key = np.concatenate((whole, key[~is_whole]))
    share = np.concatenate((np.ones(len(whole)), share[~is_whole]))
    order = np.argsort(key)
    key = key[order]
    first = np.flatnonzero(_is_first(key))
    return key[first], np.maximum.reduceat(share[order], first)


def _is_first(ordered: IntArray) -> NDArray[np.bool_]:
    """Whether each value differs from the one before."""
    is_first = np.ones(len(ordered), dtype=bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return is_first


def _share(use: PortUse, port: NDArray[np.int32], entry: IntArray) -> FloatArray:
    """Largest part of its port's traffic that each of the entries' tasks can put on the link, at most 1.

    Infinite where the port is unknown, or none of the task's entries says how much it carries.
    Where edges of one task carry different parts through one port, the smallest is taken, which
    can only make the share too large.
    """
    task = np.repeat(np.arange(len(use.indptr) - 1), np.diff(use.indptr))
    at_port = np.flatnonzero((use.link == port) & (use.coef > 0))
    if not len(at_port):
        return np.full(len(entry), np.inf)
    low, width = int(port.min()), int(port.max() - port.min()) + 1
    place = port - low
    owner = np.full(width, -1, dtype=np.int64)
    owner[place[at_port]] = task[at_port]
    if (owner[place[at_port]] != task[at_port]).any():  # some port serves several tasks
        known, owner_of = np.unique(task[at_port] * width + place[at_port], return_inverse=True)
        wanted = task[entry] * width + place[entry]
        found = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        is_known = known[found] == wanted
    else:
        owner_of, found, known = place[at_port], place[entry], owner
        is_known = owner[found] == task[entry]
    carried = np.full(len(known), np.inf)
    np.minimum.at(carried, owner_of, use.coef[at_port])
    return np.where(is_known, np.minimum(use.coef[entry] / carried[found], 1.0), np.inf)
