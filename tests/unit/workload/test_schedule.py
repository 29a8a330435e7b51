from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simnet.errors import LayoutError
from simnet.workload.pass_list import Pass, peak_in_flight
from simnet.workload.schedule import num_warmup_passes, schedule


def makespan(stages: tuple[tuple[Pass, ...], ...], *, forward: float, backward: float, num_chunks: int = 1) -> float:
    """End of the last pass, by walking the passes with their dependencies; sends are free."""
    last_part = len(stages) * num_chunks - 1
    end: dict[tuple[str, int, int], float] = {}
    clock = [0.0] * len(stages)
    position = [0] * len(stages)
    while any(position[s] < len(stages[s]) for s in range(len(stages))):
        moved = False
        for s, passes in enumerate(stages):
            while position[s] < len(passes):
                item = passes[position[s]]
                part = item.chunk * len(stages) + s
                if item.kind == "F":
                    needs = ("F", item.micro_batch, part - 1) if part else None
                else:
                    needs = ("B", item.micro_batch, part + 1) if part < last_part else ("F", item.micro_batch, part)
                if needs is not None and needs not in end:
                    break
                begin = max(clock[s], end[needs] if needs else 0.0)
                clock[s] = begin + (forward if item.kind == "F" else backward) / num_chunks
                end[item.kind, item.micro_batch, part] = clock[s]
                position[s] += 1
                moved = True
        assert moved, "the schedule deadlocks"
    return max(clock)


@pytest.mark.parametrize(("name", "chunks", "units"), [("gpipe", 1, 33), ("1f1b", 1, 33), ("interleaved", 2, 28.5)])
def test_case_a06_four_equal_stages_eight_micro_batches(name: str, chunks: int, units: float) -> None:
    stages = schedule(name, num_stages=4, num_micro_batches=8, num_chunks=chunks)
    assert makespan(stages, forward=1, backward=2, num_chunks=chunks) == units


@pytest.mark.parametrize("chunks", [1, 2, 4])
def test_bubble_is_p_minus_1_over_v_passes(chunks: int) -> None:
    # Narayanan, arXiv:2104.04473, section 2.2: idle (p-1)(tf+tb)/v.
    for stages, micro_batches in ((2, 4), (4, 8), (8, 32)):
        plan = schedule("1f1b", num_stages=stages, num_micro_batches=micro_batches, num_chunks=chunks)
        total = makespan(plan, forward=1, backward=2, num_chunks=chunks)
        assert total - 3 * micro_batches == pytest.approx(3 * (stages - 1) / chunks, rel=1e-12)


def test_bubble_vanishes_with_many_micro_batches() -> None:
    plan = schedule("1f1b", num_stages=4, num_micro_batches=4000)
    assert makespan(plan, forward=1, backward=2) / (3 * 4000) == pytest.approx(1, abs=0.001)


def test_one_f_one_b_holds_p_minus_r_micro_batches() -> None:
    for rank, passes in enumerate(schedule("1f1b", num_stages=4, num_micro_batches=8)):
        assert peak_in_flight(passes, (1.0,)) == 4 - rank


def test_gpipe_holds_all_micro_batches() -> None:
    assert peak_in_flight(schedule("gpipe", num_stages=4, num_micro_batches=8)[3], (1.0,)) == 8


def test_interleaving_holds_1_plus_p_minus_1_over_pv_times_the_layers() -> None:
    # Korthikanti, arXiv:2205.05198, section 4.2.3: L (1 + (p-1)/(pv)) layers on the first stage.
    passes = schedule("interleaved", num_stages=35, num_micro_batches=280, num_chunks=3)[0]
    assert peak_in_flight(passes, (1.0, 1.0, 1.0)) == pytest.approx(105 * (1 + 34 / 105))


def test_warm_up_is_megatrons() -> None:
    assert [num_warmup_passes(num_stages=4, stage=r) for r in range(4)] == [3, 2, 1, 0]
    assert [num_warmup_passes(num_stages=4, stage=r, num_chunks=2) for r in range(4)] == [10, 8, 6, 4]


def test_interleaved_order_on_the_last_of_two_stages() -> None:
    passes = schedule("interleaved", num_stages=2, num_micro_batches=2, num_chunks=2)[1]
    order = " ".join(f"{item.kind}{item.micro_batch}.{item.chunk}" for item in passes)
    assert order == "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0"


def test_interleaving_refuses_a_rest_of_micro_batches() -> None:
    with pytest.raises(LayoutError, match=r"10 = 2 x 4 \+ 2") as caught:
        schedule("interleaved", num_stages=4, num_micro_batches=10, num_chunks=2)
    assert "8 or 12 micro-batches" in caught.value.problems[0].allowed


@given(stages=st.integers(1, 6), groups=st.integers(1, 4), chunks=st.integers(1, 3), rest=st.integers(0, 5))
def test_every_pass_runs_once_and_forward_comes_first(stages: int, groups: int, chunks: int, rest: int) -> None:
    micro_batches = stages * groups + (rest if chunks == 1 else 0)
    plan = schedule("1f1b", num_stages=stages, num_micro_batches=micro_batches, num_chunks=chunks)
    for passes in plan:
        assert len(passes) == len(set(passes)) == 2 * micro_batches * chunks
        seen: set[tuple[int, int]] = set()
        for item in passes:
            if item.kind == "F":
                seen.add((item.micro_batch, item.chunk))
            else:
                assert (item.micro_batch, item.chunk) in seen
    makespan(plan, forward=1, backward=2, num_chunks=chunks)
