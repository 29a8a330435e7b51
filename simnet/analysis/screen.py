"""Closed form of a training step: quick enough to rank thousands of layouts, judged by the engine afterwards.

A replica's pipeline is its slowest stage times the micro-batches, plus the bubble; collectives cost
their closed form on a healthy fabric, and what runs beside compute is exposed where it is longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from simnet.analysis.screen_bubble import StageTimes, bubble_s
from simnet.analysis.screen_chunks import ChunkExchanges, chunk_exchanges, combined, unit_times
from simnet.analysis.screen_network import ScreenNetwork, collective_s, group
from simnet.analysis.screen_sharded import Exposed, exposed_sharded
from simnet.spec.collectives import load_collectives
from simnet.spec.compute import KernelPreset
from simnet.spec.parts import GpuPart
from simnet.spec.workload import BatchSpec, OverlapSpec, ParallelismSpec, WorkloadSpec
from simnet.workload.checks import check_divides, check_shard_groups, num_micro_batches
from simnet.workload.comms import ChunkKind, received_bytes, send_bytes
from simnet.workload.kernels import optimizer_time
from simnet.workload.layout import Layout, pipeline_layout
from simnet.workload.passes import chunk_kind
from simnet.workload.plan import lateness
from simnet.workload.replicas import chunk_buckets, gather_comm, reduce_comm
from simnet.workload.shards import BF16_BYTES, gradient_bytes, stage_shard
from simnet.workload.transformer import require_dense
from simnet.workload.units import part_kinds

PASSES_PER_MICRO_BATCH = 2  # one forward, one backward


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEstimate:
    """Parts of a step [s]; they add up to *step_time_s*."""

    compute_s: float
    exposed_tp_s: float
    exposed_cp_s: float
    exposed_pp_s: float
    exposed_dp_s: float
    bubble_s: float
    optimizer_s: float
    floor_s: float
    """Roofline of the slowest stage, not part of the sum."""

    @property
    def step_time_s(self) -> float:
        """Time of one optimizer step [s]."""
        exposed = self.exposed_tp_s + self.exposed_cp_s + self.exposed_pp_s + self.exposed_dp_s
        return self.compute_s + exposed + self.bubble_s + self.optimizer_s


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pass:
    """Passes of chunks: compute and what communication exposes [s]."""

    compute_s: float
    tp_s: float
    cp_s: float

    @property
    def total_s(self) -> float:
        return self.compute_s + self.tp_s + self.cp_s


@dataclass(frozen=True, slots=True, kw_only=True)
class _Buckets:
    """Collectives back to back, one for each bucket of gradients or parameters."""

    first_s: float
    total_s: float
    count: int

    def after_window_s(self, window_s: float, *, is_overlapped: bool) -> float:
        """Return what remains of them, of which the first (or last) cannot hide [s]."""
        if not is_overlapped or not self.count:
            return self.total_s
        return max(self.first_s, self.total_s - window_s * (1 - 1 / self.count))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """What does not depend on kernels: chunks, replicated traffic and weights of a stage."""

    kinds: tuple[tuple[ChunkKind, int], ...]
    """Kinds of its chunks, and how many of each."""
    members: tuple[int, ...]
    """Stages of this kind, ascending; the first hides its replicated traffic behind the fewest passes."""
    reduces: _Buckets
    gathers: _Buckets
    parameters: float
    matrix_parameters: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A workload on a network, without its kernels."""

    layout: Layout
    micro_batches: int
    exchanges: tuple[tuple[ChunkKind, ChunkExchanges, ChunkExchanges], ...]
    """Kinds of chunk with what they exchange forward and backward."""
    stages: tuple[_Stage, ...]
    exposed_pp_s: float
    passing: WorkloadSpec
    """The workload without what a pass of a chunk does not depend on."""


def estimate_step(
    workload: WorkloadSpec, gpu: GpuPart, preset: KernelPreset, network: ScreenNetwork, *, dp: int
) -> StepEstimate:
    """Return the parts of a step of *workload* with *dp* replicas on a healthy fabric.

    Parameters
    ----------
    workload, gpu, preset
        The job, the GPU's datasheet and its kernel constants.
    network
        Scale-up domain and rates.
    dp
        Replicas.

    Raises
    ------
    LayoutError
        If layers, heads, sequence or batch do not divide.
    """
    job = _job(workload, dp, network)
    passes, floors_s, weights_s = _passes(gpu, preset, job)
    stages = [_added(stage, passes) for stage in job.stages]
    micro_batches = job.layout.chunk_micro_batches(job.micro_batches)
    slowest = max(stages, key=lambda item: item.total_s)
    jitter = 1 + lateness(preset, num_ranks=dp * workload.parallelism.replica_size)
    scale = micro_batches * jitter
    return StepEstimate(
        compute_s=scale * slowest.compute_s,
        exposed_tp_s=scale * slowest.tp_s,
        exposed_cp_s=scale * slowest.cp_s,
        exposed_pp_s=job.exposed_pp_s,
        exposed_dp_s=max(_exposed_dp_s(workload, job, passes, stage, preset, network, dp) for stage in job.stages),
        bubble_s=jitter
        * bubble_s(
            workload,
            [(_stage_times(workload, stage, passes, weights_s), len(stage.members)) for stage in job.stages],
            micro_batches=job.micro_batches,
        ),
        optimizer_s=max(
            optimizer_time(
                workload,
                preset,
                parameters=stage.parameters,
                replicas=dp * workload.parallelism.cp,
                matrix_parameters=stage.matrix_parameters,
            )
            for stage in job.stages
        ),
        floor_s=micro_batches * max(sum(floors_s[kind] * count for kind, count in stage.kinds) for stage in job.stages),
    )


def replicated_traffic_s(
    workload: WorkloadSpec, gpu: GpuPart, preset: KernelPreset, network: ScreenNetwork, *, dp: int
) -> tuple[float, ...]:
    """Return how long gradients and parameters of each stage move beside its passes, shape (pp,) [s].

    What the recipe does not overlap moves when no kernel runs.
    """
    job = _job(workload, dp, network)
    if workload.shards_parameters:
        passes, _, _ = _passes(gpu, preset, job)
        hidden_s = [_sharded(workload, job, passes, stage, network, dp).hidden_s for stage in job.stages]
    else:
        overlap = workload.overlap
        hidden_s = [
            overlap.dp_grad * stage.reduces.total_s + overlap.dp_param * stage.gathers.total_s for stage in job.stages
        ]
    of_stage = {index: one for one, stage in zip(hidden_s, job.stages, strict=True) for index in stage.members}
    return tuple(of_stage[index] for index in range(job.layout.num_stages))


def _passes(
    gpu: GpuPart, preset: KernelPreset, job: _Job
) -> tuple[dict[ChunkKind, tuple[_Pass, _Pass]], dict[ChunkKind, float], dict[ChunkKind, float]]:
    """Return forward and backward pass of every kind of chunk, the roofline of both, the gradients of weights [s]."""
    weights_s: dict[ChunkKind, float] = {}
    passes: dict[ChunkKind, tuple[_Pass, _Pass]] = {}
    floors_s: dict[ChunkKind, float] = {}
    units = unit_times(job.passing, gpu, preset)
    for kind, forward, backward in job.exchanges:
        forward_s, backward_s, floors_s[kind], weights_s[kind] = combined(kind, units)
        passes[kind] = (_pass(forward_s, forward), _pass(backward_s, backward))
    return passes, floors_s, weights_s


def _stage_times(
    workload: WorkloadSpec,
    stage: _Stage,
    passes: dict[ChunkKind, tuple[_Pass, _Pass]],
    weights_s: dict[ChunkKind, float],
) -> StageTimes:
    """Return what a micro-batch takes on a stage."""
    copies = workload.num_copies
    return StageTimes(
        forward_s=_total_s(stage, passes, 0) / copies,
        backward_s=_total_s(stage, passes, 1) / copies,
        weight_s=sum(weights_s[kind] * count for kind, count in stage.kinds) / copies,
    )


@lru_cache(maxsize=4096)
def _job(workload: WorkloadSpec, dp: int, network: ScreenNetwork) -> _Job:
    """Return layout and communication of a workload."""
    require_dense(workload.model)
    check_divides(workload)
    check_shard_groups(workload, dp=dp)
    layout = pipeline_layout(workload)
    micro_batches = num_micro_batches(workload, dp)
    stages = _stages(_holding(workload), layout, network, dp)
    kinds = dict.fromkeys(kind for stage in stages for kind, _ in stage.kinds)
    tp, cp = (group(workload, (axis,), dp, network) for axis in ("tp", "cp"))
    passing = _passing(workload)
    if workload.shards_parameters:
        kinds |= dict.fromkeys(part_kinds(layout))
    return _Job(
        layout=layout,
        micro_batches=micro_batches,
        exchanges=chunk_exchanges(passing, tp, cp, network, kinds),
        stages=stages,
        passing=passing,
        exposed_pp_s=_exposed_pp_s(workload, layout, network, micro_batches=micro_batches, dp=dp),
    )


def _passing(workload: WorkloadSpec) -> WorkloadSpec:
    """Return the workload without what kernels and exchanges of a chunk's pass do not depend on."""
    return workload.model_copy(
        update={
            "parallelism": _inside_stage(workload.parallelism),
            "batch": _one_micro_batch(workload.batch.micro_batch_size),
            "rank_order": "",
            "layout": "",
        }
    )


@lru_cache(maxsize=4096)
def _inside_stage(parallelism: ParallelismSpec) -> ParallelismSpec:
    """Return the degrees that act inside a stage, one object for equal ones."""
    outside = {"pp": 1, "virtual_stages": 1, "micro_batch_group_size": None, "dp": "auto"}
    return parallelism.model_copy(update=outside)


@lru_cache(maxsize=4096)
def _one_micro_batch(size: int) -> BatchSpec:
    """Return a batch of one micro-batch, one object for equal ones."""
    return BatchSpec(num_micro_batches=1, micro_batch_size=size)


def _pass(compute_s: float, exchanges: ChunkExchanges) -> _Pass:
    """Return one pass; what runs beside it is exposed where it outlasts the compute, each kind on its own stream."""
    return _Pass(
        compute_s=compute_s,
        tp_s=exchanges.tp_s + max(0.0, exchanges.tp_beside_s - compute_s),
        cp_s=exchanges.cp_s + max(0.0, exchanges.cp_beside_s - compute_s),
    )


def _added(stage: _Stage, passes: dict[ChunkKind, tuple[_Pass, _Pass]]) -> _Pass:
    """Return both passes of all chunks of a stage in one."""
    each = [(item, count) for kind, count in stage.kinds for item in passes[kind]]
    return _Pass(
        compute_s=sum(item.compute_s * count for item, count in each),
        tp_s=sum(item.tp_s * count for item, count in each),
        cp_s=sum(item.cp_s * count for item, count in each),
    )


def _total_s(stage: _Stage, passes: dict[ChunkKind, tuple[_Pass, _Pass]], way: int) -> float:
    """Return the time of all chunks of a stage, forward (*way* 0) or backward (1) [s]."""
    return sum(passes[kind][way].total_s * count for kind, count in stage.kinds)


_ONE_BATCH, _OVERLAP = BatchSpec(num_micro_batches=1), OverlapSpec()


def _holding(workload: WorkloadSpec) -> WorkloadSpec:
    """Return the workload without what stages do not depend on, so that the candidates of a search share them."""
    return workload.model_copy(
        update={"batch": _ONE_BATCH, "overlap": _OVERLAP, "recompute": "none", "context_parallel": "ring"}
    )


@lru_cache(maxsize=4096)
def _stages(workload: WorkloadSpec, layout: Layout, network: ScreenNetwork, dp: int) -> tuple[_Stage, ...]:
    """Return the kinds of stage; the first has a kind of its own, since its first chunk has more buckets."""
    members: dict[tuple[object, ...], list[int]] = {}
    for stage in range(layout.num_stages):
        members.setdefault((layout.layers[stage], stage == 0, stage == layout.num_stages - 1), []).append(stage)
    return tuple(_stage(workload, layout, network, tuple(alike), dp=dp) for alike in members.values())


def _stage(
    workload: WorkloadSpec, layout: Layout, network: ScreenNetwork, members: tuple[int, ...], *, dp: int
) -> _Stage:
    """Return chunks, weights and replicated traffic of one stage."""
    replicas, stage = dp * workload.parallelism.cp, members[0]
    ring = group(workload, ("cp", "dp"), dp, network)
    reduces: list[float] = []
    gathers: list[float] = []
    alike: dict[ChunkKind, list[int]] = {}
    for chunk in range(layout.num_chunks):
        alike.setdefault(chunk_kind(layout, stage, chunk), []).append(chunk)
    for chunks in alike.values() if replicas > 1 and not workload.shards_parameters else ():
        for bucket in chunk_buckets(workload, layout, stage, chunks[0], replicas=replicas):
            comm = reduce_comm(workload, bucket, stage=stage, name="")
            reduces += [collective_s(comm.op, comm.size_bytes, ring, network)] * len(chunks)
            if workload.sharding == "zero1":
                comm = gather_comm(workload, bucket, stage=stage, name="")
                gathers += [collective_s(comm.op, comm.size_bytes, ring, network)] * len(chunks)
    held = stage_shard(workload, layout, stage)
    return _Stage(
        kinds=tuple((kind, len(chunks)) for kind, chunks in alike.items()),
        members=members,
        reduces=_buckets(reduces),
        gathers=_buckets(gathers),
        parameters=held.parameters,
        matrix_parameters=held.matrices,
    )


def _buckets(costs_s: list[float]) -> _Buckets:
    return _Buckets(first_s=costs_s[0] if costs_s else 0.0, total_s=sum(costs_s), count=len(costs_s))


def _exposed_pp_s(
    workload: WorkloadSpec, layout: Layout, network: ScreenNetwork, *, micro_batches: int, dp: int
) -> float:
    """Return what pipeline sends add: every hop while the pipeline fills and drains, and all if not overlapped."""
    if layout.num_stages == 1:
        return 0.0
    send_s = _send_s(workload, network, send_bytes(workload), dp=dp)
    # A scattered message is gathered before the pass that needs it, however well the send itself is hidden.
    gather_s = collective_s("all_gather", received_bytes(workload), group(workload, ("tp",), dp, network), network)
    passes = PASSES_PER_MICRO_BATCH * layout.chunk_micro_batches(micro_batches) * layout.num_chunks
    ramp_s = PASSES_PER_MICRO_BATCH * (layout.num_stages - 1) * (send_s + gather_s)
    return ramp_s + passes * (gather_s if workload.overlap.pp else send_s + gather_s)


def _send_s(workload: WorkloadSpec, network: ScreenNetwork, size_bytes: float, *, dp: int) -> float:
    """Return the time of a message from each rank of a stage to one of another stage [s]."""
    ring = group(workload, ("pp",), dp, network)
    is_inside = ring.num_nodes == 1
    constants = load_collectives(network.generation)
    latency = constants.latency
    hop_s = latency.ring_base.si("simple") + (latency.ring_nvlink_hop if is_inside else latency.ring_network_hop).si(
        "simple"
    )
    efficiency = constants.gpu.link_efficiency
    rate = (
        network.nvlink_bytes_per_s * efficiency.nvlink.si
        if is_inside
        else network.nic_bytes_per_s * efficiency.network.si
    )
    return hop_s + size_bytes / rate


def _exposed_dp_s(
    workload: WorkloadSpec,
    job: _Job,
    passes: dict[ChunkKind, tuple[_Pass, _Pass]],
    stage: _Stage,
    preset: KernelPreset,
    network: ScreenNetwork,
    dp: int,
) -> float:
    """Return what gradients and parameters of *stage* add [s].

    The last and first bucket, what windows cannot hide, and what the hidden part takes from compute.
    """
    if workload.shards_parameters:
        sharded = _sharded(workload, job, passes, stage, network, dp)
        return sharded.exposed_s + preset.contention_share_dp * sharded.hidden_s
    if not stage.reduces.count:
        return _copies_s(workload, stage, network, dp)
    num_stages, num_chunks = job.layout.num_stages, job.layout.num_chunks
    # Interleaved stages run groups of micro-batches through one chunk after the other.
    is_loop = job.layout.placement == "loop"
    batch = min(job.micro_batches, num_stages) if num_chunks > 1 and is_loop else 1
    forward_s, backward_s = _total_s(stage, passes, 0), _total_s(stage, passes, 1)
    # Stages drain one pass apart, so a later one's reduction hides behind the first one's last passes, but for
    # schedules that fill that time.
    lag_s = 0.0 if workload.splits_backward else stage.members[0] * backward_s / num_chunks
    reduce_s = stage.reduces.after_window_s(batch * backward_s, is_overlapped=workload.overlap.dp_grad)
    gather_s = stage.gathers.after_window_s(batch * forward_s, is_overlapped=workload.overlap.dp_param)
    hidden_s = stage.reduces.total_s - reduce_s + stage.gathers.total_s - gather_s
    exposed_s = max(0.0, reduce_s - lag_s) + max(0.0, gather_s - lag_s)
    exposed_s += _copies_s(workload, stage, network, dp)
    return exposed_s + preset.contention_share_dp * hidden_s


def _copies_s(workload: WorkloadSpec, stage: _Stage, network: ScreenNetwork, dp: int) -> float:
    """Return what a stage and its mirror image exchange of gradients and parameters, where there are two copies [s]."""
    if workload.num_copies == 1:
        return 0.0
    split = dp * workload.parallelism.cp * workload.num_copies
    sizes = (stage.parameters * gradient_bytes(workload) / split, stage.parameters * BF16_BYTES / split)
    return sum(_send_s(workload, network, size_bytes, dp=dp) for size_bytes in sizes)


def _sharded(
    workload: WorkloadSpec,
    job: _Job,
    passes: dict[ChunkKind, tuple[_Pass, _Pass]],
    stage: _Stage,
    network: ScreenNetwork,
    dp: int,
) -> Exposed:
    def times(kind: ChunkKind) -> tuple[float, float]:
        forward, backward = passes[kind]
        return forward.total_s, backward.total_s

    return exposed_sharded(
        workload, job.layout, network, stage.members[0], times, dp=dp, micro_batches=job.micro_batches
    )
