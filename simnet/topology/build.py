"""From a spec to a cluster."""

from __future__ import annotations

from simnet.spec.topology import TopologySpec
from simnet.topology.cluster import Cluster


def build_cluster(spec: TopologySpec) -> Cluster:
    """Return the cluster of a spec.

    Raises
    ------
    TopologyError
        If switches have too few ports or modules cannot be joined as asked.

    Examples
    --------
    >>> from simnet.spec.load import load_topology
    >>> build_cluster(load_topology("hgx-h100", {"nodes": 64})).num_gpus
    512
    """
    return Cluster(spec)
