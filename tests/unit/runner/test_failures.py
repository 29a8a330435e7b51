"""A case that fails, for whatever reason, is a row of its own; the others go on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import simnet
from simnet.analysis.result import Result
from simnet.processes import WorkerPool
from simnet.runner import cases as runner_cases
from simnet.runner import check_cases
from simnet.runner.case import Prepared, Simulated, simulate
from simnet.runner.cases import CaseFailure, Outcome
from simnet.spec.load import expand
from simnet.spec.scenario import CaseSpec

SCENARIO = """\
name: quick
question: Who falls?
topology: {from: hgx-h100, nodes: 1}
workload:
  model: llama-3.1-8b
  sequence_length: 4096
  parallelism: {tp: 2}
  batch: {global_batch_size: 8}
vary: {workload.parallelism.tp: [2, 4, 8]}
"""


class Deadly(str):
    """A name that ends the process that reads it from its pipe, *times* times."""

    __slots__ = ("marks", "times")

    def __new__(cls, name: str, marks: Path, times: int) -> Deadly:
        self = super().__new__(cls, name)
        self.marks, self.times = marks, times
        return self

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return read_deadly, (str(self), str(self.marks), self.times)


def read_deadly(name: str, marks: str, times: int) -> str:
    dead = len(list(Path(marks).iterdir()))
    if dead < times:
        (Path(marks) / str(dead)).touch()
        os._exit(1)
    return name


@pytest.fixture
def three(tmp_path: Path) -> list[CaseSpec]:
    (tmp_path / "quick.yaml").write_text(SCENARIO)
    return list(expand(simnet.load_scenario(tmp_path / "quick.yaml")))


def failed(outcomes: tuple[Outcome, ...]) -> list[bool]:
    return [isinstance(outcome, CaseFailure) for outcome in outcomes]


def deadly(case: CaseSpec, marks: Path, times: int) -> CaseSpec:
    marks.mkdir()
    return case.model_copy(update={"name": Deadly(case.name, marks, times)})


def test_a_bug_in_a_case_is_its_row(three: list[CaseSpec], monkeypatch: pytest.MonkeyPatch) -> None:
    def buggy(prepared: Prepared, *, with_timeline: bool = True) -> Simulated:
        if prepared.case.workload.parallelism.tp == 4:
            raise ZeroDivisionError("float division by zero")
        return simulate(prepared, with_timeline=with_timeline)

    monkeypatch.setattr(runner_cases, "simulate", buggy)
    outcomes = simnet.sweep(three)
    assert failed(outcomes) == [False, True, False]
    failure = outcomes[1]
    assert isinstance(failure, CaseFailure)
    assert failure.exit_code == 3
    assert str(failure.problems[0]) == "ZeroDivisionError: float division by zero"
    assert "in buggy" in failure.traceback


def test_a_bug_while_cases_are_checked_is_left_to_the_row(
    three: list[CaseSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    def buggy(*_: object) -> None:
        raise IndexError("oh")

    monkeypatch.setattr(runner_cases, "check", buggy)
    check_cases(three)
    monkeypatch.setattr("simnet.runner.twins.build_cluster", buggy)
    monkeypatch.setattr(runner_cases, "prepare", buggy)
    assert failed(simnet.sweep(three)) == [True] * 3


def test_run_raises_a_bug_with_where_it_struck(three: list[CaseSpec], monkeypatch: pytest.MonkeyPatch) -> None:
    def buggy(*_: object, **__: object) -> None:
        raise IndexError("oh")

    monkeypatch.setattr(runner_cases, "simulate", buggy)
    monkeypatch.setattr("simnet.runner.scenario.expand", lambda _: three)
    with pytest.raises(RuntimeError, match="bug in simnet: tp=2: IndexError: oh") as caught:
        simnet.run("quickstart")
    assert "in buggy" in caught.value.__notes__[0]


def test_a_twin_that_cannot_be_kept_is_its_row(three: list[CaseSpec], tmp_path: Path) -> None:
    twin = three[0].model_copy(update={"name": "twin"})
    folder = runner_cases.case_folder(tmp_path, twin, "simulate")
    (folder / "result.json").mkdir(parents=True)
    outcomes = simnet.sweep([three[0], twin], directory=tmp_path)
    assert failed(outcomes) == [False, True]
    assert isinstance(outcomes[1], CaseFailure)
    assert str(outcomes[1].problems[0]).startswith(f"{folder}/result.json: cannot be read or written; found ")
    assert outcomes[1].exit_code == 2


@pytest.mark.parametrize("taken", ["result.json", "trace.json", "", "cases"])
def test_a_case_whose_folder_takes_nothing_is_its_row(three: list[CaseSpec], tmp_path: Path, taken: str) -> None:
    folder = runner_cases.case_folder(tmp_path, three[1], "simulate")
    match taken:
        case "cases":
            (tmp_path / "cases").touch()
        case "":
            folder.parent.mkdir()
            folder.touch()
        case name:
            (folder / name).mkdir(parents=True)
    outcomes = simnet.sweep(three, directory=tmp_path)
    assert failed(outcomes) == ([True] * 3 if taken == "cases" else [False, True, False])
    failure = outcomes[1]
    assert isinstance(failure, CaseFailure)
    assert failure.exit_code == 2
    assert str(folder.parent if taken == "cases" else folder / taken) in str(failure.problems[0])


def test_cases_go_on_in_a_new_pool_after_a_worker_died(three: list[CaseSpec], tmp_path: Path) -> None:
    three[1] = deadly(three[1], tmp_path / "marks", 1)
    with WorkerPool(2) as given:
        outcomes = simnet.sweep(three, jobs=2, executor=given)
    assert failed(outcomes) == [False] * 3


@pytest.mark.slow
def test_a_case_that_ends_every_worker_is_its_row(three: list[CaseSpec], tmp_path: Path) -> None:
    three[1] = deadly(three[1], tmp_path / "marks", 100)
    outcomes = simnet.sweep(three, jobs=2)
    assert failed(outcomes) == [False, True, False]
    assert isinstance(outcomes[1], CaseFailure)
    assert "died each time" in str(outcomes[1].problems[0])
    assert all(isinstance(outcome, Result) for outcome in (outcomes[0], outcomes[2]))
