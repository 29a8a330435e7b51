"""One training step of a job: what each pipeline stage does, in which order, and what it sends to whom."""

from __future__ import annotations

from simnet.workload.ops import Category, CollectiveOp, Comm, Compute, Op, Start, StepPlan, Wait

__all__ = ["Category", "CollectiveOp", "Comm", "Compute", "Op", "Start", "StepPlan", "Wait"]
