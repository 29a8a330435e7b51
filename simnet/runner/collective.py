"""One collective on a machine, as nccl-tests would print it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from simnet.collectives import names
from simnet.collectives.known import Known, Shape
from simnet.collectives.machine import Machine
from simnet.collectives.ranks import ALL, parse_ranks
from simnet.collectives.table import (
    CollectiveRow,
    collective_table,
    constants_of_cluster,
    launch_overhead_s,
    parse_sizes,
)
from simnet.spec.collective_error import collective_error
from simnet.spec.collectives import CollectiveConstants
from simnet.spec.load import load_topology
from simnet.spec.topology import Routing
from simnet.topology.build import build_cluster
from simnet.topology.cluster import Cluster
from simnet.units import format_time

_PERCENT = 100
_ROOTS_SHOWN = 4
DEFAULT_SIZES = "8:16GiB:x2"
"""The span over which curves of nccl-tests are usually shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveTable:
    """A predicted table of nccl-tests, with what it rests on."""

    topology: str
    """Name of the cluster."""
    op: str
    """Operation."""
    num_ranks: int
    """Ranks."""
    num_nodes: int
    """Nodes that hold them, as NCCL counts: scale-up domains."""
    nics_per_node: int
    """NICs through which each node speaks; 0 in one node."""
    generation: str
    """GPU generation whose constants were taken."""
    nccl_version: str
    """NCCL version that they describe."""
    routing: str
    """Routing of the scale-out network."""
    rows: tuple[CollectiveRow, ...]
    """A row a size."""
    notes: tuple[str, ...]
    """What a reader should know: assumptions, known errors, and where the prediction leaves the validated range."""

    def to_records(self) -> list[dict[str, object]]:
        """Return the rows as plain values, for pandas, polars or JSON."""
        return [asdict(row) for row in self.rows]


def simulate_collective(
    topology: str | Cluster,
    op: str = names.ALL_REDUCE,
    *,
    ranks: str | Sequence[int] = ALL,
    sizes: str | Sequence[float] = DEFAULT_SIZES,
    algorithm: str = names.AUTO,
    launch: str = "multi_process",
    routing: Routing | None = None,
    seed: int = 0,
) -> CollectiveTable:
    """Return what nccl-tests would print for a collective that has the machine to itself.

    Parameters
    ----------
    topology
        Name or path of a topology, or a cluster, perhaps with edited links.
    op
        Operation; the spellings of nccl-tests are understood.
    ranks
        GPUs that take part: a count, ``"0-7,16-23"``, ``"one-per-node"``, ``"all"``, or their numbers.
    sizes
        Whole buffers as nccl-tests counts them: ``"8:16GiB:x2"``, ``"1MiB,1GiB"``, or numbers [bytes].
    algorithm
        ``"auto"`` takes what NCCL's tuner would.
    launch
        How the benchmark starts a call: multi_process, single_process, torch or unknown.
    routing, seed
        Of the scale-out network; the topology's own unless given.

    Raises
    ------
    SimnetError
        If an argument names nothing that there is, or two ranks have no path.

    Examples
    --------
    >>> table = simulate_collective("hgx-h100", ranks=8, sizes="1GiB", algorithm="ring")
    >>> round(table.rows[0].busbw_bytes_per_s / 1e9)
    358
    """
    cluster = topology if isinstance(topology, Cluster) else build_cluster(load_topology(topology))
    constants = constants_of_cluster(cluster)
    chosen = ranks if not isinstance(ranks, str | int) else parse_ranks(str(ranks), cluster.gpu_domain, where="ranks")
    fabric = cluster.compile(routing=routing, seed=seed)
    rows = collective_table(
        fabric,
        op,
        np.asarray(chosen),
        parse_sizes(sizes) if isinstance(sizes, str) else sizes,
        constants=constants,
        algorithm=algorithm,
        launch=launch,
    )
    (shape,) = Known().shapes(fabric, np.atleast_2d(np.asarray(chosen, dtype=np.int32)))
    return CollectiveTable(
        topology=cluster.spec.name,
        op=names.operation(op),
        num_ranks=shape.machine.num_ranks,
        num_nodes=shape.machine.num_nodes,
        nics_per_node=shape.machine.num_heads,
        generation=constants.generation,
        nccl_version=constants.nccl_version,
        routing=routing or cluster.spec.routing,
        rows=rows,
        notes=(*_trees(shape, rows), *_notes(shape.machine, rows, constants, launch)),
    )


def _notes(machine: Machine, rows: Sequence[CollectiveRow], constants: CollectiveConstants, launch: str) -> list[str]:
    known = collective_error()
    found = []
    overhead_s = launch_overhead_s(launch, constants)
    if overhead_s:
        found.append(f"a call started by {launch.replace('_', ' ')} takes {format_time(overhead_s)} more")
    ranges = dict.fromkeys(known.of(row.size_bytes) for row in rows)
    errors = ", ".join(f"{one.name} {_PERCENT * one.median:.0f} % ({_PERCENT * one.p90:.0f} %)" for one in ranges)
    found.append(f"median error (90th percentile) on healthy published tables: {errors}")
    largest = known.largest.get(constants.generation, 0)
    if machine.num_ranks > largest:
        what = (
            f"the largest such table of this generation has {largest} GPUs" if largest else "none is of this generation"
        )
        found.append(f"{machine.num_ranks:,} ranks lie outside what has been validated: {what}")
    return found


def _trees(shape: Shape, rows: Sequence[CollectiveRow]) -> Iterator[str]:
    """Yield what is to be known of the reduction trees that the communicator holds."""
    if not shape.trees:
        return
    (trees,) = shape.trees
    roots = ", ".join(tree.root for tree in trees[:_ROOTS_SHOWN]) + (" …" if len(trees) > _ROOTS_SHOWN else "")
    switches = sum(tree.num_switches for tree in trees)
    tiers = max(tree.num_tiers for tree in trees)
    in_use = any(names.reduces_in_network(row.algorithm, shape.machine.num_nodes) for row in rows)
    yield (
        f"{len(trees)} reduction trees{'' if in_use else ', not used'}: {switches} switches in {tiers} "
        f"tier{'s' if tiers > 1 else ''}, rooted at {roots}"
    )
    yield "the rate of reduction trees was measured on one system, 32 A100 on HDR; no table of a later one is published"
