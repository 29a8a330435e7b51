"""The double binary tree over nodes, as NCCL builds it."""

from __future__ import annotations

from functools import cache

import numpy as np

from simnet.collectives.fabric_like import Float64, Int64


@cache
def double_tree(num_nodes: int) -> Int64:
    """Return the parent of each node in both trees, -1 for a root, ``(2, num_nodes)``.

    Notes
    -----
    The first tree is binary by bits: a node's parent clears its lowest set bit and sets the next.
    The second is its mirror image for even and its shift by one for odd numbers of nodes, so that
    an inner node of one tree is a leaf of the other. Source: NCCL 2.30.7 src/graph/trees.cc.
    """
    node = np.arange(num_nodes, dtype=np.int64)
    lowest = node & -node
    parent = (node ^ lowest) | (lowest << 1)
    parent = np.where(parent >= num_nodes, node ^ lowest, parent)
    parent[0] = -1
    image = num_nodes - 1 - node if num_nodes % 2 == 0 else (node - 1) % num_nodes
    back = num_nodes - 1 - parent if num_nodes % 2 == 0 else (parent + 1) % num_nodes
    mirrored = np.where(parent[image] < 0, -1, back[image])
    trees = np.stack((parent, mirrored))
    trees.setflags(write=False)
    return trees


@cache
def most_edges(num_nodes: int) -> int:
    """Return the tree edges of the busiest node, both trees together: 2, 3, 4 for 2, 3, more nodes."""
    trees = double_tree(num_nodes)
    edges = (trees >= 0).sum(axis=0)
    for parent in trees:
        edges = edges + np.bincount(parent[parent >= 0], minlength=num_nodes)
    return int(edges.max())


def depth_s(num_nodes: int, edge_s: Float64) -> Float64:
    """Return the longest way from a node to its root [s], given each edge's time ``(num_groups, 2, num_nodes)``."""
    longest = np.zeros(edge_s.shape[0])
    for tree, parent in enumerate(double_tree(num_nodes)):
        reached = np.zeros((edge_s.shape[0], num_nodes))
        at = np.arange(num_nodes)
        while (at >= 0).any():
            up = np.where(at >= 0, parent[at], -1)
            reached += np.where(up >= 0, edge_s[:, tree, :][:, at], 0.0)
            at = up
        longest = np.maximum(longest, reached.max(axis=1))
    return longest
