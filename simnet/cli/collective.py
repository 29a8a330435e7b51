"""The verb collective: the table of nccl-tests, predicted."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from simnet.cli.output import say
from simnet.cli.table import print_table, print_text

if TYPE_CHECKING:
    from simnet.collectives.table import CollectiveRow
    from simnet.runner.collective import CollectiveTable

_US = 1e6
_GB = 1e-9
_PERCENT = 100


def print_collective(
    topology: str,
    *,
    op: str,
    ranks: str,
    sizes: str,
    algorithm: str,
    launch: str,
    routing: str,
    sets: Sequence[str],
    as_json: bool,
) -> None:
    """Print what nccl-tests would, with what set each figure.

    Raises
    ------
    SimnetError
        If topology, operation, ranks, sizes, algorithm or routing are not valid, or two ranks have no path.
    """
    from simnet.runner.collective import simulate_collective
    from simnet.spec.load import load_topology, parse_set
    from simnet.topology import build_cluster

    cluster = build_cluster(load_topology(topology, parse_set(sets)))
    table = simulate_collective(
        cluster,
        op,
        ranks=ranks,
        sizes=sizes,
        algorithm=algorithm,
        launch=launch,
        routing=routing or None,  # type: ignore[arg-type]  # compile() tells what there is
    )
    if as_json:
        say(json.dumps(asdict(table), indent=1, allow_nan=False))
    else:
        _print(table)


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
    return f"{table.num_ranks:,} ranks in {nodes}"


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
