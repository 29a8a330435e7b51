"""The verb run: all cases of a scenario, to a table, data, figures and a page."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simnet.cli.output import make_folder, say
from simnet.cli.progress import progress
from simnet.cli.table import print_table, print_text

if TYPE_CHECKING:
    from simnet.analysis.answer import Answer
    from simnet.analysis.result import Result
    from simnet.plot.parity import MeasuredRow
    from simnet.processes import WorkerPool
    from simnet.runner import CaseFailure, Outcome
    from simnet.spec.scenario import CaseSpec, Fidelity, ScenarioSpec
    from simnet.topology.layout import Layout

MAX_DRAWINGS = 3
"""Machines that a report draws."""
FIDELITY_WORDS = {
    "simulate": "simulate (every transfer of the step on the fabric's links)",
    "screen": "screen (closed forms: scale-up domain and NIC of a GPU, no cables)",
}
"""How a run was made."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def run_scenario(
    scenario_ref: str,
    *,
    out: Path | None,
    sets: Sequence[str],
    jobs: int,
    as_json: bool,
    fidelity: Fidelity | None = None,
) -> int:
    """Run all cases; return the exit code: 0, or the worst of the cases that have no result.

    Raises
    ------
    SimnetError
        With all faults of the input, before anything is run or written.
    """
    cases: tuple[CaseSpec, ...] = ()
    try:
        from simnet.spec.load import expand, load_scenario, parse_set

        scenario = load_scenario(scenario_ref, parse_set(sets))
        if fidelity is not None:
            scenario = scenario.model_copy(update={"fidelity": fidelity})
        cases = expand(scenario)
        with _workers(min(jobs or _num_cores(), len(cases))) as workers:
            run = _outcomes(scenario, cases, out, workers, is_quiet=as_json)
    except KeyboardInterrupt:
        say(_interrupted(cases, out), err=True)
        return INTERRUPTED
    bugs = [failure for failure in run.failures if failure.traceback]
    if bugs:
        bug = CaseBugError(f"it ended {len(bugs)} of {len(cases)} cases")
        bug.add_note(bugs[0].traceback)
        raise bug
    return max((failure.exit_code for failure in run.failures), default=0)


def _outcomes(
    scenario: ScenarioSpec, cases: tuple[CaseSpec, ...], out: Path | None, workers: WorkerPool | None, *, is_quiet: bool
) -> _Run:
    """Return the run of all cases, told and written."""
    from simnet.runner import check_cases, sweep

    check_cases(cases)
    if out is not None:
        make_folder(out)
    with progress(len(cases)) as report:
        jobs = 1 if workers is None else workers.num_workers
        outcomes = sweep(cases, directory=out, fidelity=scenario.fidelity, jobs=jobs, executor=workers, progress=report)
    run = _finished(scenario, cases, outcomes, is_quiet=is_quiet)
    try:
        _tell(run)
    finally:  # what has been computed is written even if stdout takes nothing
        if out is not None and run.results:
            _write(run, out, workers)
    return run


def _interrupted(cases: Sequence[CaseSpec], out: Path | None) -> str:
    """Return what is left of a run after Ctrl-C, in one line."""
    if not cases:
        return "interrupted: no case had been started"
    if out is None:
        return "interrupted: nothing is kept without -o; with it, the same command goes on from where it was"
    num_kept = 0
    if (out / "cases").exists():
        from simnet.runner.store import RESULT_FILE, case_folder

        num_kept = sum(
            any((case_folder(out, case, kind) / RESULT_FILE).is_file() for kind in FIDELITY_WORDS) for case in cases
        )
    return f"interrupted: {num_kept} of {len(cases)} cases are kept in {out}; the same command goes on from there"


class CaseBugError(Exception):
    """A bug in simnet ended cases; the others were reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A scenario with its outcomes."""

    scenario: ScenarioSpec
    cases: tuple[CaseSpec, ...]
    results: tuple[Result, ...]
    failures: tuple[CaseFailure, ...]
    answer: Answer | None
    is_quiet: bool
    """Whether stdout holds JSON for machines."""

    def to_json(self) -> str:
        """Return the run as JSON; the timelines stay in the files of the cases."""
        from simnet.analysis.result import to_plain
        from simnet.version import __version__

        plain = [to_plain(result) for result in self.results]
        cases = [{k: v for k, v in case.items() if k != "timeline"} for case in plain if isinstance(case, dict)]
        told = [to_plain(failure) for failure in self.failures]
        failures = [{k: v for k, v in one.items() if k != "traceback"} for one in told if isinstance(one, dict)]
        data = {
            "scenario": self.scenario.name,
            "question": self.scenario.question,
            "version": __version__,
            "fidelity": self.scenario.fidelity,
            "answer": to_plain(self.answer),
            "cases": cases,
            "failures": failures,
        }
        return json.dumps(data, indent=1, allow_nan=False)


def _finished(
    scenario: ScenarioSpec, cases: tuple[CaseSpec, ...], outcomes: Sequence[Outcome], *, is_quiet: bool
) -> _Run:
    from simnet.analysis.question import answer_question
    from simnet.analysis.result import Result
    from simnet.runner.chip_limits import chip_limits

    results = tuple(outcome for outcome in outcomes if isinstance(outcome, Result))
    failures = tuple(outcome for outcome in outcomes if not isinstance(outcome, Result))
    knee = scenario.knee
    answer = (
        answer_question(
            results,
            knee_path=knee.path if knee else "",
            losses=knee.losses if knee else (),
            baselines=knee.baselines(scenario.variants) if knee else {},
            claims=scenario.claims,
            limits=chip_limits(cases) if scenario.claims else {},
            split=(scenario.split.start, scenario.split.through, scenario.split.of) if scenario.split else None,
        )
        if results
        else None
    )
    return _Run(scenario=scenario, cases=cases, results=results, failures=failures, answer=answer, is_quiet=is_quiet)


def _tell(run: _Run) -> None:
    """Print results to stdout, and why there is none to stderr."""
    if run.is_quiet:
        say(run.to_json())
    elif run.results:
        _print_tables(run)
    for failure in run.failures:
        for problem in failure.problems:
            say(f"error: {failure.name}: {problem}", err=True)


def _print_tables(run: _Run) -> None:
    """Print the cases, then the answer and what else there is to say."""
    from simnet.report import breakdown_table, known_errors, legend, terminal_table

    for cells in (terminal_table(run.results), breakdown_table(run.results)):
        print_table(cells.columns, cells.is_number, cells.rows)
        print_text("")
    print_text(legend(run.results))
    if run.answer is not None:
        print_text(f"fidelity: {FIDELITY_WORDS[run.scenario.fidelity]}\n")
        print_text("\n\n".join((run.answer.headline, *run.answer.details, *known_errors(run.results))))


def _write(run: _Run, out: Path, workers: WorkerPool | None) -> None:
    """Write ``results.json``, ``results.csv``, the figures and ``report.html``."""
    from concurrent.futures import BrokenExecutor

    from simnet.analysis.result import to_csv
    from simnet.report import ReportContent, write_report
    from simnet.runner.store import write_atomically

    write_atomically(out / "results.json", f"{run.to_json()}\n".encode())
    write_atomically(out / "results.csv", to_csv(run.results).encode())
    assert run.answer is not None
    content = ReportContent(
        name=run.scenario.name,
        question=run.scenario.question,
        reading=run.scenario.reading,
        answer=run.answer,
        results=run.results,
        layouts=_layouts(run),
        validation=_measured(),
    )
    try:
        paths = write_report(content, out, executor=workers)
    except BrokenExecutor:  # a worker died, now or with one of the cases
        paths = write_report(content, out)
    say(f"report: {paths[0]}", err=run.is_quiet)


def _measured() -> list[MeasuredRow]:
    """Return the published runs of the record's benchmark beside the engine's predictions."""
    from simnet.plot.parity import MeasuredRow
    from simnet.validation.mlperf import mlperf_rows

    return [
        MeasuredRow(
            id=row.id,
            gpu=row.gpu,
            num_gpus=row.num_gpus,
            predicted_s=row.predicted_s,
            measured_s=row.measured_s,
            source=row.source,
        )
        for row in mlperf_rows()
    ]


def _layouts(run: _Run) -> list[tuple[str, Layout]]:
    """Return the drawings of the first machines that differ by name, each under its first case."""
    from simnet.topology import build_cluster
    from simnet.topology.layout import layout

    have_result = {result.name for result in run.results}
    first: dict[str, CaseSpec] = {}
    for case in run.cases:
        if case.name in have_result:
            first.setdefault(case.topology.name, case)
    drawn = list(first.values())[:MAX_DRAWINGS]
    return [(case.name, layout(build_cluster(case.topology).wiring)) for case in drawn]


@contextmanager
def _workers(num_workers: int) -> Iterator[WorkerPool | None]:
    """Yield processes that run cases, then draw figures; None where this one does both.

    They get ready while this process checks the cases.
    """
    if num_workers == 1:
        yield None
        return
    from simnet.cli.ready import get_ready
    from simnet.processes import WorkerPool

    with WorkerPool(num_workers) as pool:
        for _ in range(num_workers):
            pool.submit(get_ready)
        yield pool


def _num_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
