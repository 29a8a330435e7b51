"""Reduction trees of communicators: who gets them, and what they load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from simnet.collectives import names
from simnet.collectives.fabric_like import Float64, Int64
from simnet.collectives.groups import Groups
from simnet.collectives.relays import spoken
from simnet.collectives.tasks import UNKNOWN_PORT, Entries
from simnet.topology.reduction import NoTree, ReductionTree, TreeBook

MAX_COLLNET_LOCAL = 8
"""Most ranks of a node around a reduction in the network. Source: NCCL 2.30.7 src/include/device.h, 7 peers."""
Trees: TypeAlias = tuple[tuple[ReductionTree, ...], ...]
"""Trees of each group, one for each NIC of a node."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Planted:
    """What became of communicators that asked for reduction trees."""

    planted: Int64
    """Places of the groups that got them."""
    trees: Trees
    """Their trees."""
    path_s: float
    """Latency up to the root and down again of the highest [s]."""
    refused: Mapping[str, Int64]
    """Places of the others, by why."""


def plant(book: TreeBook, groups: Groups) -> Planted:
    """Return which groups get a reduction tree for each NIC of a node; all its trees or none.

    Parameters
    ----------
    book
        Trees in use; grows.
    groups
        Communicators over several nodes.
    """
    planted: list[int] = []
    trees: list[tuple[ReductionTree, ...]] = []
    refused: dict[str, list[int]] = {}
    if int(groups.count.max()) > MAX_COLLNET_LOCAL:
        reason = f"a node holds {int(groups.count.max())} ranks, and NCCL does so for {MAX_COLLNET_LOCAL} at most"
        refused[reason] = list(range(groups.num_groups))
    else:
        heads = spoken(groups.head, groups.relays)
        for index in range(groups.num_groups):
            found = book.plant(heads[index].T.tolist())
            if isinstance(found, NoTree):
                refused.setdefault(found.reason, []).append(index)
            else:
                planted.append(index)
                trees.append(found)
    return Planted(
        planted=np.array(planted, dtype=np.int64),
        trees=tuple(trees),
        path_s=max((tree.latency_s for own in trees for tree in own), default=0.0),
        refused={reason: np.array(index, dtype=np.int64) for reason, index in refused.items()},
    )


def with_trees(op: str, part: Entries, trees: Trees, num_ranks: int) -> Entries:
    """Return the entries of tasks with their trees' cables and what each of these carries per task byte.

    Every cable carries a NIC's share of an all-reduce once up and once down. A gather goes up as
    the shards of the ranks below and comes down whole, a scatter the other way round.
    """
    number = np.array([sum(len(tree.resource) for tree in own) for own in trees], dtype=np.int64)
    resource = np.array([link for own in trees for tree in own for link in tree.resource], dtype=np.int32)
    whole = np.repeat([1 / len(own) for own in trees], number)
    shards = np.array([below / num_ranks for own in trees for tree in own for below in tree.below * 2])
    is_up = np.array([way for own in trees for tree in own for way in (True, False) for _ in tree.up], dtype=bool)
    coef = whole
    if op != names.ALL_REDUCE:
        coef = np.where(is_up == (op == names.ALL_GATHER), shards, whole)
    group = np.arange(len(trees))
    task = np.concatenate((np.repeat(group, np.diff(part.indptr)), np.repeat(group, number)))
    order = np.argsort(task, kind="stable")
    unknown = np.full(len(resource), UNKNOWN_PORT, dtype=np.int32)
    return Entries(
        indptr=part.indptr + np.concatenate(([0], np.cumsum(number))),
        resource=np.concatenate((part.resource, resource))[order],
        coef=np.concatenate((part.coef, coef))[order],
        src_port=np.concatenate((part.src_port, unknown))[order],
        dst_port=np.concatenate((part.dst_port, unknown))[order],
    )


def narrowest_bytes_per_s(trees: Trees) -> Float64:
    """Return the rate of the narrowest cable of each group's trees [bytes/s], ``(num_groups,)``."""
    return np.array([min(tree.bytes_per_s for tree in own) for own in trees])


def tree_path_s(trees: Trees) -> Float64:
    """Return the latency of each group's highest tree, up to its root and down again [s], ``(num_groups,)``."""
    return np.array([max(tree.latency_s for tree in own) for own in trees])
