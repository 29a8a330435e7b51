"""What-ifs about kernels: each moves what it names by what it says, in both fidelities; none beats the datasheet."""

from __future__ import annotations

import pytest

from simnet.analysis.screen import estimate_step
from simnet.errors import SpecError
from simnet.runner import prepare, simulate
from simnet.runner.case import screen_network, the_gpu
from simnet.spec.load import build, expand, load_scenario, located
from simnet.spec.workload import WorkloadSpec
from simnet.workload.kernels import chunk_times, job_preset

TOO_QUICK = [{"gemm": {"speedup": 3}}, {"memory": {"speedup": 1.5}}, {"attention": {"speedup": 9}}]


@pytest.fixture(scope="module")
def write(tmp_path_factory):
    path = tmp_path_factory.mktemp("scenario") / "kernels.yaml"
    path.write_text(
        "name: kernels\nquestion: What do kernels buy?\n"
        "topology: {from: hgx-b200, nodes: 1}\n"
        "workload: {model: llama-3-8b, sequence_length: 8192, parallelism: {tp: 8}, batch: {global_batch_size: 4}}\n"
    )
    return path


def case(write, **kernels):
    (found,) = expand(load_scenario(write, {"workload.kernels": kernels} if kernels else {}))
    return found


def screened(one):
    gpu = the_gpu(one)
    prepared = prepare(one)
    preset = job_preset(one.workload, gpu)
    network = screen_network(one, prepared.cluster)
    return estimate_step(one.workload, gpu, preset, network, dp=1).step_time_s


def times(one):
    gpu = the_gpu(one)
    preset = job_preset(one.workload, gpu)
    model = one.workload.model
    return chunk_times(model, one.workload, gpu, preset, layers=model.layers, has_embedding=True, has_loss=True)


def test_attention_so_many_times_as_fast_takes_its_share_off_the_step_in_both_fidelities(write):
    plain, tuned = case(write), case(write, attention={"speedup": 1.8})
    core = times(plain)
    saved = 4 * (core.forward_attention_s + core.backward_attention_s) * (1 - 1 / 1.8)
    engine = [simulate(prepare(one), with_timeline=False).result.step_time_s for one in (plain, tuned)]
    closed = [screened(one) for one in (plain, tuned)]
    # the slowest of eight ranks stretches every kernel, by less than 2 %
    assert engine[0] - engine[1] == pytest.approx(saved, rel=0.02)
    assert closed[0] - closed[1] == pytest.approx(saved, rel=0.02)


@pytest.mark.parametrize(
    "kernels",
    [
        {"gemm": {"efficiency": 0.4}},
        {"gemm": {"speedup": 0.9}},
        {"attention": {"efficiency": 0.3}},
        {"memory": {"speedup": 0.5}},
        {"memory": {"efficiency": 0.4}},
        {"launch": {"speedup": 0.1}},
    ],
)
def test_every_change_for_the_worse_slows_both_fidelities(write, kernels):
    plain, changed = case(write), case(write, **kernels)
    assert screened(changed) > screened(plain)
    slow, quick = (simulate(prepare(one), with_timeline=False).result for one in (changed, plain))
    assert slow.step_time_s > quick.step_time_s
    assert any("What-if, not calibrated" in note for note in slow.assumptions)


def test_an_efficiency_is_that_of_the_datasheet(write):
    one = case(write, gemm={"efficiency": 0.5}, attention={"efficiency": 0.4}, memory={"efficiency": 0.9})
    preset = job_preset(one.workload, the_gpu(one))
    assert (preset.linear_efficiency, preset.half_efficiency) == (0.5, 0.5)
    assert (preset.attention_forward_efficiency, preset.attention_backward_efficiency) == (0.4, 0.4)
    assert preset.memory_efficiency == 0.9


@pytest.mark.parametrize("kernels", TOO_QUICK)
def test_kernels_beyond_the_datasheet_are_refused_with_the_most_that_it_allows(write, kernels):
    with pytest.raises(SpecError, match=r"would beat its roofline; found .* allowed: at most"):
        prepare(case(write, **kernels))


@pytest.mark.parametrize(
    ("kernels", "match"),
    [
        ({"gemm": {}}, "speedup or efficiency"),
        ({"gemm": {"speedup": 2, "efficiency": 0.5}}, "one of the two"),
        ({"attention": {"speedup": 0}}, "greater than 0"),
        ({"memory": {"efficiency": 1.2}}, "must be 1 or less"),
        ({"softmax": {"speedup": 2}}, "softmax"),
        ({"launch": {"speedup": -1}}, "greater than 0"),
    ],
)
def test_a_wrong_change_is_one_clear_fault(kernels, match):
    job = {"model": "llama-3-8b", "sequence_length": 8192, "batch": {"global_batch_size": 4}, "kernels": kernels}
    with pytest.raises(SpecError, match=match) as caught:
        build(located(job, "a test"), WorkloadSpec)
    assert len(caught.value.problems) == 1
