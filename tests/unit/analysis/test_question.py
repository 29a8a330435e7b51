from __future__ import annotations

import math

import pytest

from simnet.analysis.answer import Answer
from simnet.analysis.curves import percent
from simnet.analysis.question import answer_question
from simnet.analysis.result import BREAKDOWN_PARTS, EngineUse, HottestLink, KnownError, MemoryUse, Provenance, Result

PATH = "topology.join.taper"


def made_up(name: str, *, compute_s: float = 4.0, dp_s: float = 0.0, taper: int = 0, **changes: object) -> Result:
    parts = dict.fromkeys(BREAKDOWN_PARTS, 0.0) | {"compute": compute_s, "exposed_dp": dp_s}
    step_s = compute_s + dp_s
    num_gpus = int(changes.pop("num_gpus", 1000))  # type: ignore[call-overload]
    fields: dict[str, object] = {
        "name": name,
        "variant": name.split(" ", maxsplit=1)[0],
        "values": {PATH: taper} if taper else {},
        "num_gpus": num_gpus,
        "gpu": "B",
        "step_time_s": step_s,
        "tokens_per_s": 1e6 / step_s,
        "tokens_per_s_per_gpu": 1e6 / step_s / num_gpus,
        "mfu": 0.4,
        "hfu": 0.4,
        "breakdown_s": parts,
        "hottest_link": HottestLink(name="", link_class="join", mean_utilisation=0, peak_utilisation=0, bytes=0),
        "link_classes": (),
        "census": {"modules": 4, "join": {"effective_taper": taper, "cables": 640 // max(taper, 1)}},
        "memory": MemoryUse(peak_bytes=1, limit_bytes=2, stage=0, classes_bytes={}),
        "engine": EngineUse(rung="", classes=1, solves=1, events=1),
        "bottleneck": "compute",
        "assumptions": (),
        "known_error": KnownError(median=math.nan, p90=math.nan, rows=0, source=""),
        "provenance": Provenance(spec_hash="", version="", seed=0),
    }
    return Result(**(fields | changes))  # type: ignore[arg-type]


def answered(losses_s: dict[int, float]) -> Answer:
    cases = [made_up("one"), *(made_up(f"four t={t}", taper=t, dp_s=s) for t, s in losses_s.items())]
    return answer_question(cases, knee_path=PATH, losses=(0.01, 0.05), baselines={"four": "one"})


def test_headline_names_the_thinnest_join_within_the_first_loss_and_what_a_thinner_one_waits_for() -> None:
    answer = answered({1: 0.0, 8: 0.02, 16: 0.1, 32: 0.4})
    assert answer.headline == (
        "Four subclusters joined by 80 cables instead of 640 lose 0.5 % of step time; "
        "1 % is lost between 8:1 and 16:1, to gradients."
    )
    assert "within 5 % up to 16:1 (40 cables)" in answer.details[0]


def test_knee_lies_between_two_simulated_tapers() -> None:
    one_percent, five_percent = answered({1: 0.0, 8: 0.02, 16: 0.1, 32: 0.4}).knees
    assert (one_percent.within_taper, one_percent.beyond_taper) == (8, 16)
    assert one_percent.effective_taper == pytest.approx(8 + 8 * (0.01 - 0.005) / (0.025 - 0.005))
    assert (five_percent.within_taper, five_percent.beyond_taper) == (16, 32)


def test_no_knee_in_the_range_says_so() -> None:
    answer = answered({1: 0.0, 8: 0.016})
    assert answer.headline.endswith("lose 0.4 % of step time; 1 % is not lost up to 8:1, the thinnest join simulated.")
    assert all(math.isnan(knee.effective_taper) for knee in answer.knees)


def test_a_join_that_loses_even_when_wide_says_so() -> None:
    answer = answered({1: 0.2, 8: 0.4})
    assert answer.headline.startswith("Four subclusters lose 5 % of step time even when joined by 640 cables (1:1)")


def test_chip_time_to_the_target_is_split_into_chip_scaling_and_the_rest() -> None:
    """Per chip twice as fast; four times the chips lose a tenth to scaling; 1.1 times the minutes' worth of samples."""
    fast = made_up("fast", minutes_to_target=10.0)
    slow = made_up("slow", gpu="A", compute_s=8.0, minutes_to_target=20.0)
    large = made_up(
        "large", gpu="A", num_gpus=4000, compute_s=2.0, tokens_per_s_per_gpu=112.5, minutes_to_target=20 / 3.6 * 1.1
    )
    sentences = answer_question([fast, slow, large])
    told = " ".join((sentences.headline, *sentences.details))
    assert "Per chip B is 2.00 times as fast as A" in told
    assert "spend 2.44 times the chip time to the target: 2.00 for the chip x 1.11 for the loss of scaling" in told
    assert "1.10 for samples to the target" in told


@pytest.mark.parametrize(
    ("fraction", "text"), [(0.00361, "0.4 %"), (0.01, "1 %"), (0.13, "13 %"), (0.00005, "0 %"), (-1e-9, "0 %")]
)
def test_percentages_are_short(fraction: float, text: str) -> None:
    assert percent(fraction) == text


def priced(name: str, price_usd: float, power_w: float, **changes: object) -> Result:
    result = made_up(name, **changes)  # type: ignore[arg-type]
    result.census.update({"price_usd": {"use": price_usd}, "power_w": power_w})  # type: ignore[attr-defined]
    return result


@pytest.mark.parametrize(
    ("price_usd", "words"), [(9e6, "10 % less than"), (11e6, "10 % more than"), (1e7, "as much as")]
)
def test_the_bill_of_the_joined_machine_stands_beside_that_of_the_one(price_usd: float, words: str) -> None:
    cases = [
        priced("one", 1e7, 5e6),
        priced("four t=8", price_usd, 4e6, taper=8, dp_s=0.02),
        priced("four t=16", 8e6, 3e6, taper=16, dp_s=0.4),
    ]
    details = answer_question(cases, knee_path=PATH, losses=(0.01,), baselines={"four": "one"}).details
    assert f"{words} the one fabric's 10 MUSD" in details[0]
    assert "it draws 4 MW against 5 MW" in details[0]


def test_a_case_on_another_gpu_is_no_baseline_and_a_machine_without_a_join_has_no_curve() -> None:
    cases = [made_up("one", gpu="A", compute_s=2.0), made_up("four t=8", taper=8), made_up("four t=16", taper=16)]
    (curve,) = answer_question(cases, knee_path=PATH, losses=(0.01,), baselines={"four": "one"}).tapers
    assert curve.reference_step_time_s == 4.0
    alone = [made_up("four t=8", taper=8, census={}), made_up("four t=16", taper=16, census={})]
    answer = answer_question(alone, knee_path=PATH, losses=(0.01,), baselines={})
    assert not answer.tapers
    assert answer.headline.startswith("four t=8: 4.000 s a step")


def test_gpus_without_work_are_told() -> None:
    details = answer_question([made_up("one", num_gpus=64, census={"gpus": 128})]).details
    assert details == ("one uses 64 of the machine's 128 GPUs.",)


def test_each_case_is_compared_with_its_baseline_or_the_first_of_its_size() -> None:
    cases = [made_up("one"), made_up("four t=8", taper=8), made_up("other"), made_up("small", num_gpus=10)]
    assert answer_question(cases, baselines={"four": "other"}).references == {"four t=8": "other", "other": "one"}
