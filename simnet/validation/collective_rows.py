"""Measured nccl-tests tables: one row a call, and the machine that each row describes."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from simnet.collectives import names
from simnet.collectives.machine import REDUCTION_OFF, Machine
from simnet.errors import Problem, SpecError
from simnet.spec.bounds import MAX_COUNT
from simnet.spec.collectives import PROTOCOLS, CollectiveConstants, load_collectives, transport
from simnet.spec.load import load_part
from simnet.spec.parts import GpuPart
from simnet.validation.csv_rows import Row, read_rows

_US = 1e-6
_GB = 1e9
_GBIT = 1e9 / 8
_IN_PLACE = re.compile(r"ip_time_us=([\d.]+)")
_SMALL_DOMAIN = 8  # larger domains span trays, whose GPUs per host the column gpus_per_node counts
_COLUMNS = ("id", "op", "gpu_model", "gpus", "gpus_per_node", "nvlink_domain", "fabric", "size_bytes", "harness")

_GPU_PARTS = {
    "A100": "A100-80G-SXM",
    "H100": "H100-SXM",
    "H200": "H200-SXM",
    "H20": "H100-SXM",  # an H20 has an H100's NVLink and fewer multiprocessors
    "B200": "B200-HGX",
    "B300": "B300-HGX",
    "GB200": "GB200",
    "GB300": "GB300",
}
_EFA_VERSIONS = {"A100": "efa-1", "H100": "efa-2", "H200": "efa-3"}
"""Generation of the adapter that machines with these GPUs carry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCollective:
    """One line of a measured table."""

    id: str
    """Series."""
    op: str
    """Operation, or ``sendrecv``."""
    gpu_model: str
    """GPU, normalised."""
    num_gpus: int
    """Ranks."""
    gpus_per_node: int
    """GPUs of each host."""
    nvlink_domain: int
    """GPUs that NVLink joins."""
    num_nics: int
    """NICs of each host; 0 if none or not stated."""
    nic_bytes_per_s: float
    """Rate of one NIC [bytes/s]; 0 if none or not stated."""
    network: str
    """Kind of scale-out network, normalised."""
    transport: str
    """What carries the traffic between nodes: the network's kind and, where they differ, its generation."""
    algorithm: str
    """What the source says of the algorithm."""
    size_bytes: float
    """Whole buffer [bytes]; 0 if not stated."""
    time_s: float
    """Smaller of out-of-place and in-place time [s]; 0 if not stated."""
    launch: str
    """Harness."""
    health: str
    """``yes``, ``no`` or ``unknown``."""
    is_path_known: bool
    """Whether each GPU has its NIC beside it, as far as the source says."""


def read_measured(path: Path) -> tuple[MeasuredCollective, ...]:
    """Return the rows of a table with the columns of nccl-tests and of the machine.

    Raises
    ------
    SpecError
        If the file cannot be read or lacks columns, or with every row that does not parse.
    """
    rows: list[MeasuredCollective] = []
    problems: list[Problem] = []
    for line, record in read_rows(path, _COLUMNS, what="a table of measured collectives"):
        try:
            rows.append(_row(record))
        except (ValueError, SpecError) as error:
            problems.append(Problem(where=f"{path}:{line}:1", message="not a row", found=str(error)))
    if problems:
        raise SpecError(*problems)
    return tuple(rows)


def constants_of(row: MeasuredCollective) -> CollectiveConstants | None:
    """Return the constants of a row's GPU, nothing if no part describes it."""
    part = _GPU_PARTS.get(row.gpu_model)
    if part is None:
        return None
    gpu = _gpu(part)
    return load_collectives(gpu.generation, gpu.name)


def machine_of_row(row: MeasuredCollective) -> Machine | str:
    """Return the machine that a row describes, or why it does not describe one."""
    constants = constants_of(row)
    if constants is None:
        return f"no GPU part for {row.gpu_model or 'a GPU that is not named'}"
    local = nvlink_ranks_of_row(row)
    nodes = row.num_gpus // local
    if nodes * local != row.num_gpus:
        return f"{row.num_gpus} GPUs do not fill nodes of {local}"
    if nodes > 1 and not (row.num_nics and row.nic_bytes_per_s):
        return "several nodes, but number or rate of NICs is not stated"
    if nodes > 1 and not row.is_path_known:
        return "several nodes, but the way from GPU to NIC is not stated"
    gpu = _gpu(_GPU_PARTS[row.gpu_model])
    kind = transport(row.transport)
    heads = min(local, row.num_nics) if nodes > 1 else 0
    nic = row.nic_bytes_per_s * (row.num_nics / heads if heads and local > 1 else 1.0)
    plain = constants.gpu.link_efficiency.network.si
    path_s = constants.latency.network_path_included.si + kind.latency.si
    return Machine(
        num_ranks=row.num_gpus,
        num_nodes=nodes,
        num_heads=heads,
        max_local=local,
        min_local=local,
        nvlink_bytes_per_s=gpu.nvlink_bandwidth if local > 1 else math.inf,
        nic_bytes_per_s=nic * kind.efficiency.si / plain if nodes > 1 else math.inf,
        network_latency_s=path_s if nodes > 1 else 0.0,
        no_reduction="" if nodes > 1 and reduces_in_network(row) else REDUCTION_OFF,
        reduction_path_s=path_s if nodes > 1 else 0.0,
    )


def reduces_in_network(row: MeasuredCollective) -> bool:
    """Whether the switches between the nodes of a row reduced (NCCL_COLLNET_ENABLE); NCCL still chose by size."""
    return row.algorithm.lower().startswith("collnet")


def nvlink_ranks_of_row(row: MeasuredCollective) -> int:
    """Return the ranks of a row that NVLink joins."""
    whole_domain = row.network == "none" or row.nvlink_domain > _SMALL_DOMAIN
    return min(row.num_gpus, row.nvlink_domain if whole_domain else min(row.gpus_per_node, row.nvlink_domain))


def algorithm_of_row(row: MeasuredCollective) -> str:
    """Return the algorithm that a row states, ``auto`` if it leaves the choice; empty if simnet has it not."""
    text = row.algorithm.lower()
    if not text or text.startswith("default") or "or off" in text or ">=" in text:
        return names.AUTO
    if text.startswith("nvls off") or reduces_in_network(row):
        return names.AUTO
    for start, algorithm in (("ring", names.RING), ("tree", names.TREE)):
        if text.startswith(start):
            return algorithm
    if "nvlstree" in text:
        return names.NVLS_TREE
    return names.NVLS if text.startswith("nvls") else ""


@cache
def _gpu(name: str) -> GpuPart:
    return load_part("gpu", name, GpuPart)


def excluded_of_row(row: MeasuredCollective) -> tuple[str, ...]:
    """Return the algorithms that a row's settings switch off, and the protocols that its transport cannot run."""
    text = row.algorithm.lower()
    off: tuple[str, ...] = (names.NVLS, names.NVLS_TREE) if "nvls off" in text and "on or off" not in text else ()
    if reduces_in_network(row):
        off = (names.COLLNET,)  # of NCCL 2.12 to 2.14, whose CollNet takes the time of a chain
    able = PROTOCOLS if row.num_gpus == nvlink_ranks_of_row(row) else transport(row.transport).protocols
    return (*off, *(protocol for protocol in PROTOCOLS if protocol not in able))


def has_registered_buffers(row: MeasuredCollective) -> bool:
    """Whether a row's buffers were registered with NCCL."""
    return "registered" in row.algorithm.lower()


def _number(record: Row, column: str) -> float:
    """Return a number that may be blank.

    Raises
    ------
    ValueError
        If it is no number, or none that a measurement can have.
    """
    text = record.get(column) or "0"
    number = float(text)
    if not 0 <= number < math.inf:
        raise ValueError(f"{column} {text}")
    return number


def _count(record: Row, column: str, default: int = 0) -> int:
    """Return a count of at least 1, *default* if it is blank; errors as for a number."""
    text = record.get(column) or ""
    if text and not (text.isdecimal() and 1 <= float(text) <= MAX_COUNT):
        raise ValueError(f"{column} {text}")
    return int(text) if text else default


def _row(record: Row) -> MeasuredCollective:
    op = record["op"]
    size_bytes = _number(record, "size_bytes")
    times = [_number(record, "time_us")]
    times += [float(found) for found in _IN_PLACE.findall(record.get("note", ""))]
    positive = [time * _US for time in times if time > 0]
    algbw = _number(record, "algbw_GBps") * _GB
    if not positive and algbw and size_bytes:
        positive = [size_bytes / algbw]
    gpus = _count(record, "gpus", default=1)
    per_node = _count(record, "gpus_per_node", default=gpus)
    return MeasuredCollective(
        id=record["id"],
        op="sendrecv" if op == "sendrecv" else names.operation(op),
        gpu_model=record["gpu_model"],
        num_gpus=gpus,
        gpus_per_node=per_node,
        nvlink_domain=_count(record, "nvlink_domain", default=per_node),
        num_nics=int(_number(record, "nics_per_node")),
        nic_bytes_per_s=_number(record, "nic_gbps") * _GBIT,
        network=record["fabric"],
        algorithm=record.get("algo", ""),
        size_bytes=size_bytes,
        time_s=min(positive, default=0.0),
        launch=record["harness"] or "unknown",
        health=record.get("healthy", "unknown"),
        transport=_transport(record),
        is_path_known="not necessarily PCIe-aligned" not in record.get("note", ""),
    )


def _transport(record: Row) -> str:
    """Return the generation of the transport, where the kind of network has several."""
    fabric = record["fabric"]
    if fabric == "efa":
        return _EFA_VERSIONS.get(record["gpu_model"], "efa-2")
    return "gpudirect-tcpxo" if "TCPXO" in record.get("network", "") else fabric
