"""The communications of a step: what each pass of a chunk, each pipeline boundary and each replica exchanges.

Which of them run beside compute is decided here by the recipe's switches; how much of that is
exposed is decided by the engine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from simnet.spec.workload import WorkloadSpec
from simnet.workload.activations import tokens_per_rank
from simnet.workload.ops import Category, CollectiveOp, Comm
from simnet.workload.shards import BF16_BYTES, FP32_BYTES, OPERAND_BYTES

PRODUCT_PAIRS = 2
"""Pairs of matrix products of a layer, attention's and the feed-forward block's; each gathers and scatters once."""
LOSS_REDUCTIONS = 3
"""Scalars per token that the vocabulary-parallel loss reduces: maximum, target, sum (Megatron-LM cross_entropy)."""

Position = Literal["before", "after", "beside"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Collectives of one kind in one pass of a chunk."""

    category: Category
    op: CollectiveOp
    size_bytes: float
    """Buffer of one of them, nccl-tests convention; of all of them once merged [bytes]."""
    count: int
    """How many."""
    position: Position
    """Whether they run before the pass, after it, or beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkKind:
    """What the passes of a chunk depend on."""

    layers: int
    has_embedding: bool
    has_loss: bool


def pass_exchanges(workload: WorkloadSpec, kind: ChunkKind, *, is_backward: bool) -> tuple[Exchange, ...]:
    """Return the tensor- and context-parallel collectives of one pass of a chunk."""
    found: list[Exchange] = []
    if workload.parallelism.tp > 1:
        make = _tp_backward if is_backward else _tp_forward
        found += make(workload, kind)
        if is_backward and workload.recompute == "full":
            again = _tp_layers_forward(workload, kind.layers)
            found += [replace(item, size_bytes=item.size_bytes * workload.recompute_share) for item in again]
    if workload.parallelism.cp > 1:
        found += _cp(workload, kind.layers, is_backward=is_backward)
    return _merged([item for item in found if item.count and item.size_bytes])


def kind_exchanges(workload: WorkloadSpec, shape: ChunkKind, kind: str) -> tuple[Exchange, ...]:
    """Return the collectives of a pass of *kind*: F, B, or the parts I and W of a split backward pass.

    The layers' second gather of inputs goes with the weight gradients and runs beside them. The scatter
    of the inputs' gradients, which those would hide, stands behind the pass, unless user buffers split it.
    """
    found = pass_exchanges(workload, shape, is_backward=kind != "F")
    if kind in ("F", "B"):
        return found
    again = _input_gathers(workload, shape)
    if kind == "W":
        return again
    moved: list[Exchange] = []
    for item in found:
        left = item
        for one in again:
            if (item.category, item.op, item.position) == (one.category, one.op, one.position):
                left = replace(item, size_bytes=item.size_bytes - one.size_bytes, count=item.count - one.count)
        is_exposed = item.category is Category.TP and item.position == "beside" and not workload.overlap.tp
        if left.count > 0 and left.size_bytes > 0:
            moved.append(replace(left, position="after") if is_exposed else left)
    return tuple(moved)


def _input_gathers(workload: WorkloadSpec, shape: ChunkKind) -> tuple[Exchange, ...]:
    """Return the gathers of the layers' inputs for their weight gradients."""
    if workload.parallelism.tp == 1 or not workload.sequence_parallel or not shape.layers:
        return ()
    gathers = [_tp("all_gather", _operand_residual_bytes(workload), PRODUCT_PAIRS * shape.layers, "beside")]
    return _merged(gathers)


def exchange_comm(workload: WorkloadSpec, exchange: Exchange, *, stage: int, suffix: str) -> Comm:
    """Return *exchange* as a communication of *stage*.

    What user buffers split goes round rings, as Transformer Engine's exchange and ring attention do.
    """
    is_tp = exchange.category is Category.TP
    algorithm = workload.algorithms.tp if is_tp else workload.algorithms.cp
    goes_round = workload.overlap.tp if is_tp else workload.context_parallel == "ring"
    return Comm(
        name=f"{exchange.category} {exchange.op} {exchange.position} {suffix}",
        category=exchange.category,
        op=exchange.op,
        stage=stage,
        peer_stage=stage,
        axes=("tp",) if is_tp else ("cp",),
        size_bytes=exchange.size_bytes,
        repeats=exchange.count,
        algorithm="ring" if goes_round and algorithm == "auto" else algorithm,
    )


def _merged(exchanges: list[Exchange]) -> tuple[Exchange, ...]:
    """Return the exchanges with those of one kind and position in one, sizes and counts added."""
    sums: dict[tuple[Category, CollectiveOp, Position], tuple[float, int]] = {}
    for item in exchanges:
        key = (item.category, item.op, item.position)
        size_bytes, count = sums.get(key, (0.0, 0))
        sums[key] = (size_bytes + item.size_bytes * item.count, count + item.count)
    return tuple(
        Exchange(category=category, op=op, position=position, size_bytes=size_bytes, count=count)
        for (category, op, position), (size_bytes, count) in sums.items()
    )


def send_bytes(workload: WorkloadSpec) -> float:
    """Return what each rank sends over a pipeline boundary for one micro-batch [bytes].

    s b h / (cp t) in 16 bit. With sequence parallelism that is all a rank has; without it, Megatron scatters the
    message over the tensor-parallel group before the wire (Narayanan, arXiv:2104.04473, section 4.1), see
    :func:`received_bytes`.
    """
    return _residual_bytes(workload) / workload.parallelism.tp


def received_bytes(workload: WorkloadSpec) -> float:
    """Return the buffer that the tensor-parallel group gathers behind a pipeline boundary [bytes]; 0 if it need not."""
    is_scattered = workload.parallelism.tp > 1 and not workload.sequence_parallel
    return _residual_bytes(workload) if is_scattered else 0.0


def _residual_bytes(workload: WorkloadSpec, element_bytes: float = BF16_BYTES) -> float:
    """Return the bytes of one micro-batch's residual stream on one context-parallel rank."""
    return tokens_per_rank(workload) * workload.model.hidden * element_bytes


def _operand_residual_bytes(workload: WorkloadSpec) -> float:
    """Return the same as the operand of a matrix product, which quantised recipes gather in few bits."""
    return _residual_bytes(workload, OPERAND_BYTES[workload.precision])


def _tp_forward(workload: WorkloadSpec, kind: ChunkKind) -> list[Exchange]:
    found = _tp_layers_forward(workload, kind.layers)
    if kind.has_embedding:
        op: CollectiveOp = "reduce_scatter" if workload.sequence_parallel else "all_reduce"
        found.append(_tp(op, _residual_bytes(workload), 1, "after"))
    if kind.has_loss:
        if workload.sequence_parallel:
            found.append(_tp("all_gather", _residual_bytes(workload), 1, "before"))
        found.append(_tp("all_reduce", tokens_per_rank(workload) * FP32_BYTES, LOSS_REDUCTIONS, "after"))
    return found


def _tp_layers_forward(workload: WorkloadSpec, layers: int) -> list[Exchange]:
    """Each pair of products gathers its input and scatters its output, or reduces its output."""
    count = PRODUCT_PAIRS * layers
    if not workload.sequence_parallel:
        return [_tp("all_reduce", _residual_bytes(workload), count, "after")]
    gather, scatter = _operand_residual_bytes(workload), _residual_bytes(workload)
    if workload.overlap.tp:
        return [*_split(workload, gather, count), *_split(workload, scatter, count)]
    return [_tp("all_gather", gather, count, "before"), _tp("reduce_scatter", scatter, count, "after")]


def _tp_backward(workload: WorkloadSpec, kind: ChunkKind) -> list[Exchange]:
    """Return the backward collectives.

    The gather of a pair's output gradient holds the pass up. The second gather of its input, for the
    weight gradient, runs beside the input's gradient, and the scatter of that beside the weight
    gradient (Megatron-LM ``tensor_parallel/layers.py``; Korthikanti, arXiv:2205.05198, section 4.2.2).
    """
    count, ends = PRODUCT_PAIRS * kind.layers, int(kind.has_loss)
    full = _residual_bytes(workload)
    if not workload.sequence_parallel:
        return [_tp("all_reduce", full, count + ends, "beside")]
    operand = _operand_residual_bytes(workload)
    if workload.overlap.tp:
        gathers = _split(workload, operand, count)
        scatter: CollectiveOp = "all_gather"  # the same bytes round the same ring, so one communication
    else:
        gathers = [_tp("all_gather", operand, count, "before")]
        scatter = "reduce_scatter"
    found = [
        *gathers,
        _tp("all_gather", operand, count, "beside"),
        _tp(scatter, full, count + ends, "beside"),
        _tp("all_gather", full, ends, "beside"),
    ]
    if kind.has_embedding:
        found.append(_tp("all_gather", full, 1, "after"))
    return found


def _split(workload: WorkloadSpec, size_bytes: float, count: int) -> list[Exchange]:
    """Return a gather or scatter split over user buffers: one of t pieces is exposed, the rest runs beside.

    The exposed piece is the first to arrive before a product can start, or the last to leave after it
    ended (Transformer Engine's ring exchange has t pieces). A scatter moves the bytes of a gather of
    the same size over the same ring, and is listed as one.
    """
    exposed = size_bytes / workload.parallelism.tp
    return [
        _tp("all_gather", exposed, count, "after"),
        _tp("all_gather", size_bytes - exposed, count, "beside"),
    ]


def _tp(op: CollectiveOp, size_bytes: float, count: int, position: Position) -> Exchange:
    return Exchange(category=Category.TP, op=op, size_bytes=size_bytes, count=count, position=position)


def _cp(workload: WorkloadSpec, layers: int, *, is_backward: bool) -> list[Exchange]:
    """Return the exchange of keys and values, and backward of their gradients as well.

    A ring moves the same bytes as an all-gather and hides behind attention; its gradients go round
    too, as a scatter would (Liu, arXiv:2310.01889), and are listed with the gathers.
    """
    model, degrees = workload.model, workload.parallelism
    kv_heads = max(model.kv_heads, degrees.tp) / degrees.tp
    tokens = tokens_per_rank(workload) * degrees.cp
    size_bytes = 2 * kv_heads * model.head_dim * tokens * BF16_BYTES  # keys and values
    is_ring = workload.context_parallel == "ring"
    position: Position = "beside" if is_ring else "before"
    found = [_kv("all_gather", size_bytes, layers, position)]
    if is_backward and workload.recompute != "none":
        found.append(_kv("all_gather", size_bytes * workload.recompute_share, layers, position))
    if is_backward:
        op: CollectiveOp = "all_gather" if is_ring else "reduce_scatter"
        found.append(_kv(op, size_bytes, layers, "beside" if is_ring else "after"))
    return found


def _kv(op: CollectiveOp, size_bytes: float, count: int, position: Position) -> Exchange:
    return Exchange(category=Category.CP, op=op, size_bytes=size_bytes, count=count, position=position)
