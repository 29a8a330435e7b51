"""The verb run on a question about collectives: tables of nccl-tests, or a measured one explained."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from simnet.cli.output import make_folder, say
from simnet.cli.table import print_table, print_text
from simnet.errors import SpecError

_LEFT_TO_FILES = ("algbw", "wire", "hottest link")
_HEADS = {"busbw": "busbw\nGB/s", "busy %": "busy\n%"}

if TYPE_CHECKING:
    from simnet.analysis.collectives import CollectivePoint
    from simnet.runner.collective_cases import CollectiveOutcome
    from simnet.spec.collective_question import CollectiveQuestion


def run_collective_question(ref: str, *, out: Path | None, sets: Sequence[str], as_json: bool) -> int:
    """Predict all tables of a question, or explain its measured one; return the exit code.

    Raises
    ------
    SimnetError
        With all faults of the input, before anything is run or written.
    """
    from simnet.spec.load import load_collective_question, parse_set

    question = load_collective_question(ref, parse_set(sets))
    if question.measured_file is not None:
        return _explain(question, question.measured_file, out, as_json=as_json)
    return _predict(question, out, as_json=as_json)


def _predict(question: CollectiveQuestion, out: Path | None, *, as_json: bool) -> int:
    from simnet.analysis.collectives import quickest
    from simnet.report.collectives import COLUMNS, IS_NUMBER, point_rows
    from simnet.runner.collective_cases import run_collective_cases

    outcomes = run_collective_cases(question.cases)
    failures = [outcome for outcome in outcomes if outcome.table is None]
    if len(failures) == len(outcomes):
        raise SpecError(*dict.fromkeys(problem for outcome in failures for problem in outcome.problems))
    points = _points(outcomes)
    answer = tuple(quickest(points))
    if as_json:
        say(json.dumps(_record(question, outcomes, answer), indent=1, allow_nan=False))
    else:
        shown = [place for place, column in enumerate(COLUMNS) if column not in _LEFT_TO_FILES]
        print_table(
            [_HEADS.get(COLUMNS[place], COLUMNS[place]) for place in shown],
            [IS_NUMBER[place] for place in shown],
            [[row[place] for place in shown] for row in point_rows([_short(point) for point in points])],
        )
        print_text("")
        print_text("\n\n".join((*answer, *_notes(outcomes))))
    for outcome in failures:
        for problem in outcome.problems:
            say(f"error: {outcome.name}: {problem}", err=True)
    if out is not None:
        _write(question, outcomes, points, answer, out)
        say(f"report: {out / 'report.html'}", err=as_json)
    return SpecError.exit_code if failures else 0


def _short(point: CollectivePoint) -> CollectivePoint:
    """Return a point whose case does not repeat the algorithm, which has a column of its own."""
    words = [word for word in point.case.split() if word != f"algorithm={point.algorithm}"]
    return replace(point, case=" ".join(words) or point.case)


def _points(outcomes: Sequence[CollectiveOutcome]) -> tuple[CollectivePoint, ...]:
    from simnet.analysis.collectives import CollectivePoint

    return tuple(
        CollectivePoint(
            case=outcome.name,
            variant=outcome.variant,
            op=outcome.table.op,
            num_ranks=outcome.table.num_ranks,
            size_bytes=row.size_bytes,
            algorithm=row.algorithm,
            protocol=row.protocol,
            time_s=row.time_s,
            busbw_bytes_per_s=row.busbw_bytes_per_s,
            wire_bytes=row.wire_bytes,
            hottest_link=row.hottest_link,
            hottest_utilisation=row.hottest_utilisation,
        )
        for outcome in outcomes
        if outcome.table is not None
        for row in outcome.table.rows
    )


def _notes(outcomes: Sequence[CollectiveOutcome]) -> tuple[str, ...]:
    """Return the notes of the first and the largest table; that ranks lie outside is said of the most."""
    from simnet.runner.collective import OUTSIDE

    tables = [outcome.table for outcome in outcomes if outcome.table is not None]
    largest = max(tables, key=lambda table: table.num_ranks)
    return tuple(dict.fromkeys((*(note for note in tables[0].notes if OUTSIDE not in note), *largest.notes)))


def _record(
    question: CollectiveQuestion, outcomes: Sequence[CollectiveOutcome], answer: Sequence[str]
) -> dict[str, object]:
    from simnet.version import __version__

    return {
        "scenario": question.name,
        "question": question.question,
        "version": __version__,
        "answer": list(answer),
        "cases": [
            {"name": outcome.name, "values": outcome.values, **asdict(outcome.table)}
            for outcome in outcomes
            if outcome.table is not None
        ],
        "failures": [
            {"name": outcome.name, "problems": [str(problem) for problem in outcome.problems]}
            for outcome in outcomes
            if outcome.table is None
        ],
    }


def _write(
    question: CollectiveQuestion,
    outcomes: Sequence[CollectiveOutcome],
    points: Sequence[CollectivePoint],
    answer: Sequence[str],
    out: Path,
) -> None:
    from simnet.report.collectives import CollectivePage, draw_points, write_collective_page
    from simnet.runner.store import write_atomically
    from simnet.version import __version__

    make_folder(out)
    record = json.dumps(_record(question, outcomes, answer), indent=1, allow_nan=False)
    write_atomically(out / "results.json", f"{record}\n".encode())
    write_atomically(out / "results.csv", _csv(points).encode())
    page = CollectivePage(
        name=question.name,
        question=question.question,
        reading=question.reading,
        answer=tuple(answer),
        points=tuple(points),
        notes=_notes(outcomes),
        version=__version__,
    )
    write_collective_page(page, draw_points(points), out)


def _csv(points: Sequence[CollectivePoint]) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(asdict(points[0])), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(point) for point in points)
    return stream.getvalue()


def _explain(question: CollectiveQuestion, measured: Path, out: Path | None, *, as_json: bool) -> int:
    from simnet.cli.explain import print_explanation, record
    from simnet.collectives.table import constants_of_cluster
    from simnet.runner.store import write_atomically
    from simnet.topology import build_cluster
    from simnet.validation.explain import explain
    from simnet.validation.measured_table import read_table

    (case,) = question.cases
    cluster = build_cluster(case.topology)
    ranks = "" if case.collective.ranks == "all" else str(case.collective.ranks)
    table = read_table(measured, cluster, ranks=ranks)
    found = explain(case.topology, table.queries, table.measured_s, constants_of_cluster(cluster))
    text = json.dumps(record(found), indent=1, allow_nan=False)
    if as_json:
        say(text)
    else:
        print_explanation(found)
    if out is not None:
        from simnet.plot.explain import plot_explanation
        from simnet.plot.files import png_bytes

        make_folder(out)
        write_atomically(out / "results.json", f"{text}\n".encode())
        (out / "explanation.png").write_bytes(png_bytes(plot_explanation(found).figure.get_figure(root=True)))
        say(f"figure: {out / 'explanation.png'}", err=as_json)
    return 0
