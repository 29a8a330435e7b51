"""What a calibration found: constants, correlations, errors on the fitted rows, on rows left out, on GPUs left out.

``simnet calibrate --cross-validate --json`` prints it; the shipped ``scenarios/validation/calibration.json`` is that
output, and the known errors of ``topologies/parts/known_error.yaml`` follow from it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from simnet.library import shipped_file
from simnet.spec.compute import load_compute
from simnet.spec.known_error import KnownErrorRecord
from simnet.validation.calibrate import LEFT_OUT, Calibrated, calibrate, cross_validated, predictions, without_gpu
from simnet.validation.free_constants import values_of
from simnet.validation.group_error import GroupError, group_error
from simnet.validation.run_errors import is_stated
from simnet.validation.runs import GPU_PARTS, RunCase
from simnet.validation.stacks import MEGATRON, OTHER_STACKS, stack_label

CALIBRATION_FILE = "scenarios/validation/calibration.json"
STRONG = 0.55
"""Correlation of two constants from which it is worth printing."""
MIN_ROWS = 5
"""Rows below which a group has no known error of its own."""
SIBLINGS: Mapping[str, str] = {"B300-HGX": "GB300"}
"""GPU part without rows, and the GPU whose rows, left out, tell how far off such a part is."""
_ROUNDED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedConstant:
    """One free constant."""

    name: str
    shipped: float
    fitted: float
    spread: float
    """Standard deviation of its logarithm after the fit."""
    prior: float
    prior_spread: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """Two constants that the rows cannot tell apart well."""

    one: str
    other: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedRow:
    """Signed errors of one row: with the shipped constants, with the fitted, with those fitted without its family."""

    id: str
    gpu: str
    precision: str
    stack: str
    is_stated: bool
    """Whether micro-batch, stages and recomputation are stated."""
    shipped: float
    fitted: float
    cross_validated: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutRow:
    """Signed error of one row under constants fitted without its GPU."""

    id: str
    gpu: str
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationReport:
    """A calibration and how far it can be trusted."""

    constants: tuple[FittedConstant, ...]
    correlations: tuple[Correlation, ...]
    rows: tuple[CalibratedRow, ...]
    left_out: tuple[LeftOutRow, ...]

    def groups(self) -> tuple[GroupError, ...]:
        """Return errors of all rows and by GPU and precision, for each kind of error; then of GPUs left out."""
        found: list[GroupError] = []
        for kind in ("shipped", "fitted", "cross_validated"):
            for key, rows in _grouped(self.rows):
                errors = [error for row in rows if (error := getattr(row, kind)) is not None]
                if errors:
                    found.append(group_error(kind.replace("_", "-"), key, errors))
        for gpu in dict.fromkeys(row.gpu for row in self.left_out):
            errors = [row.error for row in self.left_out if row.gpu == gpu]
            found.append(group_error("GPU left out", gpu, errors))
        return tuple(found)


def calibration_report(cases: Sequence[RunCase], *, cross_validate: bool) -> CalibrationReport:
    """Return constants fitted on *cases*, and their errors.

    Parameters
    ----------
    cross_validate
        Fit again without each fold of families and without each GPU, some minutes more.
    """
    found = calibrate(cases)
    measured = np.array([case.row.measured_s for case in cases], dtype=np.float64)
    shipped = predictions(cases, load_compute()) / measured - 1
    fitted = np.exp(found.fit.residuals) - 1
    blind = cross_validated(cases) if cross_validate else {}
    left_out = [
        LeftOutRow(id=name, gpu=gpu, error=error)
        for gpu in (LEFT_OUT if cross_validate else ())
        if any(case.row.text("gpu") == gpu for case in cases)
        for name, error in without_gpu(cases, gpu).items()
    ]
    rows = tuple(
        CalibratedRow(
            id=case.row.run_id,
            gpu=case.row.text("gpu"),
            precision=case.workload.precision,
            stack=stack_label(case.row),
            is_stated=is_stated(case.assumptions),
            shipped=float(before),
            fitted=float(after),
            cross_validated=blind.get(case.row.run_id),
        )
        for case, before, after in zip(cases, shipped, fitted, strict=True)
    )
    return CalibrationReport(
        constants=_constants(found), correlations=_correlations(found), rows=rows, left_out=tuple(left_out)
    )


def report_json(report: CalibrationReport) -> str:
    """Return *report* as JSON text."""
    return json.dumps(asdict(report), indent=1, allow_nan=False)


def shipped_calibration() -> CalibrationReport:
    """Return the shipped calibration.

    Raises
    ------
    SpecError
        If simnet was installed without the file.
    """
    content = json.loads(shipped_file(CALIBRATION_FILE).read_text(encoding="utf-8"))
    return CalibrationReport(
        constants=tuple(FittedConstant(**one) for one in content["constants"]),
        correlations=tuple(Correlation(**one) for one in content["correlations"]),
        rows=tuple(CalibratedRow(**one) for one in content["rows"]),
        left_out=tuple(LeftOutRow(**one) for one in content["left_out"]),
    )


def known_errors(report: CalibrationReport, *, source: str) -> tuple[KnownErrorRecord, ...]:
    """Return the records of ``known_error.yaml``: what a run that no constant was fitted on can expect.

    By GPU and precision, then by GPU, then of a GPU without rows, then of all; cross-validated errors.
    """
    blind = [row for row in report.rows if row.cross_validated is not None]
    found: list[KnownErrorRecord] = []
    for gpu, precision in sorted({(row.gpu, row.precision) for row in blind}):
        errors = [row.cross_validated or 0.0 for row in blind if (row.gpu, row.precision) == (gpu, precision)]
        found += _record(GPU_PARTS[gpu], precision, errors, source)
    for gpu in sorted({row.gpu for row in blind}):
        found += _record(GPU_PARTS[gpu], "", [row.cross_validated or 0.0 for row in blind if row.gpu == gpu], source)
    for part, gpu in SIBLINGS.items():
        errors = [row.error for row in report.left_out if row.gpu == gpu]
        found += _record(part, "", errors, f"{source}; no runs of its own: those of {gpu}, left out of the fit")
    found += _record("", "", [row.cross_validated or 0.0 for row in blind], source)
    return tuple(found)


def _record(gpu: str, precision: str, errors: Sequence[float], source: str) -> list[KnownErrorRecord]:
    if len(errors) < MIN_ROWS:
        return []
    found = group_error("", "", errors)
    return [
        KnownErrorRecord(
            gpu=gpu,
            precision=precision,
            median=round(found.median_ape, _ROUNDED),
            p90=round(found.p90_ape, _ROUNDED),
            rows=found.rows,
            source=source,
        )
    ]


def _grouped(rows: Sequence[CalibratedRow]) -> list[tuple[str, list[CalibratedRow]]]:
    groups: dict[str, list[CalibratedRow]] = {}
    for row in rows:
        groups.setdefault(f"{row.gpu}, {row.precision}, {row.stack}", []).append(row)
    kinds = {
        "all": list(rows),
        "megatron, inputs stated": [row for row in rows if row.stack == MEGATRON and row.is_stated],
        "megatron, recomputation blank": [row for row in rows if row.stack == MEGATRON and not row.is_stated],
        OTHER_STACKS: [row for row in rows if row.stack != MEGATRON],
    }
    return [(key, found) for key, found in kinds.items() if found] + sorted(groups.items())


def _constants(found: Calibrated) -> tuple[FittedConstant, ...]:
    shipped = values_of(load_compute())
    spreads = np.sqrt(np.diag(found.fit.covariance))
    return tuple(
        FittedConstant(
            name=one.name,
            shipped=shipped[one.name],
            fitted=found.values[one.name],
            spread=float(spread),
            prior=one.prior,
            prior_spread=one.spread,
        )
        for one, spread in zip(found.constants, spreads, strict=True)
    )


def _correlations(found: Calibrated) -> tuple[Correlation, ...]:
    """Return the pairs of constants that are strongly correlated, strongest first."""
    spreads = np.sqrt(np.diag(found.fit.covariance))
    matrix = found.fit.covariance / np.outer(spreads, spreads)
    pairs = [
        Correlation(one=one.name, other=other.name, value=float(matrix[i, j]))
        for i, one in enumerate(found.constants)
        for j, other in enumerate(found.constants[:i])
        if abs(matrix[i, j]) >= STRONG
    ]
    return tuple(sorted(pairs, key=lambda pair: -abs(pair.value)))
