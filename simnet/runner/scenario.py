"""A scenario from its name to its results, for notebooks and scripts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from simnet.analysis.result import Result
from simnet.errors import DoesNotFitError, PhysicsError, SimnetError
from simnet.runner.cases import CaseFailure, check_cases, sweep
from simnet.spec.load import expand, load_scenario
from simnet.spec.scenario import Fidelity, ScenarioSpec


def run(
    scenario: ScenarioSpec | str | Path,
    *,
    overrides: Mapping[str, object] | None = None,
    directory: str | Path | None = None,
    jobs: int = 1,
    fidelity: Fidelity | None = None,
) -> list[Result]:
    """Return the results of all cases of a scenario, in the order of the file.

    Parameters
    ----------
    scenario
        A loaded scenario, or its name or path.
    overrides
        Dotted path to value, ``{"topology.nodes": 16}``; only with a name or path.
    directory
        Where finished cases are kept, and found again; nothing is written without one.
    jobs
        Worker processes; 1 runs in this one.
    fidelity
        ``simulate`` for the engine, ``screen`` for the closed forms; that of the scenario unless given.

    Raises
    ------
    SimnetError
        With all faults of the input before anything runs, and after the run for cases that failed;
        :func:`simnet.sweep` tells failures in the place of their cases instead.
    RuntimeError
        After the run, for a case that met a bug in simnet.

    Examples
    --------
    >>> from simnet import run
    >>> [result.name for result in run("quickstart")]
    ['monolithic', 'modular taper=1', 'modular taper=2', 'modular taper=4']
    """
    if isinstance(scenario, ScenarioSpec):
        if overrides:
            raise TypeError("overrides belong to a scenario's name or path; a loaded scenario has them already")
        loaded = scenario
    else:
        loaded = load_scenario(scenario, overrides)
    cases = expand(loaded)
    check_cases(cases)
    folder = None if directory is None else Path(directory)
    outcomes = sweep(cases, directory=folder, jobs=jobs, fidelity=fidelity or loaded.fidelity)
    failures = [outcome for outcome in outcomes if isinstance(outcome, CaseFailure)]
    for failure in failures:
        if failure.traceback:
            bug = RuntimeError(f"bug in simnet: {failure.name}: {failure.problems[0]}")
            bug.add_note(failure.traceback)
            raise bug
    if failures:
        kinds = {kind.exit_code: kind for kind in (SimnetError, DoesNotFitError, PhysicsError)}
        worst = kinds[max(failure.exit_code for failure in failures)]
        raise worst(*(problem for failure in failures for problem in failure.problems))
    return [outcome for outcome in outcomes if isinstance(outcome, Result)]
