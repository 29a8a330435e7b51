"""The engine's step under each schedule against the bubbles that papers print, with free communication."""

from __future__ import annotations

import numpy as np
import pytest

from simnet.collectives.tasks import TaskSet
from simnet.engine.executor import run_program
from simnet.engine.lower import lower_plan
from simnet.workload.kernels import ChunkTimes
from simnet.workload.layout import pipeline_layout
from simnet.workload.ops import Comm
from simnet.workload.plan import assemble, chunk_kinds
from tests.unit.workload.jobs import gpt, job

EXACT = 1e-9


def free_send(comm: Comm, source: np.ndarray, target: np.ndarray) -> TaskSet:
    """A message that takes no time."""
    count = len(source)
    nothing = np.zeros(0, dtype=np.int32)
    return TaskSet(
        indptr=np.zeros(count + 1, dtype=np.int64),
        resource=nothing,
        coef=np.zeros(0),
        edge_src_port=nothing,
        edge_dst_port=nothing,
        size_bytes=np.zeros(count),
        latency_s=np.zeros(count),
        rate_cap_bytes_per_s=np.full(count, np.inf),
        weight=np.ones(count),
        group=np.arange(count),
        algorithm="direct",
        protocol="simple",
        channels=1,
        why="",
    )


def no_collective(comm: Comm, groups: np.ndarray) -> TaskSet:
    raise AssertionError(f"{comm.name} on one GPU per stage")


def engine_bubble(
    schedule: str,
    times: tuple[float, float, float],
    *,
    pp: int,
    micro_batches: int,
    chunks: int = 1,
    group: int | None = None,
) -> float:
    """Step time less the work of a stage, from the engine, with F, I and W of a whole stage and free sends."""
    forward, inputs, weights = times
    workload = job(
        gpt(layers=pp * chunks, hidden=1024, heads=16),
        pp=pp,
        virtual_stages=chunks,
        micro_batch_group_size=group,
        batch=micro_batches,
        schedule=schedule,
    )
    of_chunk = ChunkTimes(
        forward_s=forward / chunks,
        backward_s=(inputs + weights) / chunks,
        forward_floor_s=0,
        backward_floor_s=0,
        forward_attention_s=0,
        backward_attention_s=0,
        weight_s=weights / chunks,
    )
    kinds = chunk_kinds(pipeline_layout(workload))
    plan = assemble(workload, dp=1, times=dict.fromkeys(kinds, of_chunk), optimizer_s=(0.0,) * pp)
    gpu = np.arange(pp, dtype=np.int32).reshape(pp, 1, 1, 1)
    lowered = lower_plan(plan, gpu, np.ones(1), collective=no_collective, send=free_send)
    return run_program(lowered.program).step_time_s - micro_batches * sum(times)


DENSE_TIMES = ((1, 1, 1), (2, 3, 1), (1, 1, 0.5), (4, 5, 4), (1, 1.3, 0.9))
"""F, I and W with W at most I and F at most I, as attention's backward pass makes them."""
SHAPES = ((2, 4), (4, 8), (4, 14), (6, 12), (8, 40))
"""Stages and micro-batches."""


@pytest.mark.parametrize(("schedule", "chunks", "units"), [("gpipe", 1, 33), ("1f1b", 1, 33), ("interleaved", 2, 28.5)])
def test_four_equal_stages_and_eight_micro_batches_take_the_known_units(
    schedule: str, chunks: int, units: float
) -> None:
    # NVIDIA/Megatron-LM issue 169: forward 1, backward 2; ideal 24.
    bubble = engine_bubble(schedule, (1, 1, 1), pp=4, micro_batches=8, chunks=chunks)
    assert 24 + bubble == pytest.approx(units, rel=EXACT)


@pytest.mark.parametrize(("pp", "micro_batches"), SHAPES)
@pytest.mark.parametrize("times", [*DENSE_TIMES, (3, 2, 1), (1, 1, 4)])
def test_gpipe_and_1f1b_wait_for_every_other_stage(
    times: tuple[float, float, float], pp: int, micro_batches: int
) -> None:
    # Narayanan, arXiv:2104.04473, section 2.2: (p-1)(F+B), whatever the times.
    for schedule in ("gpipe", "1f1b"):
        found = engine_bubble(schedule, times, pp=pp, micro_batches=micro_batches)
        assert found == pytest.approx((pp - 1) * sum(times), rel=EXACT)


@pytest.mark.parametrize("chunks", [2, 3])
@pytest.mark.parametrize(("pp", "micro_batches"), [(2, 4), (4, 8), (6, 18)])
@pytest.mark.parametrize("times", [*DENSE_TIMES, (3, 2, 1)])
def test_interleaving_divides_the_bubble_by_its_chunks(
    times: tuple[float, float, float], pp: int, micro_batches: int, chunks: int
) -> None:
    found = engine_bubble("interleaved", times, pp=pp, micro_batches=micro_batches, chunks=chunks)
    assert found == pytest.approx((pp - 1) * sum(times) / chunks, rel=EXACT)


@pytest.mark.parametrize(("pp", "micro_batches", "group"), [(4, 10, 5), (4, 10, 6), (4, 10, 10), (3, 7, 4), (4, 11, 7)])
@pytest.mark.parametrize("times", [(1, 1, 1), (2, 3, 1)])
def test_groups_of_another_length_keep_the_bubble_for_any_number_of_micro_batches(
    times: tuple[float, float, float], pp: int, micro_batches: int, group: int
) -> None:
    # Llama 3, arXiv:2407.21783, section 3.3.2: (p-1)/(v m) of the work with a free group length.
    found = engine_bubble("interleaved", times, pp=pp, micro_batches=micro_batches, chunks=2, group=group)
    assert found == pytest.approx((pp - 1) * sum(times) / 2, rel=EXACT)


@pytest.mark.parametrize("chunks", [2, 3])
@pytest.mark.parametrize(("pp", "micro_batches"), [(4, 9), (4, 10), (4, 11), (6, 14)])
def test_a_last_group_shorter_than_the_pipeline_costs_no_more_than_calculon_says(
    pp: int, micro_batches: int, chunks: int
) -> None:
    # Calculon adds (v-1)(p - m mod p) passes of a chunk, forward and backward; of the order here the backward ones
    # are always lost, of the forward ones a part.
    times = (1, 1, 1)
    found = engine_bubble("interleaved", times, pp=pp, micro_batches=micro_batches, chunks=chunks, group=pp)
    missing = (chunks - 1) * (pp - micro_batches % pp) / chunks
    extra = found - (pp - 1) * sum(times) / chunks
    assert missing * 2 * (1 - EXACT) <= extra <= missing * 3 * (1 + EXACT)


@pytest.mark.parametrize(("pp", "micro_batches"), [*SHAPES, (3, 6), (5, 11)])
@pytest.mark.parametrize("times", [*DENSE_TIMES, (3, 2, 1)])
def test_zb1p_saves_two_weight_passes_a_stage(times: tuple[float, float, float], pp: int, micro_batches: int) -> None:
    # DeepSeek-V3, arXiv:2412.19437, table 2: (p-1)(F+B-2W), B = I+W.
    forward, inputs, weights = times
    found = engine_bubble("zb1p", times, pp=pp, micro_batches=micro_batches)
    assert found == pytest.approx((pp - 1) * (forward + inputs - weights), rel=EXACT)


def test_zb1p_cannot_hide_the_first_forward_passes() -> None:
    # With W above I the formula would fall below the time that the last stage waits for its first micro-batch.
    assert engine_bubble("zb1p", (2, 1, 3), pp=4, micro_batches=8) == pytest.approx(3 * 2, rel=EXACT)


@pytest.mark.parametrize(("pp", "micro_batches"), SHAPES)
@pytest.mark.parametrize("times", DENSE_TIMES)
def test_dualpipe_has_the_bubble_of_its_paper(times: tuple[float, float, float], pp: int, micro_batches: int) -> None:
    # Table 2: (p/2-1)(F&B + B - 3W); a block of both takes F+B where nothing but compute counts.
    forward, inputs, weights = times
    backward = inputs + weights
    expected = (pp / 2 - 1) * (forward + backward + backward - 3 * weights)
    found = engine_bubble("dualpipe", times, pp=pp, micro_batches=micro_batches)
    assert found == pytest.approx(expected, rel=EXACT, abs=EXACT)


@pytest.mark.parametrize(("pp", "micro_batches"), [*SHAPES, (3, 5), (3, 7)])
def test_zbv_idles_only_while_it_fills(pp: int, micro_batches: int) -> None:
    # F = I = W: stage r begins after r forward passes of a chunk, half a stage's, and never waits again.
    found = engine_bubble("zbv", (1, 1, 1), pp=pp, micro_batches=micro_batches, chunks=2)
    assert found == pytest.approx((pp - 1) / 2, rel=EXACT)


@pytest.mark.parametrize(("pp", "micro_batches"), [*SHAPES, (3, 5), (3, 7)])
@pytest.mark.parametrize("times", DENSE_TIMES)
def test_zbv_of_unequal_passes(times: tuple[float, float, float], pp: int, micro_batches: int) -> None:
    # docs/model/workload.md: (p-1) max(I, 2(I-W)) / 2 with F and W at most I.
    _, inputs, weights = times
    found = engine_bubble("zbv", times, pp=pp, micro_batches=micro_batches, chunks=2)
    assert found == pytest.approx((pp - 1) * max(inputs, 2 * (inputs - weights)) / 2, rel=EXACT)


@pytest.mark.parametrize(("schedule", "chunks"), [("1f1b", 1), ("interleaved", 2), ("zb1p", 1), ("zbv", 2)])
def test_many_micro_batches_leave_no_bubble(schedule: str, chunks: int) -> None:
    bubble = engine_bubble(schedule, (1, 1, 1), pp=4, micro_batches=400, chunks=chunks)
    assert bubble / (400 * 3) < 0.01
