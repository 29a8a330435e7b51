"""Traffic patterns on trees of switches, as incidences: nothing here but arithmetic on coordinates."""

from __future__ import annotations

import numpy as np

from simnet.engine.fluid import FlowSet
from simnet.sharing.max_min import Incidence

LINK_BYTES_PER_S = 50e9
RADIX = 32
"""Hosts on a leaf, leaves in a pod, spines in a pod, cores behind a spine."""


def three_tier_permutation(num_hosts, seed=0):
    """Capacities and routes of a random permutation over a full three-tier tree, spine and core hashed per flow."""
    r = np.random.default_rng(seed)
    source, target = np.arange(num_hosts), r.permutation(num_hosts)
    spine, core = r.integers(0, RADIX, num_hosts), r.integers(0, RADIX, num_hosts)
    leaf, pod = (source // RADIX, target // RADIX), (source // RADIX**2, target // RADIX**2)
    ids = [
        source,
        num_hosts + leaf[0] * RADIX + spine,
        2 * num_hosts + (pod[0] * RADIX + spine) * RADIX + core,
        3 * num_hosts + (pod[1] * RADIX + spine) * RADIX + core,
        4 * num_hosts + leaf[1] * RADIX + spine,
        5 * num_hosts + target,
    ]
    is_used = np.ones((num_hosts, len(ids)), dtype=bool)
    is_used[:, 2:4] = (pod[0] != pod[1])[:, None]
    is_used[:, 1:5] &= (leaf[0] != leaf[1])[:, None]
    return np.full(6 * num_hosts, LINK_BYTES_PER_S), _incidence(np.stack(ids, axis=1), is_used)


def random_routes(num_flows, hops=6, seed=0):
    """Capacities and routes of flows over links drawn at random, as many links as flows."""
    r = np.random.default_rng(seed)
    link = r.integers(0, num_flows, (num_flows, hops))
    return r.uniform(1, 2, num_flows) * LINK_BYTES_PER_S, _incidence(link, np.ones_like(link, dtype=bool))


def all_to_all(num_hosts, num_spines, size_bytes=1e6, *, in_rounds=False):
    """Flows and capacities of everyone sending to everyone over a two-tier tree; the destination names the spine.

    All at once, or in rounds: a host's message to the host ``k`` after it comes after that to ``k - 1``.
    """
    source = np.repeat(np.arange(num_hosts), num_hosts - 1)
    distance = np.tile(np.arange(1, num_hosts), num_hosts)
    target = (source + distance) % num_hosts
    leaf, spine = (source // RADIX, target // RADIX), target % num_spines
    num_trunks = num_hosts // RADIX * num_spines
    ids = [
        source,
        2 * num_hosts + leaf[0] * num_spines + spine,
        2 * num_hosts + num_trunks + leaf[1] * num_spines + spine,
        num_hosts + target,
    ]
    is_used = np.ones((len(source), len(ids)), dtype=bool)
    is_used[:, 1:3] = (leaf[0] != leaf[1])[:, None]
    has_before = (distance > 1) & in_rounds
    flows = FlowSet(
        routes=_incidence(np.stack(ids, axis=1), is_used),
        size_bytes=np.full(len(source), size_bytes),
        start_s=np.zeros(len(source)),
        latency_s=np.zeros(len(source)),
        after_indptr=np.concatenate([[0], np.cumsum(has_before)]),
        after=np.flatnonzero(has_before) - 1,
    )
    return flows, np.full(2 * (num_hosts + num_trunks), LINK_BYTES_PER_S)


def _incidence(ids, is_used):
    link = ids[is_used].astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum(is_used.sum(axis=1))])
    return Incidence(indptr=indptr, link=link, coef=np.ones(len(link)))
