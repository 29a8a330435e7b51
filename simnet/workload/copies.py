"""What two copies of the parameters exchange at the end of a step, where micro-batches go both ways."""

from __future__ import annotations

from simnet.workload.ops import Category, Comm, Op, Start, Wait
from simnet.workload.passes import CommTable, StageJob
from simnet.workload.replicas import Bucket
from simnet.workload.shards import BF16_BYTES, gathered_parameter_bytes, gradient_bytes


def copy_exchanges(job: StageJob, buckets: list[tuple[Bucket, ...]], table: CommTable) -> tuple[list[Op], list[Op]]:
    """Return what a stage and its mirror image exchange of gradients before the optimizer, of parameters behind it.

    The replicas have scattered the gradients of each copy. Rank by rank, the two stages swap halves of their shards,
    so that each holds the sum of half of both; after the optimizer they swap the updated halves. That is
    a reduce-scatter over all copies in two levels, and then its all-gather.
    """
    shards = [bucket.shard for of_chunk in buckets for bucket in of_chunk]
    split = job.replicas * job.workload.num_copies
    gradients = sum(one.parameters for one in shards) * gradient_bytes(job.workload)
    parameters = sum(one.matrices * gathered_parameter_bytes(job.workload) + one.others * BF16_BYTES for one in shards)
    return (
        _swap(job, table, "gradients of the other copy", gradients / split),
        _swap(job, table, "parameters of the other copy", parameters / split),
    )


def _swap(job: StageJob, table: CommTable, name: str, size_bytes: float) -> list[Op]:
    """Return an exchange between the stage and its mirror image."""
    mirror = job.layout.num_stages - 1 - job.stage

    def send(stage: int, peer: int) -> int:
        return table.add(
            Comm(
                name=name,
                category=Category.DP,
                op="send",
                stage=stage,
                peer_stage=peer,
                axes=(),
                size_bytes=size_bytes,
            )
        )

    return [Start(comm=send(job.stage, mirror), instance=0), Wait(comm=send(mirror, job.stage), instance=0)]
