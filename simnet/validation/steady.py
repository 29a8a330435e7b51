"""The step of a pipeline with many micro-batches from three shorter steps of the engine.

A pipeline in its steady state repeats itself with every group of as many micro-batches as it has stages,
so that its step grows by the same time with each further group. Three lengths are simulated, one
group apart; where both differences agree, the rest of the groups is added, and where they do not,
longer ones are simulated, at last the whole step.
"""

from __future__ import annotations

from dataclasses import dataclass

from simnet.analysis.result import Result
from simnet.runner.case import prepare, simulate
from simnet.spec.scenario import CaseSpec
from simnet.workload.checks import num_micro_batches
from simnet.workload.ranks import resolve_dp

FIRST_GROUPS = 3
"""Groups of the shortest step that is simulated: filling and draining take one each."""
MORE_GROUPS = 3
"""Groups by which the three steps grow where they were too short."""
TOLERANCE = 1e-9
"""Relative difference of two periods that count as one (rounding of the engine's clock)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyStep:
    """The step of a case, and how it was found."""

    step_time_s: float
    num_micro_batches: int
    longest_simulated: int
    """Micro-batches of the longest step that the engine ran; fewer than all if the rest was added."""
    period_s: float
    """What each further group of micro-batches adds [s]; 0 where the whole step was simulated."""
    result: Result
    """Of the longest step that the engine ran."""

    @property
    def is_extrapolated(self) -> bool:
        """Whether groups of micro-batches were added that the engine did not run."""
        return self.longest_simulated < self.num_micro_batches

    @property
    def method(self) -> str:
        """How the step was found, in words."""
        if not self.is_extrapolated:
            return "engine"
        return f"engine, {self.longest_simulated} of {self.num_micro_batches} micro-batches, the rest by its period"


def steady_step(case: CaseSpec, num_gpus: int) -> SteadyStep:
    """Return the step of *case* on *num_gpus*, from as few micro-batches as show its period.

    Raises
    ------
    SimnetError
        As :func:`simnet.runner.case.prepare` and :func:`simnet.runner.case.simulate`.

    Notes
    -----
    A step is a recursion of maxima and sums whose coefficients repeat with every group, and such
    recursions become periodic after finitely many (Baccelli, Cohen, Olsder, Quadrat, Synchronization
    and Linearity, theorem 3.112). That the period was reached is concluded from two equal
    differences, not proven; the tests compare with whole steps.
    """
    stages = case.workload.parallelism.pp
    total = num_micro_batches(case.workload, resolve_dp(case.workload.parallelism, num_gpus))
    groups = total // stages
    first = FIRST_GROUPS
    while first + 2 < groups:
        lengths = [total - (groups - count) * stages for count in range(first, first + 3)]
        results = [_simulated(case, length) for length in lengths]
        short, middle, long = (result.step_time_s for result in results)
        period_s = long - middle
        if abs(period_s - (middle - short)) <= TOLERANCE * long:
            return SteadyStep(
                step_time_s=long + (groups - first - 2) * period_s,
                num_micro_batches=total,
                longest_simulated=lengths[-1],
                period_s=period_s,
                result=results[-1],
            )
        first += MORE_GROUPS
    whole = _simulated(case, total)
    return SteadyStep(
        step_time_s=whole.step_time_s, num_micro_batches=total, longest_simulated=total, period_s=0.0, result=whole
    )


def _simulated(case: CaseSpec, length: int) -> Result:
    """Return the engine's result with *length* micro-batches per replica."""
    batch = case.workload.batch.model_copy(update={"global_batch_size": None, "num_micro_batches": length})
    shorter = case.model_copy(update={"workload": case.workload.model_copy(update={"batch": batch})})
    return simulate(prepare(shorter)).result
