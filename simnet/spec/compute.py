"""What one GPU computes at one precision: constants of ``topologies/parts/compute.yaml`` and their loader."""

from __future__ import annotations

import math
from functools import cache

from simnet.errors import Problem, SpecError
from simnet.library import find
from simnet.spec.base import Constant, SpecModel
from simnet.spec.kernel_preset import KernelPreset
from simnet.spec.load import build, read_yaml
from simnet.spec.parts import GpuPart, Precision

__all__ = ["LINEAR_BYTES", "ComputePart", "KernelPreset", "load_compute", "load_preset"]

LINEAR_BYTES: dict[str, float] = {"bf16": 2, "fp16": 2, "fp8": 1, "mxfp8": 1 + 1 / 32, "nvfp4": 1 / 2 + 1 / 16}
"""Bytes of an operand element with its share of a block scale (OCP microscaling formats 1.0; NVFP4)."""
MEGATRON, COMPILED, QUICKEST_ATTENTION = "megatron", "compiled", "flash"
"""Stack and attention kernel that the efficiencies are of; stack whose element-wise work a compiler fuses."""
HALF_PRECISIONS = ("bf16", "fp16")
"""Precisions of 16 bit, for which nothing is quantised."""


class GenerationCompute(SpecModel):
    """Constants of one GPU generation; efficiencies are shares of *reference_gpu*'s dense peak."""

    reference_gpu: str
    """GPU whose datasheet the efficiencies refer to."""
    reference_peak: Constant
    """Its dense 16-bit peak [FLOP/s]."""
    reference_tdp: Constant
    """Its board power [W]."""
    linear_efficiency: dict[str, Constant]
    """By precision of the linear layers."""
    attention_forward_efficiency: Constant
    """Products of forward attention."""
    attention_backward_efficiency: Constant
    """Products of backward attention."""
    attention_kernel_share: dict[str, Constant]
    """Speed of older fused attention kernels over that of the quickest, by name."""
    memory_efficiency: Constant
    """Streaming kernels."""
    streaming_multiprocessors: Constant
    """Number of SMs, for wave quantisation and exponentials."""
    exponentials_per_s: Constant
    """Special-function throughput of the whole GPU [1/s]."""
    transpose_bytes_per_element: Constant
    """Copy of quantised operands for the weight gradient."""
    software_immaturity: Constant
    """Slow-down of the matrix kernels on the day of *software_start*, which decays."""
    software_start: Constant
    """Year at which that clock starts."""
    assumptions: tuple[str, ...] = ()
    """What to say when the generation has no measured rows."""


class GpuCompute(SpecModel):
    """What distinguishes a GPU from its generation's reference."""

    generation: str
    """Key of ``generations``."""
    matrix_rate: Constant | None = None
    """Sustained matrix rate over the reference's; null follows the power law."""
    half_matrix_rate: Constant | None = None
    """The same in 16 bit, the most power-hungry precision, where it differs."""
    exponentials_per_s: Constant | None = None
    """Special-function throughput where it differs."""
    sibling: str = ""
    """GPU whose measured efficiencies are taken, or empty if it has rows of its own."""


class ComputeLaws(SpecModel):
    """Laws that all GPUs share."""

    gemm_k_half: Constant
    """Depth K at which a product spends as long outside its main loop as inside."""
    gemm_wave_share: Constant
    """Part of a wave of tiles that the last wave wastes."""
    gemm_tile_elements: Constant
    """Output elements of a tile."""
    gemm_split_share: Constant
    """Part of a wave that each doubling of the pieces of a cut product wastes."""
    attention_block_half: Constant
    """Keys per rank at which attention reaches half of its efficiency."""
    exponential_exposed_share: Constant
    """Part of the exponentials' time that matrix work does not hide."""
    cast_bytes: dict[str, Constant]
    """Bytes to quantise an element, by precision."""
    launch_gap: Constant
    """Idle time between two kernels of a stream."""
    launch_gap_graph: Constant
    """The same inside a CUDA graph."""
    loss_forward_bytes: Constant
    """Bytes per logit in the forward cross-entropy."""
    loss_backward_bytes: Constant
    """The same backward."""
    optimizer_bytes: Constant
    """Bytes per parameter of the shard in the optimizer."""
    step_overhead: Constant
    """Host time of a step that nothing hides."""
    contention_share: Constant
    """Slow-down by TP and CP collectives beside compute, over their bytes on NVLink."""
    contention_share_dp: Constant
    """Slow-down by replicated traffic beside compute, over its time on the network."""
    sharded_copy_share: Constant
    """Copies of sharded units into and out of the buffers of their collectives, over one of each."""
    compiled_cast_share: Constant
    """Part of the bytes of quantisation that compiled stacks move: the rest is fused with what makes the operand."""
    stack_slowdown: dict[str, Constant]
    """Time of kernels outside Megatron-Core over theirs, by stack."""
    jitter: Constant
    """Standard deviation of ranks' compute time."""
    power_exponent: Constant
    """Exponent of sustained matrix rate over board power."""
    software_half_life: Constant
    """Time in which half of a young generation's slow-down goes [years]."""
    software_default: Constant
    """Software date of a preset that names none [year]."""


class ComputePart(SpecModel):
    """The file ``topologies/parts/compute.yaml``."""

    laws: ComputeLaws
    """Shared by all GPUs."""
    generations: dict[str, GenerationCompute]
    """By GPU generation."""
    gpu_compute: dict[str, GpuCompute]
    """By name of the GPU part."""


def load_preset(
    gpu: GpuPart,
    precision: Precision,
    *,
    software_date: float | None = None,
    stack: str = MEGATRON,
    attention_kernel: str = QUICKEST_ATTENTION,
    constants: ComputePart | None = None,
) -> KernelPreset:
    """Return the kernel constants of *gpu* at *precision*.

    Parameters
    ----------
    gpu
        The part with its datasheet.
    precision
        Precision of the linear layers.
    software_date
        Year of the software stack, such as 2025.33; by default that of the constants.
    stack, attention_kernel
        What runs the kernels, and which fused attention (``WorkloadSpec``); by default the quickest.
    constants
        The shipped ones unless given.

    Raises
    ------
    SpecError
        If the GPU has no units of the precision, or nothing is known about its generation.
    """
    part = load_compute() if constants is None else constants
    entry = part.gpu_compute.get(gpu.name) or GpuCompute(generation=gpu.generation, sibling=gpu.generation)
    generation = part.generations.get(entry.generation)
    if generation is None:
        raise SpecError(
            Problem(message="no kernel constants for this GPU", found=gpu.name, allowed=", ".join(part.generations))
        )
    if precision not in generation.linear_efficiency:
        raise SpecError(
            Problem(
                message=f"no kernel constants for {precision} on {gpu.name}",
                found=precision,
                allowed=", ".join(generation.linear_efficiency),
            )
        )
    preset = _resolve(part.laws, generation, entry, gpu, precision, software_date)
    share = generation.attention_kernel_share.get(attention_kernel)
    return preset.of_stack(
        slowdown=1.0 if stack == MEGATRON else part.laws.stack_slowdown[stack].value,
        attention_share=1.0 if share is None else share.value,
        cast_share=part.laws.compiled_cast_share.value if stack == COMPILED else 1.0,
    )


def _resolve(
    laws: ComputeLaws,
    generation: GenerationCompute,
    entry: GpuCompute,
    gpu: GpuPart,
    precision: Precision,
    software_date: float | None,
) -> KernelPreset:
    date = laws.software_default.value if software_date is None else software_date
    rate = _matrix_rate(laws, generation, entry, gpu, precision) * _maturity(laws, generation, date)
    half_peak, peak = gpu.peak_flops_per_s("bf16"), gpu.peak_flops_per_s(precision)
    # Sustained matrix rate in units of the reference's 16-bit peak; narrow operands scale it by their width.
    reference = generation.reference_peak.si * rate
    half = generation.linear_efficiency["bf16"].value * reference
    width = LINEAR_BYTES["bf16"] / _compute_bytes(precision)
    linear = generation.linear_efficiency[precision].value * reference * width
    attention = reference / half_peak
    exponentials = entry.exponentials_per_s or generation.exponentials_per_s
    sms = generation.streaming_multiprocessors.value
    return KernelPreset(
        gpu=gpu.name,
        precision=precision,
        software_date=date,
        linear_peak_flops_per_s=peak,
        linear_efficiency=min(1.0, linear / peak),
        linear_bytes=LINEAR_BYTES[precision],
        half_peak_flops_per_s=half_peak,
        half_efficiency=min(1.0, half / half_peak),
        k_half=laws.gemm_k_half.value,
        wave_elements=laws.gemm_wave_share.value * laws.gemm_tile_elements.value * sms,
        split_share=laws.gemm_split_share.value,
        attention_forward_efficiency=min(1.0, generation.attention_forward_efficiency.value * attention),
        attention_backward_efficiency=min(1.0, generation.attention_backward_efficiency.value * attention),
        attention_block_half=laws.attention_block_half.value,
        exponentials_per_s=exponentials.value,
        exponential_exposed_share=laws.exponential_exposed_share.value,
        hbm_bytes_per_s=gpu.hbm_bandwidth,
        memory_efficiency=generation.memory_efficiency.value,
        nvlink_bytes_per_s=gpu.nvlink_bandwidth,
        cast_bytes_per_element=0.0 if precision in HALF_PRECISIONS else laws.cast_bytes[precision].value,
        transpose_bytes_per_element=generation.transpose_bytes_per_element.value if precision == "fp8" else 0.0,
        launch_gap_s=laws.launch_gap.si,
        launch_gap_graph_s=laws.launch_gap_graph.si,
        loss_forward_bytes_per_logit=laws.loss_forward_bytes.value,
        loss_backward_bytes_per_logit=laws.loss_backward_bytes.value,
        optimizer_bytes_per_parameter=laws.optimizer_bytes.value,
        step_overhead_s=laws.step_overhead.si,
        contention_share=laws.contention_share.value,
        contention_share_dp=laws.contention_share_dp.value,
        sharded_copy_share=laws.sharded_copy_share.value,
        jitter=laws.jitter.value,
        assumptions=(*_assumptions(generation, entry, gpu), _sustained(entry, gpu, precision, min(linear, peak), peak)),
    )


def _compute_bytes(precision: Precision) -> float:
    """Return the element's width for the matrix units, without block scales [B]."""
    return {"fp8": 1.0, "mxfp8": 1.0, "nvfp4": 1 / 2}.get(precision, LINEAR_BYTES["bf16"])


def _matrix_rate(
    laws: ComputeLaws, generation: GenerationCompute, entry: GpuCompute, gpu: GpuPart, precision: Precision
) -> float:
    """Return the sustained matrix rate over the reference GPU's, measured or by the power law."""
    if entry.half_matrix_rate is not None and precision in HALF_PRECISIONS:
        return entry.half_matrix_rate.value
    if entry.matrix_rate is not None:
        return entry.matrix_rate.value
    power = gpu.tdp / generation.reference_tdp.si
    return float(power**laws.power_exponent.value)


def _maturity(laws: ComputeLaws, generation: GenerationCompute, date: float) -> float:
    """Return the share of the mature speed that software of *date* reaches."""
    age = max(0.0, date - generation.software_start.value)
    decay: float = 2 ** (-age / laws.software_half_life.value)
    return math.exp(-generation.software_immaturity.value * decay)


def _assumptions(generation: GenerationCompute, entry: GpuCompute, gpu: GpuPart) -> tuple[str, ...]:
    found = list(generation.assumptions)
    if entry.sibling:
        found.append(
            f"{gpu.name}: no measured runs; efficiencies of {entry.sibling} on its own datasheet"
            + (", matrix rate by the power law" if entry.matrix_rate is None else "")
        )
    return tuple(found)


def _sustained(entry: GpuCompute, gpu: GpuPart, precision: Precision, rate: float, peak: float) -> str:
    """Say where the matrix rate comes from: someone who changes the datasheet's peak sees no quicker step."""
    is_measured = entry.matrix_rate is not None or (entry.half_matrix_rate is not None and precision in HALF_PRECISIONS)
    origin = "from its tdp by the power law"
    if is_measured:
        origin = f"calibrated on runs of {entry.sibling or gpu.name}, whatever its tdp"
    tera = 1e12
    return (
        f"{precision} matrix products sustain {rate / tera:,.0f} of {peak / tera:,.0f} TFLOP/s at best, {origin}; "
        "peak_flops only caps that"
    )


@cache
def load_compute() -> ComputePart:
    """Return the shipped constants, with sources and spreads."""
    return build(read_yaml(find("part", "compute")), ComputePart)
