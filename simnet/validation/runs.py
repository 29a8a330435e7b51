"""Published training runs as cases: one row of a table to a workload, a GPU and a fabric, defaults named.

A blank takes the documented default below and the case says so; a row that this version cannot
simulate gets a reason instead of a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, cast

from simnet.analysis.screen_network import ScreenNetwork
from simnet.errors import SpecError
from simnet.library import list_shipped
from simnet.spec.load import load_model, load_part
from simnet.spec.model import ModelSpec
from simnet.spec.parts import GpuPart, Precision
from simnet.spec.sharding import FsdpSpec, Sharding
from simnet.spec.workload import (
    BatchSpec,
    LayoutSpec,
    OverlapSpec,
    ParallelismSpec,
    Recompute,
    WorkloadSpec,
)
from simnet.units import parse_bandwidth
from simnet.validation.blanks import Blanks
from simnet.validation.machines import machine_size
from simnet.validation.run_table import RunRow, read_runs, software_date
from simnet.validation.stacks import STACKS, attention_of_stack, defaults_of, recompute_of_stack, stack_name
from simnet.workload.layout import even_split
from simnet.workload.memory import estimate

__all__ = ["RunCase", "RunRow", "Unsupported", "read_runs", "software_date", "to_case"]

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
BF16_GRADIENTS_SINCE = 2024.0
"""From this year on performance recipes reduce gradients in 16 bit (NVIDIA NeMo ``grad_reduce_in_fp32=False``)."""
SEQUENCE_PARALLEL_SINCE = 2022.4
"""Korthikanti, arXiv:2205.05198, was published in May 2022; Megatron has had sequence parallelism since."""
DEFAULT_ORDER = ("tp", "cp", "dp", "pp")
"""Megatron's rank order, innermost first."""
KEEPS_PARAMETERS = "SHARD_GRAD_OP"
"""Note of rows whose parameters stay gathered from forward to backward pass (PyTorch's name of it)."""
REDUCED_IN: Mapping[str, Literal["fp32", "bf16"]] = {"fp32 reduce": "fp32", "bf16 reduce": "bf16"}
"""Note of rows that say in what sharded gradients are reduced."""
CHANGED_MODEL = "MODEL CHANGED"
"""Note of rows whose model is not the card's (parallel block, sliding window)."""
NO_MODEL = "no model card, experts and hybrids are not simulated yet"
"""Reason of a row whose model does not ship."""
CUT_DOWN_PARTS = ("B200-power-limited", "Blackwell-184GB", "H100-96GB-500W")
"""Parts of unknown or reduced power, of which no datasheet is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCase:
    """A row that can be predicted."""

    row: RunRow
    workload: WorkloadSpec
    gpu: GpuPart
    network: ScreenNetwork
    dp: int
    num_gpus: int
    assumptions: tuple[str, ...]
    """Blanks that took a default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """A row that cannot be predicted, and why."""

    row: RunRow
    reason: str


def to_case(row: RunRow) -> RunCase | Unsupported:
    """Return *row* as a case, or the reason why this version cannot predict it."""
    reason = _obstacle(row)
    if reason:
        return Unsupported(row=row, reason=reason)
    blanks = Blanks()
    try:
        model = _model(row, blanks)
        gpu = load_part("gpu", GPU_PARTS[row.text("gpu")], GpuPart)
        workload = _with_recompute(_workload(row, model, blanks), row, gpu, blanks)
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
        assumptions=tuple(blanks.notes),
    )


def _obstacle(row: RunRow) -> str:
    """Return why a row is out of reach, empty if it is not."""
    gpu, model = row.text("gpu"), row.text("base_model_id")
    obstacles = (
        (gpu in CUT_DOWN_PARTS, f"{gpu} is a cut-down part without a datasheet"),
        (gpu not in GPU_PARTS, f"no part for GPU {gpu}"),
        (not _is_simulated(model), f"{NO_MODEL}: {model}"),
        (stack_name(row) not in STACKS, f"nothing is known of stack {stack_name(row)}; known: {', '.join(STACKS)}"),
        (CHANGED_MODEL in row.text("note"), "the run changed the model beyond its card"),
        (not row.text("global_batch") or not row.text("gpus"), "GPU count or batch not stated"),
    )
    return next((reason for is_met, reason in obstacles if is_met), "")


@cache
def _is_simulated(name: str) -> bool:
    return any(path.stem == name for path in list_shipped("model")) and load_model(name).moe is None


def _model(row: RunRow, blanks: Blanks) -> ModelSpec:
    """Return the row's model: its card, with fewer layers or a longer table of positions where the run has them."""
    model = load_model(row.text("base_model_id"))
    layers, tokens = row.text("layers_override"), row.count("seq", 0)
    if layers:
        model = model.model_copy(update={"layers": int(layers), "published_parameters": None})
    if 0 < model.learned_positions < tokens:
        blanks.notes.append(f"a table of {tokens} positions, as the sequence needs")
        model = model.model_copy(update={"learned_positions": tokens, "published_parameters": None})
    return model


def _workload(row: RunRow, model: ModelSpec, blanks: Blanks) -> WorkloadSpec:
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
        software_date=date,
        parallelism=degrees,
        batch=BatchSpec(
            global_batch_size=row.count("global_batch", 0), micro_batch_size=int(blanks.take(row, "micro_batch", "1"))
        ),
        layout=_layout(model.layers, degrees.pp * degrees.virtual_stages),
        sequence_parallel=_is_sequence_parallel(degrees.tp, date),
        stack=defaults_of(row).stack,
        attention_kernel=attention_of_stack(row, blanks),
        fp8_parameters=defaults_of(row).gathers_8_bit,
        sharding=cast("Sharding", row.text("sharding") or "none"),
        fsdp_group=row.count("fsdp_group", 8) if row.text("sharding") == "hsdp" else None,
        fsdp=FsdpSpec(reshard_after_forward=KEEPS_PARAMETERS not in row.text("note")),
        gradient_dtype=_gradient_dtype(row, date),
        overlap=_overlap(row, blanks),
        cuda_graphs=blanks.take(row, "cuda_graphs", "no") == "yes",
        rank_order=_rank_order(row),
    )


def _rank_order(row: RunRow) -> str:
    """Return the axes of the row's placement, then those that it leaves out (of degree 1) in Megatron's order."""
    stated = row.text("placement").split("-") if row.text("placement") else []
    return "-".join((*stated, *(axis for axis in DEFAULT_ORDER if axis not in stated)))


def _with_recompute(workload: WorkloadSpec, row: RunRow, gpu: GpuPart, blanks: Blanks) -> WorkloadSpec:
    """Return *workload* with the row's recomputation, or the default.

    With fused attention none; unfused, the attention core since selective recomputation exists (Korthikanti,
    arXiv:2205.05198, May 2022), and whole layers where less does not fit.
    """
    date = software_date(row.text("software"))
    default: Recompute = "none"
    if workload.attention_kernel == "unfused":
        default = "selective" if date is None or date >= SEQUENCE_PARALLEL_SINCE else "none"
        lighter = workload.model_copy(update={"recompute": default})
        if not row.text("recompute") and not estimate(lighter, gpu, dp=row.count("dp", 1)).fits:
            default = "full"
    recompute = cast("Recompute", blanks.take(row, "recompute", default))
    is_split = workload.sequence_parallel and recompute != "full"
    found = workload.model_copy(
        update={"recompute": recompute, "sequence_parallel": is_split, **recompute_of_stack(row, recompute)}
    )
    if found.recompute_share == 1:
        return found
    if not estimate(found, gpu, dp=row.count("dp", 1)).fits:
        found = found.model_copy(update={"recompute_share": 1.0})
    blanks.notes.append(f"recompute share not stated: {found.recompute_share:.2g} of the layers")
    return found


def _is_sequence_parallel(tp: int, date: float | None) -> bool:
    """Return the default: sequence parallelism since it exists.

    Where whole layers are recomputed it is off, as in its authors' own rows (Korthikanti, arXiv:2205.05198, table 5).
    """
    is_old = date is not None and date < SEQUENCE_PARALLEL_SINCE
    return tp > 1 and not is_old


def _gradient_dtype(row: RunRow, date: float | None) -> Literal["fp32", "bf16"]:
    """Return the default: 16 bit with fp16 weights and in performance recipes of today, else fp32."""
    stated = next((dtype for words, dtype in REDUCED_IN.items() if words in row.text("note")), None)
    if stated is not None:
        return stated
    is_new = date is None or date >= BF16_GRADIENTS_SINCE
    return "bf16" if is_new or row.text("precision") == "fp16" else "fp32"


def _overlap(row: RunRow, blanks: Blanks) -> OverlapSpec:
    """Return the switches; a blank takes the framework's default.

    The distributed optimizer overlaps its traffic; plain data parallelism reduces after the backward pass.
    """
    data_parallel = "no" if row.text("sharding") in ("", "none") else "yes"
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


def _network(row: RunRow, gpu: GpuPart, blanks: Blanks) -> ScreenNetwork:
    default = ULTRA_NIC if gpu.name in ("B300-HGX", "GB300") else DEFAULT_NIC[gpu.generation]
    rate = blanks.take(row, "nic_gbps_per_gpu", default)
    return ScreenNetwork(
        scale_up_domain=machine_size(gpu.name, row.count("gpus", 1)).used_gpus,
        nvlink_bytes_per_s=gpu.nvlink_bandwidth,
        nic_bytes_per_s=parse_bandwidth(rate if rate == default else f"{rate} Gb/s"),
        generation=gpu.generation,
    )
