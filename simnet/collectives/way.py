"""What long ways between nodes add to a collective."""

from __future__ import annotations

import numpy as np

from simnet.collectives import names
from simnet.collectives.edges import Edges
from simnet.collectives.fabric_like import Float64
from simnet.collectives.groups import Groups
from simnet.collectives.latency import ring_passes
from simnet.collectives.trees import depth_s, double_tree


def path_s_of(op: str, algorithm: str, groups: Groups, between: Edges, extra_s: Float64) -> Float64:
    """Return what long ways between nodes add to each group [s], ``(num_groups,)``.

    A ring's block passes all edges between nodes but one, once for each pass, and the rings of three
    levels so one after the other; a tree goes up and down its deepest branch; the steps of PAT follow
    each other; pairs take the longest way.

    Parameters
    ----------
    between
        Edges between nodes, in the order in which :func:`simnet.collectives.edges.edges` makes them.
    extra_s
        By how much the way of each is longer than what a network hop holds [s].
    """
    if groups.num_nodes == 1 or not len(between.group):
        return np.zeros(groups.num_groups)
    if algorithm in (names.RING, names.HIERARCHICAL):
        return _ring_s(op, groups, extra_s)
    if algorithm == names.HIERARCHICAL_3:
        return _three_levels_s(op, groups, extra_s)
    if algorithm in (names.TREE, names.NVLS_TREE):
        return _tree_s(groups, extra_s)
    if algorithm == names.PAT:
        steps: Float64 = extra_s.reshape(-1, groups.num_groups, groups.num_nodes).max(axis=2).sum(axis=0)
        return steps
    longest = np.zeros(groups.num_groups)
    np.maximum.at(longest, between.group, extra_s)
    return ring_passes(op) * longest


def _ring_s(op: str, groups: Groups, extra_s: Float64) -> Float64:
    count, nodes = groups.num_groups, groups.num_nodes
    if op == names.BROADCAST:
        path: Float64 = extra_s.reshape(count, nodes - 1, -1).max(axis=2).sum(axis=1)
        return path
    around: Float64 = ring_passes(op) * _all_but_one(extra_s.reshape(count, nodes, -1).max(axis=2))
    return around


def _three_levels_s(op: str, groups: Groups, extra_s: Float64) -> Float64:
    """Return the slowest ring inside a subcluster and the slowest across them, one after the other."""
    count, modules, nodes = groups.num_groups, groups.num_modules, groups.num_nodes
    edge_s = extra_s.reshape(-1, count, modules, nodes // modules, groups.num_ranks // nodes).max(axis=4)
    total = _all_but_one(edge_s[-1].max(axis=2))
    if len(edge_s) > 1:
        total = total + _all_but_one(edge_s[0].max(axis=1))
    around: Float64 = ring_passes(op) * total
    return around


def _tree_s(groups: Groups, extra_s: Float64) -> Float64:
    count, nodes = groups.num_groups, groups.num_nodes
    up = extra_s.reshape(count, 2, -1, groups.num_heads).max(axis=(1, 3))
    tree, child = np.nonzero(double_tree(nodes) >= 0)
    edge_s = np.zeros((count, 2, nodes))
    edge_s[:, tree, child] = up
    return 2 * depth_s(nodes, edge_s)


def _all_but_one(edge_s: Float64) -> Float64:
    """Return the sum over the edges of a ring, the quickest left out."""
    total: Float64 = edge_s.sum(axis=1) - edge_s.min(axis=1)
    return total
