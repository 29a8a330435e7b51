"""What the matrix units of a case sustain at best."""

from __future__ import annotations

from collections.abc import Iterable

from simnet.runner.case import the_gpu
from simnet.spec.scenario import CaseSpec
from simnet.workload.kernels import job_preset


def sustained_shares(cases: Iterable[CaseSpec]) -> dict[str, float]:
    """Return the share of the dense peak that large matrix products sustain, by variant (fractions)."""
    shares: dict[str, float] = {}
    for case in cases:
        preset = job_preset(case.workload, the_gpu(case))
        shares.setdefault(case.variant, min(1.0, preset.linear_efficiency * preset.gemm_speedup))
    return shares
