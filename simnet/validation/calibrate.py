"""Calibration of the compute model on a table of published runs: fit, cross-validation, one GPU left out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simnet.analysis.screen import estimate_step
from simnet.spec.compute import ComputePart, KernelPreset, load_compute
from simnet.validation.free_constants import FREE_CONSTANTS, FreeConstant, values_of, with_values
from simnet.validation.regression import Fit, FloatArray, Regression, fit
from simnet.validation.run_errors import CALIBRATION_QUALITIES, SHAPE_COLUMNS
from simnet.validation.runs import RunCase, RunRow, to_case
from simnet.workload.kernels import job_preset

UNSTATED_SHARE = "recompute share"
"""Note of rows of which it is not known how many layers they recompute."""
LOSS_SCALE = 0.03
"""Error at which a row starts to lose its say: the drift of one recipe between containers (docs/validation.md)."""
MAX_ITERATIONS = 8
FOLDS = 5
LEFT_OUT: Mapping[str, tuple[str, ...]] = {
    "GB200": (),
    "GB300": ("rate GB300",),
    "B200": ("rate B200, narrow", "rate B200, 16 bit"),
}
"""GPUs with siblings of their generation, and the rates that they then take from the power law."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """Constants fitted on some rows."""

    values: dict[str, float]
    part: ComputePart
    fit: Fit
    constants: tuple[FreeConstant, ...]
    """Constants that were free, in the order of the covariance."""


def usable(rows: Iterable[RunRow]) -> tuple[RunCase, ...]:
    """Return the rows that constants are fitted on.

    Quality a and b, not doubted, with micro-batch and stages stated; where attention
    is not fused (before 2023), recomputation too, since it decides the work.
    """
    cases = [case for case in map(to_case, rows) if isinstance(case, RunCase)]
    return tuple(case for case in cases if _is_usable(case))


def calibrate(
    cases: Sequence[RunCase], *, fixed: Mapping[str, float] | None = None, from_prior: bool = False
) -> Calibrated:
    """Return the constants that fit *cases* best.

    Parameters
    ----------
    fixed
        Constants that are not free, by name.
    from_prior
        Start at the priors, as cross-validation must, and not at the shipped constants.
    """
    held = dict(fixed or {})
    free = tuple(constant for constant in FREE_CONSTANTS if constant.name not in held)
    shipped = load_compute()
    begin = {one.name: one.prior for one in FREE_CONSTANTS} if from_prior else values_of(shipped)
    measured = np.log([case.row.measured_s or math.nan for case in cases])

    def named(logarithms: FloatArray) -> dict[str, float]:
        return {**held, **{one.name: math.exp(value) for one, value in zip(free, logarithms, strict=True)}}

    def residuals(logarithms: FloatArray) -> FloatArray:
        return np.log(predictions(cases, with_values(shipped, named(logarithms)))) - measured

    job = Regression(
        residuals=residuals,
        prior=np.log([one.prior for one in free]),
        spread=np.array([one.spread for one in free]),
        weights=_weights(cases),
        scale=LOSS_SCALE,
    )
    found = fit(job, np.log([begin[one.name] for one in free]), max_iterations=MAX_ITERATIONS)
    values = named(found.logarithms)
    return Calibrated(values=values, part=with_values(shipped, values), fit=found, constants=free)


def predictions(cases: Sequence[RunCase], part: ComputePart) -> FloatArray:
    """Return the step times of the closed form with the constants *part* [s]."""
    presets: dict[tuple[object, ...], KernelPreset] = {}
    steps: list[float] = []
    for case in cases:
        job = case.workload
        key = (case.gpu.name, job.precision, job.software_date, job.stack, job.attention_kernel)
        if key not in presets:
            presets[key] = job_preset(job, case.gpu, part)
        steps.append(estimate_step(job, case.gpu, presets[key], case.network, dp=case.dp).step_time_s)
    return np.array(steps)


def cross_validated(cases: Sequence[RunCase], *, folds: int = FOLDS, seed: int = 0) -> dict[str, float]:
    """Return the error of each row, predicted by constants fitted without its family.

    A family is a source, a model and a GPU; rows of one family repeat a recipe and go to one fold together.
    """
    families = sorted({_family(case) for case in cases})
    order = np.random.default_rng(seed).permutation(len(families))
    fold = {families[index]: place % folds for place, index in enumerate(order)}
    errors: dict[str, float] = {}
    for number in range(folds):
        errors |= _errors_without(cases, [fold[_family(case)] == number for case in cases])
    return errors


def without_gpu(cases: Sequence[RunCase], gpu: str) -> dict[str, float]:
    """Return the errors of the rows of *gpu*, a key of ``LEFT_OUT``, under constants fitted without any of them.

    Its matrix rate follows the power law over the datasheet's board power, as for a GPU without rows.
    """
    constants = load_compute()
    reference = constants.generations["blackwell"].reference_tdp.si
    part = next(case.gpu for case in cases if case.row.text("gpu") == gpu)
    rates = dict.fromkeys(LEFT_OUT[gpu], (part.tdp / reference) ** constants.laws.power_exponent.value)
    return _errors_without(cases, [case.row.text("gpu") == gpu for case in cases], fixed=rates)


def _errors_without(
    cases: Sequence[RunCase], is_tested: Sequence[bool], fixed: Mapping[str, float] | None = None
) -> dict[str, float]:
    fitted = [case for case, tested in zip(cases, is_tested, strict=True) if not tested]
    tested = [case for case, out in zip(cases, is_tested, strict=True) if out]
    part = calibrate(fitted, fixed=fixed, from_prior=True).part
    steps = predictions(tested, part)
    return {
        case.row.run_id: float(step / (case.row.measured_s or math.nan) - 1)
        for case, step in zip(tested, steps, strict=True)
    }


def _is_usable(case: RunCase) -> bool:
    row = case.row
    is_known = bool(row.measured_s) and row.text("quality") in CALIBRATION_QUALITIES and not row.is_suspect
    shape = SHAPE_COLUMNS if case.gpu.generation == "ampere" else SHAPE_COLUMNS[:2]
    is_stated = not any(note.startswith((*shape, UNSTATED_SHARE)) for note in case.assumptions)
    return is_known and is_stated


def _family(case: RunCase) -> tuple[str, str, str]:
    return (case.row.text("source"), case.row.text("base_model_id"), case.row.text("gpu"))


def _weights(cases: Sequence[RunCase]) -> FloatArray:
    """Return weights of mean 1; rows of one source, model, GPU and precision share theirs (1/sqrt of their number)."""
    keys = [(*_family(case), case.workload.precision) for case in cases]
    counts = Counter(keys)
    weights = np.array([1 / math.sqrt(counts[key]) for key in keys])
    return np.asarray(weights / weights.mean())
