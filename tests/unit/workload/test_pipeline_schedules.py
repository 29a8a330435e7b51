"""Order, memory, layout and messages of the schedules that split the backward pass."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simnet.errors import LayoutError
from simnet.spec.compute import load_preset
from simnet.spec.load import load_model, load_part
from simnet.spec.parts import GpuPart
from simnet.spec.workload import WorkloadSpec
from simnet.workload.comms import ChunkKind, kind_exchanges
from simnet.workload.footprint import estimate
from simnet.workload.kernels import chunk_times
from simnet.workload.layout import pipeline_layout
from simnet.workload.ops import Category, Start, StepPlan, Wait
from simnet.workload.pass_list import Pass, peak_in_flight
from simnet.workload.plan import build_plan
from simnet.workload.schedule import schedule
from tests.unit.workload.jobs import gpt, job

MODEL = load_model("llama-3-8b")


def h100() -> GpuPart:
    return load_part("gpu", "H100-SXM", GpuPart)


def step(workload: WorkloadSpec, *, dp: int = 1) -> StepPlan:
    return build_plan(workload, h100(), load_preset(h100(), "bf16"), dp=dp)


def words(passes: tuple[Pass, ...]) -> str:
    return " ".join(f"{item.kind}{item.micro_batch}.{item.chunk}{'+' * item.joins_next}" for item in passes)


def test_zb1p_puts_weight_passes_off_by_its_stage() -> None:
    first, last = schedule("zb1p", num_stages=2, num_micro_batches=3)
    assert words(first) == "F0.0 F1.0 I0.0 W0.0 F2.0 I1.0 W1.0 I2.0 W2.0"
    assert words(last) == "F0.0 I0.0 F1.0 I1.0 W0.0 F2.0 I2.0 W1.0 W2.0"


def test_dualpipe_of_two_stages_pairs_forward_with_backward() -> None:
    first, last = schedule("dualpipe", num_stages=2, num_micro_batches=4)
    assert words(first) == "F0.0 F2.1 F1.0+ B2.1 F3.1+ B0.0 B3.1 I1.0 W1.0"
    # The other stage does the same with the other copy and the other half of the micro-batches.
    assert words(last) == "F2.1 F0.0 F3.1+ B0.0 F1.0+ B2.1 B1.0 I3.1 W3.1"


@given(stages=st.integers(2, 8), extra=st.integers(0, 9), name=st.sampled_from(["zb1p", "zbv", "dualpipe"]))
def test_every_part_of_a_backward_pass_runs_once_after_its_forward_pass(stages: int, extra: int, name: str) -> None:
    stages += stages % 2 if name == "dualpipe" else 0
    micro_batches = 2 * stages + 2 * extra if name == "dualpipe" else 1 + stages * extra // 2
    for passes in schedule(name, num_stages=stages, num_micro_batches=micro_batches, num_chunks=2):
        seen: Counter[tuple[str, int, int]] = Counter()
        for item in passes:
            key = (item.micro_batch, item.chunk)
            assert item.kind == "F" or seen["F", *key]
            assert item.kind != "W" or seen["I", *key]
            seen[item.kind, *key] += 1
            if item.kind == "B":
                seen.update([("I", *key), ("W", *key)])
        assert set(seen.values()) == {1}
        of_kind = Counter(kind for kind, _, _ in seen)
        assert of_kind["F"] == of_kind["I"] == of_kind["W"] == micro_batches * (2 if name == "zbv" else 1)


@pytest.mark.parametrize("stages", [2, 4, 8])
def test_activations_in_flight_are_those_of_the_papers(stages: int) -> None:
    # DeepSeek-V3, table 2: p for ZB-1P, p+1 for DualPipe; Qi, arXiv:2405.15362: p for ZB-V, as 2p halves.
    for name, most in (("zb1p", stages), ("dualpipe", stages + 1), ("zbv", 2 * stages)):
        plan = schedule(name, num_stages=stages, num_micro_batches=4 * stages)
        assert max(peak_in_flight(passes, (1.0, 1.0)) for passes in plan) == most


def test_zbv_has_both_ends_of_the_model_on_the_first_stage() -> None:
    layout = pipeline_layout(job(MODEL, pp=4, virtual_stages=2, schedule="zbv"))
    assert layout.has_embedding(0, 0)
    assert layout.has_loss(0, 1)
    assert [layout.neighbour(stage, 0, 1) for stage in range(4)] == [(1, 0), (2, 0), (3, 0), (3, 1)]
    assert [layout.neighbour(stage, 1, 1) for stage in range(4)] == [None, (0, 1), (1, 1), (2, 1)]


def test_dualpipe_holds_the_model_twice_in_opposite_order() -> None:
    sizes = {"layers_per_chunk": (7, 8, 8, 9)}
    layout = pipeline_layout(job(MODEL, pp=4, schedule="dualpipe", layout=sizes))
    assert layout.layers == ((7, 9), (8, 8), (8, 8), (9, 7))
    ends = [(stage, chunk) for stage in range(4) for chunk in (0, 1) if layout.has_loss(stage, chunk)]
    assert ends == [(0, 1), (3, 0)]


@pytest.mark.parametrize(
    ("name", "chunks", "overlap"), [("zb1p", 1, True), ("zbv", 2, True), ("dualpipe", 1, True), ("dualpipe", 1, False)]
)
def test_every_message_is_sent_once_and_waited_for(name: str, chunks: int, overlap: bool) -> None:
    workload = job(MODEL, pp=4, tp=2, virtual_stages=chunks, schedule=name, batch=16, overlap={"pp": overlap})
    plan = step(workload, dp=2)
    starts = Counter((op.comm, op.instance) for ops in plan.ops for op in ops if isinstance(op, Start))
    waits = Counter((op.comm, op.instance) for ops in plan.ops for op in ops if isinstance(op, Wait))
    assert starts.keys() == waits.keys()
    assert set(starts.values()) == {1}
    sends = sum(plan.comms[comm].category is Category.PP for comm, _ in starts)
    # Forward and backward over every boundary: three between four stages, twice that on a way down and up again.
    assert sends == 8 * 2 * 3 * chunks


def test_reductions_follow_the_last_weight_pass_of_their_chunk() -> None:
    plan = step(job(MODEL, pp=2, schedule="zb1p", batch=8), dp=2)
    text = [getattr(op, "label", "") or f"{type(op).__name__} {plan.comms[op.comm].name}" for op in plan.ops[1]]
    assert text.index("Start gradients 0.0") == max(i for i, word in enumerate(text) if word == "W") + 1


def test_copies_swap_halves_of_their_gradient_shards() -> None:
    workload = job(MODEL, pp=2, schedule="dualpipe", batch=16, gradient_dtype="bf16")
    plan = step(workload, dp=2)
    swapped = {comm.name: comm.size_bytes for comm in plan.comms if comm.stage == 0 and "other copy" in comm.name}
    # Two copies on a stage hold the whole model of 8.03 billion parameters (untied); two replicas, halves of shards.
    assert swapped["gradients of the other copy"] == pytest.approx(8.03e9 * 2 / 2 / 2, rel=1e-3)
    assert swapped["parameters of the other copy"] == swapped["gradients of the other copy"]


def test_two_copies_double_weights_and_gradients_and_share_the_optimizer() -> None:
    once, twice = (
        estimate(job(MODEL, pp=4, tp=2, schedule=name, batch=16), h100(), dp=2).stages for name in ("1f1b", "dualpipe")
    )
    for name in ("weights_bytes", "gradients_bytes", "optimizer_bytes"):
        total = sum(getattr(stage, name) for stage in twice) / sum(getattr(stage, name) for stage in once)
        assert total == pytest.approx(1 if name == "optimizer_bytes" else 2, rel=1e-3)


def test_zb1p_keeps_on_every_stage_what_1f1b_keeps_on_its_first() -> None:
    model = gpt(layers=8, hidden=1024, heads=16)
    one, zero = (estimate(job(model, pp=4, schedule=name), h100(), dp=1).stages for name in ("1f1b", "zb1p"))
    assert zero[0].activations_bytes == one[0].activations_bytes
    assert zero[2].activations_bytes == pytest.approx(2 * one[2].activations_bytes)


def test_backward_pass_splits_into_its_matrix_products() -> None:
    workload = job(MODEL)
    preset = load_preset(h100(), "bf16")
    times = chunk_times(MODEL, workload, h100(), preset, layers=4, has_embedding=False, has_loss=False)
    assert times.pass_s("I") + times.pass_s("W") == times.backward_s
    # Weight gradients are as many products as forward; attention is in neither, nor are norms.
    assert times.pass_s("W") == pytest.approx(times.forward_s - times.forward_attention_s, rel=0.15)
    assert times.pass_s("I") > times.forward_s > times.pass_s("W")


def test_split_backward_moves_what_the_whole_one_does() -> None:
    workload, shape = job(MODEL, tp=4), ChunkKind(layers=3, has_embedding=False, has_loss=True)
    whole, inputs, weights = (kind_exchanges(workload, shape, kind) for kind in ("B", "I", "W"))
    assert sum(one.size_bytes for one in whole) == sum(one.size_bytes for one in (*inputs, *weights))
    assert sum(one.count for one in whole) == sum(one.count for one in (*inputs, *weights))
    assert {(one.op, one.position) for one in weights} == {("all_gather", "beside")}
    assert "beside" not in {one.position for one in inputs}


@pytest.mark.parametrize(("batch", "found"), [(6, "6 micro-batches"), (11, "11 micro-batches")])
def test_dualpipe_refuses_too_few_or_an_odd_number(batch: int, found: str) -> None:
    with pytest.raises(LayoutError, match="half of the micro-batches") as caught:
        step(job(MODEL, pp=4, schedule="dualpipe", batch=batch))
    assert found in caught.value.problems[0].found
    assert "at least 2 x pp = 8" in caught.value.problems[0].allowed


def test_a_rest_of_micro_batches_gets_the_hint_of_another_group() -> None:
    with pytest.raises(LayoutError, match=r"10 = 2 x 4 \+ 2") as caught:
        step(job(MODEL, pp=4, virtual_stages=2, batch=10))
    assert "micro_batch_group_size" in caught.value.problems[0].hint
    assert step(job(MODEL, pp=4, virtual_stages=2, batch=10, micro_batch_group_size=5)).num_stages == 4
