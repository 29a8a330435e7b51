"""How much of a step the attention core computes: what a faster attention kernel can win."""

from __future__ import annotations

from simnet.spec.compute import KernelPreset
from simnet.spec.parts import GpuPart
from simnet.spec.workload import WorkloadSpec
from simnet.workload.checks import num_micro_batches
from simnet.workload.kernels import chunk_times
from simnet.workload.layout import pipeline_layout
from simnet.workload.passes import chunk_kind
from simnet.workload.plan import lateness


def attention_time(workload: WorkloadSpec, gpu: GpuPart, preset: KernelPreset, *, dp: int) -> float:
    """Return the time of a step in the attention core, recomputation included, mean over all ranks [s].

    Notes
    -----
    Part of the step's compute: the micro-batches of a chunk x the cores of a stage's chunks, later by the jitter as
    all passes are.
    """
    layout = pipeline_layout(workload)
    core_s = 0.0
    for stage in range(layout.num_stages):
        for chunk in range(layout.num_chunks):
            kind = chunk_kind(layout, stage, chunk)
            times = chunk_times(
                workload.model,
                workload,
                gpu,
                preset,
                layers=kind.layers,
                has_embedding=kind.has_embedding,
                has_loss=kind.has_loss,
            )
            core_s += times.forward_attention_s + times.backward_attention_s
    late = 1 + lateness(preset, num_ranks=dp * workload.parallelism.replica_size)
    micro_batches = layout.chunk_micro_batches(num_micro_batches(workload, dp))
    return micro_batches * late * core_s / layout.num_stages
