"""Many cases over worker processes; a case that fails is a row of its own, the others go on."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from simnet.analysis.result import Result
from simnet.engine.chrome import chrome_trace
from simnet.errors import DoesNotFitError, PhysicsError, Problem, SimnetError
from simnet.processes import WorkerPool
from simnet.runner.case import check, prepare, simulate
from simnet.runner.screened import screen
from simnet.runner.store import case_folder, load_result, save_case
from simnet.runner.twins import restated, step_key
from simnet.spec.load import expand
from simnet.spec.scenario import CaseSpec, Fidelity, ScenarioSpec
from simnet.topology.build import build_cluster

Progress = Callable[[int, int, str], None]
"""Called with the number of cases done, of all, and the name of the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFailure:
    """A case without a result."""

    name: str
    variant: str
    problems: tuple[Problem, ...]
    exit_code: int
    traceback: str = ""
    """Where simnet failed; empty where the input, the model or the machine under it is to blame."""


Outcome = Result | CaseFailure


def check_cases(cases: Sequence[CaseSpec]) -> None:
    """Raise for every case whose input is at fault, before anything runs or is written.

    A job that is well formed but does not fit into memory is a verdict, not a fault; it is left
    to its own row, unless nothing fits.

    Raises
    ------
    SimnetError
        With the faults of all cases, each once.
    """
    verdicts: list[DoesNotFitError] = []
    faults: dict[Problem, SimnetError] = {}
    names: dict[Problem, list[str]] = {}
    for case in cases:
        try:
            check(case, build_cluster(case.topology))
        except DoesNotFitError as verdict:
            verdicts.append(verdict)
        except SimnetError as fault:
            for problem in fault.problems:
                faults.setdefault(problem, fault)
                names.setdefault(problem, []).append(case.name)
        except Exception:  # noqa: S112 (a bug; it meets the case again when that runs, and is told in its row)
            continue
    if faults:
        kind = type(next(iter(faults.values())))
        raise kind(*(_with_cases(problem, names[problem], len(cases)) for problem in faults))
    if verdicts and len(verdicts) == len(cases):
        unique = dict.fromkeys(problem for verdict in verdicts for problem in verdict.problems)
        raise DoesNotFitError(*unique)


def _with_cases(problem: Problem, names: Sequence[str], num_cases: int) -> Problem:
    """Return a problem that says which cases meet it, where some do not."""
    if len(names) == num_cases:
        return problem
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return replace(problem, message=f"{problem.message} (case {names[0]}{more})")


def sweep(
    cases: ScenarioSpec | Sequence[CaseSpec],
    *,
    directory: Path | None = None,
    fidelity: Fidelity | None = None,
    jobs: int = 1,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> tuple[Outcome, ...]:
    """Return the outcome of every case, in the order given; a case that fails is told in its place.

    Parameters
    ----------
    cases
        Resolved cases, or a scenario for all of its own.
    directory
        Where each case's ``result.json`` and Chrome trace go; what is there already is not
        simulated again. Without one, nothing is written.
    fidelity
        ``simulate`` for the engine, ``screen`` for the closed forms; that of the scenario unless given.
    jobs
        Worker processes; 1 runs in this one.
    executor
        Use this executor instead (a cluster's, say). Should it break, ``jobs`` processes do what is left.
    progress
        Told after each case.
    """
    if isinstance(cases, ScenarioSpec):
        fidelity = fidelity or cases.fidelity
        cases = expand(cases)
    fidelity = fidelity or "simulate"
    by_step: dict[str, list[int]] = {}
    for index, case in enumerate(cases):
        by_step.setdefault(step_key(case), []).append(index)
    twins = {group[0]: group for group in by_step.values()}
    outcomes: dict[int, Outcome] = {}
    for first, outcome in _run_each(cases, list(twins), directory, fidelity, jobs, executor):
        for index in twins[first]:
            outcomes[index] = outcome if index == first else _as_told_by(cases[index], outcome, directory, fidelity)
            if progress is not None:
                progress(len(outcomes), len(cases), cases[index].name)
    return tuple(outcomes[index] for index in range(len(cases)))


def _run_each(
    cases: Sequence[CaseSpec],
    chosen: Sequence[int],
    directory: Path | None,
    fidelity: str,
    jobs: int,
    executor: Executor | None,
) -> Iterator[tuple[int, Outcome]]:
    """Cases as they end, the largest started first so that none is left to run alone at the end."""
    if executor is None and (jobs == 1 or len(chosen) == 1):
        for index in chosen:
            yield index, run_case(cases[index], directory, fidelity, with_timeline=not index)
        return
    left = sorted(chosen, key=lambda index: -_num_passes(cases[index]))

    def run_on(workers: Executor, indices: Sequence[int]) -> Iterator[tuple[int, Outcome]]:
        futures: dict[Future[Outcome], int] = {}
        with suppress(BrokenExecutor):
            for index in indices:
                futures[workers.submit(run_case, cases[index], directory, fidelity, with_timeline=not index)] = index
        for future in as_completed(futures):
            outcome = _outcome(future, cases[futures[future]])
            if outcome is not None:
                left.remove(futures[future])
                yield futures[future], outcome

    with WorkerPool(min(jobs, len(left))) if executor is None else nullcontext(executor) as workers:
        yield from run_on(workers, tuple(left))
    if left:  # the death of one worker breaks a pool; it says nothing about the cases of the others
        with WorkerPool(min(jobs, len(left))) as workers:
            yield from run_on(workers, tuple(left))
    for index in tuple(left):  # twice is no accident; alone, a case shows whether it is the one
        with WorkerPool(1) as workers:
            yield from run_on(workers, [index])
        if index in left:
            yield index, _died(cases[index])


def _outcome(future: Future[Outcome], case: CaseSpec) -> Outcome | None:
    """Return what a worker found, or None if a worker's death broke the pool before that."""
    try:
        return future.result()
    except BrokenExecutor:
        return None
    except Exception as fault:
        return _failed(case, fault)


def _died(case: CaseSpec) -> CaseFailure:
    problem = Problem(
        message="the process of this case died each time it ran",
        hint="was it killed for want of memory? fewer --jobs leave more for each",
    )
    return CaseFailure(name=case.name, variant=case.variant, problems=(problem,), exit_code=SimnetError.exit_code)


def _failed(case: CaseSpec, fault: Exception) -> CaseFailure:
    """Return the row of a case that ended in an exception: a fault of the input, of the disk, or of simnet."""
    trace = ""
    if isinstance(fault, SimnetError):
        problems, exit_code = fault.problems, fault.exit_code
    elif isinstance(fault, OSError):
        where = "" if fault.filename is None else str(fault.filename)
        problems = (Problem(where=where, message="cannot be read or written", found=fault.strerror or str(fault)),)
        exit_code = SimnetError.exit_code
    else:
        problems = (Problem(message=f"{type(fault).__name__}: {fault}"),)
        exit_code = PhysicsError.exit_code
        trace = "".join(traceback.format_exception(fault))
    return CaseFailure(name=case.name, variant=case.variant, problems=problems, exit_code=exit_code, traceback=trace)


def _num_passes(case: CaseSpec) -> float:
    """Forward passes of a replica over all chunks: what the engine's work grows with."""
    workload = case.workload
    parallelism = workload.parallelism
    dp = 1 if parallelism.dp == "auto" else parallelism.dp
    micro_batches = workload.batch.num_micro_batches or (workload.batch.global_batch_size or 0) / dp
    return micro_batches * parallelism.pp * parallelism.virtual_stages


def _as_told_by(case: CaseSpec, outcome: Outcome, directory: Path | None, fidelity: str) -> Outcome:
    """Return the outcome of a case whose step another case has simulated."""
    if isinstance(outcome, CaseFailure):
        return replace(outcome, name=case.name, variant=case.variant)
    try:
        result = restated(outcome, case)
        if directory is not None:
            save_case(case_folder(directory, case, fidelity), result, None)
    except Exception as fault:
        return _failed(case, fault)
    return result


def run_case(case: CaseSpec, directory: Path | None, fidelity: str, *, with_timeline: bool = True) -> Outcome:
    """Return the outcome of one case, from the store if it is there.

    Without the timeline, the result is small; its Chrome trace in the store still has every span.
    """
    gc.disable()  # a step allocates millions of small values and hardly a cycle: an eighth of the time
    try:
        return _found_or_simulated(case, directory, fidelity, with_timeline=with_timeline)
    except Exception as fault:  # whatever it is, the other cases go on
        return _failed(case, fault)
    finally:
        gc.enable()


def _found_or_simulated(case: CaseSpec, directory: Path | None, fidelity: str, *, with_timeline: bool) -> Result:
    folder = None if directory is None else case_folder(directory, case, fidelity)
    if fidelity == "screen":
        result = screen(case)
        if folder is not None:
            save_case(folder, result, None)
        return result
    known = None if folder is None else load_result(folder, case)
    if known is not None:
        return known
    simulated = simulate(prepare(case), with_timeline=with_timeline)
    if folder is not None:
        save_case(folder, simulated.result, chrome_trace(simulated.program, simulated.trace))
    return simulated.result
