"""The file of known errors of collectives, from the shipped table of measured ones.

``python -m simnet.validation.collective_error_file 2026-12-01`` writes it, with the date of the constants.
"""

from __future__ import annotations

import sys

from simnet.library import find
from simnet.spec.collective_error import CollectiveError, SizeError
from simnet.validation.collective_rows import constants_of
from simnet.validation.collectives import SIZE_BOUNDS_BYTES, group_errors, validate_collectives

DIGITS = 4
HEAD = """\
# How far off predicted times of collectives were on published tables of healthy systems, by size, and the GPUs of the
# largest such system of each generation. No table was held out of the calibration (docs/model/collectives.md).
# Written by `python -m simnet.validation.collective_error_file DATE`.
"""


def measured_error(source: str) -> CollectiveError:
    """Return the errors that predictions show on the shipped table."""
    rows = validate_collectives()
    groups = {group.key: group for group in group_errors(rows) if group.by == "size"}
    starts = [0, *(int(bound) for bound in list(SIZE_BOUNDS_BYTES.values())[:-1])]
    largest: dict[str, int] = {}
    for row in rows:
        constants = constants_of(row.measured)
        if constants is not None and not row.reason and row.measured.health == "yes":
            largest[constants.generation] = max(largest.get(constants.generation, 0), row.measured.num_gpus)
    return CollectiveError(
        source=source,
        sizes=tuple(
            SizeError(
                name=name,
                from_bytes=start,
                median=round(groups[name].median_ape, DIGITS),
                p90=round(groups[name].p90_ape, DIGITS),
                rows=groups[name].rows,
            )
            for name, start in zip(SIZE_BOUNDS_BYTES, starts, strict=True)
        ),
        largest=dict(sorted(largest.items())),
    )


def collective_error_yaml(found: CollectiveError) -> str:
    """Return the text of the file."""
    lines = [f'source: "{found.source}"', "sizes:"]
    lines += [
        f'  - {{name: "{one.name}", from_bytes: {one.from_bytes}, '
        f"median: {one.median}, p90: {one.p90}, rows: {one.rows}}}"
        for one in found.sizes
    ]
    largest = ", ".join(f"{name}: {count}" for name, count in found.largest.items())
    return HEAD + "\n".join([*lines, f"largest: {{{largest}}}", ""])


if __name__ == "__main__":
    text = collective_error_yaml(measured_error(f"simnet validate --collectives, {sys.argv[1]}"))
    find("part", "collective_error").write_text(text, encoding="utf-8")
