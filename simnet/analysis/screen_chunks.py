"""Figures of a chunk in the closed-form step: sums over its layers and ends, shared by the candidates of a search."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from simnet.analysis.screen_network import ScreenNetwork, collective_s
from simnet.collectives.machine import Machine
from simnet.spec.kernel_preset import KernelPreset
from simnet.spec.parts import GpuPart
from simnet.spec.workload import WorkloadSpec
from simnet.workload.comms import ChunkKind, Position, kind_exchanges
from simnet.workload.kernels import chunk_times
from simnet.workload.ops import Category, CollectiveOp

Figures = tuple[float, ...]
"""Figures of a chunk that are sums over its layers and ends."""
UNITS = tuple(
    ChunkKind(layers=layers, has_embedding=embedding, has_loss=loss)
    for layers, embedding, loss in ((1, False, False), (0, True, False), (0, False, True))
)
"""One layer, the embedding, the loss: what every chunk is made of."""


def combined(kind: ChunkKind, units: tuple[Figures, ...]) -> Figures:
    """Return the figures of a chunk, given those of :data:`UNITS`."""
    layer, embedding, loss = units
    found = [kind.layers * figure for figure in layer]
    for end in (*([embedding] if kind.has_embedding else []), *([loss] if kind.has_loss else [])):
        found = [one + more for one, more in zip(found, end, strict=True)]
    return tuple(found)


@lru_cache(maxsize=65536)
def unit_times(passing: WorkloadSpec, gpu: GpuPart, preset: KernelPreset) -> tuple[Figures, ...]:
    """Return times forward and backward, roofline of both and time of the gradients of weights of each unit [s]."""
    found = []
    for kind in UNITS:
        times = chunk_times(
            passing.model,
            passing,
            gpu,
            preset,
            layers=kind.layers,
            has_embedding=kind.has_embedding,
            has_loss=kind.has_loss,
        )
        floor_s = times.forward_floor_s + times.backward_floor_s
        found.append((times.forward_s, times.backward_s, floor_s, times.weight_s))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ChunkExchanges:
    """Tensor- and context-parallel collectives of one pass of a chunk [s]."""

    tp_s: float
    tp_beside_s: float
    cp_s: float
    cp_beside_s: float

    def of(self, layers: int) -> ChunkExchanges:
        """Return the same of so many layers."""
        return ChunkExchanges(
            self.tp_s * layers, self.tp_beside_s * layers, self.cp_s * layers, self.cp_beside_s * layers
        )


def chunk_exchanges(
    passing: WorkloadSpec, tp: Machine, cp: Machine, network: ScreenNetwork, kinds: Iterable[ChunkKind]
) -> tuple[tuple[ChunkKind, ChunkExchanges, ChunkExchanges], ...]:
    """Return what chunks exchange forward and backward; those without ends what so many layers do."""
    job = _priced_job(passing, tp, cp, network)  # a workload takes as long to look up as the rest
    found = []
    for kind in kinds:
        unit = kind if kind.has_embedding or kind.has_loss else UNITS[0]
        if unit not in job.known:
            job.known[unit] = job.price(job.forward, unit), job.price(job.backward, unit)
        forward, backward = job.known[unit] if unit is kind else (one.of(kind.layers) for one in job.known[unit])
        found.append((kind, forward, backward))
    return tuple(found)


Sums = dict[tuple[str, Category, CollectiveOp, Position], tuple[float, int]]
"""Bytes and number of collectives by pass, category, operation and position."""


@dataclass(slots=True, kw_only=True, eq=False)
class _PricedJob:
    """What each unit exchanges in one job, and the chunks that have been priced."""

    tp: Machine
    cp: Machine
    network: ScreenNetwork
    hides_all: bool
    """Whether everything runs beside passes: DualPipe has nearly all of them in blocks of two."""
    forward: tuple[Sums, ...]
    backward: tuple[Sums, ...]
    known: dict[ChunkKind, tuple[ChunkExchanges, ChunkExchanges]] = field(default_factory=dict)

    def price(self, units: tuple[Sums, ...], kind: ChunkKind) -> ChunkExchanges:
        """Return the exchanges of a chunk; collectives of one kind have their mean size, as the engine merges them."""
        sums: Sums = {}
        for unit, repeats in zip(units, (kind.layers, kind.has_embedding, kind.has_loss), strict=True):
            for key, (size_bytes, count) in unit.items() if repeats else ():
                before = sums.get(key, (0.0, 0))
                sums[key] = (before[0] + repeats * size_bytes, before[1] + repeats * count)
        exposed = {Category.TP: 0.0, Category.CP: 0.0}
        beside = {Category.TP: 0.0, Category.CP: 0.0}
        for (_, category, op, position), (size_bytes, count) in sums.items():
            ring = self.tp if category is Category.TP else self.cp
            cost_s = count * collective_s(op, size_bytes / count, ring, self.network)
            (beside if position == "beside" or self.hides_all else exposed)[category] += cost_s
        return ChunkExchanges(exposed[Category.TP], beside[Category.TP], exposed[Category.CP], beside[Category.CP])


@lru_cache(maxsize=65536)
def _priced_job(passing: WorkloadSpec, tp: Machine, cp: Machine, network: ScreenNetwork) -> _PricedJob:
    backward = ("I", "W") if passing.schedule in ("zb1p", "zbv") else ("B",)
    return _PricedJob(
        tp=tp,
        cp=cp,
        network=network,
        hides_all=passing.schedule == "dualpipe",
        forward=tuple(_summed(passing, unit, ("F",)) for unit in UNITS),
        backward=tuple(_summed(passing, unit, backward) for unit in UNITS),
    )


def _summed(passing: WorkloadSpec, unit: ChunkKind, parts: tuple[str, ...]) -> Sums:
    return {
        (part, item.category, item.op, item.position): (item.size_bytes, item.count)
        for part in parts
        for item in kind_exchanges(passing, unit, part)
    }
