"""Time of a chunk of layers, and of the optimizer, on one GPU: the sum over its kernels and the gaps between them.

Equations and constants with their sources are in ``docs/model/compute.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from simnet.spec.compute import LINEAR_BYTES, ComputePart, KernelPreset, load_preset
from simnet.spec.model import ModelSpec
from simnet.spec.parts import GpuPart
from simnet.spec.workload import WorkloadSpec
from simnet.workload.comms import ChunkKind, pass_exchanges
from simnet.workload.kernel_list import (
    ChunkShape,
    attention_core,
    embedding_backward,
    embedding_forward,
    layer_backward,
    layer_forward,
    layer_weight_gradients,
    loss_backward,
    loss_forward,
)
from simnet.workload.kernel_price import Totals, added, kernel_time, pass_times, scaled
from simnet.workload.ops import Category
from simnet.workload.shards import BF16_BYTES, gradient_bytes, state_split
from simnet.workload.transformer import layer_matrix_parameters

__all__ = ["ChunkTimes", "KernelPreset", "chunk_shape", "chunk_times", "job_preset", "kernel_time", "optimizer_time"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkTimes:
    """Compute time of one micro-batch through a chunk of layers on one GPU, without communication."""

    forward_s: float
    backward_s: float
    """Recomputation included [s]."""
    forward_floor_s: float
    """Roofline of the same kernels [s]."""
    backward_floor_s: float
    """Roofline of the same kernels, recomputation included [s]."""
    forward_attention_s: float
    """Part of *forward_s* in the attention core [s]."""
    backward_attention_s: float
    """Part of *backward_s* in the attention core [s]."""
    weight_s: float = 0.0
    """Part of *backward_s* that forms gradients of weights, which schedules that split the pass put off [s]."""

    def pass_s(self, kind: str) -> float:
        """Return the time of a pass: F, B, or the parts I and W of a split backward pass [s]."""
        return {
            "F": self.forward_s,
            "B": self.backward_s,
            "I": self.backward_s - self.weight_s,
            "W": self.weight_s,
        }[kind]


def chunk_times(
    model: ModelSpec,
    workload: WorkloadSpec,
    gpu: GpuPart,
    preset: KernelPreset,
    *,
    layers: int,
    has_embedding: bool,
    has_loss: bool,
) -> ChunkTimes:
    """Return the compute times of one micro-batch through a chunk of *layers* layers.

    Parameters
    ----------
    model, workload
        The transformer, and how it is split.
    gpu, preset
        The GPU's datasheet and its kernel constants at the workload's precision.
    layers
        Transformer layers of the chunk.
    has_embedding, has_loss
        Whether the chunk starts with the embedding, or ends with logits and loss.

    Notes
    -----
    Sum over kernels of max(matrix time, bytes / (HBM x efficiency)) + gap; ``docs/model/compute.md``.
    """
    if gpu.name != preset.gpu or workload.precision != preset.precision:
        raise AssertionError(f"preset of {preset.gpu} {preset.precision} for {gpu.name} {workload.precision}")
    shape = chunk_shape(model, workload)
    is_graph = workload.cuda_graphs
    forward, backward = (scaled(one, layers) for one in _layer_totals(shape, preset, _again(workload), is_graph))
    weights = pass_times(layer_weight_gradients(shape), preset, is_backward=True, is_graph=is_graph)
    weight_s = scaled(weights, layers)[0]
    if has_embedding:
        lookup = pass_times(embedding_forward(shape), preset, is_backward=False, is_graph=is_graph)
        scatter = pass_times(embedding_backward(shape), preset, is_backward=True, is_graph=is_graph)
        forward, backward = added(forward, lookup), added(backward, scatter)
        weight_s += scatter[0]
    if has_loss:
        head = _loss_totals(shape, preset, is_graph)
        forward, backward = added(forward, head[0]), added(backward, head[1])
    kind = ChunkKind(layers=layers, has_embedding=has_embedding, has_loss=has_loss)
    copies = [_sharded_copies_s(workload, preset, kind, is_backward=one) for one in (False, True)]
    return ChunkTimes(
        forward_s=forward[0] + copies[0] + _contention_s(workload, gpu, preset, kind, is_backward=False),
        backward_s=backward[0] + copies[1] + _contention_s(workload, gpu, preset, kind, is_backward=True),
        forward_floor_s=forward[1],
        backward_floor_s=backward[1],
        forward_attention_s=forward[2],
        backward_attention_s=backward[2],
        weight_s=weight_s,
    )


def job_preset(workload: WorkloadSpec, gpu: GpuPart, constants: ComputePart | None = None) -> KernelPreset:
    """Return the kernel constants of *gpu* for *workload*: its precision, software, stack, kernels and what-ifs.

    Raises
    ------
    SpecError
        As :func:`simnet.spec.compute.load_preset`.
    """
    preset = load_preset(
        gpu,
        workload.precision,
        software_date=workload.software_date,
        stack=workload.stack,
        attention_kernel=workload.attention_kernel,
        constants=constants,
    )
    return preset if workload.kernels is None else workload.kernels.apply(preset)


def check_kernels(workload: WorkloadSpec, gpu: GpuPart) -> None:
    """Raise if kernels that the workload changes would beat the roofline.

    Raises
    ------
    SpecError
        With the fastest that the first such kernel may be.
    """
    if workload.kernels is None:
        return
    preset = job_preset(workload, gpu)
    shape, is_graph = chunk_shape(workload.model, workload), workload.cuda_graphs
    _layer_totals(shape, preset, _again(workload), is_graph)
    _loss_totals(shape, preset, is_graph)


def optimizer_time(
    workload: WorkloadSpec,
    preset: KernelPreset,
    *,
    parameters: float,
    replicas: int,
    matrix_parameters: float = 0.0,
    dp_beside_s: float = 0.0,
) -> float:
    """Return the time of the optimizer step on one rank [s], host overhead of the step included.

    Parameters
    ----------
    workload
        Sharding and precision.
    preset
        Kernel constants.
    parameters
        Parameters that the rank holds, after tensor and pipeline parallelism.
    replicas
        Ranks that hold the same weights, dp x cp; they or a part of them split the state.
    matrix_parameters
        Part of *parameters* that the recipe quantises once a step.
    dp_beside_s
        Time that gradients and parameters move beside the passes, whose kernels they slow; what was lost
        there is charged here [s].

    Notes
    -----
    Bytes over HBM x efficiency: Adam on an fp32 master copy touches the shard (gradient, master, two
    moments, 16-bit weight), clearing the gradients touches all parameters.
    """
    split = state_split(workload, replicas=replicas)
    shard = parameters / split
    # Gradients that are sharded are cleared as shards.
    clear = gradient_bytes(workload) * (shard if workload.shards_parameters else parameters)
    quantise = preset.cast_bytes_per_element * matrix_parameters
    num_bytes = preset.optimizer_bytes_per_parameter * shard + clear + quantise
    busy_s = num_bytes / preset.streaming_bytes_per_s
    return busy_s + preset.step_overhead_s + preset.contention_share_dp * dp_beside_s


def chunk_shape(model: ModelSpec, workload: WorkloadSpec) -> ChunkShape:
    """Return what the kernels of *workload*'s layers depend on."""
    return ChunkShape(
        hidden=model.hidden,
        heads=model.heads,
        kv_heads=model.kv_heads,
        head_dim=model.head_dim,
        ffn=model.ffn,
        gated_mlp=model.gated_mlp,
        vocab=model.vocab,
        rotary=model.learned_positions == 0,
        sequence_length=workload.sequence_length,
        micro_batch_size=workload.batch.micro_batch_size,
        tp=workload.parallelism.tp,
        cp=workload.parallelism.cp,
        linear_bytes=LINEAR_BYTES[workload.precision],
        gradient_bytes=gradient_bytes(workload),
        is_attention_fused=workload.attention_kernel != "unfused",
        is_sequence_parallel=workload.sequence_parallel,
        is_tp_overlapped=workload.overlap.tp,
    )


def _sharded_copies_s(workload: WorkloadSpec, preset: KernelPreset, kind: ChunkKind, *, is_backward: bool) -> float:
    """Return the time to copy a chunk's gathered weights out of the collective's buffer and its gradients into it [s].

    Weights are read and written in 16 bit, gradients read in 16 bit and written as they are reduced.
    """
    if not workload.shards_parameters:
        return 0.0
    model, fsdp = workload.model, workload.fsdp
    count = kind.layers * layer_matrix_parameters(model) + model.vocab * model.hidden * (
        kind.has_embedding + kind.has_loss
    )
    is_gathered = not is_backward or fsdp.reshard_after_forward
    width = 2 * BF16_BYTES if is_gathered else 0
    width += BF16_BYTES + gradient_bytes(workload) if is_backward else 0
    num_bytes = preset.sharded_copy_share * width * count / workload.parallelism.tp
    return num_bytes / preset.streaming_bytes_per_s


def _contention_s(
    workload: WorkloadSpec, gpu: GpuPart, preset: KernelPreset, kind: ChunkKind, *, is_backward: bool
) -> float:
    """Return by how much collectives beside the pass slow its kernels: they take SMs and HBM bandwidth [s]."""
    return preset.contention_share * _beside_bytes(workload, kind, is_backward) / gpu.nvlink_bandwidth


@lru_cache(maxsize=16384)
def _beside_bytes(workload: WorkloadSpec, kind: ChunkKind, is_backward: bool) -> float:
    """Return what each GPU sends in collectives beside a pass [B]."""
    wire_bytes = 0.0
    for exchange in pass_exchanges(workload, kind, is_backward=is_backward):
        if exchange.position == "beside":
            ranks = workload.parallelism.tp if exchange.category is Category.TP else workload.parallelism.cp
            passes = 2 if exchange.op == "all_reduce" else 1
            wire_bytes += passes * exchange.size_bytes * (ranks - 1) / ranks
    return wire_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Again:
    """What the backward pass computes again."""

    recompute: str
    keeps: tuple[str, ...]
    share: float


def _again(workload: WorkloadSpec) -> _Again:
    return _Again(recompute=workload.recompute, keeps=workload.recompute_keeps, share=workload.recompute_share)


@lru_cache(maxsize=16384)
def _layer_totals(shape: ChunkShape, preset: KernelPreset, again: _Again, is_graph: bool) -> tuple[Totals, Totals]:
    """Return the totals of one layer, forward and backward with recomputation."""
    forward = pass_times(layer_forward(shape), preset, is_backward=False, is_graph=is_graph)
    backward = pass_times(layer_backward(shape), preset, is_backward=True, is_graph=is_graph)
    if again.recompute == "full":
        repeated = tuple(kernel for kernel in layer_forward(shape) if kernel.name not in again.keeps)
        if "fc2" in again.keeps:
            repeated = repeated[:-1]  # the residual sum behind it goes too
        once = pass_times(repeated, preset, is_backward=False, is_graph=is_graph)
        backward = added(backward, scaled(once, again.share))
    elif again.recompute == "selective":
        core = pass_times(attention_core(shape), preset, is_backward=False, is_graph=is_graph)
        backward = added(backward, core)
    return forward, backward


@lru_cache(maxsize=16384)
def _loss_totals(shape: ChunkShape, preset: KernelPreset, is_graph: bool) -> tuple[Totals, Totals]:
    """Return the totals of logits and loss, forward and backward."""
    forward = loss_forward(shape, bytes_per_logit=preset.loss_forward_bytes_per_logit)
    backward = loss_backward(shape, bytes_per_logit=preset.loss_backward_bytes_per_logit)
    return (
        pass_times(forward, preset, is_backward=False, is_graph=is_graph),
        pass_times(backward, preset, is_backward=True, is_graph=is_graph),
    )
