"""The founding claims that a shipped scenario answers."""

from __future__ import annotations

import pytest

from simnet.analysis.question import answer_question
from simnet.errors import SpecError
from simnet.runner import prepare, simulate
from simnet.runner.chip_limits import chip_limits
from simnet.spec.load import expand, load_scenario


@pytest.fixture(scope="module")
def claimed():
    scenario = load_scenario("claimed-70b")
    cases = expand(scenario)
    results = [simulate(prepare(one), with_timeline=False).result for one in cases]
    assert scenario.split is not None
    answer = answer_question(
        results,
        claims=scenario.claims,
        limits=chip_limits(cases),
        split=(scenario.split.start, scenario.split.through, scenario.split.of),
    )
    return {result.name: result for result in results}, answer


def test_15_264_tokens_per_s_are_impossible_of_a_gpu_and_plausible_of_a_node(claimed):
    # 6 x 70.55e9 x 15,264 = 6.46e15 FLOP/s, over 2.25e15 2.87, an eighth of which is 36 %; 8,080 of H100 43 % likewise
    hopper, blackwell = claimed[1].claims
    assert (blackwell.verdict_per_gpu, blackwell.verdict_per_node) == ("impossible", "plausible")
    assert blackwell.needed_flops_per_s == pytest.approx(6.46e15, rel=0.001)
    assert blackwell.peak_share == pytest.approx(2.87, abs=0.005)
    assert blackwell.peak_share / blackwell.gpus_per_node == pytest.approx(0.36, abs=0.005)
    assert (hopper.verdict_per_gpu, hopper.verdict_per_node) == ("impossible", "plausible")
    assert hopper.peak_share / hopper.gpus_per_node == pytest.approx(0.43, abs=0.005)


def test_the_hopper_figure_is_predicted(claimed):
    # 8,080 / 8 = 1,010 tokens/s/GPU: no row of the table that constants were fitted on
    assert claimed[0]["h100"].tokens_per_s_per_gpu == pytest.approx(1010, rel=0.05)


def test_1_89_is_split_into_chip_memory_kernels_and_a_remainder(claimed):
    split = claimed[1].split
    assert split.claimed == pytest.approx(15264 / 8080)
    assert [factor.name for factor in split.factors] == ["the chip", "less recomputation", "attention kernels"]
    product = 1.0
    for factor in split.factors:
        assert factor.ratio > 1
        product *= factor.ratio
    assert product * split.remainder == pytest.approx(split.claimed)


@pytest.mark.parametrize(
    ("key", "value"), [("claims", {"h200": 1.0}), ("split", {"start": "h100", "through": {"a": "x"}})]
)
def test_claims_about_variants_that_there_are_not_are_refused(tmp_path, key, value):
    path = tmp_path / "own.yaml"
    path.write_text(
        "name: own\nquestion: Is it true?\ntopology: {from: hgx-h100, nodes: 1}\n"
        "workload: {model: llama-3-8b, sequence_length: 8192, batch: {global_batch_size: 8}}\n"
        f"variants: {{h100: {{}}}}\n{key}: {value}\n"
    )
    with pytest.raises(SpecError, match=r"names no variant; found .* allowed: h100"):
        load_scenario(path)


@pytest.fixture(scope="module")
def hopper():
    scenario = load_scenario("blackwell-vs-hopper")
    results = [simulate(prepare(one), with_timeline=False).result for one in expand(scenario)]
    assert scenario.split is not None
    split = (scenario.split.start, scenario.split.through, scenario.split.of)
    return {one.name: one for one in results}, answer_question(results, split=split)


def test_8_192_h100_are_split_from_2_496_gb200_into_chip_scaling_and_convergence(hopper):
    """MLPerf v5.0 logs: 2.19 per chip at 2,560 H100 and 0.925 from there to 8,192; 340,000 against 323,000 samples."""
    results, answer = hopper
    factors = {one.name: one.ratio for one in answer.split.factors}
    assert factors["the chip"] == pytest.approx(703.06 / 320.77, rel=0.05)
    assert factors["the loss of scaling"] == pytest.approx(320.77 / 296.64, rel=0.05)
    assert factors["samples to the target"] == pytest.approx(340 / 323, rel=1e-6)
    fast, slow = results["gb200-2496"], results["h100-8192"]
    whole = slow.num_gpus * slow.minutes_to_target / (fast.num_gpus * fast.minutes_to_target)
    assert answer.split.predicted == pytest.approx(whole, rel=1e-9)
    assert answer.split.chips == pytest.approx(8192 / 2496)
    assert slow.minutes_to_target < fast.minutes_to_target < results["h100-2560"].minutes_to_target
    assert "times the chip time" in answer.headline
