"""Runs cases: one, or many over worker processes, with results kept by content."""

from simnet.runner.case import Prepared, Simulated, prepare, simulate
from simnet.runner.sweep import CaseFailure, Outcome, check_cases, run_case, sweep

__all__ = [
    "CaseFailure",
    "Outcome",
    "Prepared",
    "Simulated",
    "check_cases",
    "prepare",
    "run_case",
    "simulate",
    "sweep",
]
