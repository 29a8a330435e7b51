"""Activations that a rank keeps from the forward pass for the backward pass.

Terms follow Korthikanti, arXiv:2205.05198, section 4, written for any widths, grouped heads, gates,
fused attention and 8-bit operands; with its shapes they give its s b h (34 + 5 a s / h).
"""

from __future__ import annotations

from simnet.spec.workload import WorkloadSpec
from simnet.workload.layers import ffn_in_width
from simnet.workload.shards import BF16_BYTES, FP32_BYTES, OPERAND_BYTES, is_quantised

MASK_BYTES = 1
"""A dropout mask element."""
LOGIT_BYTES = FP32_BYTES
"""Logits are kept in fp32 for the loss."""


def tokens_per_rank(workload: WorkloadSpec) -> float:
    """Return the tokens of a micro-batch on one context-parallel rank."""
    return workload.batch.micro_batch_size * workload.sequence_length / workload.parallelism.cp


def residual_shard(workload: WorkloadSpec) -> float:
    """Return the part of the residual stream that a tensor-parallel rank holds."""
    return 1 / workload.parallelism.tp if workload.sequence_parallel else 1.0


def layer_activation_bytes(workload: WorkloadSpec) -> float:
    """Return what one layer keeps for one micro-batch on one rank [bytes].

    Notes
    -----
    Without recomputation s b h (10 + 24/t + 5as/(ht)) under tensor parallelism and
    s b h / t (34 + 5as/h) with sequence parallelism; ``selective`` drops the last term, as fused
    attention does; ``full`` keeps the layer's input, 2 s b h (Korthikanti, equations 1 to 5).
    """
    model, tp = workload.model, workload.parallelism.tp
    tokens = tokens_per_rank(workload)
    if workload.recompute == "full":
        kept = tokens * (BF16_BYTES * model.hidden * residual_shard(workload) + _kept_bytes(workload))
        if workload.recompute_share == 1:
            return kept
        rest = workload.model_copy(update={"recompute": "none"})
        return workload.recompute_share * kept + (1 - workload.recompute_share) * layer_activation_bytes(rest)
    operand = OPERAND_BYTES[workload.precision]
    masks = MASK_BYTES if workload.dropout else 0
    # Inputs of the two norms in 16 bit, inputs of the two products after them, masks of the two dropouts.
    stream = 2 * model.hidden * (BF16_BYTES + operand + masks)
    split = _qkv_bytes(workload) + _attention_out_bytes(workload)
    split += BF16_BYTES * ffn_in_width(model) + operand * model.ffn
    return tokens * (stream * residual_shard(workload) + split / tp + _score_bytes(workload) / tp)


def loss_activation_bytes(workload: WorkloadSpec) -> float:
    """Return what output norm, projection and loss keep for one micro-batch on one rank [bytes].

    4 s b h / t (1 + V/h) (Korthikanti, section 4.3); one micro-batch at a time, since its backward
    pass follows at once.
    """
    model = workload.model
    inputs = 2 * BF16_BYTES * model.hidden * residual_shard(workload)
    return tokens_per_rank(workload) * (inputs + LOGIT_BYTES * model.vocab / workload.parallelism.tp)


def embedding_activation_bytes(workload: WorkloadSpec) -> float:
    """Return what the embedding keeps for one micro-batch on one rank: its dropout's mask [bytes]."""
    if not workload.dropout:
        return 0.0
    return MASK_BYTES * tokens_per_rank(workload) * workload.model.hidden * residual_shard(workload)


def working_bytes(workload: WorkloadSpec) -> float:
    """Return what a layer needs while it runs and frees again [bytes].

    The gathered input and the full-width output of a product on the residual stream, and the
    gradient of the first feed-forward product.
    """
    model, tp = workload.model, workload.parallelism.tp
    stream = 2 * BF16_BYTES * model.hidden
    return tokens_per_rank(workload) * (stream + BF16_BYTES * ffn_in_width(model) / tp)


def _kept_bytes(workload: WorkloadSpec) -> float:
    """Return bytes per token of the products whose results full recomputation keeps; fc2's is not needed."""
    model, tp = workload.model, workload.parallelism.tp
    widths = {
        "qkv": _qkv_bytes(workload) / tp,
        "proj": BF16_BYTES * model.hidden * residual_shard(workload),
        "fc1": BF16_BYTES * ffn_in_width(model) / tp,
    }
    return sum(widths.get(name, 0.0) for name in workload.recompute_keeps)


def _qkv_bytes(workload: WorkloadSpec) -> float:
    """Return bytes per token of queries, keys and values over the whole tensor-parallel group."""
    model = workload.model
    kv_heads = max(model.kv_heads, workload.parallelism.tp)  # fewer heads than ranks are replicated
    return BF16_BYTES * (model.heads + 2 * kv_heads) * model.head_dim


def _attention_out_bytes(workload: WorkloadSpec) -> float:
    """Return bytes per token of the attention's output: kept in 16 bit by fused attention, as operand if quantised."""
    width = workload.model.heads * workload.model.head_dim
    is_flash = workload.attention_kernel != "unfused"
    if not is_quantised(workload):
        return BF16_BYTES * width
    return (OPERAND_BYTES[workload.precision] + (BF16_BYTES if is_flash else 0)) * width


def _score_bytes(workload: WorkloadSpec) -> float:
    """Return bytes per token that attention keeps beyond its inputs and output."""
    model = workload.model
    if workload.attention_kernel != "unfused":
        return FP32_BYTES * model.heads  # the logarithm of each row's sum
    if workload.recompute == "selective":
        return 0.0
    per_score = 2 * BF16_BYTES + MASK_BYTES if workload.dropout else BF16_BYTES
    return per_score * model.heads * workload.sequence_length
