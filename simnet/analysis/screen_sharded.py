"""Closed form of what sharded parameters and gradients add to a step.

Gathers and reductions of a unit are set against the part of a pass that hides them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from simnet.analysis.screen_network import NO_SPELL, ScreenNetwork, Spell, collective_spell, group
from simnet.spec.workload import WorkloadSpec
from simnet.workload.comms import ChunkKind
from simnet.workload.layout import Layout
from simnet.workload.ops import Comm
from simnet.workload.shards import shard_degree
from simnet.workload.units import ROOT, SHARD_AXES, chunk_parts, unit_all_reduce, unit_gather, unit_reduce, unit_shard

PartTimes = Callable[[ChunkKind], tuple[float, float]]
"""Forward and backward time of a part of a pass with what its tensor parallelism exposes [s]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposed:
    """What moving parameters and gradients of one stage adds to a step, and what it hides [s]."""

    exposed_s: float
    hidden_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _UnitTraffic:
    """Communications of one unit."""

    gather: Spell
    reduce: Spell
    across: Spell


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChunkTraffic:
    """Units of a chunk: its layers are alike."""

    layers: int
    layer: _UnitTraffic
    ends: _UnitTraffic
    first: ChunkKind | None
    """The embedding, or none."""
    last: ChunkKind | None
    """Logits and loss, or none."""
    is_one_network: bool
    """Whether what goes over the groups loads the NICs that gathers load too."""


def exposed_sharded(
    workload: WorkloadSpec,
    layout: Layout,
    network: ScreenNetwork,
    stage: int,
    times: PartTimes,
    *,
    dp: int,
    micro_batches: int,
) -> Exposed:
    """Return what gathers and reductions of *stage* add to a step of *micro_batches*, and what they hide."""
    if dp * workload.parallelism.cp == 1:
        return Exposed(exposed_s=0.0, hidden_s=0.0)
    chunks = [_chunk(workload, layout, network, stage, chunk, dp=dp) for chunk in range(layout.num_chunks)]
    exposed_s = sum(_exposed_s(workload, layout, one, times, micro_batches) for one in chunks)
    exposed_s += _start_s(workload, chunks[0], times) + _end_s(workload, chunks[0], times)
    gathers, reduces = _uses(workload, layout, micro_batches)
    moved_s = sum(
        count * unit.gather.total_s * gathers + count * (unit.reduce.total_s + unit.across.total_s) * reduces
        for one in chunks
        for count, unit in ((one.layers, one.layer), (1, one.ends))
    )
    return Exposed(exposed_s=exposed_s, hidden_s=max(0.0, moved_s - exposed_s))


def _uses(workload: WorkloadSpec, layout: Layout, micro_batches: int) -> tuple[float, float]:
    """Return how often a layer is gathered and reduced in a step."""
    fsdp = workload.fsdp
    gathers = 2 * micro_batches
    if not fsdp.reshard_after_forward:
        gathers = micro_batches if layout.num_stages == 1 else 1
    return gathers, micro_batches if fsdp.reduce == "each_micro_batch" else 1


@lru_cache(maxsize=4096)
def _chunk(
    workload: WorkloadSpec, layout: Layout, network: ScreenNetwork, stage: int, chunk: int, *, dp: int
) -> _ChunkTraffic:
    parts = chunk_parts(layout, stage, chunk)
    ends = [part.kind for part in parts if part.unit == ROOT]

    def traffic(unit: int) -> _UnitTraffic:
        held = unit_shard(workload, layout, stage, chunk, unit)
        inside = shard_degree(workload, dp=dp)
        across = unit_all_reduce(workload, held, stage=stage, name="", split=inside * workload.parallelism.cp)
        return _UnitTraffic(
            gather=_spell(workload, network, unit_gather(workload, held, stage=stage, name=""), dp=dp),
            reduce=_spell(workload, network, unit_reduce(workload, held, stage=stage, name=""), dp=dp),
            across=_spell(workload, network, across, dp=dp) if dp > inside else NO_SPELL,
        )

    return _ChunkTraffic(
        layers=layout.layers[stage][chunk],
        layer=traffic(0),
        ends=traffic(ROOT),
        first=next((kind for kind in ends if kind.has_embedding), None),
        last=next((kind for kind in ends if kind.has_loss), None),
        is_one_network=group(workload, SHARD_AXES, dp, network).num_nodes > 1,
    )


def _spell(workload: WorkloadSpec, network: ScreenNetwork, comm: Comm, *, dp: int) -> Spell:
    return collective_spell(comm.op, comm.size_bytes, group(workload, comm.axes, dp, network), network)


def _exposed_s(
    workload: WorkloadSpec, layout: Layout, one: _ChunkTraffic, times: PartTimes, micro_batches: int
) -> float:
    """Return what the layers of a chunk add in the steady run of a step, each the slower of compute and wire."""
    fsdp, overlap = workload.fsdp, workload.overlap
    forward_s, backward_s = times(ChunkKind(layers=1, has_embedding=False, has_loss=False))
    gather = one.layer.gather
    is_ahead = overlap.dp_param and fsdp.prefetch > 0
    ahead = (gather,) if is_ahead else ()
    again = ahead if fsdp.reshard_after_forward else ()
    behind = (one.layer.reduce, *((one.layer.across,) if one.is_one_network else ())) if overlap.dp_grad else ()
    forward = max(0.0, _together_s(ahead) - forward_s)
    plain = max(0.0, _together_s(again) - backward_s)
    reducing = max(0.0, _together_s((*again, *behind)) - backward_s)
    if not is_ahead:
        forward += gather.total_s
        if fsdp.reshard_after_forward:
            plain += gather.total_s
            # Reduction and gather start together and share their links until the gather is over.
            beside = one.layer.reduce.wire_s if overlap.dp_grad else 0.0
            reducing += max(gather.total_s, gather.latency_s + gather.wire_s + min(gather.wire_s, beside))
    if not overlap.dp_grad:
        reducing += one.layer.reduce.total_s + one.layer.across.total_s
    keeps_all = not fsdp.reshard_after_forward and layout.num_stages > 1
    num_forward = 1 if keeps_all else micro_batches
    num_reducing = micro_batches if fsdp.reduce == "each_micro_batch" else 1
    layers_s = num_forward * forward + num_reducing * reducing + (micro_batches - num_reducing) * plain
    if layout.num_stages > 1:
        # Forward and backward passes of different micro-batches alternate, and hide each other's first gathers.
        return one.layers * layers_s
    turns_s = (num_forward - 1) * _turn_s(one, times, is_ahead=is_ahead)
    if overlap.dp_grad:
        turns_s += (num_reducing - 1) * _last_layer_s(one, times)
    return one.layers * layers_s + turns_s


def _turn_s(one: _ChunkTraffic, times: PartTimes, *, is_ahead: bool) -> float:
    """Return what the first gathers of a further micro-batch add.

    The ends are gathered during the last layer's backward pass, the first layer during the embedding.
    """
    if not is_ahead:
        return one.ends.gather.total_s
    return max(0.0, one.layer.gather.total_s - _ends_s(one.first, times, 0)) if one.first else 0.0


def _last_layer_s(one: _ChunkTraffic, times: PartTimes) -> float:
    """Return how long the ends' reduction waits for that of the first layer, the last to be over."""
    return max(0.0, one.layer.reduce.total_s - _ends_s(one.first, times, 1)) if one.first else 0.0


def _start_s(workload: WorkloadSpec, one: _ChunkTraffic, times: PartTimes) -> float:
    """Return what the first gathers of the step add: nothing runs yet."""
    if not (workload.overlap.dp_param and workload.fsdp.prefetch):
        return one.ends.gather.total_s
    behind_s = _ends_s(one.first, times, 0)
    return one.ends.gather.total_s + max(0.0, one.layer.gather.total_s - behind_s)


def _end_s(workload: WorkloadSpec, one: _ChunkTraffic, times: PartTimes) -> float:
    """Return what the last reductions add: those of the first layer and of the ends, and over the groups."""
    across_s = one.ends.across.total_s if one.ends.across.total_s else one.layer.across.total_s
    if not workload.overlap.dp_grad:
        return one.ends.reduce.total_s + across_s
    end_s = _last_layer_s(one, times) + one.ends.reduce.total_s + across_s
    if one.is_one_network:
        return end_s
    # What goes over the groups has a network of its own, and ends late where it is slower than the backward pass.
    _, backward_s = times(ChunkKind(layers=1, has_embedding=False, has_loss=False))
    return end_s + max(0.0, one.layers * (one.layer.across.moving_s - backward_s))


def _ends_s(kind: ChunkKind | None, times: PartTimes, direction: int) -> float:
    return times(kind)[direction] if kind else 0.0


def _together_s(spells: tuple[Spell, ...]) -> float:
    """Return how long collectives take that start together and share their links."""
    found = list(_moving(spells))
    if not found:
        return 0.0
    shared_s = min(one.latency_s for one in found) + sum(one.wire_s for one in found)
    return max(shared_s, *(one.total_s for one in found))


def _moving(spells: tuple[Spell, ...]) -> Iterator[Spell]:
    return (one for one in spells if one.total_s)
