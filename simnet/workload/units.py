"""Units of sharded data parallelism: what is gathered and reduced together, and the parts of a pass that need it."""

from __future__ import annotations

from dataclasses import dataclass

from simnet.spec.workload import WorkloadSpec
from simnet.workload.comms import ChunkKind
from simnet.workload.layout import Layout
from simnet.workload.ops import Category, CollectiveOp, Comm
from simnet.workload.shards import BF16_BYTES, Shard, gathered_parameter_bytes, gradient_bytes, shard
from simnet.workload.transformer import layer_matrix_parameters, layer_vector_parameters

SHARD_AXES = ("cp", "dp_shard")
"""Ranks that split a unit: context-parallel ranks hold the same weights."""
ROOT = -1
"""Number of the unit that holds embedding, output projection and last norm; layers are numbered from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a forward pass of a chunk: the embedding, one layer, or logits and loss."""

    kind: ChunkKind
    unit: int
    """Number of the unit whose parameters it needs."""


def chunk_parts(layout: Layout, stage: int, chunk: int) -> tuple[Part, ...]:
    """Return the parts of a chunk's forward pass in order; the backward pass has them in reverse."""
    ends = [
        Part(kind=ChunkKind(layers=0, has_embedding=is_embedding, has_loss=not is_embedding), unit=ROOT)
        for is_embedding in (True, False)
    ]
    layer = ChunkKind(layers=1, has_embedding=False, has_loss=False)
    return (
        *(ends[:1] if layout.has_embedding(stage, chunk) else ()),
        *(Part(kind=layer, unit=index) for index in range(layout.layers[stage][chunk])),
        *(ends[1:] if layout.has_loss(stage, chunk) else ()),
    )


def part_kinds(layout: Layout) -> tuple[ChunkKind, ...]:
    """Return the different kinds of part of all chunks."""
    chunks = ((stage, chunk) for stage in range(layout.num_stages) for chunk in range(layout.num_chunks))
    return tuple(dict.fromkeys(part.kind for where in chunks for part in chunk_parts(layout, *where)))


def unit_shard(workload: WorkloadSpec, layout: Layout, stage: int, chunk: int, unit: int) -> Shard:
    """Return the parameters of a unit on one rank after tensor parallelism, whole (as gathered)."""
    model = workload.model
    if unit != ROOT:
        return Shard(
            matrices=layer_matrix_parameters(model) / workload.parallelism.tp, others=layer_vector_parameters(model)
        )
    held = shard(workload, layout, stage, chunk)
    return Shard(matrices=0.0, others=held.others - layout.layers[stage][chunk] * layer_vector_parameters(model))


def gathered_bytes(workload: WorkloadSpec, held: Shard) -> float:
    """Return the bytes of a unit's parameters as they are gathered."""
    return held.matrices * gathered_parameter_bytes(workload) + held.others * BF16_BYTES


def unit_gather(workload: WorkloadSpec, held: Shard, *, stage: int, name: str) -> Comm:
    """Return the all-gather of a unit's parameters over its shard group."""
    return _comm(workload, "all_gather", gathered_bytes(workload, held), SHARD_AXES, stage=stage, name=name)


def unit_reduce(workload: WorkloadSpec, held: Shard, *, stage: int, name: str) -> Comm:
    """Return the reduce-scatter of a unit's gradients over its shard group."""
    size_bytes = held.parameters * gradient_bytes(workload)
    return _comm(workload, "reduce_scatter", size_bytes, SHARD_AXES, stage=stage, name=name)


def unit_all_reduce(workload: WorkloadSpec, held: Shard, *, stage: int, name: str, split: int) -> Comm:
    """Return the all-reduce of each rank's shard of a unit's gradients, of *split* shards, over the groups."""
    size_bytes = held.parameters * gradient_bytes(workload) / split
    return _comm(workload, "all_reduce", size_bytes, ("dp_replica",), stage=stage, name=name)


def _comm(
    workload: WorkloadSpec, op: CollectiveOp, size_bytes: float, axes: tuple[str, ...], *, stage: int, name: str
) -> Comm:
    return Comm(
        name=name,
        category=Category.DP,
        op=op,
        stage=stage,
        peer_stage=stage,
        axes=axes,
        size_bytes=size_bytes,
        algorithm=workload.algorithms.dp,
    )
