"""The table that nccl-tests prints, predicted: time and bandwidths by size, and what set them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from simnet.collectives import names
from simnet.collectives.capacity import usable_capacity
from simnet.collectives.cost import busbw_bytes_per_s, check_bound, wire_bound_s
from simnet.collectives.exchange import least_times_s
from simnet.collectives.fabric_like import Float64
from simnet.collectives.known import Known
from simnet.collectives.lower import lower, messages
from simnet.collectives.machine import Machine
from simnet.collectives.tasks import SEPARATOR, TaskSet, payload_bytes, uncontended_time_s
from simnet.collectives.together import shared_times_s
from simnet.errors import Problem, SpecError
from simnet.spec.collectives import CollectiveConstants, load_collectives
from simnet.topology.cluster import Cluster
from simnet.topology.fabric import Fabric
from simnet.topology.wiring import LINK_CLASSES
from simnet.units import QuantityError, parse_size

Launch = str
"""Key of the launch overheads: multi_process, single_process, torch or unknown."""
_SIZE_OF_NCCL_TESTS = re.compile(r"(\d+)([KMG])")
_MOST_SIZES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveRow:
    """One line of the table."""

    size_bytes: float
    """Whole buffer, as nccl-tests counts it."""
    time_s: float
    """Time of one call; the mean of communicators that run together, as nccl-tests print it."""
    slowest_s: float
    """Time of the slowest of them."""
    algbw_bytes_per_s: float
    """Size over time."""
    busbw_bytes_per_s: float
    """Algorithm bandwidth times the operation's factor; no wire rate where switches reduce."""
    algorithm: str
    """Algorithm that ran."""
    protocol: str
    """Protocol that ran."""
    channels: int
    """Channels over which it spreads."""
    wire_bytes: float
    """Payload on the busiest link."""
    tier_bytes: dict[str, float]
    """Payload on the busiest link of each class, such as ``nvlink`` or ``nic_leaf``, nearest to GPUs first."""
    hottest_link: str
    """Link that is closest to its wire rate."""
    hottest_utilisation: float
    """Its payload over what its wire moves in the time."""
    why: str
    """Reason of the choice."""


def collective_table(
    fabric: Fabric,
    op: str,
    ranks: ArrayLike,
    sizes_bytes: Sequence[float],
    *,
    constants: CollectiveConstants,
    algorithm: str = names.AUTO,
    launch: Launch = "multi_process",
    parts: ArrayLike | None = None,
    buffers: str = names.PLAIN,
) -> tuple[CollectiveRow, ...]:
    """Return the predicted nccl-tests table of communicators that have the fabric to themselves.

    Parameters
    ----------
    fabric
        Compiled fabric.
    op
        Operation.
    ranks
        GPU indices of the communicator, ``(num_ranks,)``, or of several that run the same call at the
        same time, ``(num_communicators, num_ranks)``.
    sizes_bytes
        Sizes [bytes].
    constants
        Constants of the GPU generation.
    algorithm
        ``auto``, or one of :data:`simnet.collectives.names.ALGORITHMS`.
    launch
        How the benchmark starts a call.
    parts
        Of an all-to-all-v, as in :func:`simnet.collectives.lower.lower`.
    buffers
        How they are handed to NCCL, one of :data:`simnet.collectives.names.BUFFERS`.

    Raises
    ------
    PhysicsError
        If a time beats the wire: a bug.
    """
    op = names.operation(op)
    known = Known()
    groups = np.atleast_2d(np.asarray(ranks, dtype=np.int32))
    machines = [shape.machine for shape in known.shapes(fabric, groups)]
    num_ranks = groups.shape[1]
    capacity = usable_capacity(fabric, constants)
    overhead_s = launch_overhead_s(launch, constants)
    rows = []
    for size_bytes in sizes_bytes:
        tasks = lower(
            fabric,
            op,
            groups,
            size_bytes,
            constants=constants,
            algorithm=algorithm,
            known=known,
            parts=parts,
            buffers=buffers,
        )
        times = uncontended_time_s(tasks, capacity) if len(groups) == 1 else shared_times_s(tasks, capacity)
        bound = _loosest_bound_s(op, machines, size_bytes, tasks.algorithm)
        if op in names.EXCHANGES:
            bound = least_times_s(fabric, groups, messages(op, num_ranks, size_bytes, parts), known)
        check_bound(times, bound, f"{op} of {size_bytes:.0f} bytes by {tasks.algorithm} on {num_ranks} ranks")
        rows.append(_row(fabric, op, num_ranks, tasks, size_bytes, times + overhead_s))
    return tuple(rows)


def _loosest_bound_s(op: str, machines: Sequence[Machine], size_bytes: float, algorithms: str) -> Float64:
    """Return the least time of any communicator by any algorithm that runs [s]."""
    bounds = [
        wire_bound_s(op, machine, size_bytes, algorithm=name)
        for machine in machines
        for name in algorithms.split(SEPARATOR)
    ]
    least: Float64 = np.min(bounds, axis=0)
    return least


def constants_of_cluster(cluster: Cluster) -> CollectiveConstants:
    """Return the constants of a cluster's GPUs, those of its first module."""
    gpu = cluster.wiring.plans[0].node.gpu
    return load_collectives(gpu.generation, gpu.name)


def launch_overhead_s(launch: Launch, constants: CollectiveConstants) -> float:
    """Return what a benchmark's way of launching adds to each call [s]."""
    known = type(constants.harness).model_fields
    name = launch.replace("-", "_")
    if name not in known:
        raise SpecError(Problem(message="no such way of launching", found=f'"{launch}"', allowed=", ".join(known)))
    overhead: float = getattr(constants.harness, name).si
    return overhead


def parse_sizes(text: str) -> tuple[float, ...]:
    """Return the sizes [bytes] that a text like ``8B:16GiB:x2`` or ``1MiB,1GiB`` names.

    Examples
    --------
    >>> parse_sizes("1KiB:4KiB:x2")
    (1024.0, 2048.0, 4096.0)

    Raises
    ------
    SpecError
        If the text is no list of sizes; a bare number counts bytes and 16G is 16 GiB, as in nccl-tests.
    """
    if ":" not in text:
        return tuple(_size(part) for part in text.split(","))
    parts = text.split(":")
    step = parts[2] if len(parts) == 3 else "x2"
    first, last = _size(parts[0]), _size(parts[1]) if len(parts) in (2, 3) else -1.0
    if last < first or first <= 0:
        raise SpecError(
            Problem(message="no range of sizes", found=f'"{text}"', allowed="FIRST:LAST:xFACTOR or FIRST:LAST:STEP")
        )
    factor = float(step[1:]) if step[:1] == "x" and step[1:].replace(".", "", 1).isdigit() else 0.0
    if step[:1] == "x" and factor <= 1:
        raise SpecError(Problem(message="the factor between sizes is more than 1", found=f'"{step}"'))
    increment = 0.0 if factor else _size(step)
    if not factor and increment <= 0:
        raise SpecError(Problem(message="the step between sizes is more than 0", found=f'"{step}"'))
    sizes = tuple(itertools.islice(_range(first, last, factor, increment), _MOST_SIZES + 1))
    if len(sizes) > _MOST_SIZES:
        raise SpecError(Problem(message="too many sizes", found=f'"{text}"', allowed=f"{_MOST_SIZES} at most"))
    return sizes


def _range(first: float, last: float, factor: float, increment: float) -> Iterator[float]:
    size = first
    while size <= last:
        yield size
        size = size * factor if factor else size + increment


def _size(text: str) -> float:
    if text.strip().isdigit():
        return float(text)
    short = _SIZE_OF_NCCL_TESTS.fullmatch(text.strip())
    try:
        return parse_size(f"{short[1]} {short[2]}iB" if short else text)
    except QuantityError as error:
        raise SpecError(
            Problem(message=error.message, found=error.found, allowed=error.allowed, hint=error.hint)
        ) from None


def _row(fabric: Fabric, op: str, num_ranks: int, tasks: TaskSet, size_bytes: float, times_s: Float64) -> CollectiveRow:
    time_s, slowest_s = float(times_s.mean()), float(times_s.max())
    moved = payload_bytes(tasks, fabric.num_resources)
    share = np.divide(moved, fabric.capacity_bytes_per_s, out=np.zeros_like(moved), where=moved > 0)
    hottest = int(np.argmax(share))
    return CollectiveRow(
        size_bytes=size_bytes,
        time_s=time_s,
        slowest_s=slowest_s,
        algbw_bytes_per_s=size_bytes / time_s if time_s else 0.0,
        busbw_bytes_per_s=float(busbw_bytes_per_s(op, num_ranks, size_bytes, time_s)) if time_s else 0.0,
        algorithm=tasks.algorithm,
        protocol=tasks.protocol,
        channels=tasks.channels,
        wire_bytes=float(moved.max(initial=0.0)),
        tier_bytes=_tier_bytes(fabric, moved),
        hottest_link=fabric.resource_name(hottest) if moved.any() else "",
        hottest_utilisation=float(share[hottest]) / slowest_s if slowest_s else 0.0,
        why=tasks.why,
    )


def _tier_bytes(fabric: Fabric, moved: Float64) -> dict[str, float]:
    """Return the payload on the busiest link of each class that carries any [bytes]."""
    busiest = np.zeros(len(LINK_CLASSES))
    np.maximum.at(busiest, fabric.link_class, moved)
    return {name: float(most) for name, most in zip(LINK_CLASSES, busiest, strict=True) if most}
