"""The verb validate: predicted against measured, by row, group and scaling series."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from simnet import library
from simnet.cli.output import say
from simnet.cli.table import print_table, print_text

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from simnet.validation.runs_report import Fidelity

Record = dict[str, object]
_GROUPS_LEFT_TO_JSON = ("id", "id from 1 MiB")
_PERCENT = 100


def validate_tables(
    *, runs: Path | None, collectives: Path | None, flows: Sequence[Path], fidelity: Fidelity, as_json: bool
) -> None:
    """Print how far predictions lie from measurements; without any file, from all shipped tables.

    Raises
    ------
    SpecError
        If a table cannot be read.
    """
    report: dict[str, list[Record]] = {"rows": [], "groups": [], "series": []}
    if runs is None and collectives is None and not flows:
        runs = library.shipped_file("scenarios/validation/training_runs.csv")
        collectives = library.shipped_file("scenarios/validation/collectives_measured.csv")
        flows = sorted(library.shipped_file("scenarios/validation/flows").glob("*.json"))
    if runs is not None:
        _add(report, "runs", *_of_runs(runs, fidelity))
    if collectives is not None:
        _add(report, "collectives", *_of_collectives(collectives))
    if flows:
        _add(report, "flows", _of_flows(flows))
    if as_json:
        say(json.dumps(report, indent=1, allow_nan=False))
    else:
        _print(report)


def _of_runs(path: Path, fidelity: Fidelity) -> tuple[list[Record], list[Record], list[Record]]:
    from simnet.validation.runs import read_runs
    from simnet.validation.runs_report import PREDICTORS, validate_runs

    found = validate_runs(read_runs(path), PREDICTORS[fidelity])
    return _records(found.rows), _records(found.groups), _records(found.series)


def _of_collectives(path: Path) -> tuple[list[Record], list[Record]]:
    from simnet.validation.collectives import group_errors, validate_collectives

    found = validate_collectives(path)
    rows: list[Record] = [
        {
            "id": row.measured.id,
            "size_bytes": row.measured.size_bytes,
            "predicted": row.predicted_s,
            "measured": row.measured.time_s,
            "unit": "s",
            "error": row.error,
            "reason": row.reason,
            "op": row.measured.op,
            "algorithm": row.algorithm,
        }
        for row in found
    ]
    return rows, _records(group_errors(found))


def _of_flows(paths: Sequence[Path]) -> list[Record]:
    from simnet.validation.flows import validate_flows

    return [
        {
            "id": row.name,
            "predicted": row.makespan_s,
            "measured": row.measured_s,
            "unit": "s",
            "error": row.error,
            "reason": "",
            "flows": row.num_flows,
            "events": row.num_events,
            "solves": row.num_solves,
        }
        for row in validate_flows(paths)
    ]


def _records(items: Iterable[DataclassInstance]) -> list[Record]:
    return [asdict(item) for item in items]


def _add(
    report: dict[str, list[Record]],
    table: str,
    rows: list[Record],
    groups: Sequence[Record] = (),
    series: Sequence[Record] = (),
) -> None:
    for name, records in (("rows", rows), ("groups", groups), ("series", series)):
        report[name] += [{"table": table, **{key: _null(value) for key, value in one.items()}} for one in records]


def _null(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print(report: dict[str, list[Record]]) -> None:
    """Print groups, series and flow cases as tables, errors in per cent."""
    groups = [group for group in report["groups"] if group["by"] not in _GROUPS_LEFT_TO_JSON]
    _print_records(groups, ("table", "by", "key", "rows", "median_ape", "p90_ape", "max_ape", "bias"))
    _print_records(report["series"], ("series", "anchor_id", "rows", "mape", "max_ape"))
    exact = [row for row in report["rows"] if row["table"] == "flows"]
    _print_records(exact, ("id", "flows", "events", "solves", "error"))
    _print_methods(report["rows"])
    unknown = sum(row["error"] is None for row in report["rows"])
    print_text(f"{len(report['rows']):,} rows, {unknown:,} of them without a prediction or a measurement")


def _print_methods(rows: Sequence[Record]) -> None:
    """Print how the step times of runs were found, and for how many rows."""
    methods = Counter(str(row["method"]).split(",")[0] for row in rows if row.get("method"))
    for method, count in sorted(methods.items()):
        print_text(f"{count:,} step times by the {method}")


def _print_records(records: Sequence[Record], columns: Sequence[str]) -> None:
    if not records:
        return
    is_number = [isinstance(records[0][column], int | float) for column in columns]
    rows = [[_cell(column, record[column]) for column in columns] for record in records]
    print_table([_head(column) for column in columns], is_number, rows)
    print_text("")


def _head(column: str) -> str:
    heads = {"median_ape": "median %", "p90_ape": "p90 %", "max_ape": "max %", "mape": "mean %", "bias": "bias %"}
    return heads.get(column, column.removesuffix("_id"))


def _cell(column: str, value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1e}" if column == "error" else f"{_PERCENT * value:.1f}"
    return "" if value is None else str(value)
