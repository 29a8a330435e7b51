"""Model cards: the shape of a transformer, with its source and its published size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Self

from pydantic import Field, model_validator

from simnet.spec.base import Count, Rule, SpecModel, Whole, broken
from simnet.spec.bounds import MAX_LAYERS, MAX_TOTAL


class MoeSpec(SpecModel):
    """Mixture of experts of the layers that have one."""

    experts: Count
    """Routed experts of a layer."""
    top_k: Count
    """Routed experts that a token visits."""
    expert_ffn: Count
    """Inner width of a routed expert."""
    shared_experts: Whole = 0
    """Experts that every token visits."""
    shared_ffn: Whole = 0
    """Total inner width of the shared experts."""
    moe_layers: Count
    """Layers with experts; the others are dense."""
    first_dense_layers: Whole = 0
    """Dense layers at the model's start."""
    moe_layer_pattern: str = ""
    """Where the expert layers lie, if they do not simply follow the dense ones."""
    expert_bias: bool = False
    """Whether the experts' linear layers have biases."""


class MlaSpec(SpecModel):
    """Multi-head latent attention."""

    q_lora_rank: Whole
    """Width of the compressed query; 0 if queries are not compressed."""
    kv_lora_rank: Count
    """Width of the compressed key and value."""
    qk_nope_head_dim: Count
    """Width of a head's query and key without position."""
    qk_rope_head_dim: Count
    """Width of a head's query and key with rotary position."""
    v_head_dim: Count
    """Width of a head's value."""


class SlidingWindowSpec(SpecModel):
    """Layers that attend to a window only."""

    size: Count
    """Window [tokens]."""
    every: Count
    """Every so many layers one is windowed; 1 means all."""


class ModelSpec(SpecModel):
    """A transformer: the shape of its layers, and where the figures come from."""

    name: str
    """Name for people, such as ``Llama 3.1 405B``."""
    layers: int = Field(gt=0, le=MAX_LAYERS)
    """Transformer layers."""
    hidden: Count
    """Width of the residual stream."""
    heads: Count
    """Query heads."""
    kv_heads: Count
    """Key and value heads; fewer than *heads* is grouped-query attention."""
    head_dim: Count
    """Width of a head."""
    ffn: Count
    """Inner width of the dense feed-forward block."""
    gated_mlp: bool
    """Whether the feed-forward block has a gate (SwiGLU): three matrices instead of two."""
    vocab: Count
    """Rows of the embedding table."""
    tied_embeddings: bool
    """Whether the output projection is the embedding table."""
    attention: Literal["mha", "gqa", "mla"]
    """Kind of attention."""
    moe: MoeSpec | None = None
    """Mixture of experts, or null for a dense model."""
    mla: MlaSpec | None = None
    """Latent attention, or null."""
    mtp_layers: Whole = 0
    """Multi-token-prediction layers beyond *layers*."""
    sliding_window: SlidingWindowSpec | None = None
    """Windowed attention, or null."""
    learned_positions: Whole = 0
    """Rows of a learned position table; 0 is rotary."""
    linear_bias: bool = False
    """Whether the linear layers have biases."""
    norm: Literal["rmsnorm", "layernorm", "layernorm1p", "low_precision_layernorm"] = "rmsnorm"
    """Normalisation; the layer norms have a bias beside the scale, the low-precision one has none."""
    published_parameters: float | None = Field(default=None, gt=0, le=MAX_TOTAL)
    """Size that the vendor or paper gives, or null; the card's own count is checked against it."""
    published_active_parameters: float | None = Field(default=None, gt=0, le=MAX_TOTAL)
    """Parameters that a token meets, as the vendor or paper gives them, or null."""
    unverified: tuple[str, ...] = ()
    """Fields that are inferred or assumed."""
    source: str = Field(min_length=1)
    """Where the shape was read."""
    note: str = ""
    """What a reader should know before using the card."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        rules = (*self._attention_rules(), *self._expert_rules())
        if rules:
            raise broken(*rules)
        return self

    def _attention_rules(self) -> Iterator[Rule]:
        found = f"heads {self.heads}, kv_heads {self.kv_heads}"
        if self.heads % self.kv_heads:
            message = "heads must be a multiple of kv_heads"
            yield Rule(message=message, keys=("kv_heads", "heads"), found=found)
        elif self.attention == "mha" and self.heads != self.kv_heads:
            message = "attention: mha means kv_heads = heads"
            yield Rule(message=message, keys=("kv_heads", "heads", "attention"), found=found)
        if (self.attention == "mla") != (self.mla is not None):
            yield Rule(message="attention: mla and the block mla come together", keys=("attention", "mla"))

    def _expert_rules(self) -> Iterator[Rule]:
        if self.moe is None:
            return
        dense, experts = self.moe.first_dense_layers, self.moe.moe_layers
        if dense + experts > self.layers:
            message = f"{experts} layers with experts after {dense} dense ones, but the model has {self.layers} layers"
            yield Rule(message=message, keys=("moe.moe_layers", "moe.first_dense_layers", "layers", "moe"))
        if self.moe.top_k > self.moe.experts:
            message = f"a token visits {self.moe.top_k} of {self.moe.experts} experts"
            yield Rule(message=message, keys=("moe.top_k", "moe.experts", "moe"))
