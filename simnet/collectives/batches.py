"""Pairwise exchanges in batches of peers: what a rank loses where hashed messages share a cable.

NCCL works off an all-to-all node distance by node distance: eight peers share one batch of work, and
a rank starts its next batch when the last one has left. Over one batch the hashed loads of the cables
are far less even than over the whole exchange, and a cable that is idle in one batch cannot make up
for it in the next.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simnet.collectives import names
from simnet.collectives.edges import Edges
from simnet.collectives.fabric_like import FabricLike, Float64, Int32, Int64
from simnet.sharing.incidence import Incidence, take_rows
from simnet.sharing.max_min import max_min_rates

CONNECTIONS = 2
"""Channels, and so connections with a hash of their own, of a pair of ranks on different nodes: NCCL's default
(NCCL_NCHANNELS_PER_NET_PEER, src/graph/paths.cc; at least 2 in every version up to 2.30)."""
HASHED = ("static", "ecmp")
"""Ways of routing under which a connection keeps to one cable."""
MOST_BATCHES = 64
"""Node distances that are followed; of more, so many at equal intervals stand for all."""
MOST_EVENTS = 2000
"""Rates are solved about so often; ranks that end a batch within one such share start the next together, which is
1 to 3 % slow."""
_DONE = 1e-9
"""Rest of a batch that counts as nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """Batches of one communicator: row ``batch * num_ranks + rank`` is what the rank sends in the batch."""

    num_ranks: int
    num_batches: int
    incidence: Incidence
    """Resources of each row, with the bytes on them per byte of the task, all batches together."""


def is_batched(op: str, routing: str) -> bool:
    """Return whether an operation works off its peers in batches that a hash makes uneven."""
    return op in (names.ALL_TO_ALL, names.ALL_TO_ALL_V) and routing in HASHED


def peer_batches(fabric: FabricLike, between: Edges, gpu: Int32, node: Int64, *, relay: str) -> Batches:
    """Return the batches of one communicator.

    Parameters
    ----------
    fabric
        Compiled fabric.
    between
        Edges between nodes, of one group.
    gpu, node
        Ranks' GPUs, and their nodes counted inside the group, ``(num_ranks,)``.
    relay
        When a message first goes over NVLink to the rail of its target, see ``FabricLike``.
    """
    rank_of = _speaker(fabric, gpu)
    rank, peer = rank_of[between.src], rank_of[between.dst]
    num_nodes = int(node.max()) + 1
    distance = (node[peer] - node[rank]) % num_nodes
    num_batches = min(num_nodes - 1, MOST_BATCHES)
    batch_of = np.full(num_nodes, -1, dtype=np.int64)
    batch_of[1 + np.arange(num_batches) * (num_nodes - 1) // num_batches] = np.arange(num_batches)
    row = batch_of[distance] * len(gpu) + rank
    order = np.argsort(row, kind="stable")
    pair = np.repeat(order[row[order] >= 0], CONNECTIONS)
    flow_id = np.arange(len(pair)) % CONNECTIONS
    routes = fabric.routes(between.src[pair], between.dst[pair], flow_id=flow_id, relay=relay)
    number = np.diff(routes.indptr)
    num_rows = num_batches * len(gpu)
    indptr = np.zeros(num_rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(row[pair], weights=number, minlength=num_rows).astype(np.int64), out=indptr[1:])
    share = (num_nodes - 1) / num_batches / CONNECTIONS
    coef = np.repeat(between.load[pair] * share, number) * routes.weight
    incidence = Incidence(indptr=indptr, link=routes.resource, coef=coef)
    return Batches(num_ranks=len(gpu), num_batches=num_batches, incidence=incidence)


def _speaker(fabric: FabricLike, gpu: Int32) -> Int64:
    """Return the rank behind what each GPU sends; one that only relays sends for a rank of its node."""
    first = np.full(int(fabric.gpu_domain.max()) + 1, -1, dtype=np.int64)
    first[fabric.gpu_domain[gpu][::-1]] = np.arange(len(gpu))[::-1]
    rank_of = first[fabric.gpu_domain]
    rank_of[gpu] = np.arange(len(gpu))
    return rank_of


def batched_rate_bytes_per_s(batches: Batches, capacity_bytes_per_s: Float64) -> float:
    """Return the rate of the exchange alone on the fabric [task bytes/s], its batches one after the other.

    Every rank's batch moves at one rate, that of its slowest connection; ranks do not wait for one
    another, but share the links fairly.

    Parameters
    ----------
    batches
        Of :func:`peer_batches`.
    capacity_bytes_per_s
        Usable payload rate of each resource.
    """
    state = np.zeros(batches.num_ranks, dtype=np.int64)
    left = np.ones(batches.num_ranks)
    time = 0.0
    busy = np.arange(batches.num_ranks)
    together = -(-batches.num_ranks * batches.num_batches // MOST_EVENTS)
    while len(busy):
        rows = take_rows(batches.incidence, state[busy] * batches.num_ranks + busy)
        need_s = left[busy] / max_min_rates(capacity_bytes_per_s, rows).rate
        nth = min(together, len(busy)) - 1
        step = float(np.partition(need_s, nth)[nth])
        time += step
        left[busy] *= 1 - np.minimum(np.divide(step, need_s, out=np.ones_like(need_s), where=need_s > 0), 1)
        over = busy[left[busy] <= _DONE]
        state[over] += 1
        left[over] = 1.0
        busy = busy[state[busy] < batches.num_batches]
    return 1.0 / time
