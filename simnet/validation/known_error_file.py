"""The file of known errors from the shipped calibration.

``python -m simnet.validation.known_error_file 2026-12-01`` writes it, with the date of the calibration.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

from simnet.library import find
from simnet.spec.known_error import KnownErrorRecord
from simnet.validation.calibration_report import known_errors, shipped_calibration

SOURCE = "simnet calibrate --cross-validate"
HEAD = """\
# How far off step-time predictions were on published runs; the most specific record comes first.
# Errors of runs that the constants were not fitted on: cross-validated by family (docs/validation.md).
# Written by `python -m simnet.validation.known_error_file DATE` from scenarios/validation/calibration.json.
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
    date = sys.argv[1]
    records = known_errors(shipped_calibration(), source=f"{SOURCE}, {date}")
    find("part", "known_error").write_text(known_error_yaml(records), encoding="utf-8")
