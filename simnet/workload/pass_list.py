"""A pass of a micro-batch through a chunk, and lists of passes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from simnet.workload.ops import many

PassKind = Literal["F", "B", "I", "W"]
"""Forward; backward; its two parts where it is split: gradient of the inputs, gradient of the weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One pass of a micro-batch through a chunk."""

    kind: PassKind
    micro_batch: int
    chunk: int
    joins_next: bool = False
    """Whether this pass and the next one run as one block, whose communication hides behind the compute of both."""


def passes_of(kind: PassKind, order: Sequence[tuple[int, int]]) -> list[Pass]:
    """Return the passes of one kind, given micro-batch and chunk of each."""
    micro_batch, chunk = zip(*order, strict=True) if order else ((), ())
    return many(
        Pass,
        len(order),
        kind=itertools.repeat(kind),
        micro_batch=micro_batch,
        chunk=chunk,
        joins_next=itertools.repeat(False),
    )


def peak_in_flight(passes: tuple[Pass, ...], weight: tuple[float, ...]) -> float:
    """Return the largest sum, over time, of the weights of passes that went forward and not yet backward.

    A split backward pass gives its micro-batch free with the gradient of the weights, which reads what was kept.

    Parameters
    ----------
    weight
        Weight of a micro-batch in flight in each chunk, shape (num_chunks,); ones give a count.
    """
    held = peak = 0.0
    for item in passes:
        if item.kind != "I":
            held += weight[item.chunk] if item.kind == "F" else -weight[item.chunk]
        peak = max(peak, held)
    return peak
