"""The file of known errors from the shipped calibration: ``python -m simnet.validation.known_error_file`` writes it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable

from simnet.library import find
from simnet.spec.known_error import KnownErrorRecord
from simnet.validation.calibration_report import known_errors, shipped_calibration

SOURCE = "simnet calibrate --cross-validate"
HEAD = """\
# How far off step-time predictions were on published runs; the most specific record comes first.
# Errors of runs that the constants were not fitted on: cross-validated by family (docs/validation.md).
# Written by `python -m simnet.validation.known_error_file` from scenarios/validation/calibration.json.
records:
"""


def known_error_yaml(records: Iterable[KnownErrorRecord]) -> str:
    """Return *records* as the text of the file."""
    return HEAD + "".join(
        f"  - {{gpu: {json.dumps(one.gpu)}, precision: {json.dumps(one.precision)}, "
        f"median: {one.median}, p90: {one.p90}, rows: {one.rows}, source: {json.dumps(one.source)}}}\n"
        for one in records
    )


if __name__ == "__main__":
    today = dt.datetime.now(dt.UTC).date()
    records = known_errors(shipped_calibration(), source=f"{SOURCE}, {today}")
    find("part", "known_error").write_text(known_error_yaml(records), encoding="utf-8")
