"""One collective on a machine, as nccl-tests would print it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from simnet.collectives import names
from simnet.collectives.fabric_like import Float64
from simnet.collectives.known import Known, Shape
from simnet.collectives.machine import Machine
from simnet.collectives.parts import EQUAL, parse_parts
from simnet.collectives.ranks import ALL, parse_ranks
from simnet.collectives.split import split_ranks
from simnet.collectives.table import (
    CollectiveRow,
    collective_table,
    constants_of_cluster,
    launch_overhead_s,
    parse_sizes,
)
from simnet.collectives.tasks import SEPARATOR
from simnet.errors import Problem, SpecError
from simnet.spec.collective_error import collective_error
from simnet.spec.collectives import CollectiveConstants
from simnet.spec.load import load_topology
from simnet.spec.topology import Routing
from simnet.topology.build import build_cluster
from simnet.topology.cluster import Cluster
from simnet.units import format_size, format_time

_PERCENT = 100
_ROOTS_SHOWN = 4
_APART = 1.01
"""Slowest over mean time from which a table says that communicators differ."""
OUTSIDE = "lie outside what has been validated"
DEFAULT_SIZES = "8:16GiB:x2"
"""The span over which curves of nccl-tests are usually shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveTable:
    """A predicted table of nccl-tests, with what it rests on."""

    topology: str
    """Name of the cluster."""
    op: str
    """Operation."""
    num_communicators: int
    """Communicators that run the call at the same time."""
    num_ranks: int
    """Ranks of each."""
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
    split: str = "",
    sizes: str | Sequence[float] = DEFAULT_SIZES,
    algorithm: str = names.AUTO,
    launch: str = "multi_process",
    routing: Routing | None = None,
    seed: int = 0,
    parts: str = EQUAL,
    buffers: str = names.PLAIN,
) -> CollectiveTable:
    """Return what nccl-tests would print for a collective, or equal ones together, that have the machine to themselves.

    Parameters
    ----------
    topology
        Name or path of a topology, or a cluster, perhaps with edited links.
    op
        Operation; the spellings of nccl-tests are understood.
    ranks
        GPUs that take part: a count, ``"0-7,16-23"``, ``"one-per-node"``, ``"all"``, or their numbers.
    split
        How they form several communicators that run the call at the same time, as under nccl-tests'
        ``NCCL_TESTS_SPLIT``: ``"MOD 8"``, ``"DIV 8"``, ``"AND 0x7"``; one of them all unless given.
    sizes
        Whole buffers as nccl-tests counts them: ``"8:16GiB:x2"``, ``"1MiB,1GiB"``, or numbers [bytes].
    algorithm
        ``"auto"`` takes what NCCL's tuner would.
    launch
        How the benchmark starts a call: multi_process, single_process, torch or unknown.
    routing, seed
        Of the scale-out network; the topology's own unless given.
    parts
        Parts of an all-to-all-v: ``"equal"``, ``"zipf:1.2"``, a number for each rank, or a CSV file.
    buffers
        How the program hands its buffers to NCCL: ``"plain"``, ``"registered"`` or ``"symmetric"``.

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
    groups = np.array(split_ranks(chosen, split), dtype=np.int32)
    matrix = _parts(op, parts, groups.shape[1])
    fabric = cluster.compile(routing=routing, seed=seed)
    rows = collective_table(
        fabric,
        op,
        groups,
        parse_sizes(sizes) if isinstance(sizes, str) else sizes,
        constants=constants,
        algorithm=algorithm,
        launch=launch,
        parts=matrix,
        buffers=buffers,
    )
    shapes = Known().shapes(fabric, groups)
    machine = shapes[0].machine
    return CollectiveTable(
        topology=cluster.spec.name,
        op=names.operation(op),
        num_communicators=len(groups),
        num_ranks=machine.num_ranks,
        num_nodes=machine.num_nodes,
        nics_per_node=machine.num_heads,
        generation=constants.generation,
        nccl_version=constants.nccl_version,
        routing=routing or cluster.spec.routing,
        rows=rows,
        notes=(
            *_imbalance(matrix),
            *_apart(rows),
            *_trees(shapes, rows),
            *_notes(machine, groups.size, rows, constants, launch),
        ),
    )


def _notes(
    machine: Machine, num_gpus: int, rows: Sequence[CollectiveRow], constants: CollectiveConstants, launch: str
) -> list[str]:
    known = collective_error()
    found = []
    overhead_s = launch_overhead_s(launch, constants)
    if overhead_s:
        found.append(f"a call started by {launch.replace('_', ' ')} takes {format_time(overhead_s)} more")
    ranges = dict.fromkeys(known.of(row.size_bytes) for row in rows)
    errors = ", ".join(f"{one.name} {_PERCENT * one.median:.0f} % ({_PERCENT * one.p90:.0f} %)" for one in ranges)
    found.append(f"median error (90th percentile) on healthy published tables: {errors}")
    largest = known.largest.get(constants.generation, 0)
    if num_gpus > machine.num_ranks:
        found.append("no table of communicators that run together is published; how they share links is the model's")
    if machine.num_ranks > largest:
        what = (
            f"the largest such table of this generation has {largest} GPUs" if largest else "none is of this generation"
        )
        found.append(f"{machine.num_ranks:,} ranks {OUTSIDE}: {what}")
    return found


def _apart(rows: Sequence[CollectiveRow]) -> Iterator[str]:
    """Yield by how much communicators that run together differ, where they do."""
    worst = max(rows, key=lambda row: row.slowest_s / row.time_s if row.time_s else 1.0, default=None)
    if worst is not None and worst.slowest_s > _APART * worst.time_s:
        size = format_size(worst.size_bytes, binary=True)
        yield (
            f"times are means of communicators that run together; at {size} the slowest takes "
            f"{format_time(worst.slowest_s)}, the mean is {format_time(worst.time_s)}"
        )


def _parts(op: str, parts: str, num_ranks: int) -> Float64 | None:
    if parts == EQUAL:
        return None
    if names.operation(op) != names.ALL_TO_ALL_V:
        raise SpecError(
            Problem(where="--parts", message=f"{op} has equal parts", found=f'"{parts}"', allowed=names.ALL_TO_ALL_V)
        )
    return parse_parts(parts, num_ranks)


def _imbalance(parts: Float64 | None) -> Iterator[str]:
    """Yield how unequal the parts of an all-to-all-v are."""
    if parts is not None:
        sent, received = (parts.sum(axis=axis) for axis in (1, 0))
        yield (
            f"the busiest rank receives {received.max() / received.mean():.2f} times and sends "
            f"{sent.max() / sent.mean():.2f} times the mean; sizes are the buffer of the largest sender"
        )


def _trees(shapes: Sequence[Shape], rows: Sequence[CollectiveRow]) -> Iterator[str]:
    """Yield what is to be known of the reduction trees that communicators hold, and who has none."""
    trees = [tree for shape in shapes for own in shape.trees for tree in own]
    if not trees:
        return
    refused = [shape for shape in shapes if not shape.trees]
    for shape in refused:
        yield f"{shape.groups.num_groups} communicators without reduction trees: {shape.machine.no_reduction}"
    roots = ", ".join(tree.root for tree in trees[:_ROOTS_SHOWN]) + (" …" if len(trees) > _ROOTS_SHOWN else "")
    switches = sum(tree.num_switches for tree in trees)
    tiers = max(tree.num_tiers for tree in trees)
    nodes = shapes[0].machine.num_nodes
    ran = {name for row in rows for name in row.algorithm.split(SEPARATOR)}
    in_use = any(names.reduces_in_network(name, nodes) for name in ran)
    yield (
        f"{len(trees)} reduction trees{'' if in_use else ', not used'}: {switches} switches in {tiers} "
        f"tier{'s' if tiers > 1 else ''}, rooted at {roots}"
    )
    yield "the rate of reduction trees was measured on one system, 32 A100 on HDR; no table of a later one is published"
