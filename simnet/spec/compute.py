"""What one GPU computes at one precision: constants of ``topologies/parts/compute.yaml`` and their loader."""

from __future__ import annotations

import json
import math
from functools import cache

from pydantic import Field

from simnet.errors import Problem, SpecError
from simnet.library import find
from simnet.spec.base import Constant, SpecModel
from simnet.spec.parts import GpuPart, Precision
from simnet.spec.read import read_yaml

LINEAR_BYTES: dict[str, float] = {"bf16": 2, "fp16": 2, "fp8": 1, "mxfp8": 1 + 1 / 32, "nvfp4": 1 / 2 + 1 / 16}
"""Bytes of an operand element with its share of a block scale (OCP microscaling formats 1.0; NVFP4)."""
HALF_PRECISIONS = ("bf16", "fp16")
"""Precisions of 16 bit, for which nothing is quantised."""


class KernelPreset(SpecModel):
    """Resolved figures of one GPU at one precision, all in SI."""

    gpu: str
    """Name of the GPU part."""
    precision: str
    """Precision of the linear layers; attention, logits and loss stay in 16 bit."""
    software_date: float
    """Year of the software stack."""
    linear_peak_flops_per_s: float
    """Dense peak of the datasheet for the linear layers [FLOP/s]."""
    linear_efficiency: float = Field(gt=0, le=1)
    """Share of that peak which a large matrix product reaches."""
    linear_bytes: float
    """Bytes of one operand element."""
    half_peak_flops_per_s: float
    """Dense 16-bit peak [FLOP/s]."""
    half_efficiency: float = Field(gt=0, le=1)
    """Share of it that a large 16-bit matrix product reaches."""
    k_half: float
    """Depth K at which a matrix product spends as long outside its main loop as inside."""
    wave_elements: float
    """Output elements that the last, partly filled wave wastes on average."""
    split_share: float
    """Part of a wave that each further piece of a product wastes when it is cut to overlap with its collective."""
    attention_forward_efficiency: float = Field(gt=0, le=1)
    """Share of the 16-bit peak of the products in forward attention."""
    attention_backward_efficiency: float = Field(gt=0, le=1)
    """The same in backward attention."""
    attention_block_half: float
    """Keys per rank at which attention reaches half of its efficiency."""
    exponentials_per_s: float
    """Exponentials that the special-function units deliver [1/s]."""
    exponential_exposed_share: float
    """Share of the exponentials' time that matrix work does not hide."""
    hbm_bytes_per_s: float
    """HBM bandwidth of the datasheet [B/s]."""
    memory_efficiency: float = Field(gt=0, le=1)
    """Share of it that a streaming kernel reaches."""
    nvlink_bytes_per_s: float
    """NVLink bandwidth of the datasheet per direction, the yardstick of contention [B/s]."""
    cast_bytes_per_element: float
    """Bytes moved to quantise one element, all copies together."""
    transpose_bytes_per_element: float
    """Bytes moved to transpose one quantised element for the weight gradient; 0 where hardware reads both ways."""
    launch_gap_s: float
    """Idle time between two kernels of a stream [s]."""
    launch_gap_graph_s: float
    """The same inside a CUDA graph [s]."""
    loss_forward_bytes_per_logit: float
    """Bytes moved per logit in the forward cross-entropy."""
    loss_backward_bytes_per_logit: float
    """The same backward."""
    optimizer_bytes_per_parameter: float
    """Bytes moved per parameter of the shard in the optimizer step."""
    step_overhead_s: float
    """Host time per step that nothing hides [s]."""
    contention_share: float
    """By how much a TP or CP collective beside compute slows it, over its bytes on NVLink."""
    contention_share_dp: float
    """The same for gradient reductions and parameter gathers, over their time on the network."""
    jitter: float
    """Standard deviation of a rank's compute time over ranks, as a share."""
    assumptions: tuple[str, ...] = ()
    """What was taken from a sibling or assumed, in words."""

    def scaled(self, *, gemm: float = 1.0, attention: float = 1.0, memory: float = 1.0) -> KernelPreset:
        """Return the preset with kernels of a kind that many times as fast: a what-if, not a measurement.

        Raises
        ------
        SpecError
            If a kernel would beat its roofline.
        """
        changed = {
            "linear_efficiency": self.linear_efficiency * gemm,
            "half_efficiency": self.half_efficiency * gemm,
            "attention_forward_efficiency": self.attention_forward_efficiency * attention,
            "attention_backward_efficiency": self.attention_backward_efficiency * attention,
            "exponential_exposed_share": self.exponential_exposed_share / attention,
            "memory_efficiency": self.memory_efficiency * memory,
        }
        beyond = [name for name, value in changed.items() if name.endswith("efficiency") and value > 1]
        if beyond:
            raise SpecError(
                *(
                    Problem(
                        message=f"{self.gpu} would beat its roofline",
                        path=name,
                        found=f"{changed[name]:.2f}",
                        allowed="at most 1",
                    )
                    for name in beyond
                )
            )
        return self.model_copy(update=changed)


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
    gemm_wave_share: Constant
    gemm_tile_elements: Constant
    gemm_split_share: Constant
    attention_block_half: Constant
    exponential_exposed_share: Constant
    cast_bytes: dict[str, Constant]
    launch_gap: Constant
    launch_gap_graph: Constant
    loss_forward_bytes: Constant
    loss_backward_bytes: Constant
    optimizer_bytes: Constant
    step_overhead: Constant
    contention_share: Constant
    contention_share_dp: Constant
    jitter: Constant
    power_exponent: Constant
    software_half_life: Constant
    software_default: Constant


class ComputePart(SpecModel):
    """The file ``topologies/parts/compute.yaml``."""

    laws: ComputeLaws
    """Shared by all GPUs."""
    generations: dict[str, GenerationCompute]
    """By GPU generation."""
    gpu_compute: dict[str, GpuCompute]
    """By name of the GPU part."""


def load_preset(gpu: GpuPart, precision: Precision, *, software_date: float | None = None) -> KernelPreset:
    """Return the kernel constants of *gpu* at *precision*.

    Parameters
    ----------
    gpu
        The part with its datasheet.
    precision
        Precision of the linear layers.
    software_date
        Year of the software stack, such as 2025.33; by default that of the shipped constants.

    Raises
    ------
    SpecError
        If the GPU has no units of the precision, or nothing is known about its generation.
    """
    part = _load()
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
    return _resolve(part.laws, generation, entry, gpu, precision, software_date)


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
        jitter=laws.jitter.value,
        assumptions=_assumptions(generation, entry, gpu),
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


@cache
def _load() -> ComputePart:
    return ComputePart.model_validate_json(json.dumps(read_yaml(find("part", "compute")).plain()))
