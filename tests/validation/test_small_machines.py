"""The smallest machines: one GPU that sends nothing, and domains that nothing joins."""

from __future__ import annotations

import pytest

from simnet.errors import NoPathError
from simnet.runner import prepare, simulate
from simnet.spec.load import expand, load_scenario
from simnet.workload.ops import Compute

SCENARIO = """
name: small
question: What does the smallest machine do?
topology: {{from: hgx-h100, nodes: {nodes}, scale_out: {scale_out}}}
workload:
  model: {model}
  sequence_length: 2048
  parallelism: {{tp: {tp}, dp: {dp}}}
  batch: {{num_micro_batches: 2}}
"""
TINY = "{name: tiny, layers: 4, hidden: 1024, heads: 8, kv_heads: 8, head_dim: 128, ffn: 4096, gated_mlp: false, vocab: 1000, tied_embeddings: false, attention: mha, source: made up}"  # fmt: skip  # noqa: E501


def case(folder, **values):
    path = folder / "small.yaml"
    path.write_text(SCENARIO.format(**({"nodes": 1, "tp": 1, "dp": 1, "model": TINY, "scale_out": "null"} | values)))
    (one,) = expand(load_scenario(path))
    return one


def test_a_step_of_one_gpu_is_the_sum_of_its_kernels(tmp_path):
    ready = prepare(case(tmp_path))
    work_s = sum(op.duration_s for op in ready.plan.ops[0] if isinstance(op, Compute))
    result = simulate(ready).result
    assert result.step_time_s == pytest.approx(work_s, rel=1e-12)
    assert result.breakdown_s["compute"] + result.breakdown_s["optimizer"] == pytest.approx(work_s, rel=1e-12)
    assert sum(use.bytes for use in result.link_classes) == 0


def test_domains_without_a_network_have_no_path(tmp_path):
    with pytest.raises(NoPathError, match=r"no path from d0/gpu\d to d1/gpu\d"):
        simulate(prepare(case(tmp_path, nodes=2, tp=2, dp=8)))


def test_one_domain_needs_no_network(tmp_path):
    result = simulate(prepare(case(tmp_path, tp=2, dp=4))).result
    assert {use.link_class for use in result.link_classes if use.bytes} == {"nvlink"}


def two_nodes(folder, overrides=None):
    path = folder / "two.yaml"
    path.write_text(SCENARIO.replace(", scale_out: {scale_out}", "").format(nodes=2, tp=8, dp=2, model="llama-3-8b"))
    (one,) = expand(load_scenario(path, overrides))
    return simulate(prepare(one)).result


def test_gradients_that_move_when_no_kernel_runs_slow_none(tmp_path):
    apart = {"workload.overlap.dp_grad": False, "workload.overlap.dp_param": False}
    slow = {"topology.scale_out.link_bandwidth": "200 Gb/s"}
    beside = [two_nodes(tmp_path, more).breakdown_s for more in ({}, slow)]
    alone = [two_nodes(tmp_path, apart | more).breakdown_s for more in ({}, slow)]
    assert beside[1]["optimizer"] > beside[0]["optimizer"] > alone[0]["optimizer"]
    assert alone[1]["optimizer"] == pytest.approx(alone[0]["optimizer"], rel=1e-12)
    assert alone[1]["exposed_dp"] > 1.9 * alone[0]["exposed_dp"]


def test_one_wire_in_two_ways_of_writing_gives_one_step(tmp_path):
    by_cable = two_nodes(tmp_path, {"topology.scale_out.link_bandwidth": "200 Gb/s"})
    by_nic = two_nodes(tmp_path, {"topology.node.nic.bandwidth": "200 Gb/s"})
    assert by_cable.step_time_s == pytest.approx(by_nic.step_time_s, rel=1e-12)
    fast_nic = two_nodes(tmp_path, {"topology.node.nic.bandwidth": "800 Gb/s"})
    assert fast_nic.step_time_s == pytest.approx(two_nodes(tmp_path).step_time_s, rel=1e-12)
