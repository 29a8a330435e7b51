"""FLOPs and bytes of kernels against hand computations."""

from __future__ import annotations

import pytest

from simnet.workload.kernel_list import ChunkShape, Unit, layer_backward, layer_forward

# Llama 3 8B, one sequence of 8,192 tokens: hidden 4,096, 32 heads of 128, 8 key-value heads, gated 14,336.
LLAMA_8B = ChunkShape(
    hidden=4096, heads=32, kv_heads=8, head_dim=128, ffn=14336, gated_mlp=True, vocab=128256, rotary=True,
    sequence_length=8192, micro_batch_size=1,
)  # fmt: skip
LAYER_WEIGHTS = 4096 * (6144 + 4096 + 28672 + 14336)  # qkv, projection, gate and up, down


def by_name(kernels):
    return {kernel.name: kernel for kernel in kernels}


def test_forward_products_cost_two_flops_per_weight_and_token():
    flops = sum(kernel.flops for kernel in layer_forward(LLAMA_8B) if kernel.unit is Unit.GEMM)
    assert flops == 2 * 8192 * LAYER_WEIGHTS


def test_backward_products_cost_twice_the_forward_ones():
    flops = sum(kernel.flops for kernel in layer_backward(LLAMA_8B) if kernel.unit is Unit.GEMM)
    assert flops == 4 * 8192 * LAYER_WEIGHTS


def test_qkv_product_of_grouped_heads_is_narrower_than_three_hidden():
    qkv = by_name(layer_forward(LLAMA_8B))["qkv"]
    assert (qkv.m, qkv.n, qkv.k) == (8192, 6144, 4096)
    assert qkv.flops == 412_316_860_416


def test_causal_attention_skips_half_of_the_scores():
    attention = by_name(layer_forward(LLAMA_8B))["attention"]
    assert attention.flops == 4 * 8192**2 * 32 * 128 / 2
    assert attention.elements == 8192**2 * 32 / 2


def test_backward_attention_has_five_products_against_two():
    forward = by_name(layer_forward(LLAMA_8B))["attention"]
    backward = by_name(layer_backward(LLAMA_8B))["attention"]
    assert backward.flops == 2.5 * forward.flops


def split(**changes):
    values = {name: getattr(LLAMA_8B, name) for name in LLAMA_8B.__dataclass_fields__}
    return ChunkShape(**(values | changes))


@pytest.mark.parametrize("changes", [{"tp": 4}, {"cp": 4}, {"tp": 2, "cp": 2}])
def test_splitting_divides_flops(changes):
    degree = changes.get("tp", 1) * changes.get("cp", 1)
    whole = sum(kernel.flops for kernel in layer_forward(LLAMA_8B))
    part = sum(kernel.flops for kernel in layer_forward(split(**changes)))
    assert part == pytest.approx(whole / degree)


def test_unfused_attention_computes_and_moves_the_whole_square():
    kernels = by_name(layer_forward(split(is_attention_fused=False)))
    assert kernels["attention products"].flops == 4 * 8192**2 * 32 * 128
    assert kernels["attention scores"].num_bytes == 11 * 8192**2 * 32


def test_sequence_parallelism_divides_norms_and_not_products():
    with_sp, without = split(tp=8), split(tp=8, is_sequence_parallel=False)
    assert by_name(layer_forward(with_sp))["norm"].num_bytes == by_name(layer_forward(without))["norm"].num_bytes / 8
    assert by_name(layer_forward(with_sp))["fc1"] == by_name(layer_forward(without))["fc1"]


def test_only_narrow_operands_are_cast():
    assert not [kernel for kernel in layer_forward(LLAMA_8B) if kernel.unit is Unit.CAST]
    narrow = split(linear_bytes=1)
    assert len([kernel for kernel in layer_forward(narrow) if kernel.unit is Unit.CAST]) == 4


def test_weight_gradients_read_and_write_the_main_gradient():
    fp32 = by_name(layer_backward(LLAMA_8B))["fc2 wgrad"]
    bf16 = by_name(layer_backward(split(gradient_bytes=2)))["fc2 wgrad"]
    assert fp32.num_bytes - bf16.num_bytes == 4 * 4096 * 14336


def test_fewer_key_value_heads_than_ranks_are_replicated():
    assert split(tp=16).qkv_width == (32 + 2 * 16) * 128 / 16
