"""A measured table as calls on a topology: which GPUs took part, and what each call took."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simnet.collectives import names
from simnet.collectives.ranks import parse_ranks
from simnet.collectives.under_fault import SEND, Query
from simnet.errors import Problem, SpecError
from simnet.spec.collectives import load_collectives
from simnet.topology import Cluster
from simnet.units import format_bandwidth
from simnet.validation.collective_rows import (
    MeasuredCollective,
    algorithm_of_row,
    constants_of,
    excluded_of_row,
    nvlink_ranks_of_row,
    read_measured,
)
from simnet.validation.nccl_log import read_log

_SAME_RATE = 0.01
"""How far a stated rate of NICs may lie from the topology's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTable:
    """Calls and their times."""

    queries: tuple[Query, ...]
    """Calls."""
    measured_s: tuple[float, ...]
    """Time of every call, query after query [s]."""


def read_table(path: Path, cluster: Cluster, *, op: str = "", ranks: str = "") -> MeasuredTable:
    """Return the calls of a CSV table or of a log of nccl-tests.

    Parameters
    ----------
    path
        The file; a CSV table has the columns of ``collectives_measured.csv``.
    cluster
        Cluster on which they ran.
    op
        Operation, if the file does not say it; of a table with several, the one that is meant.
    ranks
        GPUs that took part, a count or numbers such as ``0-7,16-23``; unless given, what the file says.

    Raises
    ------
    SpecError
        With every row that does not parse, or if ranks or operation are missing or do not exist.
    """
    wanted = op if op in {"", SEND} else names.operation(op)
    chosen = parse_ranks(ranks, cluster.gpu_domain) if ranks else ()
    if _is_csv(path):
        return _of_rows(path, cluster, wanted, chosen)
    log = read_log(path)
    called = wanted or (log.op if log.op == SEND or not log.op else names.operation(log.op))
    if not called:
        raise SpecError(
            Problem(where=str(path), message="the log does not name its program", hint="give the operation with --op")
        )
    if not chosen and not log.ranks_of_hosts:
        raise SpecError(
            Problem(where=str(path), message="the log does not list its ranks", hint="give their number with --ranks")
        )
    chosen = chosen or _first_of_domains(cluster, sum(log.ranks_of_hosts), max(log.ranks_of_hosts), str(path))
    query = Query(op=called, ranks=chosen, sizes_bytes=tuple(size for size, _ in log.rows))
    return MeasuredTable(queries=(query,), measured_s=tuple(time for _, time in log.rows))


def _is_csv(path: Path) -> bool:
    if path.suffix.lower() == ".csv":
        return True
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            head = next((line for line in lines if line.strip()), "")
    except OSError as error:
        raise SpecError(Problem(where=str(path), message="cannot be read", found=str(error.strerror))) from None
    return "size_bytes" in head.split(",")


def _of_rows(path: Path, cluster: Cluster, op: str, ranks: tuple[int, ...]) -> MeasuredTable:
    parts: dict[Query, list[MeasuredCollective]] = {}
    for row in read_measured(path):
        if (op and row.op != op) or not (row.size_bytes and row.time_s):
            continue
        _check_machine(path, row, cluster)
        own = ranks or _first_of_domains(cluster, row.num_gpus, nvlink_ranks_of_row(row), f"{path}, {row.id}")
        parts.setdefault(_query_of(row, own), []).append(row)
    if not parts:
        raise SpecError(Problem(where=str(path), message="no row with size and time", found=op))
    queries = tuple(
        Query(
            op=key.op,
            ranks=key.ranks,
            sizes_bytes=tuple(row.size_bytes for row in rows),
            algorithm=key.algorithm,
            excluded=key.excluded,
            num_nics=key.num_nics,
            launch=key.launch,
        )
        for key, rows in parts.items()
    )
    return MeasuredTable(queries=queries, measured_s=tuple(row.time_s for rows in parts.values() for row in rows))


def _check_machine(path: Path, row: MeasuredCollective, cluster: Cluster) -> None:
    """Raise a SpecError if a row was measured on other GPUs or NICs than the topology has."""
    plan = cluster.wiring.plans[0]
    constants = constants_of(row)
    if (
        constants is not None
        and constants.generation != load_collectives(plan.node.gpu.generation, plan.node.gpu.name).generation
    ):
        raise SpecError(
            Problem(
                where=f"{path}, {row.id}",
                message="the table was measured on other GPUs than the topology has",
                found=row.gpu_model,
                allowed=plan.node.gpu.name,
            )
        )
    rate = float(cluster.wiring.nic_bandwidth.max(initial=0.0)) * cluster.wiring.num_planes
    if (
        row.num_gpus > nvlink_ranks_of_row(row)
        and row.nic_bytes_per_s
        and abs(row.nic_bytes_per_s / rate - 1) > _SAME_RATE
    ):
        raise SpecError(
            Problem(
                where=f"{path}, {row.id}",
                message="the table was measured with other NICs than the topology has",
                found=format_bandwidth(row.nic_bytes_per_s),
                allowed=format_bandwidth(rate),
                hint="set scale_out.link_bandwidth to theirs",
            )
        )


def _query_of(row: MeasuredCollective, ranks: tuple[int, ...]) -> Query:
    """Return what a row has in common with others of its run."""
    return Query(
        op=row.op,
        ranks=ranks,
        sizes_bytes=(),
        algorithm=algorithm_of_row(row) or names.AUTO,
        excluded=excluded_of_row(row),
        num_nics=_nics_of_domain(row),
        launch=row.launch,
    )


def _nics_of_domain(row: MeasuredCollective) -> int:
    """Return the NICs that a row's run could use in each scale-up domain; 0 if it says nothing or needs none."""
    if row.num_gpus <= nvlink_ranks_of_row(row):
        return 0
    hosts = row.nvlink_domain // row.gpus_per_node if nvlink_ranks_of_row(row) > row.gpus_per_node else 1
    return row.num_nics * hosts


def _first_of_domains(cluster: Cluster, count: int, per_domain: int, where: str) -> tuple[int, ...]:
    """Return so many GPUs: the first *per_domain* of one scale-up domain after the other."""
    number = np.arange(cluster.num_gpus)
    place = number - np.searchsorted(cluster.gpu_domain, cluster.gpu_domain, side="left")
    found = number[place < per_domain][:count]
    if len(found) < count:
        raise SpecError(
            Problem(
                where=where,
                message="more GPUs than the topology has",
                found=f"{count} GPUs, {per_domain} in each node",
                allowed=f"{len(found)} of {cluster.num_gpus}",
                hint="give a larger topology, say --set nodes=N",
            )
        )
    return tuple(found.tolist())
