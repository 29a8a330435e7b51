"""Runs cases: one, or many over worker processes, with results kept by content."""

from simnet.runner.case import Prepared, Simulated, prepare, simulate
from simnet.runner.cases import CaseFailure, Outcome, check_cases, run_case, sweep
from simnet.runner.scenario import run

__all__ = [
    "CaseFailure",
    "Outcome",
    "Prepared",
    "Simulated",
    "check_cases",
    "prepare",
    "run",
    "run_case",
    "simulate",
    "sweep",
]
