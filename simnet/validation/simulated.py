"""A published run through the engine: the same path as a scenario takes."""

from __future__ import annotations

from simnet.spec.scenario import CaseSpec
from simnet.validation.machines import machine
from simnet.validation.runs import RunCase
from simnet.validation.steady import SteadyStep, steady_step


def case_spec(case: RunCase) -> CaseSpec:
    """Return the run as a case of a scenario: its machine, its job, adaptive routes."""
    topology = machine(case.gpu.name, case.num_gpus, nic_bytes_per_s=case.network.nic_bytes_per_s)
    return CaseSpec(
        name=case.row.run_id,
        variant="",
        values={},
        topology=topology,
        workload=case.workload,
        routing=topology.routing,
    )


def simulated_step(case: RunCase) -> SteadyStep:
    """Return the engine's step of a run.

    Raises
    ------
    SimnetError
        If the job does not divide or does not fit.
    """
    return steady_step(case_spec(case), case.num_gpus)
