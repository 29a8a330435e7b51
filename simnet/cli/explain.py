"""The verb explain: which single fault predicts a measured table of nccl-tests."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simnet.cli.output import say
from simnet.cli.table import print_table, print_text

if TYPE_CHECKING:
    from simnet.validation.explain import Candidate, Explanation

_PERCENT = 100
_SHOWN = 8
"""Candidates in the table; --json has all."""


def explain_table(
    topology: str, *, measured: Path, op: str, ranks: str, sets: Sequence[str], as_json: bool, plot: Path | None
) -> None:
    """Print which single fault of a topology explains a measured table, and draw both if *plot* is given.

    Raises
    ------
    SimnetError
        If the topology or the table is not valid, or they do not belong together.
    """
    from simnet.collectives.table import constants_of_cluster
    from simnet.spec.load import load_topology, parse_set
    from simnet.topology import build_cluster
    from simnet.validation.explain import explain
    from simnet.validation.measured_table import read_table

    spec = load_topology(topology, parse_set(sets))
    cluster = build_cluster(spec)
    table = read_table(measured, cluster, op=op, ranks=ranks)
    found = explain(spec, table.queries, table.measured_s, constants_of_cluster(cluster))
    if plot is not None:
        from simnet.cli.picture import save_picture
        from simnet.plot.explain import plot_explanation

        save_picture(plot_explanation(found), plot)
    if as_json:
        say(json.dumps(record(found), indent=1, allow_nan=False))
    else:
        print_explanation(found)


def record(found: Explanation) -> dict[str, object]:
    """Return an explanation as plain values, for JSON."""
    return {
        "verdict": found.verdict,
        "reason": found.reason,
        "causes": list(found.causes),
        "limit": found.limit,
        "candidates": [
            {
                "name": one.name,
                "title": one.title,
                "parameter": one.parameter,
                "value": one.value,
                "median_error": one.median_error,
                "distance": one.distance,
                "log_evidence": one.log_evidence,
                "is_fit": one.is_fit,
                "tell": one.tell,
                "predicted_s": list(one.predicted_s),
            }
            for one in found.candidates
        ],
        "unseen": list(found.unseen),
        "rows": [
            {"op": op, "run": run, "size_bytes": size, "measured_s": time}
            for op, run, size, time in zip(found.op, found.run, found.size_bytes, found.measured_s, strict=True)
        ],
    }


def print_explanation(found: Explanation) -> None:
    """Print the verdict, then the faults by how well each predicts the table."""
    by_name = {one.name: one for one in found.candidates}
    causes = [by_name[name] for name in found.causes]
    print_text(_verdict(found, causes))
    print_text(f"{found.reason}.")
    print_text("")
    healthy, best = by_name["healthy"], found.candidates[0].log_evidence
    shown = found.candidates[:_SHOWN]
    shown = shown if healthy in shown else (*shown[:-1], healthy)
    print_table(
        ("fault", "error %", "distance", "evidence", ""),
        (False, True, True, True, False),
        [
            (
                one.title,
                f"{_PERCENT * one.median_error:.1f}",
                f"{one.distance:.1f}",
                f"{(one.log_evidence - best) / math.log(10):.1f}",
                _mark(one, found),
            )
            for one in shown
        ],
    )
    print_text("")
    print_text(
        "error: median over rows; distance: spreads of healthy tables, in the worst operation and range of sizes "
        f"(nine of ten healthy tables lie within {found.limit:.1f}); evidence: powers of ten below the best."
    )
    if found.verdict == "explained":
        print_text("")
        for one in causes:
            print_text(f"is it {one.title} ({one.name})? {one.tell}")
    if found.unseen:
        names = ", ".join(name.replace("_", " ") for name in found.unseen)
        print_text(f"faults that these rows would not show: {names}")


def _verdict(found: Explanation, causes: Sequence[Candidate]) -> str:
    if found.verdict != "explained":
        return found.verdict_words
    others = f"; this table cannot tell it from: {', '.join(one.title for one in causes[1:])}" if causes[1:] else ""
    return f"explained: {causes[0].title}{others}"


def _mark(one: Candidate, found: Explanation) -> str:
    if one.name in found.causes:
        return "possible" if len(found.causes) > 1 else found.verdict
    return "fits" if one.is_fit else "does not fit"
