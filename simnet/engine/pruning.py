"""Which links can hold a flow back at all.

All traffic on a link entered the network through some narrow port (a NIC, a GPU's NVLinks). If the
ports behind a link add up to no more than the link carries, the link is no constraint, whatever
the rates: the ports bind first. The same holds for the ports through which traffic leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
ROUNDING = 1e-9
"""Relative: ports that add up to a link's rate but for rounding do not exceed it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PortUse:
    """Entries of an incidence with the ports through which their traffic enters and leaves."""

    link: NDArray[np.int32]
    share: FloatArray
    """Largest share of the port's traffic that the entry can put on the link."""
    source_port: NDArray[np.int32]
    """Resource, or -1 where unknown."""
    target_port: NDArray[np.int32]
    """Resource, or -1 where unknown."""


def links_that_can_bind(capacity: FloatArray, uses: Sequence[PortUse]) -> NDArray[np.bool_]:
    """True where the traffic that may cross the link can exceed what it carries.

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
    by_source = _offered(capacity, [(u.link, u.source_port, u.share) for u in uses])
    by_target = _offered(capacity, [(u.link, u.target_port, u.share) for u in uses])
    offered = np.minimum(by_source, by_target)
    can_bind: NDArray[np.bool_] = offered > capacity * (1 + ROUNDING)
    for use in uses:
        for port in (use.source_port, use.target_port):
            can_bind[port[port >= 0]] = True
    return can_bind


def _offered(
    capacity: FloatArray,
    entries: Sequence[tuple[NDArray[np.int32], NDArray[np.int32], FloatArray]],
) -> FloatArray:
    """Most that the distinct ports behind each link can put on it [bytes/s]."""
    size = len(capacity)
    keys, shares = [], []
    for link, port, share in entries:
        key = link.astype(np.int64) * (size + 1) + (port + 1)
        unique, where = np.unique(key, return_inverse=True)
        largest = np.zeros(len(unique))
        np.maximum.at(largest, where, np.minimum(share, 1.0))
        keys.append(unique)
        shares.append(largest)
    if not keys:
        return np.zeros(size)
    unique, where = np.unique(np.concatenate(keys), return_inverse=True)
    largest = np.zeros(len(unique))
    np.maximum.at(largest, where, np.concatenate(shares))
    link, port = unique // (size + 1), unique % (size + 1) - 1
    rate = np.where(port >= 0, capacity[port], np.inf) * largest
    offered: FloatArray = np.bincount(link, weights=rate, minlength=size)
    return offered
