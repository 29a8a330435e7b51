"""MLPerf v5.x entries of Llama 3.1 405B, measured and predicted: the table of the README and of the report.

The predictions come from the engine, which takes a minute for all of them, so they ship as
``scenarios/validation/mlperf_405b_predicted.json``. ``python -m simnet.validation.mlperf`` makes the
file anew in a checkout; the tests compute rows of it again and compare.

For the report, a row is a ``simnet.plot.parity.MeasuredRow`` as it stands:
``[MeasuredRow(**row.record()) for row in mlperf_rows()]``; for README and docs,
:func:`markdown_table` gives the text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache

from simnet.library import list_shipped, shipped_file
from simnet.validation.machines import HGX_TOPOLOGIES, RACK_TOPOLOGIES
from simnet.validation.runs import RunCase, RunRow, read_runs, to_case
from simnet.validation.simulated import simulated_step
from simnet.version import __version__

RUNS_FILE = "scenarios/validation/training_runs.csv"
PREDICTED_FILE = "scenarios/validation/mlperf_405b_predicted.json"
ENTRIES = ("ml50-405b-", "ml51-405b-")
"""How the ids of the entries begin."""
TOLERANCE = 0.08
"""Relative error beyond which a row is called a miss."""
_PERCENT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedStep:
    """One published step time beside the engine's [s]."""

    id: str
    gpu: str
    precision: str
    num_gpus: int
    samples_per_step: int
    measured_s: float
    predicted_s: float
    method: str
    """How the prediction was found, see :class:`simnet.validation.steady.SteadyStep`."""
    source: str
    """Software of the entry, and whether the prediction is of this version and these constants."""

    @property
    def error(self) -> float:
        """Return predicted over measured, less 1."""
        return self.predicted_s / self.measured_s - 1

    @property
    def is_miss(self) -> bool:
        """Return whether the error is beyond the tolerance."""
        return abs(self.error) > TOLERANCE

    @property
    def samples_per_s_per_gpu(self) -> float:
        """Return the predicted rate of one GPU [1/s], for ratios between chips."""
        return self.samples_per_step / self.predicted_s / self.num_gpus

    def record(self) -> dict[str, str | int | float]:
        """Return what the report shows of the row."""
        kept = ("id", "gpu", "num_gpus", "predicted_s", "measured_s", "source")
        return {key: value for key, value in asdict(self).items() if key in kept}


def mlperf_rows() -> tuple[PublishedStep, ...]:
    """Return the entries with the shipped predictions, in milliseconds; Hopper first, then by GPUs.

    Raises
    ------
    SpecError
        If simnet was installed without the files.
    """
    shipped = json.loads(shipped_file(PREDICTED_FILE).read_text(encoding="utf-8"))
    is_current = (shipped["version"], shipped["inputs_sha256"]) == (__version__, inputs_hash())
    age = "" if is_current else f"; predicted by simnet {shipped['version']} with other constants"
    predicted = {one["id"]: one for one in shipped["rows"]}
    rows = [_row(run, predicted[run.run_id], age) for run in entries() if run.run_id in predicted]
    return tuple(sorted(rows, key=lambda row: (not row.gpu.startswith("H"), row.gpu, row.num_gpus, row.id)))


def entries() -> tuple[RunRow, ...]:
    """Return the rows of the entries in the shipped table of runs."""
    return tuple(row for row in read_runs(shipped_file(RUNS_FILE)) if row.run_id.startswith(ENTRIES))


def predict(runs: Iterable[RunRow]) -> list[dict[str, str | float]]:
    """Return id, step time and method of each run by the engine; runs that cannot be predicted are left out."""
    found: list[dict[str, str | float]] = []
    for run in runs:
        case = to_case(run)
        if isinstance(case, RunCase):
            step = simulated_step(case)
            found.append({"id": run.run_id, "predicted_s": step.step_time_s, "method": step.method})
    return found


@cache
def inputs_hash() -> str:
    """Return a hash of the shipped files that decide the predictions: runs, parts, model cards, machines."""
    names = {*HGX_TOPOLOGIES.values(), *RACK_TOPOLOGIES.values()}
    machines = [path for path in list_shipped("topology") if path.stem in names]
    parts = [path for path in list_shipped("part") if path.stem != "known_error"]
    cards = {row.text("base_model_id") for row in entries()}
    models = [path for path in list_shipped("model") if path.stem in cards]
    digest = hashlib.sha256()
    for path in (shipped_file(RUNS_FILE), *parts, *models, *machines):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def predicted_file() -> str:
    """Return the content of the shipped file, computed anew."""
    content = {"version": __version__, "inputs_sha256": inputs_hash(), "rows": predict(entries())}
    return json.dumps(content, indent=1) + "\n"


def markdown_table(rows: Sequence[PublishedStep]) -> str:
    """Return the entries as a table for README and docs, misses marked."""
    lines = [
        "| MLPerf entry | GPUs | precision | measured s | predicted s | error % |",
        "|---|---:|---|---:|---:|---:|",
    ]
    lines += [
        f"| {row.id} | {row.num_gpus:,} {row.gpu} | {row.precision} | {row.measured_s:.3f} | {row.predicted_s:.3f} "
        f"| {_PERCENT * row.error:+.1f}{' **miss**' if row.is_miss else ''} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def _row(run: RunRow, predicted: dict[str, str | float], age: str) -> PublishedStep:
    return PublishedStep(
        id=run.run_id,
        gpu=run.text("gpu"),
        precision=run.text("precision"),
        num_gpus=run.count("gpus", 0),
        samples_per_step=run.count("global_batch", 0),
        measured_s=float(run.text("step_s")),
        predicted_s=float(predicted["predicted_s"]),
        method=str(predicted["method"]),
        source=run.text("software") + age,
    )


if __name__ == "__main__":
    shipped_file(PREDICTED_FILE).write_text(predicted_file(), encoding="utf-8")
