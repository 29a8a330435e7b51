from __future__ import annotations

from pathlib import Path

import pytest

import simnet
from simnet.errors import DoesNotFitError, SpecError
from simnet.runner import cases
from simnet.runner.case import Prepared, Simulated, simulate, the_gpu, time_to_target
from simnet.spec.load import expand

SCENARIO = """\
name: quick
question: Does the door lead anywhere?
topology: {from: hgx-h100, nodes: 1}
workload:
  model: llama-3.1-8b
  sequence_length: 4096
  parallelism: {tp: 2}
  batch: {global_batch_size: 8}
vary: {workload.parallelism.tp: [2, 4]}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "quick.yaml"
    path.write_text(SCENARIO)
    return path


def test_two_lines_lead_from_a_name_to_results(file: Path) -> None:
    results = simnet.run(file)
    assert [result.values["workload.parallelism.tp"] for result in results] == [2, 4]
    assert all(isinstance(result, simnet.Result) for result in results)


def test_run_and_sweep_take_a_loaded_scenario_and_agree(file: Path) -> None:
    scenario = simnet.load_scenario(file)
    assert [r.step_time_s for r in simnet.run(scenario)] == [
        outcome.step_time_s for outcome in simnet.sweep(scenario) if isinstance(outcome, simnet.Result)
    ]


def test_overrides_win_and_stop_a_path_from_varying(file: Path) -> None:
    (result,) = simnet.run(file, overrides={"workload.parallelism.tp": 8})
    assert result.num_gpus == 8
    with pytest.raises(TypeError, match="loaded scenario"):
        simnet.run(simnet.load_scenario(file), overrides={"topology.nodes": 2})


def test_faults_come_before_the_run_and_misfits_after_it(file: Path) -> None:
    with pytest.raises(SpecError, match="llama-3"):
        simnet.run(file, overrides={"workload.model": "llama-3.1-8"})
    file.write_text(SCENARIO + "variants: {small: {}, large: {workload: {model: llama-3.1-405b}}}\n")
    with pytest.raises(DoesNotFitError, match="405B"):
        simnet.run(file)


def test_cases_of_one_step_are_simulated_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # 4 replicas of 2 GPUs: a global batch of 8 is 2 micro-batches each. The second says so in other words, and has a
    # target: 800 samples are 100 steps of 8, and a minute of evaluation.
    file.write_text(
        SCENARIO.replace("vary: {workload.parallelism.tp: [2, 4]}", "")
        + "variants:\n  first: {}\n  second:\n    target: {samples: 800, evaluation: 60 s}\n"
        + "    workload: {parallelism: {dp: 4}, batch: {global_batch_size: null, num_micro_batches: 2}}\n"
        + "  other: {workload: {batch: {global_batch_size: 16}}}\n"
    )
    simulated: list[str] = []

    def counted(prepared: Prepared, *, with_timeline: bool = True) -> Simulated:
        simulated.append(prepared.case.name)
        return simulate(prepared, with_timeline=with_timeline)

    monkeypatch.setattr(cases, "simulate", counted)
    first, second, _ = simnet.run(file)
    assert simulated == ["first", "other"]
    assert (second.name, second.step_time_s) == ("second", first.step_time_s)
    assert second.minutes_to_target == pytest.approx((100 * first.step_time_s + 60) / 60)
    assert second.provenance.spec_hash != first.provenance.spec_hash


def test_a_cluster_is_built_by_name() -> None:
    assert simnet.build_cluster("hgx-h100", {"nodes": 2}).num_gpus == 16
    with pytest.raises(TypeError, match="loaded one"):
        simnet.build_cluster(simnet.build_cluster("hgx-h100", {"nodes": 2}).spec, {"nodes": 4})


@pytest.mark.parametrize(("nodes", "days"), [(1, 1536.0), (128, 12.0)])
def test_days_to_train_70b_on_a_trillion_tokens(file: Path, nodes: int, days: float) -> None:
    # 6ND at 40 % of 989 TFLOP/s: 4.2e23 / (8 * 395.6e12) = 1.327e8 s = 1,536 days on 8 GPUs, 12.0 on 1,024.
    # A step of 256 sequences of 4,096 tokens takes 6 * 70e9 * 1,048,576 / (GPUs * 395.6e12).
    file.write_text(
        SCENARIO.replace("nodes: 1}", f"nodes: {nodes}}}").replace("tp: 2}", "tp: 8}").replace("size: 8}", "size: 256}")
        + "target: {samples: 244140625, evaluation: 0 s}\n"
    )
    (case,) = expand(simnet.load_scenario(file, {"workload.parallelism.tp": 8}))
    gpu = the_gpu(case)
    step_time_s = 6 * 70e9 * 256 * 4096 / (8 * nodes * 0.4 * gpu.peak_flops_per_s("bf16"))
    steps, minutes = time_to_target(case, nodes, step_time_s)
    assert steps == pytest.approx(1e12 / (256 * 4096))
    assert minutes / (24 * 60) == pytest.approx(days, rel=0.01)
