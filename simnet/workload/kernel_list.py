"""The kernels of one transformer layer, of the embedding and of the loss on one GPU, as plain figures.

A kernel is FLOPs, bytes and a shape; what it costs on a GPU is `simnet.workload.kernels`. Tokens
are those of one micro-batch on one context-parallel rank; tensor parallelism divides widths, and
sequence parallelism divides the tokens of everything that is element-wise.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

BF16_BYTES = 2
FP32_BYTES = 4
CAUSAL_SHARE = 0.5  # a causal kernel skips the upper triangle
ATTENTION_BACKWARD_MATMULS = 2.5  # five matrix products against two: FlashAttention, arXiv 2205.14135
# Passes over one element of the residual stream or the MLP width, 2 bytes each, counted from the
# operations of a fused norm, residual add, rotary and gated activation (Korthikanti, arXiv 2205.05198, section 4).
NORM_FORWARD_BYTES = 4.0
NORM_BACKWARD_BYTES = 8.0
RESIDUAL_BYTES = 6.0
ROTARY_BYTES = 4.0
ACTIVATION_FORWARD_BYTES = {True: 6.0, False: 4.0}  # gated: two halves in, one out
ACTIVATION_BACKWARD_BYTES = {True: 10.0, False: 6.0}
EMBEDDING_FORWARD_BYTES = 4.0
EMBEDDING_BACKWARD_BYTES = 10.0  # scatter-add into fp32
# Unfused attention: passes over one score, 16 bit with a 1-byte dropout mask (Korthikanti, table 2: 5as/h kept).
SCORE_FORWARD_BYTES = 11.0
SCORE_BACKWARD_BYTES = 17.0


class Unit(StrEnum):
    """The part of the GPU, and so the law, that prices a kernel."""

    GEMM = "gemm"
    HEAD_GEMM = "head_gemm"  # a matrix product that stays in 16 bit
    ATTENTION = "attention"
    MEMORY = "memory"
    CAST = "cast"  # quantisation, memory bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One kernel of one pass: what it computes and moves.

    Parameters
    ----------
    name : str
        What it does, ``"qkv"``, ``"attention"``, ``"norm"`` …
    unit : Unit
        The law that prices it.
    flops : float
        Matrix FLOPs [FLOP].
    num_bytes : float
        HBM traffic that cannot be avoided [B].
    m, n, k : float
        Shape of a matrix product; zero otherwise. For attention *k* is the length of a block of keys.
    elements : float
        Elements to cast (unit CAST), or scores to exponentiate (unit ATTENTION).
    launches : int
        Launches on the stream.
    pieces : int
        Parts of M into which a product is cut so that its gather or scatter runs beside it.
    """

    name: str
    unit: Unit
    flops: float = 0.0
    num_bytes: float = 0.0
    m: float = 0.0
    n: float = 0.0
    k: float = 0.0
    elements: float = 0.0
    launches: int = 1
    pieces: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkShape:
    """What the kernels of a layer depend on, and nothing else."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    gated_mlp: bool
    vocab: int
    rotary: bool
    sequence_length: int
    micro_batch_size: int
    tp: int = 1
    cp: int = 1
    linear_bytes: float = BF16_BYTES
    gradient_bytes: float = FP32_BYTES
    is_attention_fused: bool = True
    is_sequence_parallel: bool = True
    is_tp_overlapped: bool = False

    @property
    def tokens(self) -> float:
        """Tokens of a micro-batch on one context-parallel rank."""
        return self.micro_batch_size * self.sequence_length / self.cp

    @property
    def shard_tokens(self) -> float:
        """Tokens that element-wise kernels of the residual stream see."""
        return self.tokens / (self.tp if self.is_sequence_parallel else 1)

    @property
    def query_width(self) -> float:
        """Width of the queries on one tensor-parallel rank."""
        return self.heads * self.head_dim / self.tp

    @property
    def qkv_width(self) -> float:
        """Width of queries, keys and values on one tensor-parallel rank."""
        kv_heads = max(self.kv_heads, self.tp)  # fewer heads than ranks are replicated
        return (self.heads + 2 * kv_heads) * self.head_dim / self.tp

    @property
    def mlp_width(self) -> float:
        """Width of the first MLP product on one tensor-parallel rank, both halves of a gated one."""
        return self.ffn * (2 if self.gated_mlp else 1) / self.tp

    @property
    def pieces(self) -> int:
        """Parts into which products that gather or scatter are cut (Transformer Engine user buffers)."""
        return self.tp if self.is_tp_overlapped else 1

    @property
    def accumulate_bytes(self) -> float:
        """Bytes per weight to read and write the main gradient, once per micro-batch."""
        return 2 * self.gradient_bytes

    @property
    def linear_parameters(self) -> float:
        """Parameters in the four linear layers of one layer on one tensor-parallel rank."""
        return self.hidden * (self.qkv_width + self.query_width + self.mlp_width + self.ffn / self.tp)


@lru_cache(maxsize=4096)
def layer_forward(shape: ChunkShape) -> tuple[Kernel, ...]:
    """Return the forward kernels of one layer for one micro-batch."""
    tokens, hidden = shape.tokens, shape.hidden
    residual = shape.shard_tokens * hidden
    norm = _memory("norm", NORM_FORWARD_BYTES * residual)
    add = _memory("residual", RESIDUAL_BYTES * residual)
    return (
        norm,
        *_cast("norm out", residual, gathered=tokens * hidden, shape=shape),
        _gemm("qkv", tokens, shape.qkv_width, hidden, shape, pieces=shape.pieces),
        *_rotary(shape),
        *_attention_forward(shape),
        *_cast("attention out", tokens * shape.query_width, shape=shape),
        _gemm("proj", tokens, hidden, shape.query_width, shape, pieces=shape.pieces),
        add,
        norm,
        *_cast("norm out", residual, gathered=tokens * hidden, shape=shape),
        _gemm("fc1", tokens, shape.mlp_width, hidden, shape, pieces=shape.pieces),
        _memory("activation", ACTIVATION_FORWARD_BYTES[shape.gated_mlp] * tokens * shape.ffn / shape.tp),
        *_cast("activation out", tokens * shape.ffn / shape.tp, shape=shape),
        _gemm("fc2", tokens, hidden, shape.ffn / shape.tp, shape, pieces=shape.pieces),
        add,
    )


@lru_cache(maxsize=4096)
def layer_backward(shape: ChunkShape) -> tuple[Kernel, ...]:
    """Return the backward kernels of one layer for one micro-batch, without recomputation."""
    tokens, hidden = shape.tokens, shape.hidden
    residual = shape.shard_tokens * hidden
    ffn = shape.ffn / shape.tp
    norm = _memory("norm", NORM_BACKWARD_BYTES * residual)
    return (
        *_cast("fc2 gradient", residual, gathered=tokens * hidden, shape=shape),
        *_gemm_backward("fc2", tokens, hidden, ffn, shape, pieces=shape.pieces),
        _memory("activation", ACTIVATION_BACKWARD_BYTES[shape.gated_mlp] * tokens * ffn),
        *_cast("fc1 gradient", tokens * shape.mlp_width, shape=shape),
        *_gemm_backward("fc1", tokens, shape.mlp_width, hidden, shape),
        norm,
        *_cast("proj gradient", residual, gathered=tokens * hidden, shape=shape),
        *_gemm_backward("proj", tokens, hidden, shape.query_width, shape, pieces=shape.pieces),
        *_attention_backward(shape),
        *_rotary(shape),
        *_cast("qkv gradient", tokens * shape.qkv_width, shape=shape),
        *_gemm_backward("qkv", tokens, shape.qkv_width, hidden, shape),
        norm,
    )


@lru_cache(maxsize=4096)
def layer_weight_gradients(shape: ChunkShape) -> tuple[Kernel, ...]:
    """Return those of a layer's backward kernels that nothing but the optimizer waits for."""
    return tuple(kernel for kernel in layer_backward(shape) if kernel.name.endswith("wgrad"))


@lru_cache(maxsize=4096)
def attention_core(shape: ChunkShape) -> tuple[Kernel, ...]:
    """Return the kernels that selective recomputation repeats."""
    return _attention_forward(shape)


def embedding_forward(shape: ChunkShape) -> tuple[Kernel, ...]:
    """Return the kernels of the embedding lookup."""
    return (_memory("embedding", EMBEDDING_FORWARD_BYTES * shape.tokens * shape.hidden),)


def embedding_backward(shape: ChunkShape) -> tuple[Kernel, ...]:
    """Return the kernels of the embedding's gradient."""
    return (_memory("embedding", EMBEDDING_BACKWARD_BYTES * shape.tokens * shape.hidden),)


def loss_forward(shape: ChunkShape, *, bytes_per_logit: float) -> tuple[Kernel, ...]:
    """Return the kernels of the last norm, the logits (16 bit in every recipe) and the cross-entropy."""
    logits = shape.tokens * shape.vocab / shape.tp
    return (
        _memory("norm", NORM_FORWARD_BYTES * shape.shard_tokens * shape.hidden),
        _head_gemm("logits", shape.tokens, shape.vocab / shape.tp, shape.hidden, extra_bytes=0.0),
        _memory("cross entropy", bytes_per_logit * logits),
    )


def loss_backward(shape: ChunkShape, *, bytes_per_logit: float) -> tuple[Kernel, ...]:
    """Return the backward kernels of the loss, the logits and the last norm."""
    width = shape.vocab / shape.tp
    accumulate = shape.accumulate_bytes * width * shape.hidden
    return (
        _memory("cross entropy", bytes_per_logit * shape.tokens * width),
        _head_gemm("logits dgrad", shape.tokens, shape.hidden, width, extra_bytes=0.0),
        _head_gemm("logits wgrad", shape.hidden, width, shape.tokens, extra_bytes=accumulate),
        _memory("norm", NORM_BACKWARD_BYTES * shape.shard_tokens * shape.hidden),
    )


def _memory(name: str, num_bytes: float) -> Kernel:
    return Kernel(name=name, unit=Unit.MEMORY, num_bytes=num_bytes)


def _cast(name: str, elements: float, *, shape: ChunkShape, gathered: float = 0.0) -> tuple[Kernel, ...]:
    """Quantise *elements*; *gathered* elements are transposed after the all-gather where the GPU needs it."""
    if shape.linear_bytes >= BF16_BYTES:
        return ()
    return (Kernel(name=f"cast {name}", unit=Unit.CAST, elements=elements, k=gathered or elements),)


def _gemm(
    name: str, m: float, n: float, k: float, shape: ChunkShape, *, extra_bytes: float = 0.0, pieces: int = 1
) -> Kernel:
    num_bytes = (m * k + k * n) * shape.linear_bytes + m * n * BF16_BYTES + extra_bytes
    return Kernel(name=name, unit=Unit.GEMM, flops=2 * m * n * k, num_bytes=num_bytes, m=m, n=n, k=k, pieces=pieces)


def _head_gemm(name: str, m: float, n: float, k: float, *, extra_bytes: float) -> Kernel:
    num_bytes = (m * k + k * n + m * n) * BF16_BYTES + extra_bytes
    return Kernel(name=name, unit=Unit.HEAD_GEMM, flops=2 * m * n * k, num_bytes=num_bytes, m=m, n=n, k=k)


def _gemm_backward(
    name: str, tokens: float, out_width: float, in_width: float, shape: ChunkShape, *, pieces: int = 1
) -> tuple[Kernel, ...]:
    accumulate = shape.accumulate_bytes * out_width * in_width
    return (
        _gemm(f"{name} dgrad", tokens, in_width, out_width, shape, pieces=pieces),
        _gemm(f"{name} wgrad", out_width, in_width, tokens, shape, extra_bytes=accumulate),
    )


def _rotary(shape: ChunkShape) -> tuple[Kernel, ...]:
    if not shape.rotary:
        return ()
    width = (shape.heads + max(shape.kv_heads, shape.tp)) * shape.head_dim / shape.tp
    return (_memory("rotary", ROTARY_BYTES * shape.tokens * width),)


def _scores(shape: ChunkShape) -> float:
    """Scores of one micro-batch on one rank, without the causal saving."""
    return shape.micro_batch_size * shape.sequence_length**2 * shape.heads / (shape.tp * shape.cp)


def _attention_forward(shape: ChunkShape) -> tuple[Kernel, ...]:
    scores = _scores(shape)
    flops = 2 * 2 * scores * shape.head_dim
    if not shape.is_attention_fused:
        return _unfused(shape, scores, flops, SCORE_FORWARD_BYTES)
    width = shape.query_width + shape.qkv_width  # reads q, k, v; writes o
    return (_flash(shape, flops, shape.tokens * width * BF16_BYTES, scores),)


def _attention_backward(shape: ChunkShape) -> tuple[Kernel, ...]:
    scores = _scores(shape)
    flops = 2 * 2 * scores * shape.head_dim
    if not shape.is_attention_fused:
        return _unfused(shape, scores, 2 * flops, SCORE_BACKWARD_BYTES)
    width = 2 * (shape.query_width + shape.qkv_width)
    return (_flash(shape, ATTENTION_BACKWARD_MATMULS * flops, shape.tokens * width * BF16_BYTES, scores),)


def _flash(shape: ChunkShape, flops: float, num_bytes: float, scores: float) -> Kernel:
    return Kernel(
        name="attention",
        unit=Unit.ATTENTION,
        flops=CAUSAL_SHARE * flops,
        num_bytes=num_bytes,
        k=shape.sequence_length / shape.cp,
        elements=CAUSAL_SHARE * scores,
        launches=shape.cp,
    )


def _unfused(shape: ChunkShape, scores: float, flops: float, bytes_per_score: float) -> tuple[Kernel, ...]:
    product = Kernel(
        name="attention products",
        unit=Unit.HEAD_GEMM,
        flops=flops,
        num_bytes=BF16_BYTES * scores,
        m=shape.sequence_length,
        n=shape.micro_batch_size * shape.heads / shape.tp * shape.sequence_length,
        k=shape.head_dim,
        launches=2,
    )
    return (product, _memory("attention scores", bytes_per_score * scores))
