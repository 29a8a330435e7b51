"""Clusters as graphs: built by wiring rules, edited with networkx, compiled to arrays."""

from __future__ import annotations

from simnet.topology.build import build_cluster
from simnet.topology.census import Census, JoinCensus
from simnet.topology.cluster import ROUTINGS, Cluster
from simnet.topology.fabric import Fabric, Routes
from simnet.topology.wiring import LINK_CLASSES

__all__ = ["LINK_CLASSES", "ROUTINGS", "Census", "Cluster", "Fabric", "JoinCensus", "Routes", "build_cluster"]
