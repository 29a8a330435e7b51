"""What one pass of a chunk does, whichever its micro-batch: compute, collectives around it, receive and send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from simnet.spec.workload import WorkloadSpec
from simnet.workload.comms import ChunkKind, Exchange, exchange_comm, kind_exchanges, received_bytes, send_bytes
from simnet.workload.kernels import ChunkTimes
from simnet.workload.layout import Layout
from simnet.workload.ops import Category, Comm


@dataclass(slots=True)
class CommTable:
    """Communications of the step in the order that they are first named; grows while stages are built."""

    comms: list[Comm] = field(default_factory=list)
    index: dict[tuple[str, int], int] = field(default_factory=dict)

    def add(self, comm: Comm) -> int:
        """Return the index of *comm*, adding it if its name and stage are new."""
        key = (comm.name, comm.stage)
        if key not in self.index:
            self.index[key] = len(self.comms)
            self.comms.append(comm)
        return self.index[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTemplate:
    """What a pass of one chunk does, whichever its micro-batch; indices of communications."""

    duration_s: float
    before: tuple[int, ...]
    beside: tuple[int, ...]
    after: tuple[int, ...]
    receive: int
    """Send of the neighbour, or -1."""
    receive_shift: int
    """Chunk of the neighbour that sends, less this chunk."""
    send: int
    """Own send, or -1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """Collectives around the compute of a pass; indices of communications."""

    before: tuple[int, ...]
    beside: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageJob:
    """What is needed to list a stage's operations."""

    workload: WorkloadSpec
    layout: Layout
    stage: int
    replicas: int
    """Ranks that hold the same weights, dp x cp."""
    times: Mapping[ChunkKind, ChunkTimes]
    optimizer_s: float
    dp_shard: int = 1
    """Replicas of one shard group, where parameters are sharded."""


def chunk_kind(layout: Layout, stage: int, chunk: int) -> ChunkKind:
    """Return what the passes of a chunk depend on."""
    return ChunkKind(
        layers=layout.layers[stage][chunk],
        has_embedding=layout.has_embedding(stage, chunk),
        has_loss=layout.has_loss(stage, chunk),
    )


def pass_template(
    job: StageJob,
    kind: str,
    chunk: int,
    table: CommTable,
    known: dict[tuple[str, ChunkKind], Around],
) -> PassTemplate:
    """Return the template of a pass of *chunk*: F, B, I or W; equal chunks share their communications.

    *known* holds what earlier chunks of the stage have around their compute, and grows.
    """
    shape = chunk_kind(job.layout, job.stage, chunk)
    return part_template(job, kind, chunk, shape, table, known, is_first=True, is_last=True)


def part_template(
    job: StageJob,
    kind: str,
    chunk: int,
    shape: ChunkKind,
    table: CommTable,
    known: dict[tuple[str, ChunkKind], Around],
    *,
    is_first: bool,
    is_last: bool,
) -> PassTemplate:
    """Return the template of a part of a pass of *chunk*, the layers and ends that *shape* names.

    The first part receives from the neighbouring stage, the last one sends.
    """
    send, receive, shift = _neighbours(job, kind, chunk, table)
    send, receive = send if is_last else -1, receive if is_first else -1
    gathered = (table.add(_gather(job, _direction(kind))),) if receive >= 0 and received_bytes(job.workload) else ()
    around = known.get((kind, shape))
    if around is None:
        around = known[kind, shape] = _around(job, kind, shape, table)
    return PassTemplate(
        duration_s=job.times[shape].pass_s(kind),
        before=(*gathered, *around.before),
        beside=around.beside,
        after=around.after,
        send=send,
        receive=receive,
        receive_shift=shift,
    )


def _around(job: StageJob, kind: str, shape: ChunkKind, table: CommTable) -> Around:
    exchanges = kind_exchanges(job.workload, shape, kind)
    suffix = f"{kind} {shape.layers}{'e' if shape.has_embedding else ''}{'l' if shape.has_loss else ''}"

    def indices(position: str) -> tuple[int, ...]:
        return tuple(table.add(_comm(job, exchange, suffix)) for exchange in exchanges if exchange.position == position)

    return Around(before=indices("before"), beside=indices("beside"), after=indices("after"))


def _comm(job: StageJob, exchange: Exchange, suffix: str) -> Comm:
    return exchange_comm(job.workload, exchange, stage=job.stage, suffix=suffix)


def _direction(kind: str) -> str:
    """Return whether a pass goes forward or backward through the model."""
    return "F" if kind == "F" else "B"


def _neighbours(job: StageJob, kind: str, chunk: int, table: CommTable) -> tuple[int, int, int]:
    """Return own send, the neighbour's send, and the neighbour's chunk less *chunk*; -1 where there is none.

    Backward goes the other way, and sends once the gradient of the inputs is there. What stays on a stage,
    as where a V turns, and gradients of weights are not sent.
    """
    send = receive = -1
    shift = 0
    if kind == "W":
        return send, receive, shift
    step, direction = (1 if kind == "F" else -1), _direction(kind)
    target = job.layout.neighbour(job.stage, chunk, step)
    source = job.layout.neighbour(job.stage, chunk, -step)
    if target is not None and target[0] != job.stage:
        send = table.add(_send(job.workload, job.stage, target[0], direction))
    if source is not None and source[0] != job.stage:
        receive = table.add(_send(job.workload, source[0], job.stage, direction))
        shift = source[1] - chunk
    return send, receive, shift


def _send(workload: WorkloadSpec, stage: int, peer: int, kind: str) -> Comm:
    return Comm(
        name=f"{kind} to stage {peer}",
        category=Category.PP,
        op="send",
        stage=stage,
        peer_stage=peer,
        axes=(),
        size_bytes=send_bytes(workload),
    )


def _gather(job: StageJob, kind: str) -> Comm:
    """Return the gathering of a scattered message by the tensor-parallel group that received it."""
    return Comm(
        name=f"{kind} gathered behind the boundary",
        category=Category.PP,
        op="all_gather",
        stage=job.stage,
        peer_stage=job.stage,
        axes=("tp",),
        size_bytes=received_bytes(job.workload),
        algorithm=job.workload.algorithms.tp,
    )
