"""Time to build, compile, route and draw large clusters."""

from __future__ import annotations

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from simnet.spec.load import load_topology
from simnet.topology import Fabric, build_cluster

SIZES = {"16,384 H100, three tiers": ("hgx-h100", 2048), "131,072 B300, three tiers": ("hgx-b300", 16384)}


@pytest.mark.parametrize(("name", "nodes"), SIZES.values(), ids=SIZES.keys())
@pytest.mark.parametrize("routing", ["adaptive", "static"])
def test_arrays_and_routes(benchmark: BenchmarkFixture, name: str, nodes: int, routing: str) -> None:
    spec = load_topology(name, {"nodes": nodes})

    def build_and_route() -> Fabric:
        fabric = build_cluster(spec).compile(routing)  # type: ignore[arg-type]
        source = np.arange(fabric.num_gpus)
        fabric.routes(source, np.roll(source, -8 * nodes // 2))
        return fabric

    assert benchmark(build_and_route).num_gpus == 8 * nodes


@pytest.mark.slow
@pytest.mark.parametrize(("name", "nodes"), list(SIZES.values())[:1], ids=list(SIZES)[:1])
def test_graph(benchmark: BenchmarkFixture, name: str, nodes: int) -> None:
    spec = load_topology(name, {"nodes": nodes})
    graph = benchmark.pedantic(lambda: build_cluster(spec).graph, rounds=1)
    assert graph.number_of_edges() == 237_568
