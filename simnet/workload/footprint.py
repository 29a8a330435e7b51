"""Memory of each pipeline stage by class."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from simnet.spec.parts import GpuPart
from simnet.spec.workload import WorkloadSpec
from simnet.workload.activations import (
    embedding_activation_bytes,
    layer_activation_bytes,
    loss_activation_bytes,
    working_bytes,
)
from simnet.workload.checks import num_micro_batches
from simnet.workload.layout import Layout, pipeline_layout
from simnet.workload.pass_list import peak_in_flight
from simnet.workload.schedule import schedule
from simnet.workload.shards import (
    BF16_BYTES,
    FP32_BYTES,
    OPERAND_BYTES,
    Shard,
    gradient_bytes,
    is_quantised,
    stage_shard,
    state_split,
)
from simnet.workload.unsharded import unsharded_bytes

ADAM_STATES = 2
"""First and second moment, each in fp32 beside the fp32 master weight."""
GROUPS_TO_STEADY = 3
"""After so many groups of pp micro-batches every schedule repeats itself, so its peak has been seen."""
RUNTIME_BYTES = 3e9
"""CUDA context, cuBLAS workspace and NCCL's buffers of several communicators: an assumption (0.5 + 0.1 + 2 GB and
more on Hopper systems), outside what PyTorch counts as allocated, so not part of the stages' figures [bytes]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageMemory:
    """Peak memory of a rank of one stage by class [bytes]."""

    stage: int
    weights_bytes: float
    gradients_bytes: float
    optimizer_bytes: float
    activations_bytes: float
    buffers_bytes: float
    """What a layer needs while it runs: gathered input, full output, gradient of the widest product; and the units of
    sharded parameters that are whole at a time."""

    @property
    def classes(self) -> dict[str, float]:
        """Bytes by class."""
        return {
            "weights": self.weights_bytes,
            "gradients": self.gradients_bytes,
            "optimizer": self.optimizer_bytes,
            "activations": self.activations_bytes,
            "buffers": self.buffers_bytes,
        }

    @property
    def total_bytes(self) -> float:
        """All classes together, what PyTorch reports as allocated at most."""
        return sum(self.classes.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """Memory of a job on one kind of GPU."""

    stages: tuple[StageMemory, ...]
    limit_bytes: float
    """Memory of the GPU."""
    runtime_bytes: float
    """What CUDA and NCCL take beside the job."""

    @property
    def peak(self) -> StageMemory:
        """The fullest stage."""
        return max(self.stages, key=lambda stage: stage.total_bytes)

    @property
    def needed_bytes(self) -> float:
        """What the fullest rank takes, runtime included."""
        return self.peak.total_bytes + self.runtime_bytes

    @property
    def fits(self) -> bool:
        """Whether every stage fits."""
        return self.needed_bytes <= self.limit_bytes


@functools.lru_cache(maxsize=256)
def estimate(workload: WorkloadSpec, gpu: GpuPart, *, dp: int) -> MemoryEstimate:
    """Return the memory that *workload* takes on each stage with *dp* replicas.

    Raises
    ------
    LayoutError
        If layers or batch do not divide.
    """
    layout = pipeline_layout(workload)
    micro_batches = num_micro_batches(workload, dp)
    return MemoryEstimate(
        stages=tuple(
            _stage(workload, gpu, layout, stage, replicas=dp * workload.parallelism.cp, held_bytes=kept)
            for stage, kept in enumerate(_in_flight_bytes(workload, layout, micro_batches))
        ),
        limit_bytes=gpu.hbm_size,
        runtime_bytes=RUNTIME_BYTES,
    )


def state_bytes(workload: WorkloadSpec, gpu: GpuPart, held: Shard, *, replicas: int) -> tuple[float, float, float]:
    """Return the bytes of weights, gradients and optimizer state of a rank that holds *held*.

    Notes
    -----
    In 16 bit 2 + 4 + 12 = 18 bytes a parameter (16 with bf16 gradients), or 6 + 12/d with the
    optimizer's state split over d ranks (Korthikanti, arXiv:2205.05198, section 2; Megatron-LM
    ``docs/source/api-guide/dist_optimizer.md``). Where parameters are sharded all of it is divided by d (ZeRO,
    Rajbhandari, arXiv:1910.02054, section 5); PyTorch's FSDP keeps the fp32 shard alone and casts it for each gather.
    """
    split = state_split(workload, replicas=replicas)
    optimizer = held.parameters * FP32_BYTES * (1 + ADAM_STATES) / split
    weights = held.matrices * weight_bytes(workload, gpu) + held.others * BF16_BYTES
    gradients = held.parameters * gradient_bytes(workload)
    if workload.shards_parameters and split > 1:
        weights = weights / split if workload.sharding == "zero3" else 0.0
        gradients /= split if workload.fsdp.reduce == "each_micro_batch" else 1
    return weights, gradients, optimizer


def weight_bytes(workload: WorkloadSpec, gpu: GpuPart) -> float:
    """Return the bytes that a matrix weight takes, its quantised copies included.

    Hopper's 8-bit matrix units want both operands row-major, so a transposed copy is kept for the
    backward pass; Blackwell reads either way, but block-scaled formats need both copies, since scales
    run along the summed dimension (Transformer Engine documentation, FP8 primer).
    """
    if not is_quantised(workload):
        return BF16_BYTES
    copies = 1 if workload.precision == "fp8" and gpu.generation == "blackwell" else 2
    quantised = copies * OPERAND_BYTES[workload.precision]
    keeps_only_these = workload.fp8_parameters and workload.precision in ("fp8", "mxfp8")
    return quantised if keeps_only_these else BF16_BYTES + quantised


def _in_flight_bytes(workload: WorkloadSpec, layout: Layout, micro_batches: int) -> tuple[float, ...]:
    """Return the most that each stage keeps of micro-batches in flight, shape (pp,)."""
    num_stages = layout.num_stages
    kept = [
        tuple(_chunk_activation_bytes(workload, layout, stage, chunk) for chunk in range(layout.num_chunks))
        for stage in range(num_stages)
    ]
    if layout.num_chunks == 1 and not workload.splits_backward:
        in_flight = [micro_batches if workload.schedule == "gpipe" else num_stages - s for s in range(num_stages)]
        return tuple(min(micro_batches, count) * one[0] for count, one in zip(in_flight, kept, strict=True))
    group = workload.parallelism.micro_batch_group_size
    passes = schedule(
        workload.schedule,
        num_stages=num_stages,
        num_micro_batches=min(micro_batches, GROUPS_TO_STEADY * (group or num_stages)),
        num_chunks=layout.num_chunks,
        group_size=group,
    )
    return tuple(peak_in_flight(one, weights) for one, weights in zip(passes, kept, strict=True))


def _stage(
    workload: WorkloadSpec, gpu: GpuPart, layout: Layout, stage: int, *, replicas: int, held_bytes: float
) -> StageMemory:
    """Return the memory of a stage whose micro-batches in flight keep *held_bytes*."""
    held = stage_shard(workload, layout, stage)
    weights, gradients, optimizer = state_bytes(workload, gpu, held, replicas=replicas)
    has_loss = any(layout.has_loss(stage, chunk) for chunk in range(layout.num_chunks))
    activations = held_bytes + (loss_activation_bytes(workload) if has_loss else 0.0)
    return StageMemory(
        stage=stage,
        weights_bytes=weights,
        gradients_bytes=gradients,
        optimizer_bytes=optimizer,
        activations_bytes=activations,
        buffers_bytes=working_bytes(workload)
        + _recomputed_layer_bytes(workload)
        + unsharded_bytes(workload, layout, stage, replicas=replicas),
    )


def _chunk_activation_bytes(workload: WorkloadSpec, layout: Layout, stage: int, chunk: int) -> float:
    """Return what a chunk keeps for one micro-batch."""
    kept = layout.layers[stage][chunk] * layer_activation_bytes(workload)
    return kept + (embedding_activation_bytes(workload) if layout.has_embedding(stage, chunk) else 0.0)


def _recomputed_layer_bytes(workload: WorkloadSpec) -> float:
    """Return what full recomputation holds of the layer at hand beside its input."""
    if workload.recompute != "full":
        return 0.0
    whole = workload.model_copy(update={"recompute": "none"})
    again = workload.model_copy(update={"recompute_share": 1.0})
    return layer_activation_bytes(whole) - layer_activation_bytes(again)
