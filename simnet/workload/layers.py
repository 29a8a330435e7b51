"""Parameters of one layer, part by part; every count is of the whole layer, before any split."""

from __future__ import annotations

from simnet.spec.model import ModelSpec, MoeSpec

ALTERNATING = "alternate"
"""How the pattern of a card starts whose expert layers are every second one, a dense one first."""


def expert_layers(model: ModelSpec) -> tuple[bool, ...]:
    """Return for each layer whether it has experts, shape (layers,)."""
    if model.moe is None:
        return (False,) * model.layers
    if model.moe.moe_layer_pattern.startswith(ALTERNATING):
        return tuple(layer % 2 == 1 for layer in range(model.layers))
    first = model.moe.first_dense_layers
    return tuple(first <= layer < first + model.moe.moe_layers for layer in range(model.layers))


def qkv_width(model: ModelSpec) -> int:
    """Return the columns of the fused query, key and value projection."""
    return (model.heads + 2 * model.kv_heads) * model.head_dim


def ffn_in_width(model: ModelSpec, ffn: int | None = None) -> int:
    """Return the columns of the first feed-forward projection, gate too, of the dense block or one of width *ffn*."""
    return (2 if model.gated_mlp else 1) * (model.ffn if ffn is None else ffn)


def attention_products(model: ModelSpec) -> dict[str, tuple[int, int]]:
    """Return depth and columns of each matrix product of attention with weights, in order.

    Latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1) compresses queries, and keys with values, and
    expands them for each head; the rotary part of the key is one for all heads.
    """
    hidden, heads = model.hidden, model.heads
    if model.mla is None:
        return {"qkv": (hidden, qkv_width(model)), "proj": (heads * model.head_dim, hidden)}
    mla = model.mla
    query = heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim)
    compressed = {"q_down": (hidden, mla.q_lora_rank), "q_up": (mla.q_lora_rank, query)}
    return {
        **(compressed if mla.q_lora_rank else {"q": (hidden, query)}),
        "kv_down": (hidden, mla.kv_lora_rank + mla.qk_rope_head_dim),
        "kv_up": (mla.kv_lora_rank, heads * (mla.qk_nope_head_dim + mla.v_head_dim)),
        "proj": (heads * mla.v_head_dim, hidden),
    }


def attention_parameters(model: ModelSpec) -> int:
    """Return the weights of attention's matrices."""
    return sum(depth * columns for depth, columns in attention_products(model).values())


def ffn_parameters(model: ModelSpec, ffn: int | None = None) -> int:
    """Return the weights of a feed-forward block's matrices, the dense one's or one's of width *ffn*."""
    width = model.ffn if ffn is None else ffn
    return model.hidden * (ffn_in_width(model, width) + width)


def router_parameters(model: ModelSpec, moe: MoeSpec) -> int:
    """Return the weights of the router of a layer."""
    return moe.experts * (model.hidden + (1 if model.linear_bias else 0))


def expert_parameters(model: ModelSpec, moe: MoeSpec) -> int:
    """Return the parameters of one routed expert."""
    biases = ffn_in_width(model, moe.expert_ffn) + model.hidden if moe.expert_bias else 0
    return ffn_parameters(model, moe.expert_ffn) + biases


def norm_parameters(model: ModelSpec) -> int:
    """Return the parameters of one norm: a scale, and a bias in the layer norms."""
    return (2 if model.norm in ("layernorm", "layernorm1p") else 1) * model.hidden


def attention_vector_parameters(model: ModelSpec) -> int:
    """Return attention's biases, and the norms of what latent attention compresses."""
    if model.mla is not None:
        return model.mla.q_lora_rank + model.mla.kv_lora_rank
    return qkv_width(model) + model.hidden if model.linear_bias else 0


def dense_layer_parameters(model: ModelSpec) -> int:
    """Return the parameters of a layer without experts."""
    biases = ffn_in_width(model) + model.hidden if model.linear_bias else 0
    return _outside_ffn(model) + ffn_parameters(model) + biases


def expert_layer_parameters(model: ModelSpec, moe: MoeSpec, *, experts: int | None = None) -> int:
    """Return the parameters of a layer with experts, or of what a token meets if *experts* is the number it visits."""
    routed = moe.experts if experts is None else experts
    shared = ffn_parameters(model, moe.shared_ffn) if moe.shared_ffn else 0
    return _outside_ffn(model) + router_parameters(model, moe) + routed * expert_parameters(model, moe) + shared


def _outside_ffn(model: ModelSpec) -> int:
    return attention_parameters(model) + attention_vector_parameters(model) + 2 * norm_parameters(model)
