"""From a spec to a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from simnet.spec.load import load_topology
from simnet.spec.topology import TopologySpec
from simnet.topology.cluster import Cluster


def build_cluster(topology: TopologySpec | str | Path, overrides: Mapping[str, object] | None = None) -> Cluster:
    """Return the cluster of a topology.

    Parameters
    ----------
    topology
        A loaded topology, or its name or path.
    overrides
        Dotted path to value, ``{"nodes": 64}``; only with a name or path.

    Raises
    ------
    SpecError
        With all faults of the file and of the overrides.
    TopologyError
        If switches have too few ports or modules cannot be joined as asked.

    Examples
    --------
    >>> build_cluster("hgx-h100", {"nodes": 64}).num_gpus
    512
    """
    if isinstance(topology, TopologySpec):
        if overrides:
            raise TypeError("overrides belong to a topology's name or path; a loaded one has them already")
        return Cluster(topology)
    return Cluster(load_topology(topology, overrides))
