"""Every number of a file has bounds, so that a slip is told at its line and nothing runs out of memory or range."""

from __future__ import annotations

import time

import pytest

from simnet.errors import SpecError
from simnet.spec import read
from simnet.spec.bounds import MAX_GPUS, MAX_MODULES
from simnet.spec.load import build, load_scenario, load_topology, parse_set
from simnet.spec.parts import GpuPart, NodePart
from simnet.spec.read import read_text
from simnet.spec.scenario import CaseBody
from simnet.spec.topology import TopologySpec
from simnet.spec.workload import WorkloadSpec
from tests.unit.spec.test_scenario import SCENARIO


def schema_numbers(schema: object) -> list[dict[str, object]]:
    """Return every schema of a whole number below *schema*."""
    if isinstance(schema, list):
        return [found for item in schema for found in schema_numbers(item)]
    if not isinstance(schema, dict):
        return []
    own = [schema] if schema.get("type") == "integer" else []
    return own + [found for item in schema.values() for found in schema_numbers(item)]


def test_every_whole_number_of_a_case_has_bounds():
    numbers = {str(number.get("description")): number for number in schema_numbers(CaseBody.model_json_schema())}
    assert len(numbers) > 40
    unbounded = [name for name, number in numbers.items() if not {"maximum", "const"} & number.keys()]
    assert not unbounded


@pytest.mark.parametrize(
    ("topology", "told"),
    [
        ("node: {gpu: {hbm_size: 0 GB}}", 'node.gpu.hbm_size: out of range; found "0 GB"; allowed: 1 B to 1 EB'),
        ("node: {gpu: {hbm_bandwidth: 0 B/s}}", 'hbm_bandwidth: out of range; found "0 B/s"; allowed: 1 kb/s to'),
        ("node: {gpu: {peak_flops: {bf16: 0 FLOP/s}}}", 'bf16: out of range; found "0 FLOP/s"; allowed: 1 MFLOP/s'),
        ("node: {gpu: {peak_flops: {bf16: null}}}", "bf16: a flops rate is a number and a unit; found null"),
        ("node: {gpu: {nvlink_link_bandwidth: 0 B/s}}", "nvlink_link_bandwidth: out of range"),
        ("node: {gpu: {tdp: 0 W}}", "tdp: must be greater than 0"),
        ("node: {nic: {bandwidth: 0 Gb/s}}", "nic.bandwidth: out of range"),
        ("node: {gpu_nic_bandwidth: 0 Gb/s}", "gpu_nic_bandwidth: out of range"),
        ("node: {nvlink_links_per_switch: [-1, 19]}", "nvlink_links_per_switch.0: must be greater than or equal to 1"),
        ("scale_out: {link_bandwidth: 1e300 Gb/s}", 'link_bandwidth: out of range; found "1e300 Gb/s"'),
        ("scale_out: {link_bandwidth: 1e-300 Gb/s}", "link_bandwidth: out of range"),
        ("scale_out: {switch: {port_bandwidth: 0 Gb/s}}", "port_bandwidth: out of range"),
        ("scale_out: {switch: {latency: 1e300 s}}", "latency: out of range"),
        ("scale_out: {planes: 1000000000}", "scale_out.planes: must be 16 or less; found 1000000000"),
        ("scale_out: {taper: {leaf: 1e300}}", "taper.leaf: must be 1,000,000 or less"),
        ("scale_out: {reserved: {slots: 1000000000}}", "scale_out.reserved.slots: must be"),
        ("nodes: 1000000000", "nodes: must be 4,000,000 or less; found 1000000000"),
        (f"nodes: {10**30}", "nodes: must be 4,000,000 or less; found 1000000000"),
        ("nodes: 600000", f"nodes: a cluster of 4,800,000 GPUs; found 600000; allowed: {MAX_GPUS:,} GPUs"),
        ("scalable_units: 1000000000", "scalable_units: must be"),
        ("scalable_units: 3000000", "scalable_units: a cluster of 768,000,000 GPUs; found 3000000"),
        ("scale_out: {reserved: {slots: 3000000}}", "scale_out.reserved.slots: a cluster of 24,000,256 GPUs"),
    ],
)  # fmt: skip
def test_a_machine_beyond_all_bounds_is_refused_at_its_line(topology, told):
    with pytest.raises(SpecError) as caught:
        build(read_text(f"base: {{from: hgx-h100, {topology}}}", "f.yaml").child("base"), TopologySpec, kind="topology")
    (problem,) = caught.value.problems
    assert str(problem).startswith("f.yaml:1:")
    assert told in str(problem)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("tp: 4", "tp: 1000000000000", "s.yaml:7:21 workload.parallelism.tp: must be 4,000,000 or less"),
        ("tp: 4", "tp: 4, pp: 1000000000000", "workload.parallelism.pp: must be 4,000,000 or less"),
        ("tp: 4", "dp: 0", "s.yaml:7:21 workload.parallelism.dp: must be greater than or equal to 1; found 0"),
        ("size: 128", f"size: {2**80}", "workload.batch.global_batch_size: must be 1,000,000,000 or less"),
        ("length: 8192", f"length: 1{'0' * 400}", "workload.sequence_length: must be 1,000,000,000 or less"),
        ("workload:", f"target: {{samples: 1{'0' * 400}}}\nworkload:", "target.samples: must be 1,000,000,000,000,000"),
        ("workload:", f"seed: {2**63}\nworkload:", "seed: must be 9,223,372,036,854,775,807 or less"),
        ("model: llama-3.1-8b", "model: {from: llama-3.1-8b, layers: 1000000000}", "model.layers: must be 4,096 or"),
    ],
)  # fmt: skip
def test_a_job_beyond_all_bounds_is_refused_at_its_line(tmp_path, monkeypatch, old, new, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(SCENARIO.replace(old, new))
    with pytest.raises(SpecError) as caught:
        load_scenario("s.yaml")
    (problem,) = caught.value.problems
    assert told in str(problem)


@pytest.mark.parametrize("count", ["num_modules=1000000000", f"num_modules={MAX_MODULES + 1}"])
def test_modules_have_a_bound(count):
    with pytest.raises(SpecError, match="num_modules: must be 1,024 or less"):
        load_topology("hgx-h100-modular", parse_set([count]))


def test_the_counts_of_a_list_of_modules_are_bounded_together():
    text = "{kind: modular, modules: [{topology: hgx-h100, count: 1000}, {topology: hgx-h100, count: 1000}]}"
    with pytest.raises(SpecError, match="modules: 2000 modules are too many; allowed: 1024 at most"):
        build(read_text(text, "f"), TopologySpec)


def test_the_modules_of_a_cluster_are_bounded_together():
    text = "{kind: modular, modules: [{topology: {from: hgx-h100, nodes: 400000}, count: 2}]}"
    with pytest.raises(SpecError, match="a cluster of 6,400,000 GPUs"):
        build(read_text(text, "f"), TopologySpec)


def test_python_is_held_to_the_same_range():
    part = {**load_topology("hgx-h100").node.gpu.model_dump(), "hbm_size": 0.0}
    with pytest.raises(ValueError, match="out of range"):
        GpuPart.model_validate(part)


def test_a_list_of_too_many_values_is_refused_before_it_is_composed(monkeypatch):
    monkeypatch.setattr(read, "MAX_WRITTEN", 1000)
    text = "vary: {seed: [" + ", ".join(map(str, range(200_000))) + "]}"
    start = time.process_time()
    with pytest.raises(SpecError, match=r"f.yaml:1:\d+: too many values; allowed: 1000 at most"):
        read_text(text, "f.yaml")
    assert time.process_time() - start < 2


def test_a_node_names_every_rule_that_it_breaks():
    text = "{from: hgx-h100, gpus: 7, nvlink_links_per_switch: [9, 8]}"
    with pytest.raises(SpecError) as caught:
        build(read_text(text, "f"), NodePart, kind="node")
    assert [str(problem) for problem in caught.value.problems] == [
        "f:1:18 gpus: 7 GPUs do not share 8 NICs evenly; found 7",
        "f:1:27 nvlink_links_per_switch: the links to the NVSwitches add up to 17, but the GPU has 18",
    ]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("parallelism: {ep: 4}", "parallelism.ep: ep needs a mixture-of-experts model; Llama 3.1 8B is dense"),
        ("parallelism: {etp: 2}", "parallelism.etp: etp needs a mixture-of-experts model"),
        ("model: {from: llama-3.1-8b, learned_positions: 100}", "learned positions for 100 tokens; found sequence_len"),
        ("layout: {layers_per_chunk: []}", "layout.layers_per_chunk: needs 1 entry or more, has 0; found []"),
        ("layout: {layers_per_chunk: [-1]}", "layout.layers_per_chunk.0: must be greater than or equal to 0; found -1"),
        ("model: {from: llama-3.1-8b, moe: {experts: 8, top_k: 2, expert_ffn: 512, moe_layers: 99}}",
         "model.moe.moe_layers: 99 layers with experts after 0 dense ones, but the model has 32 layers; found 99"),
        ("model: {from: llama-3.1-8b, moe: {experts: 8, top_k: 9, expert_ffn: 512, moe_layers: 32}}",
         "model.moe.top_k: a token visits 9 of 8 experts; found 9"),
    ],
)  # fmt: skip
def test_a_job_that_its_model_does_not_allow_is_refused_at_the_key(change, told):
    model = "" if "model:" in change else "model: llama-3.1-8b, "
    text = f"{{batch: {{num_micro_batches: 8}}, {model}sequence_length: 4096, {change}}}"
    with pytest.raises(SpecError) as caught:
        build(read_text(text, "f"), WorkloadSpec)
    (problem,) = caught.value.problems
    assert told in str(problem)
