"""The constants of the compute model that calibration may move, each with what was believed before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simnet.spec.compute import ComputePart


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeConstant:
    """One number that the fit may move; several places of ``compute.yaml`` may follow it."""

    name: str
    prior: float
    """Value that was believed before the fit, in the unit of the file."""
    spread: float
    """Standard deviation of the logarithm of that belief."""
    places: tuple[tuple[str, float], ...]
    """Dotted path in ``compute.yaml`` and factor on the number that stands there."""


def _free(name: str, prior: float, spread: float, *places: str | tuple[str, float]) -> FreeConstant:
    pairs = tuple((place, 1.0) if isinstance(place, str) else place for place in places)
    return FreeConstant(name=name, prior=prior, spread=spread, places=pairs)


def _linear(generation: str, *precisions: str) -> tuple[str, ...]:
    return tuple(f"generations.{generation}.linear_efficiency.{precision}" for precision in precisions)


def _everywhere(key: str, *generations: str) -> tuple[str, ...]:
    return tuple(f"generations.{generation}.{key}" for generation in generations)


_ALL = ("volta", "ampere", "hopper", "blackwell")
MXFP8_CAST_SHARE = 4.06 / 4
"""Bytes to quantise to mxfp8 over those to fp8: 8-bit copies and one scale byte for 32 elements."""

FREE_CONSTANTS: tuple[FreeConstant, ...] = (
    _free("efficiency A100 16 bit", 0.75, 0.15, *_linear("ampere", "bf16", "fp16"), *_linear("volta", "bf16", "fp16")),
    _free("efficiency H100 16 bit", 0.75, 0.15, *_linear("hopper", "bf16", "fp16")),
    _free("efficiency H100 8 bit", 0.65, 0.15, *_linear("hopper", "fp8", "mxfp8")),
    _free("efficiency GB200 16 bit", 0.62, 0.10, *_linear("blackwell", "bf16", "fp16")),
    _free("efficiency GB200 fp8", 0.60, 0.15, *_linear("blackwell", "fp8")),
    _free("efficiency GB200 mxfp8", 0.58, 0.15, *_linear("blackwell", "mxfp8")),
    _free("efficiency GB200 nvfp4", 0.50, 0.25, *_linear("blackwell", "nvfp4")),
    _free("rate B200, narrow", 0.73, 0.15, "gpu_compute.B200-HGX.matrix_rate"),
    _free("rate B200, 16 bit", 0.73, 0.10, "gpu_compute.B200-HGX.half_matrix_rate"),
    _free("rate GB300", 1.31, 0.06, "gpu_compute.GB300.matrix_rate"),
    _free("software immaturity", 0.12, 0.5, "generations.blackwell.software_immaturity"),
    _free("k_half", 200, 0.5, "laws.gemm_k_half"),
    _free("wave share", 0.5, 0.4, "laws.gemm_wave_share"),
    _free("split share", 0.4, 0.5, "laws.gemm_split_share"),
    _free("attention forward", 0.80, 0.12, *_everywhere("attention_forward_efficiency", *_ALL)),
    _free("attention backward", 0.65, 0.12, *_everywhere("attention_backward_efficiency", *_ALL)),
    _free(
        "attention on Blackwell", 0.90, 0.10,
        *_everywhere("attention_forward_efficiency", "blackwell"),
        *_everywhere("attention_backward_efficiency", "blackwell"),
    ),
    _free("attention block_half", 500, 0.6, "laws.attention_block_half"),
    _free("exponentials exposed", 0.5, 0.5, "laws.exponential_exposed_share"),
    _free("memory efficiency", 0.78, 0.08, *_everywhere("memory_efficiency", "hopper", "blackwell")),
    _free("memory efficiency A100", 0.80, 0.08, *_everywhere("memory_efficiency", "volta", "ampere")),
    _free("cast bytes 8 bit", 4.0, 0.3, "laws.cast_bytes.fp8", ("laws.cast_bytes.mxfp8", MXFP8_CAST_SHARE)),
    _free("cast bytes nvfp4", 7.65, 0.5, "laws.cast_bytes.nvfp4"),
    _free("gap [us]", 3.0, 0.5, "laws.launch_gap"),
    _free("gap in graphs [us]", 1.2, 0.5, "laws.launch_gap_graph"),
    _free("contention tp, cp", 0.4, 0.5, "laws.contention_share"),
    _free("contention dp", 0.4, 0.5, "laws.contention_share_dp"),
    _free("step overhead [us]", 15000, 0.7, "laws.step_overhead"),
    _free("jitter", 0.002, 1.0, "laws.jitter"),
    _free("copies of sharded units", 1.0, 0.5, "laws.sharded_copy_share"),
    _free("slow-down of eager PyTorch", 1.15, 0.10, "laws.stack_slowdown.pytorch"),
    _free("slow-down of compiled stacks", 1.05, 0.08, "laws.stack_slowdown.compiled"),
    _free("casts of compiled stacks", 0.5, 0.4, "laws.compiled_cast_share"),
    _free("FlashAttention-1 on A100", 0.5, 0.3, *_everywhere("attention_kernel_share.flash1", "volta", "ampere")),
    _free("FlashAttention-1 on H100", 0.27, 0.3, *_everywhere("attention_kernel_share.flash1", "hopper")),
    _free("FlashAttention-2 on H100", 0.5, 0.2, *_everywhere("attention_kernel_share.flash2", "hopper")),
    _free("loss bytes forward", 14, 0.35, "laws.loss_forward_bytes"),
    _free("loss bytes backward", 10, 0.35, "laws.loss_backward_bytes"),
)  # fmt: skip
"""Free constants with their priors: engineering judgement (docs/model/compute.md), wide enough to be overruled.

A place that several constants name takes their product.
"""


def with_values(part: ComputePart, values: Mapping[str, float]) -> ComputePart:
    """Return *part* with the free constants at *values*, by name; places that no value names stay."""
    tree: dict[str, Any] = part.model_dump()
    products: dict[str, float] = {}
    for constant in FREE_CONSTANTS:
        for place, factor in constant.places:
            products[place] = products.get(place, 1.0) * factor * values[constant.name]
    for place, value in products.items():
        record = _at(tree, place)
        record["value"] = value
        record["low"], record["high"] = min(record["low"], value), max(record["high"], value)
    return ComputePart.model_validate(tree)


def values_of(part: ComputePart) -> dict[str, float]:
    """Return the values of the free constants that *part* holds, by name."""
    tree: dict[str, Any] = part.model_dump()
    found: dict[str, float] = {}
    for constant in reversed(FREE_CONSTANTS):  # a factor on other constants stands behind them
        place, factor = constant.places[0]
        found[constant.name] = _at(tree, place)["value"] / factor
    shared = "attention on Blackwell"
    found["attention forward"] = part.generations["hopper"].attention_forward_efficiency.value
    found["attention backward"] = part.generations["hopper"].attention_backward_efficiency.value
    found[shared] /= found["attention forward"]
    return {constant.name: found[constant.name] for constant in FREE_CONSTANTS}


def _at(tree: dict[str, Any], place: str) -> dict[str, Any]:
    node: Any = tree
    for key in place.split("."):
        node = node[key]
    if not isinstance(node, dict):
        raise KeyError(place)
    return node
