from __future__ import annotations

from collections import Counter

import pytest

from simnet.spec.load import load_model
from simnet.spec.workload import LayoutSpec, OverlapSpec, WorkloadSpec
from simnet.workload.kernels import ChunkTimes
from simnet.workload.layout import pipeline_layout
from simnet.workload.plan import Category, Comm, Compute, Start, StepPlan, Wait, assemble, chunk_kinds
from tests.unit.workload.jobs import gpt, job, record_job

LAYER_S = 1e-3
MIB = 2**20


def plan(workload: WorkloadSpec, *, dp: int = 1) -> StepPlan:
    """The step with one unit of time a layer forward and two backward."""
    times = {
        kind: ChunkTimes(
            forward_s=LAYER_S * kind.layers,
            backward_s=2 * LAYER_S * kind.layers,
            forward_floor_s=LAYER_S * kind.layers / 2,
            backward_floor_s=LAYER_S * kind.layers,
            forward_attention_s=0,
            backward_attention_s=0,
        )
        for kind in chunk_kinds(pipeline_layout(workload))
    }
    return assemble(workload, dp=dp, times=times, optimizer_s=(LAYER_S,) * workload.parallelism.pp)


def text(step: StepPlan, stage: int = 0) -> list[str]:
    """Operations of a stage as short words."""
    words = []
    for op in step.ops[stage]:
        if isinstance(op, Compute):
            words.append(f"{op.label}{op.micro_batch}.{op.chunk}" if op.micro_batch >= 0 else op.label)
        else:
            words.append(f"{type(op).__name__.lower()} {step.comms[op.comm].name}")
    return words


def comms(step: StepPlan, category: Category, stage: int = 0) -> list[Comm]:
    return [comm for comm in step.comms if comm.category is category and comm.stage == stage]


def test_one_gpu_computes_and_sends_nothing() -> None:
    step = plan(job(gpt(layers=2, hidden=1024, heads=16), batch=2))
    assert step.comms == ()
    assert text(step) == ["F0.0", "B0.0", "F1.0", "B1.0", "optimizer"]
    assert step.tokens_per_step == 2 * 2048


def test_every_start_has_its_waits_and_every_instance_is_used_once() -> None:
    step = plan(record_job(batch=39 * 8), dp=39)
    starts: Counter[tuple[int, int]] = Counter()
    waits: Counter[tuple[int, int]] = Counter()
    for stage, ops in enumerate(step.ops):
        started: set[tuple[int, int]] = set()
        for op in ops:
            if isinstance(op, Start):
                assert step.comms[op.comm].stage == stage
                starts[op.comm, op.instance] += 1
                started.add((op.comm, op.instance))
            elif isinstance(op, Wait):
                comm = step.comms[op.comm]
                waits[op.comm, op.instance] += 1
                assert comm.peer_stage == stage
                assert comm.op == "send" or (op.comm, op.instance) in started
    assert starts == waits
    assert set(starts.values()) == {1}


def test_sends_carry_the_residual_shard_and_pair_up_round_the_ring_of_stages() -> None:
    step = plan(record_job(batch=39 * 8), dp=39)
    sends = comms(step, Category.PP, stage=7)
    # 8,192 / 2 tokens of 16,384 in 16 bit over four tensor-parallel ranks.
    assert {comm.size_bytes for comm in sends} == {4096 * 16384 * 2 / 4}
    assert {(comm.name, comm.peer_stage) for comm in sends} == {("F to stage 0", 0), ("B to stage 6", 6)}


def test_without_sequence_parallelism_a_message_is_scattered_and_gathered_behind_the_wire() -> None:
    # Narayanan, arXiv:2104.04473, section 4.1: each rank sends 1/t of 2048 x 1024 elements of 2 bytes.
    model = gpt(layers=4, hidden=1024, heads=16)
    step = plan(job(model, pp=2, tp=2, sequence_parallel=False))
    whole = 2048 * 1024 * 2
    send, gather = (
        next(comm for comm in comms(step, Category.PP, stage=stage) if comm.op == op and comm.name.startswith("F"))
        for stage, op in ((0, "send"), (1, "all_gather"))
    )
    assert send.size_bytes == whole / 2
    assert (gather.size_bytes, gather.axes) == (whole, ("tp",))
    waits = [step.comms[op.comm].name for op in step.ops[1] if isinstance(op, Wait)]
    assert waits.index(send.name) + 1 == waits.index(gather.name)


def test_nothing_is_gathered_where_each_rank_holds_all_or_its_own_share() -> None:
    model = gpt(layers=4, hidden=1024, heads=16)
    for changes in ({"tp": 1, "sequence_parallel": False}, {"tp": 2}, {"tp": 2, "pp": 1, "sequence_parallel": False}):
        step = plan(job(model, **{"pp": 2, **changes}))
        assert not [comm for comm in step.comms if comm.category is Category.PP and comm.op == "all_gather"]


def test_sends_that_do_not_overlap_hold_the_sender() -> None:
    model = gpt(layers=2, hidden=1024, heads=16)
    step = plan(job(model, pp=2, batch=2, overlap=OverlapSpec(pp=False)))
    assert text(step, 0)[:3] == ["F0.0", "start F to stage 1", "wait F to stage 1"]


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_tensor_parallel_volume_with_sequence_parallelism(precision: str) -> None:
    # Korthikanti: two gathers and two scatters forward; the same backward and two more gathers, of s b h each.
    # An 8-bit recipe gathers operands of one byte.
    model = load_model("llama-3-8b")
    layout = LayoutSpec(layers_per_chunk=(1, 30, 1))
    step = plan(job(model, tp=8, pp=3, precision=precision, layout=layout), dp=1)
    stream = 2048 * 4096
    operand = 2 if precision == "bf16" else 1
    volume = {comm.name: (comm.size_bytes, comm.repeats) for comm in comms(step, Category.TP, stage=1)}
    assert volume == {
        "tp all_gather before F 30": (60 * stream * operand, 60),
        "tp reduce_scatter after F 30": (60 * stream * 2, 60),
        "tp all_gather before B 30": (60 * stream * operand, 60),
        "tp all_gather beside B 30": (60 * stream * operand, 60),
        "tp reduce_scatter beside B 30": (60 * stream * 2, 60),
    }


def test_tensor_parallelism_alone_reduces_twice_each_way() -> None:
    layout = LayoutSpec(layers_per_chunk=(1, 30, 1))
    step = plan(job(load_model("llama-3-8b"), tp=8, pp=3, layout=layout, sequence_parallel=False))
    found = {(comm.op, comm.size_bytes, comm.repeats) for comm in comms(step, Category.TP, stage=1)}
    assert found == {("all_reduce", 60 * 2048 * 4096 * 2, 60)}


def test_user_buffers_expose_one_piece_in_tp_and_keep_the_volume() -> None:
    model = load_model("llama-3-8b")
    layout = LayoutSpec(layers_per_chunk=(1, 30, 1))
    plain = comms(plan(job(model, tp=8, pp=3, layout=layout)), Category.TP, stage=1)
    split = comms(plan(job(model, tp=8, pp=3, layout=layout, overlap=OverlapSpec(tp=True))), Category.TP, stage=1)
    assert sum(comm.size_bytes for comm in split) == pytest.approx(sum(comm.size_bytes for comm in plain))
    serial = sum(comm.size_bytes for comm in plain if "beside" not in comm.name)
    assert sum(comm.size_bytes for comm in split if "beside" not in comm.name) == pytest.approx(serial / 8)
    assert {comm.algorithm for comm in split} == {"ring"}


def test_what_overlaps_starts_before_its_compute_and_is_waited_for_after() -> None:
    words = text(plan(record_job(batch=39 * 8), dp=39), 1)
    begin = words.index("start tp all_gather beside F 2")
    assert words[begin : begin + 10] == [
        "start tp all_gather beside F 2",
        "start cp all_gather beside F 2",
        "wait parameters 0.0",
        "start parameters 1.0",
        "F0.0",
        "wait tp all_gather beside F 2",
        "wait cp all_gather beside F 2",
        "start tp all_gather after F 2",
        "wait tp all_gather after F 2",
        "start F to stage 2",
    ]


def test_ring_attention_moves_keys_and_values_beside_compute() -> None:
    step = plan(record_job(batch=39 * 8), dp=39)
    found = {comm.name: (comm.size_bytes, comm.repeats) for comm in comms(step, Category.CP, stage=1)}
    # Keys and values of two of the eight heads of 128, 8,192 tokens, 16 bit; backward their gradients too.
    layer = 2 * 2 * 128 * 8192 * 2
    assert found == {"cp all_gather beside F 2": (2 * layer, 2), "cp all_gather beside B 2": (4 * layer, 4)}


def test_gathered_keys_and_values_hold_attention_up() -> None:
    step = plan(job(load_model("llama-3-8b"), cp=2, context_parallel="all_gather"))
    layer = 2 * 1024 * 2048 * 2
    found = {(comm.op, comm.name): comm.size_bytes for comm in comms(step, Category.CP)}
    assert found == {
        ("all_gather", "cp all_gather before F 32el"): 32 * layer,
        ("all_gather", "cp all_gather before B 32el"): 32 * layer,
        ("reduce_scatter", "cp reduce_scatter after B 32el"): 32 * layer,
    }


def test_gradients_leave_chunk_by_chunk_as_they_complete_and_parameters_come_in_forward_order() -> None:
    words = text(plan(record_job(batch=39 * 8), dp=39), 3)
    gradients = [word for word in words if word.startswith("start gradients")]
    assert gradients == [f"start gradients {chunk}.0" for chunk in range(7, -1, -1)]
    parameters = [word for word in words if word.startswith("start parameters")]
    assert parameters == [f"start parameters {chunk}.0" for chunk in range(8)]
    assert words[0] == "start parameters 0.0"
    last = max(place for place, word in enumerate(words) if word.startswith("B"))
    assert words.index("start gradients 1.0") < last < words.index("wait gradients 7.0")
    assert words[-3:] == ["start gradient norm", "wait gradient norm", "optimizer"]


def test_replica_traffic_is_all_parameters_of_the_stage() -> None:
    step = plan(record_job(batch=39 * 8), dp=39)
    traffic = comms(step, Category.DP, stage=3)
    # 16 layers of 3.19 billion weights over four ranks: bf16 gradients, weights gathered in one byte.
    matrices = 16 * (2 * 16384**2 + 2 * 16384 * 1024 + 3 * 16384 * 53248) / 4
    norms = 16 * 2 * 16384
    total = {op: sum(comm.size_bytes for comm in traffic if comm.op == op) for op in ("all_gather", "reduce_scatter")}
    assert total == {"all_gather": matrices + 2 * norms, "reduce_scatter": 2 * (matrices + norms)}
    assert {comm.axes for comm in traffic if comm.op != "all_reduce"} == {("cp", "dp")}


def test_embedding_travels_with_the_first_stage_and_the_head_with_the_last() -> None:
    step = plan(job(load_model("llama-3-70b"), pp=4, batch=16), dp=2)
    sizes = [sum(c.size_bytes for c in comms(step, Category.DP, s) if c.op == "reduce_scatter") for s in range(4)]
    assert sizes[0] - sizes[1] == 4 * 128256 * 8192
    assert sizes[3] - sizes[2] == 4 * (128256 * 8192 + 8192)


def test_without_overlap_replica_traffic_stands_at_both_ends() -> None:
    overlap = OverlapSpec(dp_grad=False, dp_param=False)
    words = text(plan(job(load_model("llama-3-8b"), batch=4, overlap=overlap), dp=2))
    assert words[:2] == ["start parameters", "wait parameters"]
    assert words[-5:] == [
        "start gradients",
        "wait gradients",
        "start gradient norm",
        "wait gradient norm",
        "optimizer",
    ]


def test_plain_data_parallelism_reduces_to_all_and_gathers_nothing() -> None:
    step = plan(job(load_model("llama-3-8b"), batch=4, sharding="none"), dp=2)
    assert {comm.op for comm in comms(step, Category.DP)} == {"all_reduce"}


def test_first_chunk_is_reduced_in_buckets_beside_its_last_backward_pass() -> None:
    workload = job(load_model("llama-3-8b"), batch=4, dp_bucket_parameters=2_000_000_000)
    step = plan(workload, dp=2)
    # 8.03 billion parameters in buckets of two billion: five, of 7, 7, 6, 6 and 6 layers.
    gradients = [comm for comm in comms(step, Category.DP) if comm.op == "reduce_scatter"]
    assert len(gradients) == 5
    assert sum(comm.size_bytes for comm in gradients) == pytest.approx(4 * 8.03e9, rel=0.001)
    words = text(step)
    order = [word for word in words if word.startswith(("B1.0", "start gradients"))]
    assert order == [item for part in range(4, -1, -1) for item in ("B1.0", f"start gradients 0.{part}")]
    pieces = [op.duration_s for op in step.ops[0] if isinstance(op, Compute) and (op.label, op.micro_batch) == ("B", 1)]
    assert pieces == pytest.approx([2 * LAYER_S * layers for layers in (6, 6, 6, 7, 7)])


def test_pieces_of_a_pass_add_up_to_it() -> None:
    step = plan(job(load_model("llama-3-8b"), batch=4), dp=2)
    total = sum(op.duration_s for op in step.ops[0] if isinstance(op, Compute))
    assert total == pytest.approx(2 * 32 * 3 * LAYER_S + LAYER_S)


def test_tied_table_is_exchanged_between_first_and_last_stage() -> None:
    model = gpt(layers=4, hidden=1024, heads=16)
    step = plan(job(model, pp=4, batch=4))
    tied = [comm for comm in step.comms if comm.name == "tied embedding"]
    assert [(comm.stage, comm.peer_stage) for comm in tied] == [(0, 3), (3, 0)]
    assert {comm.size_bytes for comm in tied} == {51200 * 1024 * 4}


def test_full_recomputation_repeats_the_forward_collectives() -> None:
    model, layout = load_model("llama-3-8b"), LayoutSpec(layers_per_chunk=(1, 30, 1))
    once, twice = (plan(job(model, tp=8, pp=3, layout=layout, recompute=how)) for how in ("none", "full"))

    def backward_bytes(step: StepPlan) -> float:
        return sum(comm.size_bytes for comm in comms(step, Category.TP, stage=1) if " B " in comm.name)

    forward = 60 * 2048 * 4096 * 4
    assert backward_bytes(twice) - backward_bytes(once) == forward
    assert twice.hardware_flops > twice.model_flops == once.hardware_flops


def test_floor_is_the_roofline_of_all_micro_batches() -> None:
    step = plan(record_job(batch=39 * 8), dp=39)
    assert step.compute_floor_s[:2] == pytest.approx([8 * 15 * 1.5 * LAYER_S, 8 * 16 * 1.5 * LAYER_S])


def test_record_step_is_compact() -> None:
    step = plan(record_job(), dp=39)
    assert len(step.comms) < 250
    assert sum(len(ops) for ops in step.ops) < 40_000
