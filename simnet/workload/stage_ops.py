"""The list of operations that the ranks of one pipeline stage issue in a step."""

from __future__ import annotations

from simnet.workload.ops import Category, Comm, Compute, Op, start, wait
from simnet.workload.passes import CommTable, PassTemplate, StageJob, pass_template
from simnet.workload.replicas import Bucket, chunk_buckets, gather_comm, merged, norm_comm, reduce_comm
from simnet.workload.schedule import Pass
from simnet.workload.shards import gradient_bytes


def stage_operations(job: StageJob, passes: tuple[Pass, ...], table: CommTable) -> tuple[Op, ...]:
    """Return all operations of a stage: gather, passes, reduce, gradient norm, optimizer."""
    chunks = range(job.layout.num_chunks)
    templates = {(kind, chunk): pass_template(job, kind, chunk, table) for kind in ("F", "B") for chunk in chunks}
    buckets = [chunk_buckets(job.workload, job.layout, job.stage, chunk, replicas=job.replicas) for chunk in chunks]
    gathers, reduces = _dp_comms(job, buckets, table)
    ops: list[Op] = _open(gathers)
    first = _first_positions(passes, "F")
    last = _last_positions(passes, "B")
    waits_for_send = not job.workload.overlap.pp
    position_in_chain = 0
    for position, item in enumerate(passes):
        template = templates[item.kind, item.chunk]
        pieces: list[list[Op]] = [_compute(template, item, 1.0)]
        if first.get(item.chunk) == position and gathers:
            pieces, position_in_chain = _gathered(template, item, buckets[item.chunk], gathers, position_in_chain)
        elif last.get(item.chunk) == position and reduces:
            pieces = _reduced(template, item, buckets[item.chunk], reduces[item.chunk])
        _emit(ops, template, item, pieces, len(chunks), waits_for_send=waits_for_send)
    ops += _close(job, buckets, reduces, table)
    return tuple(ops)


def _emit(
    ops: list[Op],
    template: PassTemplate,
    item: Pass,
    pieces: list[list[Op]],
    num_chunks: int,
    *,
    waits_for_send: bool,
) -> None:
    """Append one pass: receive, collectives before, those beside around the compute, those after, send."""
    instance = item.micro_batch * num_chunks + item.chunk
    if template.receive >= 0:
        ops.append(wait(template.receive, instance + template.receive_shift))
    for comm in template.before:
        ops.append(start(comm, instance))
        ops.append(wait(comm, instance))
    ops += [start(comm, instance) for comm in template.beside]
    for piece in pieces:
        ops += piece
    ops += [wait(comm, instance) for comm in template.beside]
    for comm in template.after:
        ops.append(start(comm, instance))
        ops.append(wait(comm, instance))
    if template.send >= 0:
        ops.append(start(template.send, instance))
        if waits_for_send:
            ops.append(wait(template.send, instance))


def _compute(template: PassTemplate, item: Pass, share: float) -> list[Op]:
    return [
        Compute(duration_s=template.duration_s * share, micro_batch=item.micro_batch, chunk=item.chunk, label=item.kind)
    ]


def _first_positions(passes: tuple[Pass, ...], kind: str) -> dict[int, int]:
    """Return the position of each chunk's first pass of *kind*."""
    return {item.chunk: position for position, item in reversed(list(enumerate(passes))) if item.kind == kind}


def _last_positions(passes: tuple[Pass, ...], kind: str) -> dict[int, int]:
    """Return the position of each chunk's last pass of *kind*."""
    return {item.chunk: position for position, item in enumerate(passes) if item.kind == kind}


def _dp_comms(job: StageJob, buckets: list[tuple[Bucket, ...]], table: CommTable) -> tuple[list[int], list[list[int]]]:
    """Return the gathers in forward order, and the reductions of each chunk; empty where they are not overlapped."""
    if job.replicas == 1:
        return [], []
    workload, stage = job.workload, job.stage
    gathers: list[int] = []
    if workload.sharding == "zero1":
        comms = [
            gather_comm(workload, bucket, stage=stage, name=f"parameters {bucket.chunk}.{part}")
            for of_chunk in buckets
            for part, bucket in enumerate(of_chunk)
        ]
        if not workload.overlap.dp_param:
            comms = [merged(comms, name="parameters")]
        gathers = [table.add(comm) for comm in comms]
    if not workload.overlap.dp_grad:
        return gathers, []
    return gathers, [
        [
            table.add(reduce_comm(workload, bucket, stage=stage, name=f"gradients {bucket.chunk}.{part}"))
            for part, bucket in enumerate(of_chunk)
        ]
        for of_chunk in buckets
    ]


def _open(gathers: list[int]) -> list[Op]:
    """Return the first gather's start; each following one starts when the one before has been waited for."""
    return [start(gathers[0], 0)] if gathers else []


def _gathered(
    template: PassTemplate, item: Pass, buckets: tuple[Bucket, ...], gathers: list[int], chain: int
) -> tuple[list[list[Op]], int]:
    """Return a chunk's first forward pass in pieces, each after its parameters, and the chain's next position.

    Waiting for one bucket starts the gather of the next (Megatron-Core ``finish_param_sync``).
    """
    pieces: list[list[Op]] = []
    for bucket in buckets:
        piece: list[Op] = []
        if chain < len(gathers):
            piece.append(wait(gathers[chain], 0))
            chain += 1
            if chain < len(gathers):
                piece.append(start(gathers[chain], 0))
        pieces.append(piece + _compute(template, item, bucket.share))
    return pieces, chain


def _reduced(template: PassTemplate, item: Pass, buckets: tuple[Bucket, ...], reduces: list[int]) -> list[list[Op]]:
    """Return a chunk's last backward pass in pieces, each followed by the reduction of its gradients."""
    return [
        [*_compute(template, item, bucket.share), start(comm, 0)]
        for bucket, comm in reversed(list(zip(buckets, reduces, strict=True)))
    ]


def _close(job: StageJob, buckets: list[tuple[Bucket, ...]], reduces: list[list[int]], table: CommTable) -> list[Op]:
    """Return what follows the last pass: reductions, tied embedding, gradient norm, optimizer."""
    ops: list[Op] = [wait(comm, 0) for of_chunk in reversed(reduces) for comm in reversed(of_chunk)]
    if job.replicas > 1 and not reduces:
        comms = [
            reduce_comm(job.workload, bucket, stage=job.stage, name="") for of_chunk in buckets for bucket in of_chunk
        ]
        ops += _now(table.add(merged(comms, name="gradients")))
    ops += _tied_embedding(job, table)
    if job.replicas * job.workload.parallelism.tp > 1:
        ops += _now(table.add(norm_comm(job.stage)))
    ops.append(Compute(duration_s=job.optimizer_s, category=Category.OPTIMIZER, label="optimizer"))
    return ops


def _tied_embedding(job: StageJob, table: CommTable) -> list[Op]:
    """Return the exchange of the tied table's gradients between first and last stage (an all-reduce of two)."""
    model, last = job.workload.model, job.layout.num_stages - 1
    if not model.tied_embeddings or job.stage not in (0, last) or not last:
        return []
    size_bytes = model.vocab * model.hidden / job.workload.parallelism.tp * gradient_bytes(job.workload)

    def exchange(stage: int) -> int:
        return table.add(
            Comm(
                name="tied embedding",
                category=Category.PP,
                op="send",
                stage=stage,
                peer_stage=last - stage,
                axes=(),
                size_bytes=size_bytes,
            )
        )

    return [start(exchange(job.stage), 0), wait(exchange(last - job.stage), 0)]


def _now(comm: int) -> list[Op]:
    return [start(comm, 0), wait(comm, 0)]
