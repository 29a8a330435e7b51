"""A curve of all-reduce over sizes on 4,096 GPUs."""

from __future__ import annotations

import pytest

from simnet.runner.collective import simulate_collective
from simnet.spec.load import load_topology
from simnet.topology import build_cluster

pytestmark = pytest.mark.slow


def test_a_curve_over_all_sizes_on_4096_gpus(benchmark):
    """512 nodes of eight H100 in three tiers, 8 B to 16 GiB, the algorithm chosen for each size."""
    cluster = build_cluster(load_topology("dgx-h100-superpod", {"scalable_units": 16}))
    table = benchmark.pedantic(lambda: simulate_collective(cluster, ranks=4096, sizes="8:16GiB:x2"), rounds=1)
    assert len(table.rows) == 32
    assert {row.algorithm for row in table.rows} >= {"tree", "nvls_tree"}
