"""From a trace to what a step spends its time on."""

from __future__ import annotations

from collections.abc import Mapping

from simnet.analysis.result_parts import Span
from simnet.engine.program import Program
from simnet.engine.trace import BUBBLE, StepTrace
from simnet.errors import PhysicsError, Problem
from simnet.workload.ops import Category, Compute, StepPlan, Wait

PART_OF_CATEGORY: Mapping[str, str] = {
    Category.COMPUTE: "compute",
    Category.OPTIMIZER: "optimizer",
    Category.TP: "exposed_tp",
    Category.CP: "exposed_cp",
    Category.EP: "exposed_tp",
    Category.PP: "exposed_pp",
    Category.DP: "exposed_dp",
    BUBBLE: "bubble",
}
"""Part of the breakdown that a category of the trace belongs to."""

ROUNDING = 1e-9
"""Relative slack of a bound, for rounding."""


def breakdown(trace: StepTrace) -> dict[str, float]:
    """Seconds of the step by part, mean over all ranks; they add up to the step time."""
    parts = dict.fromkeys(
        ("compute", "exposed_tp", "exposed_cp", "exposed_pp", "exposed_dp", "bubble", "optimizer"),
        0.0,
    )
    for spent in trace.time_by_category_s:
        for category, seconds in spent.items():
            parts[PART_OF_CATEGORY[category]] += seconds / len(trace.time_by_category_s)
    return parts


def check_floors(plan: StepPlan, trace: StepTrace) -> None:
    """Raise if the step is shorter than the matrix work of its busiest stage at the GPU's peak.

    Raises
    ------
    PhysicsError
        With the stage and both times.
    """
    floor_s = max(plan.compute_floor_s)
    if trace.step_time_s < floor_s * (1 - ROUNDING):
        raise PhysicsError(
            Problem(
                message="the step is faster than the roofline of its busiest stage",
                found=f"{trace.step_time_s:.6g} s",
                allowed=f"at least {floor_s:.6g} s on stage {plan.compute_floor_s.index(floor_s)}",
            )
        )


def timeline(program: Program, trace: StepTrace) -> tuple[Span, ...]:
    """Spans of the first replica, one lane per pipeline stage, by start time."""
    found = [
        Span(
            stage=span.role,
            label=_label(program, span.role, span.op, span.kind),
            category=_category(program, span.role, span.op, span.kind),
            micro_batch=getattr(program.roles[span.role].ops[span.op], "micro_batch", -1),
            chunk=getattr(program.roles[span.role].ops[span.op], "chunk", -1),
            start_s=span.start_s,
            end_s=span.end_s,
        )
        for span in trace.spans
    ]
    return tuple(sorted(found, key=lambda span: (span.start_s, span.stage)))


def _label(program: Program, role: int, op: int, kind: str) -> str:
    operation = program.roles[role].ops[op]
    if isinstance(operation, Compute):
        return operation.label
    assert isinstance(operation, Wait)
    return f"wait {program.transfers[operation.comm].name}"


def _category(program: Program, role: int, op: int, kind: str) -> str:
    if kind == BUBBLE:
        return BUBBLE
    operation = program.roles[role].ops[op]
    if isinstance(operation, Compute):
        return operation.category.value
    assert isinstance(operation, Wait)
    return program.transfers[operation.comm].category.value


def bottleneck_sentence(parts: Mapping[str, float], step_time_s: float) -> str:
    """Tell in a sentence what the step spends most on, and what comes next."""
    ranked = sorted(parts.items(), key=lambda item: -item[1])
    names = {
        "compute": "GPU kernels",
        "optimizer": "the optimizer",
        "bubble": "pipeline bubbles",
        "exposed_tp": "exposed tensor-parallel traffic",
        "exposed_cp": "exposed context-parallel traffic",
        "exposed_pp": "exposed pipeline sends",
        "exposed_dp": "exposed gradient and parameter traffic",
    }
    (first, first_s), (second, second_s) = ranked[:2]
    return (
        f"{first_s / step_time_s:.1%} of the step go to {names[first]}, {second_s / step_time_s:.1%} to {names[second]}"
    )
