"""The verb calibrate: constants of the compute model fitted on a table of published runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from simnet import library
from simnet.cli.output import say
from simnet.cli.table import print_table, print_text

if TYPE_CHECKING:
    from simnet.validation.calibration_report import CalibrationReport

_PERCENT = 100


def calibrate_runs(*, runs: Path | None, cross_validate: bool, as_json: bool) -> None:
    """Print fitted beside shipped constants, their spread and correlations, and the errors of the rows.

    Raises
    ------
    SpecError
        If the table cannot be read or holds no row to fit.
    """
    from simnet.errors import Problem, SpecError
    from simnet.validation.calibrate import usable
    from simnet.validation.calibration_report import calibration_report, report_json
    from simnet.validation.runs import read_runs

    path = runs or library.shipped_file("scenarios/validation/training_runs.csv")
    cases = usable(read_runs(path))
    if not cases:
        raise SpecError(Problem(message="no row of this table can be fitted", where=str(path)))
    report = calibration_report(cases, cross_validate=cross_validate)
    if as_json:
        say(report_json(report))
    else:
        _print(report)


def _print(report: CalibrationReport) -> None:
    constants = [
        [
            one.name,
            f"{one.shipped:.4g}",
            f"{one.fitted:.4g}",
            _share(one.spread),
            f"{one.prior:.4g}",
            _share(one.prior_spread),
        ]
        for one in report.constants
    ]
    print_table(["constant", "shipped", "fitted", "sd %", "prior", "its sd %"], [False, *[True] * 5], constants)
    print_text("")
    if report.correlations:
        pairs = [[pair.one, pair.other, f"{pair.value:+.2f}"] for pair in report.correlations]
        print_table(["strongly correlated", "with", "by"], [False, False, True], pairs)
        print_text("")
    groups = [
        [
            one.by,
            one.key,
            str(one.rows),
            *(_share(value, 1) for value in (one.median_ape, one.p90_ape, one.max_ape, one.bias)),
        ]
        for one in report.groups()
    ]
    print_table(
        ["errors", "rows of", "rows", "median %", "p90 %", "max %", "bias %"], [False, False, *[True] * 5], groups
    )


def _share(value: float, digits: int = 0) -> str:
    return f"{_PERCENT * value:.{digits}f}"
