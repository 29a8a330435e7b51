"""Time of one kernel on one GPU: the longer of its matrix time and its HBM time.

Equations and constants with their sources are in ``docs/model/compute.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from simnet.errors import Problem, SpecError
from simnet.spec.compute import KernelPreset
from simnet.units import format_time
from simnet.workload.kernel_list import Kernel, Unit

_TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTime:
    """Time of kernels and the bound that no GPU beats."""

    busy_s: float
    """Time without launch gaps [s]."""
    floor_s: float
    """Datasheet roofline [s]."""


Totals = tuple[float, float, float]
"""Time with gaps, roofline, and time of the attention core [s]."""


def kernel_time(kernel: Kernel, preset: KernelPreset, *, is_backward: bool = False) -> KernelTime:
    """Return the time of *kernel* without its launch gap, and its roofline bound.

    Parameters
    ----------
    kernel
        What is computed and moved.
    preset
        The GPU at its precision.
    is_backward
        Selects the efficiency of attention.

    Raises
    ------
    SpecError
        If a what-if asks for more than the roofline allows.
    """
    if kernel.unit is Unit.CAST:
        num_bytes = preset.cast_bytes_per_element * kernel.elements + preset.transpose_bytes_per_element * kernel.k
    else:
        num_bytes = kernel.num_bytes
    memory_floor_s = num_bytes / preset.hbm_bytes_per_s
    memory_s = memory_floor_s / preset.memory_efficiency / preset.memory_speedup
    if kernel.unit in (Unit.MEMORY, Unit.CAST):
        matrix_floor_s = matrix_s = 0.0
    elif kernel.unit is Unit.ATTENTION:
        matrix_floor_s = kernel.flops / preset.half_peak_flops_per_s
        matrix_s = _attention_s(kernel, preset, matrix_floor_s, is_backward=is_backward) / preset.attention_speedup
    else:
        matrix_floor_s, matrix_s = _matrix_s(kernel, preset)
        matrix_s /= preset.gemm_speedup
    busy_s, floor_s = max(matrix_s, memory_s), max(matrix_floor_s, memory_floor_s)
    if busy_s < floor_s * (1 - _TOLERANCE):
        raise SpecError(_beats_roofline(kernel, preset, busy_s, floor_s))
    return KernelTime(busy_s=busy_s, floor_s=floor_s)


def _beats_roofline(kernel: Kernel, preset: KernelPreset, busy_s: float, floor_s: float) -> Problem:
    speedup = {
        Unit.ATTENTION: preset.attention_speedup,
        Unit.MEMORY: preset.memory_speedup,
        Unit.CAST: preset.memory_speedup,
    }.get(kernel.unit, preset.gemm_speedup)
    return Problem(
        message=f"{kernel.name} on {preset.gpu} would beat its roofline",
        path="workload.kernels",
        found=f"{format_time(busy_s)} where the datasheet needs {format_time(floor_s)}",
        allowed=f"at most {speedup * busy_s / floor_s:.2f} times the measured speed",
    )


def _matrix_s(kernel: Kernel, preset: KernelPreset) -> tuple[float, float]:
    """Return roofline and time of a matrix product: efficiency saturates in K and in whole waves of M x N."""
    if kernel.unit is Unit.GEMM:
        floor_s = kernel.flops / preset.linear_peak_flops_per_s
        efficiency = preset.linear_efficiency
    else:
        floor_s = kernel.flops / preset.half_peak_flops_per_s
        efficiency = preset.half_efficiency
    waves = 1 + preset.split_share * math.log2(kernel.pieces)
    shape = (1 + preset.k_half / kernel.k) * (1 + waves * preset.wave_elements / (kernel.m * kernel.n))
    return floor_s, floor_s / efficiency * shape


def _attention_s(kernel: Kernel, preset: KernelPreset, floor_s: float, *, is_backward: bool) -> float:
    """Return the time of fused attention: its products, and the exponentials that they do not hide."""
    efficiency = preset.attention_backward_efficiency if is_backward else preset.attention_forward_efficiency
    products_s = floor_s / efficiency * (1 + preset.attention_block_half / kernel.k)
    return products_s + preset.exponential_exposed_share * kernel.elements / preset.exponentials_per_s


def pass_times(kernels: tuple[Kernel, ...], preset: KernelPreset, *, is_backward: bool, is_graph: bool) -> Totals:
    """Return the totals of *kernels* run one after another on a stream."""
    gap_s = preset.launch_gap_graph_s if is_graph else preset.launch_gap_s
    times = [(kernel, kernel_time(kernel, preset, is_backward=is_backward)) for kernel in kernels]
    busy_s = sum(time.busy_s + gap_s * kernel.launches for kernel, time in times)
    core_s = sum(time.busy_s for kernel, time in times if kernel.name.startswith("attention"))
    return busy_s, sum(time.floor_s for _, time in times), core_s


def scaled(totals: Totals, factor: float) -> Totals:
    """Return *totals* of *factor* equal layers."""
    return (totals[0] * factor, totals[1] * factor, totals[2] * factor)


def added(left: Totals, right: Totals) -> Totals:
    """Return both one after the other."""
    return (left[0] + right[0], left[1] + right[1], left[2] + right[2])
