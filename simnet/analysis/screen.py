"""Closed form of a training step: quick enough to rank thousands of layouts, judged by the engine afterwards.

A replica's pipeline is its slowest stage times the micro-batches, plus the bubble; collectives cost
their closed form on a healthy fabric, and what runs beside compute is exposed where it is longer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from simnet.collectives.choice import choose
from simnet.collectives.cost import time_s
from simnet.collectives.machine import Machine
from simnet.spec.collectives import load_collectives
from simnet.spec.compute import KernelPreset
from simnet.spec.parts import GpuPart
from simnet.spec.workload import WorkloadSpec
from simnet.workload.checks import check_divides, num_micro_batches
from simnet.workload.comms import ChunkKind, pass_exchanges, send_bytes
from simnet.workload.kernels import chunk_times, optimizer_time
from simnet.workload.layout import Layout, pipeline_layout
from simnet.workload.ops import Category
from simnet.workload.passes import chunk_kind
from simnet.workload.replicas import chunk_buckets, gather_comm, reduce_comm
from simnet.workload.shards import stage_shard
from simnet.workload.transformer import require_dense

PASSES_PER_MICRO_BATCH = 2  # one forward, one backward


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenNetwork:
    """What the closed form knows of a fabric: a scale-up domain and one NIC rate for each GPU."""

    scale_up_domain: int
    """GPUs that NVLink joins and the job uses."""
    nvlink_bytes_per_s: float
    """NVLink wire rate of one GPU and direction."""
    nic_bytes_per_s: float
    """NIC wire rate for each GPU and direction."""
    generation: str
    """GPU generation, for the constants of collectives."""


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
    """One pass of a chunk: compute and what communication exposes [s]."""

    compute_s: float
    tp_s: float
    cp_s: float

    @property
    def total_s(self) -> float:
        return self.compute_s + self.tp_s + self.cp_s


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
    require_dense(workload.model)
    check_divides(workload)
    layout = pipeline_layout(workload)
    micro_batches = num_micro_batches(workload, dp)
    passes = {
        (kind, is_backward): _pass(workload, gpu, preset, network, kind, dp=dp, is_backward=is_backward)
        for kind in _kinds(layout)
        for is_backward in (False, True)
    }
    stages = [_stage(layout, passes, stage) for stage in range(layout.num_stages)]
    slowest = max(stages, key=lambda item: item.total_s)
    jitter = 1 + preset.jitter * math.sqrt(2 * math.log(max(2, dp * _replica_size(workload))))
    bubble_s = _bubble_s(layout, [stage.total_s for stage in stages]) * jitter
    floor_s = micro_batches * max(_floor_s(layout, workload, gpu, preset, stage) for stage in range(layout.num_stages))
    return StepEstimate(
        compute_s=micro_batches * slowest.compute_s * jitter,
        exposed_tp_s=micro_batches * slowest.tp_s * jitter,
        exposed_cp_s=micro_batches * slowest.cp_s * jitter,
        exposed_pp_s=_exposed_pp_s(workload, layout, network, micro_batches=micro_batches, dp=dp),
        exposed_dp_s=max(
            _exposed_dp_s(workload, layout, network, passes, stage, dp=dp, micro_batches=micro_batches)
            for stage in range(layout.num_stages)
        ),
        bubble_s=bubble_s,
        optimizer_s=max(_optimizer_s(workload, layout, preset, stage, dp=dp) for stage in range(layout.num_stages)),
        floor_s=floor_s,
    )


def _replica_size(workload: WorkloadSpec) -> int:
    degrees = workload.parallelism
    return degrees.tp * degrees.cp * degrees.pp


def _kinds(layout: Layout) -> tuple[ChunkKind, ...]:
    chunks = range(layout.num_chunks)
    return tuple({chunk_kind(layout, stage, chunk): None for stage in range(layout.num_stages) for chunk in chunks})


def _pass(
    workload: WorkloadSpec,
    gpu: GpuPart,
    preset: KernelPreset,
    network: ScreenNetwork,
    kind: ChunkKind,
    *,
    dp: int,
    is_backward: bool,
) -> _Pass:
    """Return one pass of a chunk; collectives beside it are exposed where they outlast the compute."""
    times = chunk_times(
        workload.model,
        workload,
        gpu,
        preset,
        layers=kind.layers,
        has_embedding=kind.has_embedding,
        has_loss=kind.has_loss,
    )
    compute_s = times.backward_s if is_backward else times.forward_s
    exposed = {Category.TP: 0.0, Category.CP: 0.0}
    beside = {Category.TP: 0.0, Category.CP: 0.0}
    for item in pass_exchanges(workload, kind, is_backward=is_backward):
        axes = ("tp",) if item.category is Category.TP else ("cp",)
        cost_s = item.count * _collective_s(
            item.op, item.size_bytes / item.count, _group(workload, axes, dp, network), network
        )
        (beside if item.position == "beside" else exposed)[item.category] += cost_s
    # Tensor- and context-parallel collectives run on streams of their own.
    return _Pass(
        compute_s=compute_s,
        tp_s=exposed[Category.TP] + max(0.0, beside[Category.TP] - compute_s),
        cp_s=exposed[Category.CP] + max(0.0, beside[Category.CP] - compute_s),
    )


def _stage(layout: Layout, passes: dict[tuple[ChunkKind, bool], _Pass], stage: int) -> _Pass:
    """Return the passes of one micro-batch through all chunks of *stage* together."""
    found = [
        passes[chunk_kind(layout, stage, chunk), is_backward]
        for chunk in range(layout.num_chunks)
        for is_backward in (False, True)
    ]
    return _Pass(
        compute_s=sum(item.compute_s for item in found),
        tp_s=sum(item.tp_s for item in found),
        cp_s=sum(item.cp_s for item in found),
    )


def _floor_s(layout: Layout, workload: WorkloadSpec, gpu: GpuPart, preset: KernelPreset, stage: int) -> float:
    """Return the roofline of one micro-batch on *stage* [s]."""
    total = 0.0
    for chunk in range(layout.num_chunks):
        kind = chunk_kind(layout, stage, chunk)
        times = chunk_times(
            workload.model,
            workload,
            gpu,
            preset,
            layers=kind.layers,
            has_embedding=kind.has_embedding,
            has_loss=kind.has_loss,
        )
        total += times.forward_floor_s + times.backward_floor_s
    return total


def _bubble_s(layout: Layout, stages: list[float]) -> float:
    """Return what the slowest stage waits: one pass of a chunk on every other stage.

    (p-1)(tf+tb)/v with equal stages (Narayanan, arXiv:2104.04473, section 2.2).
    """
    return (sum(stages) - max(stages)) / layout.num_chunks


def _exposed_pp_s(
    workload: WorkloadSpec, layout: Layout, network: ScreenNetwork, *, micro_batches: int, dp: int
) -> float:
    """Return what pipeline sends add: every hop while the pipeline fills and drains, and all if not overlapped."""
    if layout.num_stages == 1:
        return 0.0
    group = _group(workload, ("pp",), dp, network)
    is_inside = group.num_nodes == 1
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
    send_s = hop_s + send_bytes(workload) / rate
    ramp_s = PASSES_PER_MICRO_BATCH * (layout.num_stages - 1) * send_s
    if workload.overlap.pp:
        return ramp_s
    return ramp_s + PASSES_PER_MICRO_BATCH * micro_batches * layout.num_chunks * send_s


def _exposed_dp_s(
    workload: WorkloadSpec,
    layout: Layout,
    network: ScreenNetwork,
    passes: dict[tuple[ChunkKind, bool], _Pass],
    stage: int,
    *,
    dp: int,
    micro_batches: int,
) -> float:
    """Return what gradients and parameters of *stage* add: the last and first bucket, and what windows cannot hide."""
    replicas = dp * workload.parallelism.cp
    if replicas == 1:
        return 0.0
    group = _group(workload, ("cp", "dp"), dp, network)
    reduces: list[float] = []
    gathers: list[float] = []
    for chunk in range(layout.num_chunks):
        for bucket in chunk_buckets(workload, layout, stage, chunk, replicas=replicas):
            comm = reduce_comm(workload, bucket, stage=stage, name="")
            reduces.append(_collective_s(comm.op, comm.size_bytes, group, network))
            if workload.sharding == "zero1":
                comm = gather_comm(workload, bucket, stage=stage, name="")
                gathers.append(_collective_s(comm.op, comm.size_bytes, group, network))
    windows = _windows_s(layout, passes, stage, micro_batches)
    # Stages drain one pass apart, so the last one's reduction hides behind the first one's last passes.
    lag_s = stage * windows[1] / max(1, layout.num_chunks * min(micro_batches, layout.num_stages))
    reduce_s = _after_window(reduces, windows[1], is_overlapped=workload.overlap.dp_grad)
    gather_s = _after_window(gathers, windows[0], is_overlapped=workload.overlap.dp_param)
    return max(0.0, reduce_s - lag_s) + max(0.0, gather_s - lag_s)


def _windows_s(
    layout: Layout, passes: dict[tuple[ChunkKind, bool], _Pass], stage: int, micro_batches: int
) -> tuple[float, float]:
    """Return the time of the first forward and of the last backward passes of all chunks of *stage*."""
    group = min(micro_batches, layout.num_stages) if layout.num_chunks > 1 else 1
    kinds = [chunk_kind(layout, stage, chunk) for chunk in range(layout.num_chunks)]
    forward = group * sum(passes[kind, False].total_s for kind in kinds)
    backward = group * sum(passes[kind, True].total_s for kind in kinds)
    return forward, backward


def _after_window(costs: list[float], window_s: float, *, is_overlapped: bool) -> float:
    """Return what remains of back-to-back collectives of which the first (or last) cannot hide."""
    total = sum(costs)
    if not is_overlapped or not costs:
        return total
    hidden = window_s * (1 - 1 / len(costs))
    return max(costs[0], total - hidden)


def _optimizer_s(workload: WorkloadSpec, layout: Layout, preset: KernelPreset, stage: int, *, dp: int) -> float:
    held = stage_shard(workload, layout, stage)
    return optimizer_time(
        workload,
        preset,
        parameters=held.parameters,
        replicas=dp * workload.parallelism.cp,
        matrix_parameters=held.matrices,
    )


def _group(workload: WorkloadSpec, axes: tuple[str, ...], dp: int, network: ScreenNetwork) -> Machine:
    """Return the communicator of rank 0 along *axes*, ranks numbered in the rank order."""
    degrees = workload.parallelism
    sizes = {"tp": degrees.tp, "cp": degrees.cp, "pp": degrees.pp, "dp": dp}
    order = tuple((axis, sizes[axis]) for axis in workload.rank_order.split("-"))
    return _machine(order, axes, network)


@lru_cache(maxsize=65536)
def _machine(order: tuple[tuple[str, int], ...], axes: tuple[str, ...], network: ScreenNetwork) -> Machine:
    offsets = [0]
    stride = 1
    for axis, size in order:
        if axis in axes:
            offsets = [base + index * stride for index in range(size) for base in offsets]
        stride *= size
    domains: dict[int, int] = {}
    for offset in offsets:
        domain = offset // network.scale_up_domain
        domains[domain] = domains.get(domain, 0) + 1
    num_nodes = len(domains)
    local = max(domains.values())
    return Machine(
        num_ranks=len(offsets),
        num_nodes=num_nodes,
        num_heads=local if num_nodes > 1 else 0,
        max_local=local,
        min_local=min(domains.values()),
        nvlink_bytes_per_s=network.nvlink_bytes_per_s if local > 1 else math.inf,
        nic_bytes_per_s=network.nic_bytes_per_s if num_nodes > 1 else math.inf,
    )


@lru_cache(maxsize=65536)
def _collective_s(op: str, size_bytes: float, machine: Machine, network: ScreenNetwork) -> float:
    """Return the closed-form time of a collective with NCCL's choice of algorithm [s]."""
    if machine.num_ranks == 1 or size_bytes == 0:
        return 0.0
    constants = load_collectives(network.generation)
    choice = choose(op, machine, size_bytes, constants)
    return float(time_s(op, choice.algorithm, choice.protocol, machine, size_bytes, constants))
