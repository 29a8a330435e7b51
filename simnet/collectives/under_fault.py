"""Times of collectives on a cluster with one fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simnet.collectives import names
from simnet.collectives.capacity import usable_capacity
from simnet.collectives.choice import Choice, choose
from simnet.collectives.fabric_like import Float64
from simnet.collectives.faults import HEALTHY, Fault
from simnet.collectives.known import Known
from simnet.collectives.lower import lower
from simnet.collectives.table import launch_overhead_s
from simnet.collectives.tasks import send, uncontended_time_s
from simnet.errors import LayoutError, Problem
from simnet.spec.collectives import PROTOCOLS, CollectiveConstants
from simnet.spec.faults import load_faults
from simnet.spec.topology import TopologySpec
from simnet.topology import Cluster, build_cluster
from simnet.topology.fabric import Fabric

SEND = names.SENDRECV
"""Name of one message between two nodes."""
_ALL_TO_ALL = (names.ALL_TO_ALL, SEND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Calls of one kind: what one nccl-tests run measures."""

    op: str
    """Canonical operation, or ``sendrecv``: a message from the first rank to the first of another node."""
    ranks: tuple[int, ...]
    """GPU numbers of the communicator."""
    sizes_bytes: tuple[float, ...]
    """Whole buffers [bytes]."""
    algorithm: str = names.AUTO
    """Algorithm that the run sets."""
    excluded: tuple[str, ...] = ()
    """Algorithms that the run switches off."""
    num_nics: int = 0
    """NICs of each node that the run may use; 0 for all."""
    launch: str = "multi_process"
    """How calls are started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A healthy cluster, the calls that were measured on it, and what NCCL would choose for each."""

    spec: TopologySpec
    constants: CollectiveConstants
    queries: tuple[Query, ...]
    choices: tuple[tuple[Choice | None, ...], ...]
    """Choice of every call, nothing for sends."""


def site_of(spec: TopologySpec, queries: Sequence[Query], constants: CollectiveConstants) -> Site:
    """Return a site.

    Raises
    ------
    SpecError
        If an algorithm cannot run.
    """
    fabrics = {number: _nics_enabled(spec, number).compile() for number in {query.num_nics for query in queries}}
    choices = tuple(_choices(fabrics[query.num_nics], query, query.algorithm, query.excluded, constants)
                    for query in queries)  # fmt: skip
    return Site(spec=spec, constants=constants, queries=tuple(queries), choices=choices)


def predicted_times_s(site: Site, fault: Fault = HEALTHY, value: float = 0.0) -> Float64:
    """Return the time of every call under a fault [s], ``(num_calls,)``, query after query.

    NCCL chooses as on the healthy machine unless the fault is one that it sees; a hidden fault
    leaves it with the wrong choice. Times under hashed routing are means over hashes.

    Raises
    ------
    NoPathError
        If the fault leaves two ranks without a path.
    """
    constants = fault.tune(site.constants, value)
    total = np.zeros(sum(len(query.sizes_bytes) for query in site.queries))
    num_seeds = int(load_faults().fitted.hash_seeds.si) if (fault.routing or site.spec.routing) == "ecmp" else 1
    for seed in range(num_seeds):
        fabrics: dict[int, Fabric] = {}
        known: dict[tuple[int, tuple[int, ...]], Known] = {}  # calls of other ranks are another run, with its own trees
        parts = []
        for query, chosen in zip(site.queries, site.choices, strict=True):
            if query.num_nics not in fabrics:
                cluster = _nics_enabled(site.spec, query.num_nics)
                fault.links(cluster, value)
                fabrics[query.num_nics] = cluster.compile(fault.routing, seed)
            own = known.setdefault((query.num_nics, query.ranks), Known())
            parts.append(_times_s(fabrics[query.num_nics], own, query, chosen, fault, constants))
        total += np.concatenate(parts)
    return total / num_seeds


def _nics_enabled(spec: TopologySpec, num_nics: int) -> Cluster:
    """Return the cluster with so many NICs of each node in use, all if *num_nics* is 0; GPUs share them evenly."""
    node = spec.node
    if not num_nics or node is None or num_nics == node.nics:
        return build_cluster(spec)
    if num_nics > node.nics or node.gpus % num_nics or num_nics % node.hosts:
        raise LayoutError(
            Problem(
                message=f"{node.gpus} GPUs of a node cannot share so many NICs evenly",
                found=str(num_nics),
                allowed=f"a divisor of {node.gpus} up to the topology's {node.nics}",
            )
        )
    return build_cluster(spec.model_copy(update={"node": node.model_copy(update={"nics": num_nics})}))


def _choices(
    fabric: Fabric,
    query: Query,
    algorithm: str,
    excluded: tuple[str, ...],
    constants: CollectiveConstants,
    known: Known | None = None,
) -> tuple[Choice | None, ...]:
    if query.op == SEND:
        return (None,) * len(query.sizes_bytes)
    (shape,) = (known or Known()).shapes(fabric, np.array([query.ranks], dtype=np.int32))
    return tuple(
        choose(query.op, shape.machine, size, constants, algorithm=algorithm, excluded=excluded)
        for size in query.sizes_bytes
    )


def _times_s(
    fabric: Fabric,
    known: Known,
    query: Query,
    chosen: tuple[Choice | None, ...],
    fault: Fault,
    constants: CollectiveConstants,
) -> Float64:
    overhead_s = launch_overhead_s(query.launch, constants)
    capacity = usable_capacity(fabric, constants)
    if query.op == SEND:
        first = query.ranks[0]
        there = next(rank for rank in query.ranks if fabric.gpu_domain[rank] != fabric.gpu_domain[first])
        tasks = [send(fabric, [first], [there], size, constants) for size in query.sizes_bytes]
    else:
        algorithm, excluded = _settings(query, fault)
        if fault.is_seen or (algorithm, excluded) != (query.algorithm, query.excluded):
            chosen = _choices(fabric, query, algorithm, excluded, constants, known)
        tasks = [
            lower(
                fabric,
                query.op,
                query.ranks,
                size,
                constants=constants,
                algorithm=choice.algorithm,
                excluded=tuple(protocol for protocol in PROTOCOLS if protocol != choice.protocol),
                known=known,
            )
            for size, choice in zip(query.sizes_bytes, chosen, strict=True)
            if choice is not None
        ]
    return np.array([float(uncontended_time_s(task, capacity)[0]) + overhead_s for task in tasks])


def _settings(query: Query, fault: Fault) -> tuple[str, tuple[str, ...]]:
    """Return the algorithm that is set and what is switched off; what the run itself sets goes before the fault."""
    if query.algorithm != names.AUTO or query.op in _ALL_TO_ALL:
        set_by_fault: Mapping[str, str] = fault.algorithms if query.algorithm == names.AUTO else {}
        return set_by_fault.get(query.op, query.algorithm), query.excluded
    return fault.algorithms.get(query.op, query.algorithm), (*query.excluded, *fault.excluded)
