"""What a rank holds whole for a while where parameters are sharded: gathered units and gradients not yet reduced."""

from __future__ import annotations

from simnet.spec.workload import WorkloadSpec
from simnet.workload.layout import Layout
from simnet.workload.shards import gradient_bytes, state_split
from simnet.workload.units import ROOT, chunk_parts, gathered_bytes, unit_shard


def unsharded_bytes(workload: WorkloadSpec, layout: Layout, stage: int, *, replicas: int) -> float:
    """Return the most that a rank of *stage* holds of whole units at a time [bytes].

    The unit that computes and those gathered ahead of it, the ends of the model from forward to backward
    pass, and the gradients of two units: one being computed, one being reduced. Without resharding
    all layers of a chunk (of all chunks in a pipeline) are whole from forward to backward pass.
    """
    if not workload.shards_parameters or state_split(workload, replicas=replicas) == 1:
        return 0.0
    fsdp = workload.fsdp
    found = []
    for chunk in range(layout.num_chunks):
        units = dict.fromkeys(part.unit for part in chunk_parts(layout, stage, chunk))
        shards = {unit: unit_shard(workload, layout, stage, chunk, unit) for unit in units}
        layers = [gathered_bytes(workload, held) for unit, held in shards.items() if unit != ROOT]
        at_once = len(layers) if not fsdp.reshard_after_forward else 1 + fsdp.prefetch
        gradients = sorted((held.parameters * gradient_bytes(workload) for held in shards.values()), reverse=True)
        found.append(
            sum(layers[:at_once])
            + sum(gathered_bytes(workload, held) for unit, held in shards.items() if unit == ROOT)
            # Kept until the last micro-batch, whole gradients are counted with the states.
            + (sum(gradients[:2]) if fsdp.reduce == "each_micro_batch" else 0.0)
        )
    return max(found) if layout.num_stages == 1 or fsdp.reshard_after_forward else sum(found)
