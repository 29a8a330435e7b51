"""Figures of a chunk in the closed-form step: sums over its layers and ends, shared by the candidates of a search."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from simnet.analysis.screen_network import ScreenNetwork, collective_s
from simnet.collectives.machine import Machine
from simnet.spec.kernel_preset import KernelPreset
from simnet.spec.parts import GpuPart
from simnet.spec.workload import WorkloadSpec
from simnet.workload.comms import ChunkKind, kind_exchanges
from simnet.workload.kernels import chunk_times
from simnet.workload.ops import Category

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
    known = _known(passing, tp, cp, network)  # a workload takes as long to look up as the rest
    found = []
    for kind in kinds:
        unit = kind if kind.has_embedding or kind.has_loss else UNITS[0]
        if unit not in known:
            known[unit] = tuple(
                _exchanged(passing, tp, cp, network, unit, is_backward) for is_backward in (False, True)
            )
        forward, backward = known[unit] if unit is kind else (one.of(kind.layers) for one in known[unit])
        found.append((kind, forward, backward))
    return tuple(found)


@lru_cache(maxsize=65536)
def _known(
    passing: WorkloadSpec, tp: Machine, cp: Machine, network: ScreenNetwork
) -> dict[ChunkKind, tuple[ChunkExchanges, ...]]:
    """Return the exchanges of chunks that have been priced for a job; grows."""
    del passing, tp, cp, network
    return {}


def _exchanged(
    workload: WorkloadSpec, tp: Machine, cp: Machine, network: ScreenNetwork, kind: ChunkKind, is_backward: bool
) -> ChunkExchanges:
    exposed = {Category.TP: 0.0, Category.CP: 0.0}
    beside = {Category.TP: 0.0, Category.CP: 0.0}
    parts = ("I", "W") if workload.schedule in ("zb1p", "zbv") else ("B",)
    for item in (one for part in (parts if is_backward else "F") for one in kind_exchanges(workload, kind, part)):
        ring = tp if item.category is Category.TP else cp
        cost_s = item.count * collective_s(item.op, item.size_bytes / item.count, ring, network)
        # DualPipe runs nearly all passes in blocks of two, which hide what both exchange.
        is_beside = item.position == "beside" or workload.schedule == "dualpipe"
        (beside if is_beside else exposed)[item.category] += cost_s
    return ChunkExchanges(exposed[Category.TP], beside[Category.TP], exposed[Category.CP], beside[Category.CP])
