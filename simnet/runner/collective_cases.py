"""All tables of a question about collectives; one that cannot be predicted leaves the others alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simnet.errors import Problem, SimnetError
from simnet.runner.collective import CollectiveTable, simulate_collective
from simnet.spec.collective_question import CollectiveCase
from simnet.topology.build import build_cluster
from simnet.topology.cluster import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveOutcome:
    """One case and what became of it."""

    name: str
    """Name of the case."""
    variant: str
    """Variant that it belongs to; empty if the question has none."""
    values: dict[str, str | int | float]
    """Varied path to its value."""
    asked: str
    """Algorithm that was asked for; ``auto`` for NCCL's choice."""
    table: CollectiveTable | None
    """The prediction; None if there is none."""
    problems: tuple[Problem, ...] = ()
    """Why there is none."""


def run_collective_cases(cases: Sequence[CollectiveCase]) -> tuple[CollectiveOutcome, ...]:
    """Return what nccl-tests would print in each case, in the order given."""
    built: dict[str, Cluster] = {}
    return tuple(_outcome(case, built) for case in cases)


def _outcome(case: CollectiveCase, built: dict[str, Cluster]) -> CollectiveOutcome:
    call = case.collective
    table: CollectiveTable | None = None
    problems: tuple[Problem, ...] = ()
    try:
        key = case.topology.model_dump_json()
        if key not in built:
            built.clear()  # cases of one machine stand together; one machine at a time is enough
            built[key] = build_cluster(case.topology)
        table = simulate_collective(
            built[key],
            call.op,
            ranks=str(call.ranks),
            split=call.split,
            sizes=call.sizes,
            algorithm=call.algorithm,
            launch=call.launch,
            parts=call.parts,
            buffers=call.buffers,
            routing=case.routing,
            seed=case.seed,
        )
    except SimnetError as error:
        problems = error.problems
    return CollectiveOutcome(
        name=case.name,
        variant=case.variant,
        values=dict(case.values),
        asked=call.algorithm,
        table=table,
        problems=problems,
    )
