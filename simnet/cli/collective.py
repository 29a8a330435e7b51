"""The verb collective: the table of nccl-tests, predicted."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from simnet.cli.output import say
from simnet.cli.table import print_table, print_text
from simnet.errors import Problem, SimnetError, SpecError

if TYPE_CHECKING:
    from simnet.collectives.table import CollectiveRow
    from simnet.plot.collectives import CollectiveCurve
    from simnet.runner.collective import CollectiveTable
    from simnet.spec.collective_question import CollectiveCallSpec
    from simnet.topology import Cluster

_US = 1e6
_GB = 1e-9
_PERCENT = 100
_UNUSUAL = ("direct",)
"""Algorithms for what-ifs, which would only crowd a figure."""


def print_collective(
    topology: str,
    *,
    call: CollectiveCallSpec,
    routing: str,
    sets: Sequence[str],
    as_json: bool,
    plot: Path | None = None,
    measured: Path | None = None,
) -> None:
    """Print what nccl-tests would, with what set each figure.

    Raises
    ------
    SimnetError
        If topology, operation, ranks, sizes, algorithm or routing are not valid, two ranks have no path, or
        the measured table does not belong to the machine.
    """
    from simnet.runner.collective import simulate_collective
    from simnet.spec.load import load_topology, parse_set
    from simnet.topology import build_cluster

    if measured is not None and plot is None:
        raise SpecError(
            Problem(where="--measured", message="measured points are drawn", hint="say where with --plot FILE")
        )
    if measured is not None and call.split:
        raise SpecError(
            Problem(where="--measured", message="a measured table is of one communicator", found=call.split)
        )
    cluster = build_cluster(load_topology(topology, parse_set(sets)))

    def predict(which: str) -> CollectiveTable:
        return simulate_collective(
            cluster,
            call.op,
            ranks=str(call.ranks),
            split=call.split,
            sizes=call.sizes,
            algorithm=which,
            launch=call.launch,
            parts=call.parts,
            buffers=call.buffers,
            routing=routing or None,  # type: ignore[arg-type]  # compile() tells what there is
        )

    table = predict(call.algorithm)
    if plot is not None:
        _draw(table, _others(table, predict), plot, _measured(measured, cluster, table, str(call.ranks)))
    if as_json:
        say(json.dumps(asdict(table), indent=1, allow_nan=False))
    else:
        _print(table)


def _others(table: CollectiveTable, predict: Callable[[str], CollectiveTable]) -> list[tuple[str, CollectiveTable]]:
    """Return the table of each algorithm that can run, by name."""
    from simnet.collectives.names import ALGORITHMS

    found = []
    for name in ALGORITHMS[table.op]:
        with suppress(SimnetError):  # an algorithm that this machine cannot run has no line
            found.append((name, predict(name)))
    return found


def _measured(path: Path | None, cluster: Cluster, table: CollectiveTable, ranks: str) -> CollectiveCurve | None:
    if path is None:
        return None
    from simnet.collectives.names import bus_factor
    from simnet.plot.collectives import CollectiveCurve
    from simnet.validation.measured_table import read_table

    found = read_table(path, cluster, op=table.op, ranks="" if ranks == "all" else ranks)
    sizes = [size for query in found.queries for size in query.sizes_bytes]
    points = sorted(zip(sizes, found.measured_s, strict=True))
    factor = bus_factor(table.op, table.num_ranks)
    return CollectiveCurve(
        algorithm="measured",
        label="measured",
        x=tuple(size for size, _ in points),
        time_s=tuple(time for _, time in points),
        busbw_bytes_per_s=tuple(factor * size / time for size, time in points),
    )


def _draw(
    table: CollectiveTable,
    others: Sequence[tuple[str, CollectiveTable]],
    path: Path,
    measured: CollectiveCurve | None,
) -> None:
    from simnet.cli.picture import save_picture
    from simnet.plot.collectives import plot_by_size

    curves = [*(_curve(name, one) for name, one in others if name not in _UNUSUAL), _curve("what runs", table, 1)]
    headline = f"{table.op}, {table.num_ranks:,} ranks, {table.topology}: {', '.join(_spans(table.rows))}"
    save_picture(plot_by_size(curves, measured=measured, headline=headline)[0], path)


def _spans(rows: Sequence[CollectiveRow]) -> Iterator[str]:
    """Yield each algorithm with the largest size that it ran at, in the order of the sizes."""
    from simnet.units import format_size

    for algorithm, group in itertools.groupby(
        (row for row in rows if row.size_bytes > 0), key=lambda row: row.algorithm
    ):
        yield f"{algorithm} to {format_size(list(group)[-1].size_bytes, binary=True)}"


def _curve(label: str, table: CollectiveTable, dash: int = 0) -> CollectiveCurve:
    from simnet.plot.collectives import CollectiveCurve

    rows = [row for row in table.rows if row.size_bytes > 0]
    return CollectiveCurve(
        algorithm=label,
        label=label,
        dash=dash,
        x=tuple(row.size_bytes for row in rows),
        time_s=tuple(row.time_s for row in rows),
        busbw_bytes_per_s=tuple(row.busbw_bytes_per_s for row in rows),
    )


def _print(table: CollectiveTable) -> None:
    from simnet.units import format_size

    print_text(f"{table.op}, {_communicator(table)}, {table.topology}")
    print_text("")
    print_table(
        ("size B", "time us", "algbw", "busbw", "algorithm", "ch", "wire", "busy %"),
        (True, True, True, True, False, True, True, True),
        [
            (
                f"{row.size_bytes:.0f}",
                f"{_US * row.time_s:.2f}",
                f"{_GB * row.algbw_bytes_per_s:.2f}",
                f"{_GB * row.busbw_bytes_per_s:.2f}",
                f"{row.algorithm}/{row.protocol}",
                f"{row.channels}",
                format_size(row.wire_bytes, binary=True),
                f"{_PERCENT * row.hottest_utilisation:.1f}",
            )
            for row in table.rows
        ],
    )
    print_text("")
    for text in _reasons(table.rows):
        print_text(text)
    print_text(f"constants: {table.generation}, NCCL {table.nccl_version}; {table.routing} routing")
    print_text("algbw, busbw: GB/s, as nccl-tests count; ch: channels")
    print_text("wire: payload on the busiest link; busy: how much of its wire rate the hottest link uses")
    for note in table.notes:
        print_text(note)


def _communicator(table: CollectiveTable) -> str:
    nodes = "1 node" if table.num_nodes == 1 else f"{table.num_nodes:,} nodes of {table.nics_per_node} NICs in use"
    together = "" if table.num_communicators == 1 else f"{table.num_communicators:,} communicators of "
    return f"{together}{table.num_ranks:,} ranks in {nodes}"


def _reasons(rows: Sequence[CollectiveRow]) -> Iterator[str]:
    """Yield why each algorithm ran and which link was hottest, once for each range of sizes."""
    from simnet.units import format_size

    for _, group in itertools.groupby(rows, key=lambda row: (row.algorithm, row.protocol, row.hottest_link)):
        same = list(group)
        first, last = (format_size(row.size_bytes, binary=True) for row in (same[0], same[-1]))
        span = first if len(same) == 1 else f"{first} to {last}"
        at = "" if len(same) == 1 else f" (at {last})"
        link = f"; hottest link {same[-1].hottest_link}" if same[-1].hottest_link else ""
        yield f"{span}: {same[-1].why}{at}{link}"
        tiers = ", ".join(
            f"{name.replace('_', '-')} {format_size(number, binary=True)}"
            for name, number in same[-1].tier_bytes.items()
        )
        if len(same[-1].tier_bytes) > 1:
            yield f"{last}: payload on the busiest link of each class: {tiers}"
