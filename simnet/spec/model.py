"""Model cards: the shape of a transformer, with its source and its published size."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from simnet.spec.base import SpecModel


class MoeSpec(SpecModel):
    """Mixture of experts of the layers that have one."""

    experts: int = Field(gt=0)
    """Routed experts of a layer."""
    top_k: int = Field(gt=0)
    """Routed experts that a token visits."""
    expert_ffn: int = Field(gt=0)
    """Inner width of a routed expert."""
    shared_experts: int = Field(default=0, ge=0)
    """Experts that every token visits."""
    shared_ffn: int = Field(default=0, ge=0)
    """Total inner width of the shared experts."""
    moe_layers: int = Field(gt=0)
    """Layers with experts; the others are dense."""
    first_dense_layers: int = Field(default=0, ge=0)
    """Dense layers at the model's start."""
    moe_layer_pattern: str = ""
    """Where the expert layers lie, if they do not simply follow the dense ones."""
    expert_bias: bool = False
    """Whether the experts' linear layers have biases."""


class MlaSpec(SpecModel):
    """Multi-head latent attention."""

    q_lora_rank: int = Field(ge=0)
    """Width of the compressed query; 0 if queries are not compressed."""
    kv_lora_rank: int = Field(gt=0)
    """Width of the compressed key and value."""
    qk_nope_head_dim: int = Field(gt=0)
    """Width of a head's query and key without position."""
    qk_rope_head_dim: int = Field(gt=0)
    """Width of a head's query and key with rotary position."""
    v_head_dim: int = Field(gt=0)
    """Width of a head's value."""


class SlidingWindowSpec(SpecModel):
    """Layers that attend to a window only."""

    size: int = Field(gt=0)
    """Window [tokens]."""
    every: int = Field(gt=0)
    """Every so many layers one is windowed; 1 means all."""


class ModelSpec(SpecModel):
    """A transformer: the shape of its layers, and where the figures come from."""

    name: str
    """Name for people, such as ``Llama 3.1 405B``."""
    layers: int = Field(gt=0)
    """Transformer layers."""
    hidden: int = Field(gt=0)
    """Width of the residual stream."""
    heads: int = Field(gt=0)
    """Query heads."""
    kv_heads: int = Field(gt=0)
    """Key and value heads; fewer than *heads* is grouped-query attention."""
    head_dim: int = Field(gt=0)
    """Width of a head."""
    ffn: int = Field(gt=0)
    """Inner width of the dense feed-forward block."""
    gated_mlp: bool
    """Whether the feed-forward block has a gate (SwiGLU): three matrices instead of two."""
    vocab: int = Field(gt=0)
    """Rows of the embedding table."""
    tied_embeddings: bool
    """Whether the output projection is the embedding table."""
    attention: Literal["mha", "gqa", "mla"]
    """Kind of attention."""
    moe: MoeSpec | None = None
    """Mixture of experts, or null for a dense model."""
    mla: MlaSpec | None = None
    """Latent attention, or null."""
    mtp_layers: int = Field(default=0, ge=0)
    """Multi-token-prediction layers beyond *layers*."""
    sliding_window: SlidingWindowSpec | None = None
    """Windowed attention, or null."""
    learned_positions: int = Field(default=0, ge=0)
    """Rows of a learned position table; 0 is rotary."""
    linear_bias: bool = False
    """Whether the linear layers have biases."""
    norm: Literal["rmsnorm", "layernorm", "layernorm1p", "low_precision_layernorm"] = "rmsnorm"
    """Normalisation; the layer norms have a bias beside the scale, the low-precision one has none."""
    published_parameters: float | None = Field(default=None, gt=0)
    """Size that the vendor or paper gives, or null; the card's own count is checked against it."""
    unverified: tuple[str, ...] = ()
    """Fields that are inferred or assumed."""
    source: str = Field(min_length=1)
    """Where the shape was read."""
    note: str = ""
    """What a reader should know before using the card."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.heads % self.kv_heads:
            raise PydanticCustomError(
                "heads",
                "heads must be a multiple of kv_heads",
                {"found": f"heads {self.heads}, kv_heads {self.kv_heads}"},
            )
        if (self.attention == "mla") != (self.mla is not None):
            raise PydanticCustomError("mla", "attention: mla and the block mla come together")
        if self.attention == "mha" and self.heads != self.kv_heads:
            raise PydanticCustomError(
                "heads",
                "attention: mha means kv_heads = heads",
                {"found": f"heads {self.heads}, kv_heads {self.kv_heads}"},
            )
        return self
