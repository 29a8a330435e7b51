"""What-ifs about kernels: what tuned ones would buy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import Field, model_validator

from simnet.spec.base import Rule, SpecModel, broken
from simnet.spec.kernel_preset import KernelPreset

Speedup = Annotated[float, Field(gt=0, le=1000)]
"""So many times as fast; below 1 is slower."""
Efficiency = Annotated[float, Field(gt=0, le=1)]
"""Share of the datasheet's rate."""


class KernelChange(SpecModel):
    """One kind of kernel: so many times as fast as measured, or another efficiency."""

    speedup: Speedup | None = None
    """So many times as fast as the calibrated kernels; 1.8 takes 1/1.8 of the time."""
    efficiency: Efficiency | None = None
    """Share of the datasheet's rate that a large kernel reaches, in place of the calibrated one."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.speedup is None) == (self.efficiency is None):
            found = "neither" if self.speedup is None else f"speedup {self.speedup:g}, efficiency {self.efficiency:g}"
            raise broken(
                Rule(message="give speedup or efficiency, one of the two", keys=("speedup", "efficiency"), found=found)
            )
        return self


class LaunchChange(SpecModel):
    """Idle time between kernels."""

    speedup: Speedup
    """Gaps so many times as short."""


class KernelsSpec(SpecModel):
    """What-ifs about kernels; what is left out stays as calibrated on published runs."""

    gemm: KernelChange | None = None
    """Matrix products with weights; ``efficiency`` is of the workload's precision."""
    attention: KernelChange | None = None
    """Fused attention, forward and backward; ``efficiency`` is of the 16-bit peak."""
    memory: KernelChange | None = None
    """Kernels that stream from HBM: norms, activations, casts, the optimizer; ``efficiency`` is of HBM's bandwidth."""
    launch: LaunchChange | None = None
    """Launch gaps, in CUDA graphs or not."""

    def apply(self, preset: KernelPreset) -> KernelPreset:
        """Return *preset* with these changes, each named in its assumptions."""
        changed = preset.scaled(
            gemm=_speedup(self.gemm), attention=_speedup(self.attention), memory=_speedup(self.memory)
        )
        update: dict[str, object] = {"assumptions": (*preset.assumptions, *self._words())}
        if self.gemm is not None and self.gemm.efficiency is not None:
            update["linear_efficiency"] = self.gemm.efficiency
            if preset.linear_peak_flops_per_s == preset.half_peak_flops_per_s:
                update["half_efficiency"] = self.gemm.efficiency
        if self.attention is not None and self.attention.efficiency is not None:
            update["attention_forward_efficiency"] = update["attention_backward_efficiency"] = self.attention.efficiency
        if self.memory is not None and self.memory.efficiency is not None:
            update["memory_efficiency"] = self.memory.efficiency
        if self.launch is not None:
            update["launch_gap_s"] = preset.launch_gap_s / self.launch.speedup
            update["launch_gap_graph_s"] = preset.launch_gap_graph_s / self.launch.speedup
        return changed.model_copy(update=update)

    def _words(self) -> Iterator[str]:
        for name in ("gemm", "attention", "memory", "launch"):
            change = getattr(self, name)
            if change is None:
                continue
            efficiency = getattr(change, "efficiency", None)
            how = f"{change.speedup:g} times as fast" if efficiency is None else f"at {efficiency:.0%} of the datasheet"
            yield f"What-if, not calibrated: {_LONG[name]} {how}."


_LONG = {
    "gemm": "matrix products",
    "attention": "attention",
    "memory": "kernels that stream from HBM",
    "launch": "launch gaps",
}


def _speedup(change: KernelChange | None) -> float:
    return 1.0 if change is None or change.speedup is None else change.speedup
