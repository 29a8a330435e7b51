"""The networkx graph is the fabric: what a user edits there moves the step, or is refused."""

from __future__ import annotations

import pytest

from simnet.errors import NoPathError
from simnet.runner import prepare, simulate
from simnet.spec.load import expand, load_scenario
from simnet.topology import build_cluster

SCENARIO = """
name: edited
question: What does an edited cable do to the step?
topology: {from: hgx-h100, nodes: 4}
workload:
  model: llama-3-8b
  sequence_length: 4096
  parallelism: {tp: 8, dp: 4}
  batch: {global_batch_size: 8, micro_batch_size: 1}
  overlap: {dp_grad: false, dp_param: false}
"""


@pytest.fixture
def case(tmp_path):
    path = tmp_path / "edited.yaml"
    path.write_text(SCENARIO)
    (only,) = expand(load_scenario(path))
    return only


def test_a_halved_uplink_on_the_graph_slows_the_step(case):
    healthy = simulate(prepare(case)).result
    cluster = build_cluster(case.topology)
    edge = next(
        (a, b) for a, b, data in cluster.graph.edges(data=True) if data["link_class"] == "nic_leaf" and "nic" in a
    )
    cluster.graph.edges[edge]["bandwidth"] /= 2
    edited = simulate(prepare(case, cluster)).result
    # the ring of that rail moves at its slowest edge: exposed gradient traffic about doubles
    assert edited.step_time_s > healthy.step_time_s * 1.02
    assert edited.breakdown_s["exposed_dp"] > healthy.breakdown_s["exposed_dp"] * 1.5


@pytest.mark.parametrize("topology", ["hgx-h100", "gb200-nvl72"])
def test_a_node_that_nothing_joins_changes_nothing(tmp_path, topology):
    # Any change of structure makes routes be searched on the graph; the machine is the same.
    path = tmp_path / "lone.yaml"
    size = "nodes: 4" if topology == "hgx-h100" else "racks: 2, used_hosts: 16"
    path.write_text(
        SCENARIO.replace("{from: hgx-h100, nodes: 4}", f"{{from: {topology}, {size}}}")
        .replace("tp: 8, dp: 4", "tp: 4, pp: 2, dp: auto")
        .replace("{global_batch_size: 8, micro_batch_size: 1}", "{num_micro_batches: 2}")
    )
    (one,) = expand(load_scenario(path))
    cluster = build_cluster(one.topology)
    cluster.graph.add_node("lone", kind="switch")
    searched = simulate(prepare(one, cluster)).result
    built = simulate(prepare(one)).result
    assert searched.step_time_s == pytest.approx(built.step_time_s, rel=1e-9)
    assert searched.breakdown_s == pytest.approx(built.breakdown_s, rel=1e-9)


def test_removing_the_last_path_names_both_ends(case):
    cluster = build_cluster(case.topology)
    edges = [(a, b) for a, b, data in cluster.graph.edges(data=True) if data["link_class"] == "nic_leaf"]
    for a, b in edges:
        if a.startswith("d0/") or b.startswith("d0/"):
            cluster.graph.remove_edge(a, b)
    with pytest.raises(NoPathError) as caught:
        simulate(prepare(case, cluster))
    text = " ".join(str(problem) for problem in caught.value.problems)
    assert "d0/gpu" in text
    assert "d1/gpu" in text or "d3/gpu" in text
