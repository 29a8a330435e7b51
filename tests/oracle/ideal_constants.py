"""The constants of collectives without what is measured: no efficiency, no scale, no cap, no chunk, no size table."""

from __future__ import annotations

import math

from simnet.spec.base import Constant
from simnet.spec.collectives import ByNodes, ByProtocol, Table, load_collectives


def ideal_constants(generation):
    """NCCL's latencies and payload fractions; every link gives its wire rate, every limit is infinite."""
    known = load_collectives(generation)
    gpu = known.gpu.model_copy(
        update={
            "link_efficiency": _each(known.gpu.link_efficiency, 1.0),
            **{name: _set(getattr(known.gpu, name), 1.0) for name in _ONES},
            **{name: _set(getattr(known.gpu, name), math.inf) for name in _LIMITS},
            "nvls_round_latency": _set(known.gpu.nvls_round_latency, 0.0),
            "nvls_large_domain_efficiency": None,
            "nvls_tree_max": None,
        }
    )
    protocols = known.protocols.model_copy(update={name: _set(getattr(known.protocols, name), 0.0) for name in _FILLS})
    # NCCL's hops know no cables: no way is longer than the one that they hold.
    latency = known.latency.model_copy(
        update={"network_path_included": _set(known.latency.network_path_included, math.inf)}
    )
    return known.model_copy(update={"gpu": gpu, "protocols": protocols, "latency": latency})


_ONES = (
    "latency_scale",
    "network_latency_scale",
    "gather_hop_scale",
    "gather_efficiency",
    "ll_efficiency",
    "nvls_link_efficiency",
    "all_to_all_efficiency",
)
_LIMITS = ("ll_channel_rate", "ll_max", "ring_ll128_max", "tree_ll128_max", "tree_max")
_FILLS = ("slice_size", "tree_chunk", "line_batch", "nvls_stages", "nvls_tree_stages")


def _set(record, value):
    if record is None:
        return None
    names = {Constant: ("value",), ByProtocol: ("ll", "ll128", "simple"), ByNodes: ("one", "two", "more")}
    assert not isinstance(record, Table)
    return record.model_copy(update=dict.fromkeys(names[type(record)], value))


def _each(links, value):
    return links.model_copy(update={name: _set(getattr(links, name), value) for name in type(links).model_fields})
