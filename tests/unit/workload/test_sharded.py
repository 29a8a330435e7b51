"""Sharded data parallelism: what is gathered and reduced, when, and how much."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import given

from simnet.errors import DoesNotFitError, LayoutError
from simnet.spec.load import load_model, load_part
from simnet.spec.parts import GpuPart
from simnet.spec.sharding import FsdpSpec
from simnet.spec.workload import WorkloadSpec
from simnet.workload.checks import check_shard_groups
from simnet.workload.footprint import estimate
from simnet.workload.kernels import ChunkTimes
from simnet.workload.layout import pipeline_layout
from simnet.workload.memory import require_fit
from simnet.workload.ops import Comm, Compute, Op, Start, StepPlan, Wait
from simnet.workload.plan import assemble, chunk_kinds
from simnet.workload.transformer import parameters
from simnet.workload.units import part_kinds
from tests.oracle.examples import examples
from tests.unit.workload.jobs import gpt, job

LAYERS = 3
H100 = load_part("gpu", "H100-SXM", GpuPart)
A100 = load_part("gpu", "A100-80G-SXM", GpuPart)


def plan(workload: WorkloadSpec, *, dp: int) -> StepPlan:
    layout = pipeline_layout(workload)
    times = {
        kind: ChunkTimes(
            forward_s=1e-3 * (kind.layers + 0.1),
            backward_s=2e-3 * (kind.layers + 0.1),
            forward_floor_s=1e-4,
            backward_floor_s=1e-4,
            forward_attention_s=0,
            backward_attention_s=0,
        )
        for kind in (*chunk_kinds(layout), *part_kinds(layout))
    }
    return assemble(workload, dp=dp, times=times, optimizer_s=(1e-3,) * workload.parallelism.pp)


def small(**changes: object) -> WorkloadSpec:
    """Three layers on fsdp, one micro-batch unless told."""
    settings: dict[str, object] = {"batch": 4, "sharding": "fsdp", **changes}
    return job(gpt(layers=LAYERS, hidden=1024, heads=16), **settings)


def starts(step: StepPlan, stage: int = 0) -> Counter[str]:
    return Counter(step.comms[op.comm].name for op in step.ops[stage] if isinstance(op, Start))


def named(step: StepPlan, name: str) -> Comm:
    (found,) = {comm for comm in step.comms if comm.name == name}
    return found


def words(ops: tuple[Op, ...], step: StepPlan) -> list[str]:
    short = {"parameters": "G", "gradients": "R"}
    found = []
    for op in ops:
        if isinstance(op, Compute):
            found.append(op.label)
            continue
        kind, _, unit = step.comms[op.comm].name.partition(" of ")
        if kind in short:
            found.append(f"{type(op).__name__.lower()} {short[kind]} {unit}{op.instance}")
    return found


def test_every_layer_is_gathered_twice_and_reduced_once_a_micro_batch() -> None:
    counts = starts(plan(small(batch=8), dp=4))
    assert counts["parameters of layer"] == 2 * 2 * LAYERS
    assert counts["gradients of layer"] == 2 * LAYERS
    # The ends (here one tied table) stay from forward to backward pass.
    assert counts["parameters of ends 0"] == counts["gradients of ends 0"] == 2


def test_without_resharding_a_layer_is_gathered_once_a_micro_batch() -> None:
    workload = small(batch=8, fsdp=FsdpSpec(reshard_after_forward=False))
    assert starts(plan(workload, dp=4))["parameters of layer"] == 2 * LAYERS


def test_with_a_pipeline_and_no_resharding_a_layer_is_gathered_once_a_step() -> None:
    model = gpt(layers=4, hidden=1024, heads=16)
    workload = job(model, batch=16, pp=2, sharding="fsdp", fsdp=FsdpSpec(reshard_after_forward=False))
    assert starts(plan(workload, dp=4), stage=1)["parameters of layer"] == 2


def test_no_sync_reduces_after_the_last_micro_batch_alone() -> None:
    workload = small(batch=16, fsdp=FsdpSpec(reduce="last_micro_batch"))
    step = plan(workload, dp=4)
    assert starts(step)["gradients of layer"] == LAYERS
    ops = step.ops[0]
    first = next(i for i, op in enumerate(ops) if isinstance(op, Start) and "gradients" in step.comms[op.comm].name)
    assert {op.micro_batch for op in ops[first:] if isinstance(op, Compute) and op.label == "B"} == {3}


def test_a_gather_runs_one_unit_ahead_and_a_reduction_one_behind() -> None:
    step = plan(small(), dp=4)
    assert words(step.ops[0], step) == [
        "start G ends 00", "wait G ends 00", "start G layer0", "F",  # embedding
        "wait G layer0", "start G layer1", "F",
        "wait G layer1", "start G layer2", "F",
        "wait G layer2", "start G layer3", "F",
        "F", "B",  # logits and loss
        "wait G layer3", "start G layer4", "B", "start R layer0",
        "wait G layer4", "start G layer5", "B", "wait R layer0", "start R layer1",
        "wait G layer5", "B", "wait R layer1", "start R layer2",
        "B", "wait R layer2", "start R ends 00", "wait R ends 00",
        "optimizer",
    ]  # fmt: skip


@pytest.mark.parametrize("switch", ["dp_param", "dp_grad"])
def test_without_overlap_nothing_runs_beside_compute(switch: str) -> None:
    step = plan(small(batch=8, overlap={switch: False}), dp=4)
    name = "parameters" if switch == "dp_param" else "gradients"
    for one, other in pairwise(step.ops[0]):
        if isinstance(one, Start) and step.comms[one.comm].name.startswith(name):
            assert isinstance(other, Wait)
            assert (other.comm, other.instance) == (one.comm, one.instance)


@given(prefetch=st.integers(0, 5), batches=st.integers(1, 3), is_resharded=st.booleans())
@examples(20)
def test_no_more_units_are_on_their_way_than_prefetched(prefetch: int, batches: int, is_resharded: bool) -> None:
    fsdp = FsdpSpec(prefetch=prefetch, reshard_after_forward=is_resharded)
    step = plan(small(batch=4 * batches, fsdp=fsdp), dp=4)
    on_their_way = 0
    for op in step.ops[0]:
        if isinstance(op, Compute):
            assert on_their_way <= prefetch
        elif step.comms[op.comm].op == "all_gather":
            on_their_way += 1 if isinstance(op, Start) else -1
    assert on_their_way == 0


@given(
    dp=st.sampled_from([2, 4]),
    cp=st.sampled_from([1, 2]),
    tp=st.sampled_from([1, 2]),
    pp=st.sampled_from([1, 3]),
    sharding=st.sampled_from(["zero3", "fsdp", "hsdp"]),
    prefetch=st.integers(0, 3),
    is_resharded=st.booleans(),
    reduce=st.sampled_from(["each_micro_batch", "last_micro_batch"]),
)
@examples(40)
def test_every_start_has_its_wait_and_all_parameters_are_moved(
    dp: int, cp: int, tp: int, pp: int, sharding: str, prefetch: int, is_resharded: bool, reduce: str
) -> None:
    fsdp = FsdpSpec(prefetch=prefetch, reshard_after_forward=is_resharded, reduce=reduce)
    group = {"fsdp_group": 2 * cp} if sharding == "hsdp" else {}
    workload = small(batch=4 * dp, tp=tp, cp=cp, pp=pp, sharding=sharding, fsdp=fsdp, **group)
    step = plan(workload, dp=dp)
    reduced = 0.0
    for stage, ops in enumerate(step.ops):
        own = [op for op in ops if not isinstance(op, Compute) and step.comms[op.comm].op != "send"]
        begun = Counter((op.comm, op.instance) for op in own if isinstance(op, Start))
        ended = Counter((op.comm, op.instance) for op in own if isinstance(op, Wait))
        assert begun == ended
        assert set(begun.values()) == {1}
        num_reduced = starts(step, stage)
        reduced += sum(
            num_reduced[comm.name] * comm.size_bytes
            for comm in step.comms
            if comm.stage == stage and comm.op == "reduce_scatter" and "gradients" in comm.name
        )
    # Every parameter's gradient in fp32, once a micro-batch; norms and biases are counted on each tensor rank.
    times = 4 if reduce == "each_micro_batch" else 1
    table = workload.model.vocab * workload.model.hidden  # the loss's stage holds a second copy of a tied table
    count = parameters(workload.model) + (table if pp > 1 else 0)
    assert reduced == pytest.approx(4 * times * count / tp, rel=2e-2)


def test_hsdp_shards_inside_a_group_and_reduces_shards_over_the_groups() -> None:
    step = plan(small(batch=16, sharding="hsdp", fsdp_group=4), dp=16)
    assert step.dp_shard == 4
    assert named(step, "parameters of layer").axes == ("cp", "dp_shard")
    scatter = named(step, "gradients of layer")
    across = named(step, "gradients of layer across groups")
    assert across.axes == ("dp_replica",)
    assert across.size_bytes == scatter.size_bytes / 4
    counts = starts(step)
    assert counts["gradients of layer across groups"] == counts["gradients of layer"] == LAYERS


def test_a_gather_moves_16_bit_weights_and_a_reduction_what_gradients_are_kept_in() -> None:
    hidden = 1024
    count = 12 * hidden**2 + 13 * hidden  # a GPT layer (Narayanan, arXiv:2104.04473, equation 2)
    step = plan(small(), dp=4)
    assert named(step, "parameters of layer").size_bytes == 2 * count
    assert named(step, "gradients of layer").size_bytes == 4 * count
    assert named(plan(small(gradient_dtype="bf16"), dp=4), "gradients of layer").size_bytes == 2 * count


def test_groups_that_replicas_do_not_fill_are_refused_with_the_arithmetic() -> None:
    workload = small(batch=24, sharding="hsdp", fsdp_group=8)
    with pytest.raises(LayoutError) as caught:
        check_shard_groups(workload, dp=12)
    (problem,) = caught.value.problems
    assert "dp 12 = 1 x 8 replicas of fsdp_group 8 + 4" in problem.message
    assert problem.hint.endswith("6")


def test_states_of_fsdp_are_16_bytes_a_parameter_over_the_group() -> None:
    """fp32 weight, gradient and two moments, sharded; a layer or two and the ends whole in 16 bit."""
    model = load_model("llama-2-70b")
    workload = job(model, batch=64, sequence=4096, sharding="fsdp")
    stage = estimate(workload, H100, dp=64).stages[0]
    assert stage.weights_bytes == 0
    assert stage.gradients_bytes + stage.optimizer_bytes == pytest.approx(16 * parameters(model) / 64)


def test_zero3_keeps_its_16_bit_shard_too() -> None:
    """2 + 2 + 12 bytes over d with 16-bit gradients (Rajbhandari, arXiv:1910.02054, figure 1)."""
    model = load_model("llama-2-70b")
    workload = job(model, batch=64, sequence=4096, sharding="zero3", gradient_dtype="bf16")
    stage = estimate(workload, H100, dp=64).stages[0]
    states = stage.weights_bytes + stage.gradients_bytes + stage.optimizer_bytes
    assert states == pytest.approx(16 * parameters(model) / 64)


def test_hsdp_holds_what_its_group_holds_however_many_groups() -> None:
    model = load_model("llama-2-7b")
    few, many = (
        estimate(job(model, batch=64, sequence=4096, sharding="hsdp", fsdp_group=8), A100, dp=dp) for dp in (8, 64)
    )
    assert few.needed_bytes == many.needed_bytes


@pytest.mark.parametrize("sharding", ["fsdp", "zero3", "hsdp"])
def test_what_does_not_fit_names_the_smallest_degree_that_does(sharding: str) -> None:
    """70B at 16 bytes a parameter is 1.1 TB: more than eight GPUs of 80 GiB."""
    group = {"fsdp_group": 8} if sharding == "hsdp" else {}
    gradients = {"gradient_dtype": "bf16"} if sharding == "zero3" else {}
    settings = {"batch": 16, "sequence": 4096, "sharding": sharding, "recompute": "full", **group, **gradients}
    with pytest.raises(DoesNotFitError) as caught:
        require_fit(job(load_model("llama-2-70b"), **settings), A100, dp=8)
    hint = caught.value.problems[0].hint
    assert hint.endswith("= 16 GPUs")
    assert ("fsdp_group 2" in hint) == (sharding == "hsdp")
