"""What the chips of a case can do at most, and what its model asks of them."""

from __future__ import annotations

from collections.abc import Iterable

from simnet.analysis.claims import ChipLimit
from simnet.runner.case import the_gpu
from simnet.spec.scenario import CaseSpec
from simnet.workload.kernels import job_preset
from simnet.workload.transformer import parameters

FLOPS_PER_PARAMETER = 6
"""Of a token, forward and backward, attention left out (Kaplan, arXiv:2001.08361, section 2.1)."""


def chip_limits(cases: Iterable[CaseSpec]) -> dict[str, ChipLimit]:
    """Return the limits of the first case of each variant."""
    limits: dict[str, ChipLimit] = {}
    for case in cases:
        gpu = the_gpu(case)
        preset = job_preset(case.workload, gpu)
        limit = ChipLimit(
            peak_flops_per_s=gpu.peak_flops_per_s(case.workload.precision),
            sustained_share=min(1.0, preset.linear_efficiency * preset.gemm_speedup),
            flops_per_token=FLOPS_PER_PARAMETER * float(parameters(case.workload.model)),
        )
        limits.setdefault(case.variant, limit)
    return limits
