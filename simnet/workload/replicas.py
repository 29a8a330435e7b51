"""Data-parallel traffic of a step: buckets of parameters to gather and of gradients to reduce."""

from __future__ import annotations

import math
from dataclasses import dataclass

from simnet.spec.workload import WorkloadSpec
from simnet.workload.layout import Layout, even_split
from simnet.workload.ops import Category, Comm
from simnet.workload.shards import BF16_BYTES, Shard, gathered_parameter_bytes, gradient_bytes, shard

MIN_BUCKET_PARAMETERS = 40_000_000
"""Megatron-Core's smallest gradient bucket (``distributed_data_parallel.py``)."""
BUCKET_PARAMETERS_PER_REPLICA = 1_000_000
"""Megatron-Core grows the bucket with the group, so that latency does not dominate."""
MAX_BUCKETS = 16
"""Buckets that the simulation tells apart in a chunk; finer ones are merged, their latencies counted."""
DP_AXES = ("cp", "dp")
"""Context-parallel ranks hold the same weights, so gradients are reduced over both axes."""
NORM_BYTES = 8
"""Gradient norm and overflow flag, two fp32 scalars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Parameters of one chunk that are gathered and reduced together."""

    chunk: int
    shard: Shard
    share: float
    """Part of the chunk's compute that belongs to it."""
    repeats: int = 1
    """Buckets of the recipe that this one stands for."""


def chunk_buckets(
    workload: WorkloadSpec, layout: Layout, stage: int, chunk: int, *, replicas: int
) -> tuple[Bucket, ...]:
    """Return the buckets of *chunk* in the order of the forward pass.

    Megatron-Core splits the first chunk of the first stage, whose reduction nothing else hides, and
    gives every other chunk one bucket. Buckets hold whole layers here.
    """
    held = shard(workload, layout, stage, chunk)
    layers = layout.layers[stage][chunk]
    if not layout.has_embedding(stage, chunk) or not layers:
        return (Bucket(chunk=chunk, shard=held, share=1.0),)
    num_real = math.ceil(held.parameters / _bucket_parameters(workload, replicas))
    counts = even_split(layers, min(num_real, layers, MAX_BUCKETS))
    return tuple(
        Bucket(
            chunk=chunk,
            # Embedding and norms are counted in the first bucket; it is the last to be reduced.
            shard=Shard(matrices=held.matrices * count / layers, others=held.others if not index else 0.0),
            share=count / layers,
            repeats=max(1, round(num_real / len(counts))),
        )
        for index, count in enumerate(counts)
    )


def _bucket_parameters(workload: WorkloadSpec, replicas: int) -> int:
    """Return the recipe's bucket size [parameters]."""
    if workload.dp_bucket_parameters == "auto":
        return max(MIN_BUCKET_PARAMETERS, BUCKET_PARAMETERS_PER_REPLICA * replicas)
    return workload.dp_bucket_parameters


def gather_comm(workload: WorkloadSpec, bucket: Bucket, *, stage: int, name: str) -> Comm:
    """Return the all-gather of a bucket's parameters over all ranks that hold them."""
    size_bytes = bucket.shard.matrices * gathered_parameter_bytes(workload) + bucket.shard.others * BF16_BYTES
    return Comm(
        name=name,
        category=Category.DP,
        op="all_gather",
        stage=stage,
        peer_stage=stage,
        axes=DP_AXES,
        size_bytes=size_bytes,
        repeats=bucket.repeats,
        algorithm=workload.algorithms.dp,
    )


def reduce_comm(workload: WorkloadSpec, bucket: Bucket, *, stage: int, name: str) -> Comm:
    """Return the reduction of a bucket's gradients: scattered with zero1, else to all."""
    return Comm(
        name=name,
        category=Category.DP,
        op="reduce_scatter" if workload.sharding == "zero1" else "all_reduce",
        stage=stage,
        peer_stage=stage,
        axes=DP_AXES,
        size_bytes=bucket.shard.parameters * gradient_bytes(workload),
        repeats=bucket.repeats,
        algorithm=workload.algorithms.dp,
    )


def merged(comms: list[Comm], *, name: str) -> Comm:
    """Return one communication for several that run back to back."""
    first = comms[0]
    return Comm(
        name=name,
        category=first.category,
        op=first.op,
        stage=first.stage,
        peer_stage=first.peer_stage,
        axes=first.axes,
        size_bytes=sum(comm.size_bytes for comm in comms),
        repeats=sum(comm.repeats for comm in comms),
        algorithm=first.algorithm,
    )


def norm_comm(stage: int) -> Comm:
    """Return the reduction of the gradient norm over the stage's ranks."""
    return Comm(
        name="gradient norm",
        category=Category.DP,
        op="all_reduce",
        stage=stage,
        peer_stage=stage,
        axes=("tp", "cp", "dp"),
        size_bytes=NORM_BYTES,
    )
