"""Which layers each pipeline stage and virtual chunk holds."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Literal

from simnet.errors import LayoutError, Problem
from simnet.spec.workload import LayoutSpec, WorkloadSpec

MAX_SHOWN = 128
"""Chunks that a message lists one by one."""


Placement = Literal["loop", "v", "bidirectional"]
"""Way of a micro-batch over the chunks: from the last stage to the first one's next chunk; down the stages and back
up; or through either of two copies of the model, chunk 0 down the stages, chunk 1 up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Layers of every chunk, and the way of a micro-batch over them; the embedding starts it, the loss ends it."""

    layers: tuple[tuple[int, ...], ...]
    """Transformer layers by stage and chunk, shape (pp, chunks)."""
    placement: Placement = "loop"

    @property
    def num_stages(self) -> int:
        """Pipeline stages."""
        return len(self.layers)

    @property
    def num_chunks(self) -> int:
        """Virtual chunks of a stage."""
        return len(self.layers[0])

    @property
    def num_parts(self) -> int:
        """Chunks that a micro-batch goes through."""
        return self.num_stages if self.placement == "bidirectional" else self.num_stages * self.num_chunks

    def part(self, stage: int, chunk: int) -> int:
        """Return which part of the model a chunk is, counted from the embedding."""
        if self.placement == "loop" or chunk == 0:
            return chunk * self.num_stages + stage
        return self.num_parts - 1 - stage

    def neighbour(self, stage: int, chunk: int, step: int) -> tuple[int, int] | None:
        """Return stage and chunk of the part *step* further on the way of a micro-batch, or None at its ends."""
        part = self.part(stage, chunk) + step
        if not 0 <= part < self.num_parts:
            return None
        if self.placement == "loop":
            return part % self.num_stages, part // self.num_stages
        if self.placement == "v":
            return (part, 0) if part < self.num_stages else (self.num_parts - 1 - part, 1)
        return (part, 0) if chunk == 0 else (self.num_stages - 1 - part, 1)

    def has_embedding(self, stage: int, chunk: int) -> bool:
        """Return whether the chunk starts with the embedding."""
        return self.part(stage, chunk) == 0

    def has_loss(self, stage: int, chunk: int) -> bool:
        """Return whether the chunk ends with output projection and loss."""
        return self.part(stage, chunk) == self.num_parts - 1

    def chunk_micro_batches(self, micro_batches: int) -> int:
        """Return how many of *micro_batches* go through each chunk: half of them where there are two copies."""
        return micro_batches // 2 if self.placement == "bidirectional" else micro_batches


def pipeline_layout(workload: WorkloadSpec) -> Layout:
    """Return the layers of every chunk of *workload*; all layers of the model are placed, always.

    Chunk ``c`` of stage ``s`` is the model's part number ``c * pp + s``, as in Megatron; with zbv the second chunks
    come back up the stages, and with dualpipe they are a second copy, in reverse.

    Raises
    ------
    LayoutError
        If the layers do not divide; the message has both numbers and the hint an explicit split.
    """
    pp, chunks = workload.parallelism.pp, workload.parallelism.virtual_stages
    if pp == 1 and chunks > 1:
        raise LayoutError(
            Problem(
                message=f"{chunks} virtual stages need a pipeline, but pp is 1",
                path="workload.parallelism.virtual_stages",
                hint="set pp above 1, or virtual_stages to 1",
            )
        )
    parts = pp * chunks
    counts = _counts(workload.model.layers, parts, workload.layout)
    if len(counts) != parts or sum(counts) != workload.model.layers:
        raise _wrong_list(counts, workload)
    return _placed(counts, pp, chunks * workload.num_copies, _placement(workload))


@functools.lru_cache(maxsize=1024)
def _placed(counts: tuple[int, ...], pp: int, num_chunks: int, placement: Placement) -> Layout:
    """Return the layout of parts of so many layers, one object for equal ones."""
    bare = Layout(layers=((0,) * num_chunks,) * pp, placement=placement)
    layers = tuple(tuple(counts[bare.part(stage, chunk)] for chunk in range(num_chunks)) for stage in range(pp))
    return replace(bare, layers=layers)


def _placement(workload: WorkloadSpec) -> Placement:
    ways: dict[str, Placement] = {"zbv": "v", "dualpipe": "bidirectional"}
    return ways.get(workload.schedule, "loop")


def even_split(layers: int, parts: int) -> tuple[int, ...]:
    """Return *layers* in *parts* parts that differ by at most one, the larger ones first."""
    return tuple(layers // parts + (part < layers % parts) for part in range(parts))


def _counts(layers: int, parts: int, layout: str | LayoutSpec) -> tuple[int, ...]:
    """Return the layers of each part of the model, in order."""
    spec = layout if isinstance(layout, LayoutSpec) else LayoutSpec()
    if spec.layers_per_chunk is not None:
        return spec.layers_per_chunk
    first, last = int(spec.embedding_counts_as_layer), int(spec.loss_counts_as_layer)
    units = layers + first + last
    if units % parts or units // parts < max(first, last) or (parts == 1 and units // parts < first + last):
        raise _not_divisible(layers, first + last, parts)
    counts = [units // parts] * parts
    counts[0] -= first
    counts[-1] -= last
    return tuple(counts)


def _not_divisible(layers: int, counted: int, parts: int) -> LayoutError:
    allowed, hint = "degrees that divide", f"{layers} layers fill {layers} chunks at most"
    if parts <= layers:
        allowed += ", or an explicit list of all layers"
        hint = f"layout: {{layers_per_chunk: {_listed(even_split(layers, parts))}}}"
    units = f"{layers} layers" + (f" and {counted} counted for embedding and loss" if counted else "")
    return LayoutError(
        Problem(
            message=f"{units} do not divide over {parts} chunks (pp x virtual_stages): "
            f"{layers + counted} = {(layers + counted) // parts} x {parts} + {(layers + counted) % parts}",
            path="workload.layout",
            allowed=allowed,
            hint=hint,
        )
    )


def _listed(counts: tuple[int, ...]) -> str:
    """Return the list of counts, of a very long one its start."""
    start = ", ".join(str(count) for count in counts[:MAX_SHOWN])
    return f"[{start}]" if len(counts) <= MAX_SHOWN else f"[{start}, … {len(counts) - MAX_SHOWN} more]"


def _wrong_list(counts: tuple[int, ...], workload: WorkloadSpec) -> LayoutError:
    pp, chunks = workload.parallelism.pp, workload.parallelism.virtual_stages
    layers = workload.model.layers
    return LayoutError(
        Problem(
            message=f"layers_per_chunk places {sum(counts)} layers in {len(counts)} chunks; "
            f"{workload.model.name} has {layers} layers, and pp {pp} x virtual_stages {chunks} = {pp * chunks} chunks",
            path="workload.layout.layers_per_chunk",
            found=_listed(counts),
            hint=f"such as {_listed(even_split(layers, pp * chunks))}" if pp * chunks <= layers else "",
        )
    )
