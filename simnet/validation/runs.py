"""Published training runs as cases: one row of a table to a workload, a GPU and a fabric, defaults named.

A blank takes the documented default below and the case says so; a row that this version cannot
simulate gets a reason instead of a number.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from simnet.analysis.screen import ScreenNetwork
from simnet.errors import Problem, SpecError
from simnet.spec.load import load_model, load_part
from simnet.spec.model import ModelSpec
from simnet.spec.parts import GpuPart, Precision
from simnet.spec.workload import (
    BatchSpec,
    LayoutSpec,
    OverlapSpec,
    ParallelismSpec,
    WorkloadSpec,
)
from simnet.units import parse_bandwidth
from simnet.workload.layout import even_split

GPU_PARTS: Mapping[str, str] = {
    "A100-40GB": "A100-40G",
    "A100-80GB": "A100-80G-SXM",
    "H100-SXM": "H100-SXM",
    "H200-SXM": "H200-SXM",
    "B200": "B200-HGX",
    "B300": "B300-HGX",
    "GB200": "GB200",
    "GB300": "GB300",
}
"""Name of the GPU in the table to the part."""
DEFAULT_NIC: Mapping[str, str] = {"ampere": "200 Gb/s", "hopper": "400 Gb/s", "blackwell": "400 Gb/s"}
"""NIC of one GPU by generation where the table is silent: the vendor's reference machine."""
ULTRA_NIC = "800 Gb/s"
"""The same for B300 and GB300, whose reference machines have ConnectX-8."""
RACK_DOMAIN = 72
RACK_DOMAIN_USED = 64
"""GPUs of an NVL72 rack that jobs of a multiple of 64 GPUs use: 16 of 18 trays (MLPerf v5.x entries)."""
BF16_GRADIENTS_SINCE = 2024.0
"""From this year on performance recipes reduce gradients in 16 bit (NVIDIA NeMo ``grad_reduce_in_fp32=False``)."""
SEQUENCE_PARALLEL_SINCE = 2022.4
"""Korthikanti, arXiv:2205.05198, was published in May 2022; Megatron has had sequence parallelism since."""
MLPERF_ROUND_DATE: Mapping[str, float] = {
    "MLPerf v3.1": 2023.75,
    "MLPerf v4.1": 2024.75,
    "MLPerf v5.0": 2025.33,
    "MLPerf v5.1": 2025.75,
    "MLPerf v6.0": 2026.33,
}
"""Submission dates; the release that a log prints is often that of an older base image."""
Recompute = Literal["none", "selective", "full"]
MONTHS = 12
_DATE_PATTERNS = (r"\b(2\d)\.(\d\d)", r"\bv(2\d)\.(\d\d)", r"\b20(\d\d)-(\d\d)", r"\b20(\d\d)\b()")
CHANGED_MODEL = "MODEL CHANGED"
"""Note of rows whose model is not the card's (parallel block, sliding window)."""
CUT_DOWN_PARTS = ("B200-power-limited", "Blackwell-184GB", "H100-96GB-500W")
"""Parts of unknown or reduced power, of which no datasheet is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One row of the table, as read."""

    run_id: str
    values: Mapping[str, str]

    def text(self, column: str) -> str:
        """Return the value of a column, empty if it is blank or missing."""
        return (self.values.get(column) or "").strip()

    def count(self, column: str, default: int) -> int:
        """Return a whole number, *default* if blank."""
        return int(self.text(column) or default)

    @property
    def measured_s(self) -> float | None:
        """Step time [s], or None where the source gives none."""
        return float(self.text("step_s")) if self.text("step_s") else None

    @property
    def is_suspect(self) -> bool:
        """Whether the table itself doubts the row."""
        return "SUSPECT" in self.text("note")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCase:
    """A row that can be predicted."""

    row: RunRow
    workload: WorkloadSpec
    gpu: GpuPart
    network: ScreenNetwork
    dp: int
    num_gpus: int
    software_date: float | None
    """Year of the software, None if the table does not say."""
    assumptions: tuple[str, ...]
    """Blanks that took a default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """A row that cannot be predicted, and why."""

    row: RunRow
    reason: str


def read_runs(path: Path) -> tuple[RunRow, ...]:
    """Return the rows of a table of runs.

    Raises
    ------
    SpecError
        If the file has no header of the expected columns.
    """
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        needed = {"run_id", "base_model_id", "gpu", "gpus", "global_batch", "precision"}
        missing = sorted(needed - set(reader.fieldnames or ()))
        if missing:
            raise SpecError(Problem(message="not a table of runs", where=str(path), found=f"no {', '.join(missing)}"))
        return tuple(RunRow(run_id=line["run_id"], values=line) for line in reader)


def to_case(row: RunRow) -> RunCase | Unsupported:
    """Return *row* as a case, or the reason why this version cannot predict it."""
    reason = _obstacle(row)
    if reason:
        return Unsupported(row=row, reason=reason)
    try:
        model = _model(row)
        gpu = load_part("gpu", GPU_PARTS[row.text("gpu")], GpuPart)
        blanks = _Blanks()
        workload = _workload(row, model, blanks)
        network = _network(row, gpu, blanks)
    except (SpecError, ValueError) as error:
        return Unsupported(row=row, reason=str(error).splitlines()[0])
    return RunCase(
        row=row,
        workload=workload,
        gpu=gpu,
        network=network,
        dp=row.count("dp", 1),
        num_gpus=row.count("gpus", 1),
        software_date=software_date(row.text("software")),
        assumptions=tuple(blanks.notes),
    )


def software_date(text: str) -> float | None:
    """Return the year of a software version such as ``NeMo container 26.02``, None if there is none in it."""
    for name, date in MLPERF_ROUND_DATE.items():
        if name in text:
            return date
    for pattern in _DATE_PATTERNS:
        found = re.search(pattern, text)
        if found:
            month = int(found[2]) if found[2] else 1 + MONTHS // 2
            return 2000 + int(found[1]) + (month - 1) / MONTHS
    return None


class _Blanks:
    """Notes on blanks that took a default."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def take(self, row: RunRow, column: str, default: str) -> str:
        """Return the column, or *default* with a note."""
        value = row.text(column)
        if value and value != "unknown":
            return value
        self.notes.append(f"{column} not stated: {default}")
        return default


def _obstacle(row: RunRow) -> str:
    """Return why a row is out of reach, empty if it is not."""
    if row.text("gpu") in CUT_DOWN_PARTS:
        return f"{row.text('gpu')} is a cut-down part without a datasheet"
    if row.text("gpu") not in GPU_PARTS:
        return f"no part for GPU {row.text('gpu')}"
    if CHANGED_MODEL in row.text("note"):
        return "the run changed the model beyond its card"
    if row.text("sharding") in ("fsdp", "hsdp", "zero3"):
        return f"sharding {row.text('sharding')} is not simulated yet"
    if not row.text("global_batch") or not row.text("gpus"):
        return "GPU count or batch not stated"
    return ""


def _model(row: RunRow) -> ModelSpec:
    model = load_model(row.text("base_model_id"))
    layers = row.text("layers_override")
    return model.model_copy(update={"layers": int(layers)}) if layers else model


def _workload(row: RunRow, model: ModelSpec, blanks: _Blanks) -> WorkloadSpec:
    date = software_date(row.text("software"))
    chunks = int(blanks.take(row, "vp", "1")) if row.count("pp", 1) > 1 else 1
    degrees = ParallelismSpec(
        tp=row.count("tp", 1), cp=row.count("cp", 1), pp=row.count("pp", 1), virtual_stages=chunks,
        dp=row.count("dp", 1),
    )  # fmt: skip
    return WorkloadSpec(
        model=model,
        sequence_length=row.count("seq", 0),
        precision=cast("Precision", row.text("precision")),
        parallelism=degrees,
        batch=BatchSpec(
            global_batch_size=row.count("global_batch", 0), micro_batch_size=int(blanks.take(row, "micro_batch", "1"))
        ),
        layout=_layout(model.layers, degrees.pp * degrees.virtual_stages),
        sequence_parallel=_is_sequence_parallel(row, degrees.tp, date),
        attention_kernel="flash" if blanks.take(row, "attention_kernel", "unfused") == "flash" else "unfused",
        recompute=cast("Recompute", blanks.take(row, "recompute", "none")),
        sharding="zero1" if row.text("sharding") == "zero1" else "none",
        gradient_dtype=_gradient_dtype(row, date),
        overlap=_overlap(row, blanks),
        cuda_graphs=blanks.take(row, "cuda_graphs", "no") == "yes",
        rank_order=row.text("placement") or "tp-cp-dp-pp",
    )


def _is_sequence_parallel(row: RunRow, tp: int, date: float | None) -> bool:
    """Return the default: sequence parallelism since it exists, except where whole layers are recomputed.

    Its authors' own rows with full recomputation are without (Korthikanti, arXiv:2205.05198, table 5).
    """
    is_old = date is not None and date < SEQUENCE_PARALLEL_SINCE
    return tp > 1 and not is_old and row.text("recompute") != "full"


def _gradient_dtype(row: RunRow, date: float | None) -> Literal["fp32", "bf16"]:
    """Return the default: 16 bit with fp16 weights and in performance recipes of today, else fp32."""
    is_new = date is None or date >= BF16_GRADIENTS_SINCE
    return "bf16" if is_new or row.text("precision") == "fp16" else "fp32"


def _overlap(row: RunRow, blanks: _Blanks) -> OverlapSpec:
    """Return the switches; a blank takes the framework's default.

    The distributed optimizer overlaps its traffic; plain data parallelism reduces after the backward pass.
    """
    data_parallel = "yes" if row.text("sharding") == "zero1" else "no"
    return OverlapSpec(
        tp=blanks.take(row, "overlap_tp", "no") == "yes",
        dp_grad=blanks.take(row, "overlap_dp_grad", data_parallel) == "yes",
        dp_param=blanks.take(row, "overlap_dp_param", data_parallel) == "yes",
        pp=blanks.take(row, "overlap_pp", "yes") in ("yes", "na"),
    )


def _layout(layers: int, chunks: int) -> LayoutSpec | Literal["balanced"]:
    """Return an even layout, one with embedding and loss as layers, or the most even list, in this order."""
    if layers % chunks == 0:
        return "balanced"
    if (layers + 2) % chunks == 0:
        return LayoutSpec(embedding_counts_as_layer=True, loss_counts_as_layer=True)
    return LayoutSpec(layers_per_chunk=tuple(reversed(even_split(layers, chunks))))


def _network(row: RunRow, gpu: GpuPart, blanks: _Blanks) -> ScreenNetwork:
    domain = row.count("nvlink_domain", RACK_DOMAIN if "NVL72" in row.text("network") else 8)
    num_gpus = row.count("gpus", 1)
    if domain == RACK_DOMAIN and num_gpus % RACK_DOMAIN and num_gpus % RACK_DOMAIN_USED == 0:
        domain = RACK_DOMAIN_USED
    default = ULTRA_NIC if gpu.name in ("B300-HGX", "GB300") else DEFAULT_NIC[gpu.generation]
    gbps = blanks.take(row, "nic_gbps_per_gpu", "")
    return ScreenNetwork(
        scale_up_domain=min(domain, num_gpus),
        nvlink_bytes_per_s=gpu.nvlink_bandwidth,
        nic_bytes_per_s=parse_bandwidth(f"{gbps} Gb/s" if gbps else default),
        generation=gpu.generation,
    )
