"""The shipped question about pipeline schedules, answered by the engine and by closed forms."""

from __future__ import annotations

import pytest

from simnet import Result, run

QUESTION = "pipeline-schedules"


@pytest.fixture(scope="module")
def engine() -> dict[str, Result]:
    return {result.name: result for result in run(QUESTION)}


def test_every_breakdown_adds_up_and_every_case_has_its_memory(engine: dict[str, Result]) -> None:
    assert len(engine) == 6
    for result in engine.values():
        assert sum(result.breakdown_s.values()) == pytest.approx(result.step_time_s, rel=1e-9)
        assert result.attention_s < result.breakdown_s["compute"]
    # Two copies of the parameters take more than one, and longer groups keep more activations.
    peak = {name: result.memory.peak_bytes for name, result in engine.items()}
    assert peak["dualpipe"] > peak["zb1p"] >= peak["1f1b"]
    assert peak["interleaved-groups-of-8"] > peak["interleaved"]


def test_compute_is_the_same_whatever_the_order(engine: dict[str, Result]) -> None:
    seconds = [result.breakdown_s["compute"] for result in engine.values()]
    assert seconds == pytest.approx([seconds[0]] * len(seconds), rel=1e-9)


def test_bubbles_rank_as_the_papers_say(engine: dict[str, Result]) -> None:
    bubble = {name: result.breakdown_s["bubble"] for name, result in engine.items()}
    assert bubble["dualpipe"] < bubble["zbv"] < bubble["interleaved"] < bubble["zb1p"] < bubble["1f1b"]


def test_closed_forms_agree_with_the_engine(engine: dict[str, Result]) -> None:
    screened = {result.name: result.step_time_s for result in run(QUESTION, fidelity="screen")}
    assert screened == {name: pytest.approx(result.step_time_s, rel=0.05) for name, result in engine.items()}
