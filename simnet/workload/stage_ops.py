"""The list of operations that the ranks of one pipeline stage issue in a step."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from simnet.workload.comms import ChunkKind
from simnet.workload.copies import copy_exchanges
from simnet.workload.ops import Category, Comm, Compute, Op, Start, Wait, many
from simnet.workload.pass_list import Pass
from simnet.workload.passes import Around, CommTable, PassTemplate, StageJob, pass_template
from simnet.workload.replicas import Bucket, chunk_buckets, gather_comm, merged, norm_comm, reduce_comm
from simnet.workload.sharded_passes import sharded_passes
from simnet.workload.shards import gradient_bytes
from simnet.workload.weave import Framed, block_frames, frame_of, joined, woven


def stage_operations(job: StageJob, passes: tuple[Pass, ...], table: CommTable) -> tuple[Op, ...]:
    """Return all operations of a stage: gather, passes, reduce, gradient norm, optimizer."""
    if job.workload.shards_parameters:
        return (*sharded_passes(job, passes, table), *_close(job, [], [], table))
    templates = _templates(job, passes, table)
    chunks = range(job.layout.num_chunks)
    buckets = [chunk_buckets(job.workload, job.layout, job.stage, chunk, replicas=job.replicas) for chunk in chunks]
    gathers, reduces = _dp_comms(job, buckets, tuple(_first_positions(passes, "F")), table)
    cut = _cut_computes(templates, passes, buckets, gathers, reduces)
    whole = _whole_computes(templates, passes)
    waits_for_send = not job.workload.overlap.pp
    frames = {key: frame_of(one, waits_for_send=waits_for_send) for key, one in templates.items()}
    rows = [
        Framed(
            frame=frames[item.kind, item.chunk],
            instance=item.micro_batch * len(chunks) + item.chunk,
            computes=cut.get(position, [one]),
        )
        for position, (item, one) in enumerate(zip(passes, whole, strict=True))
    ]
    if job.workload.schedule == "dualpipe":
        blocks = {key: block_frames(one, waits_for_send=waits_for_send) for key, one in templates.items()}
        rows = joined(passes, rows, blocks)
    middle = woven(rows)
    return (*_open(gathers), *middle, *_close(job, buckets, reduces, table))


def _templates(job: StageJob, passes: tuple[Pass, ...], table: CommTable) -> dict[tuple[str, int], PassTemplate]:
    """Return what the passes of each kind and chunk do; chunks alike but for their neighbours share the work."""
    exchanges: dict[tuple[str, ChunkKind], Around] = {}
    found = {item.kind for item in passes}
    return {
        (kind, chunk): pass_template(job, kind, chunk, table, exchanges)
        for kind in ("F", "B", "I", "W")
        if kind in found
        for chunk in range(job.layout.num_chunks)
    }


def _cut_computes(
    templates: Mapping[tuple[str, int], PassTemplate],
    passes: tuple[Pass, ...],
    buckets: list[tuple[Bucket, ...]],
    gathers: list[int],
    reduces: list[list[int]],
) -> dict[int, list[Op]]:
    """Return the computes that buckets cut into pieces, by position among the passes."""
    cut: dict[int, list[Op]] = {}
    first = _first_positions(passes, "F") if gathers else {}
    chain = 0
    for chunk, position in sorted(first.items(), key=lambda item: item[1]):
        cut[position], chain = _gathered(templates["F", chunk], passes[position], buckets[chunk], gathers, chain)
    last = _last_positions(passes, "BW") if reduces else {}
    for chunk, position in last.items():
        template = templates[passes[position].kind, chunk]
        cut[position] = _reduced(template, passes[position], buckets[chunk], reduces[chunk])
    return cut


def _whole_computes(templates: Mapping[tuple[str, int], PassTemplate], passes: tuple[Pass, ...]) -> list[Compute]:
    """Return the undivided compute of each pass."""
    return many(
        Compute,
        len(passes),
        duration_s=[templates[item.kind, item.chunk].duration_s for item in passes],
        category=itertools.repeat(Category.COMPUTE),
        micro_batch=[item.micro_batch for item in passes],
        chunk=[item.chunk for item in passes],
        label=[item.kind for item in passes],
    )


def _compute(template: PassTemplate, item: Pass, share: float) -> Compute:
    return Compute(
        duration_s=template.duration_s * share, micro_batch=item.micro_batch, chunk=item.chunk, label=item.kind
    )


def _first_positions(passes: tuple[Pass, ...], kind: str) -> dict[int, int]:
    """Return the position of each chunk's first pass of *kind*, in their order."""
    found: dict[int, int] = {}
    for position, item in enumerate(passes):
        if item.kind == kind:
            found.setdefault(item.chunk, position)
    return found


def _last_positions(passes: tuple[Pass, ...], kinds: str) -> dict[int, int]:
    """Return the position of each chunk's last pass of *kinds*."""
    return {item.chunk: position for position, item in enumerate(passes) if item.kind in kinds}


def _dp_comms(
    job: StageJob, buckets: list[tuple[Bucket, ...]], forward_order: tuple[int, ...], table: CommTable
) -> tuple[list[int], list[list[int]]]:
    """Return the gathers in the order that chunks first go forward, and the reductions of each chunk.

    Empty where they are not overlapped.
    """
    if job.replicas == 1:
        return [], []
    workload, stage = job.workload, job.stage
    gathers: list[int] = []
    if workload.sharding == "zero1":
        comms = [
            gather_comm(workload, bucket, stage=stage, name=f"parameters {bucket.chunk}.{part}")
            for chunk in forward_order
            for part, bucket in enumerate(buckets[chunk])
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
    return [Start(comm=gathers[0], instance=0)] if gathers else []


def _gathered(
    template: PassTemplate, item: Pass, buckets: tuple[Bucket, ...], gathers: list[int], chain: int
) -> tuple[list[Op], int]:
    """Return a chunk's first forward pass in pieces, each after its parameters, and the chain's next position.

    Waiting for one bucket starts the gather of the next (Megatron-Core ``finish_param_sync``).
    """
    pieces: list[Op] = []
    for bucket in buckets:
        if chain < len(gathers):
            pieces.append(Wait(comm=gathers[chain], instance=0))
            chain += 1
            if chain < len(gathers):
                pieces.append(Start(comm=gathers[chain], instance=0))
        pieces.append(_compute(template, item, bucket.share))
    return pieces, chain


def _reduced(template: PassTemplate, item: Pass, buckets: tuple[Bucket, ...], reduces: list[int]) -> list[Op]:
    """Return a chunk's last backward pass in pieces, each followed by the reduction of its gradients."""
    pieces: list[Op] = []
    for bucket, comm in reversed(list(zip(buckets, reduces, strict=True))):
        pieces += [_compute(template, item, bucket.share), Start(comm=comm, instance=0)]
    return pieces


def _close(job: StageJob, buckets: list[tuple[Bucket, ...]], reduces: list[list[int]], table: CommTable) -> list[Op]:
    """Return what follows the last pass: reductions, tied embedding, gradient norm, optimizer."""
    ops: list[Op] = [Wait(comm=comm, instance=0) for of_chunk in reversed(reduces) for comm in reversed(of_chunk)]
    if job.replicas > 1 and not reduces and not job.workload.shards_parameters:
        comms = [
            reduce_comm(job.workload, bucket, stage=job.stage, name="") for of_chunk in buckets for bucket in of_chunk
        ]
        ops += _now(table.add(merged(comms, name="gradients")))
    ops += _tied_embedding(job, table)
    gradients, parameters = copy_exchanges(job, buckets, table) if job.workload.num_copies > 1 else ([], [])
    ops += gradients
    if job.replicas * job.workload.parallelism.tp > 1:
        ops += _now(table.add(norm_comm(job.stage)))
    ops.append(Compute(duration_s=job.optimizer_s, category=Category.OPTIMIZER, label="optimizer"))
    return ops + parameters


def _tied_embedding(job: StageJob, table: CommTable) -> list[Op]:
    """Return the exchange of the tied table's gradients between first and last stage (an all-reduce of two)."""
    model, last = job.workload.model, job.layout.num_stages - 1
    if not model.tied_embeddings or job.stage not in (0, last) or not last or job.layout.placement != "loop":
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

    return [Start(comm=exchange(job.stage), instance=0), Wait(comm=exchange(last - job.stage), instance=0)]


def _now(comm: int) -> list[Op]:
    return [Start(comm=comm, instance=0), Wait(comm=comm, instance=0)]
