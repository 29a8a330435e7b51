"""Parameters of a transformer and FLOPs of a dense one; every count is of the whole model, before any split.

FLOPs count multiply and add as two. Attention is causal: a token attends to half the sequence on
average, so its scores and values cost half of the full square, and that half is what ``model``
FLOPs count. Printed figures that count the full square are larger; see ``docs/model/workload.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

from simnet.errors import Problem, SpecError
from simnet.spec.model import ModelSpec
from simnet.workload.layers import (
    attention_parameters,
    dense_layer_parameters,
    expert_layer_parameters,
    expert_layers,
    ffn_in_width,
    ffn_parameters,
    norm_parameters,
)

FLOPS_PER_MAC = 2
"""A multiply and an add."""
BACKWARD_PER_FORWARD = 2
"""The backward pass forms the gradients of inputs and of weights, each as costly as the forward product."""
CAUSAL_SHARE = 0.5
"""Part of the square of scores below the diagonal, for long sequences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardFlops:
    """FLOPs of a forward pass by kind [FLOP]."""

    linear: float
    """Matrix products with weights, logits left out."""
    attention: float
    """Scores and their product with the values, causal half."""
    logits: float
    """Output projection."""

    @property
    def total(self) -> float:
        """All kinds together."""
        return self.linear + self.attention + self.logits


def require_dense(model: ModelSpec) -> None:
    """Return nothing if *model* is a plain dense transformer.

    Raises
    ------
    SpecError
        If it has experts, latent attention or windows, which this version does not simulate.
    """
    extras = [
        name
        for name, present in (
            ("moe", model.moe),
            ("mla", model.mla),
            ("sliding_window", model.sliding_window),
            ("mtp_layers", model.mtp_layers),
        )
        if present
    ]
    if extras:
        raise SpecError(
            Problem(
                message=f"{model.name} is not a plain dense transformer",
                path="workload.model",
                found=", ".join(extras),
                allowed="dense models with multi-head or grouped-query attention",
            )
        )


def layer_matrix_parameters(model: ModelSpec) -> int:
    """Return the weights of a dense layer's matrices, which tensor parallelism divides."""
    return attention_parameters(model) + ffn_parameters(model)


def layer_vector_parameters(model: ModelSpec) -> int:
    """Return a dense layer's biases and norm parameters."""
    return dense_layer_parameters(model) - layer_matrix_parameters(model)


def embedding_parameters(model: ModelSpec) -> int:
    """Return the parameters of the embedding: word table and learned positions."""
    return (model.vocab + model.learned_positions) * model.hidden


def head_parameters(model: ModelSpec) -> int:
    """Return the parameters that the stage with the loss holds beyond its layers: final norm, output projection.

    A tied output projection is the embedding table again; where embedding and loss are on different
    stages it is a second copy, which :func:`parameters` does not count.
    """
    return norm_parameters(model) + model.vocab * model.hidden


def parameters(model: ModelSpec) -> int:
    """Return the parameters of *model*, as its vendor counts them.

    For a GPT with learned positions and four times hidden in the feed-forward block this is
    12 L h^2 (1 + 13/(12h) + (V+s)/(12Lh)) (Narayanan, arXiv:2104.04473, equation 2) and the final norm.
    Multi-token-prediction layers are not counted, nor do vendors.
    """
    return _counted(model, experts=None)


def active_parameters(model: ModelSpec) -> int:
    """Return the parameters that one token meets: of the routed experts of a layer, those that it visits."""
    return _counted(model, experts=model.moe.top_k if model.moe is not None else None)


def _counted(model: ModelSpec, *, experts: int | None) -> int:
    tied = model.vocab * model.hidden if model.tied_embeddings else 0
    with_experts = sum(expert_layers(model))
    layers = (model.layers - with_experts) * dense_layer_parameters(model)
    if model.moe is not None:
        layers += with_experts * expert_layer_parameters(model, model.moe, experts=experts)
    return layers + embedding_parameters(model) + head_parameters(model) - tied


def forward_flops(
    model: ModelSpec,
    *,
    sequences: float,
    sequence_length: int,
    layers: int,
    has_loss: bool,
    causal_share: float = CAUSAL_SHARE,
) -> ForwardFlops:
    """Return the FLOPs of a forward pass over *layers* layers, and the logits if *has_loss*.

    Parameters
    ----------
    sequences
        Number of sequences.
    sequence_length
        Tokens of each.
    causal_share
        Part of the square of scores that is counted; 1 gives the full-attention figures of papers.

    Notes
    -----
    With ffn = 4h, multi-head attention and causal_share 1 a layer costs 24 B s h^2 + 4 B s^2 h and the
    logits 2 B s h V (Narayanan, arXiv:2104.04473, appendix).
    """
    tokens = sequences * sequence_length
    core = 2 * FLOPS_PER_MAC * sequence_length * model.heads * model.head_dim * causal_share
    return ForwardFlops(
        linear=layers * tokens * FLOPS_PER_MAC * layer_matrix_parameters(model),
        attention=layers * tokens * core,
        logits=tokens * FLOPS_PER_MAC * model.hidden * model.vocab if has_loss else 0.0,
    )


def model_flops(model: ModelSpec, *, sequences: float, sequence_length: int) -> float:
    """Return the FLOPs of forward and backward passes over *sequences*, causal half of attention [FLOP]."""
    forward = forward_flops(
        model, sequences=sequences, sequence_length=sequence_length, layers=model.layers, has_loss=True
    )
    return (1 + BACKWARD_PER_FORWARD) * forward.total


def recomputed_flops(
    model: ModelSpec,
    *,
    sequences: float,
    sequence_length: int,
    layers: float,
    recompute: str,
    keeps: tuple[str, ...] = (),
) -> float:
    """Return the FLOPs that the backward pass of *layers* layers does again [FLOP].

    ``full`` repeats the layers' forward pass but for the products in *keeps*, ``selective`` the attention core
    once, ``none`` nothing.
    """
    one = forward_flops(model, sequences=sequences, sequence_length=sequence_length, layers=1, has_loss=False)
    tokens = sequences * sequence_length
    kept = tokens * FLOPS_PER_MAC * sum(product_parameters(model)[name] for name in keeps)
    return layers * {"none": 0.0, "selective": one.attention, "full": one.total - kept}[recompute]


def product_parameters(model: ModelSpec) -> dict[str, int]:
    """Return the weights of each matrix product of a layer, without biases, by name."""
    width = model.heads * model.head_dim
    return {
        "qkv": model.hidden * (width + 2 * model.kv_heads * model.head_dim),
        "proj": width * model.hidden,
        "fc1": model.hidden * ffn_in_width(model),
        "fc2": model.ffn * model.hidden,
    }
