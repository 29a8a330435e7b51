"""Small clusters for tests."""

from __future__ import annotations

import numpy as np

from simnet.spec.load import load_topology
from simnet.topology import Cluster, Fabric, Routes, build_cluster

GB = 1e9
NDR = 50 * GB


def cluster(name: str, **overrides: object) -> Cluster:
    return build_cluster(load_topology(name, {key.replace("__", "."): value for key, value in overrides.items()}))


def alone_rates(fabric: Fabric, routes: Routes) -> np.ndarray:
    """Return the rate of each flow if it were alone."""
    limits = fabric.capacity_bytes_per_s[routes.resource] / routes.weight
    return np.minimum.reduceat(limits, routes.indptr[:-1])


def loads(fabric: Fabric, routes: Routes) -> np.ndarray:
    """Return flows per resource, weighed."""
    return np.bincount(routes.resource, weights=routes.weight, minlength=fabric.num_resources)


def gpu(fabric: Fabric, domain: int, slot: int) -> int:
    return int(np.flatnonzero((fabric.gpu_domain == domain) & (fabric.gpu_slot == slot))[0])


def two_sites(*, taper: float | None = None, links: list[dict[str, object]] | None = None) -> dict[str, object]:
    """Return a modular spec of two unequal machines: 4 nodes of H100 and 6 of A100 GPUs, as plain data."""
    spec: dict[str, object] = {
        "kind": "modular",
        "name": "two-sites",
        "modules": [
            {"name": "a", "topology": {"from": "hgx-h100", "nodes": 4}},
            {"name": "b", "topology": {"from": "hgx-a100", "nodes": 6}},
        ],
    }
    if taper is not None:
        spec["join"] = {"kind": "core", "taper": taper}
    if links is not None:
        spec["links"] = links
    return spec
