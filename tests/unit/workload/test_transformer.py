from __future__ import annotations

import pytest

from simnet.errors import SpecError
from simnet.library import list_shipped
from simnet.spec.load import load_model
from simnet.spec.model import SlidingWindowSpec
from simnet.workload.layers import dense_layer_parameters, expert_layers, norm_parameters
from simnet.workload.transformer import (
    active_parameters,
    forward_flops,
    head_parameters,
    layer_matrix_parameters,
    model_flops,
    parameters,
    recomputed_flops,
    require_dense,
)
from tests.unit.workload.jobs import gpt

ROUNDED_NAMES = {
    "gpt-nv21-1.7b": -0.028,
    "gpt-mcore-1.7b": 0.032,
    "gpt-mcore-32b": -0.015,
    "gpt-nemo-40b": -0.023,
    "nemotron-3-8b": 0.068,
    "nemotron-3-22b": -0.033,
}
"""Cards whose published size is a rounded name: what the count is beside it."""

CARDS = {path.stem: load_model(path.stem) for path in list_shipped("model")}


@pytest.mark.parametrize("card", [name for name, model in CARDS.items() if model.published_parameters])
def test_card_counts_to_its_published_size(card: str) -> None:
    model = CARDS[card]
    assert model.published_parameters is not None
    off = parameters(model) / model.published_parameters - 1
    if card in ROUNDED_NAMES:
        assert off == pytest.approx(ROUNDED_NAMES[card], abs=0.001)
    else:
        assert abs(off) <= 0.015


def test_llama_405b_has_the_parameters_of_its_checkpoint() -> None:
    # Hugging Face lists 405,853,388,800 weights for meta-llama/Llama-3.1-405B.
    assert parameters(load_model("llama-3.1-405b")) == 405_853_388_800


def test_mixtral_by_hand() -> None:
    # A layer: attention 4096 x (4096 + 2 x 1024) + 4096 x 4096, two norms, a router of 8 rows, 3 x 4096 x 14336 an
    # expert.
    model = load_model("mixtral-8x7b")
    outside = 4096 * 6144 + 4096 * 4096 + 2 * 4096 + 8 * 4096
    expert = 3 * 4096 * 14336
    ends = 2 * 32000 * 4096 + 4096
    assert parameters(model) == 32 * (outside + 8 * expert) + ends
    assert active_parameters(model) == 32 * (outside + 2 * expert) + ends


def test_latent_attention_by_hand() -> None:
    # DeepSeek-V3: 7168 x 1536 and 1536 x 128 x 192 for queries, 7168 x 576 and 512 x 128 x 256 for keys and values,
    # 128 x 128 x 7168 back; a norm on the compressed query and key-value each. Three dense layers of 3 x 7168 x 18432.
    attention = 7168 * 1536 + 1536 * 24576 + 7168 * 576 + 512 * 32768 + 16384 * 7168 + 1536 + 512
    dense = attention + 3 * 7168 * 18432 + 2 * 7168
    expert = attention + 2 * 7168 + 256 * 7168 + (256 + 1) * 3 * 7168 * 2048
    assert parameters(load_model("deepseek-v3-671b")) == 3 * dense + 58 * expert + 2 * 129280 * 7168 + 7168


LEAVES_EMBEDDING_OUT = ("gpt-oss-120b",)
"""Cards whose vendor counts the active parameters without the embedding."""


@pytest.mark.parametrize("card", [name for name, model in CARDS.items() if model.published_active_parameters])
def test_card_counts_to_its_published_active_size(card: str) -> None:
    model = CARDS[card]
    assert model.published_active_parameters is not None
    table = model.vocab * model.hidden if card in LEAVES_EMBEDDING_OUT else 0
    counted = active_parameters(model) - table
    last_digit = 1e9 if model.published_active_parameters % 1e9 == 0 else 1e8  # some are cut off, not rounded
    assert abs(counted - model.published_active_parameters) < last_digit


def test_expert_layers_lie_where_the_card_says() -> None:
    assert expert_layers(load_model("deepseek-v3-671b")) == (False,) * 3 + (True,) * 58
    assert expert_layers(load_model("llama-4-maverick-400b"))[:4] == (False, True, False, True)
    assert sum(expert_layers(load_model("llama-4-maverick-400b"))) == 24
    assert not any(expert_layers(load_model("llama-3-8b")))


@pytest.mark.parametrize(("layers", "hidden", "heads"), [(24, 2304, 24), (96, 12288, 96), (128, 25600, 160)])
def test_parameters_equal_narayanan_equation_2(layers: int, hidden: int, heads: int) -> None:
    model = gpt(layers=layers, hidden=hidden, heads=heads)
    equation = 12 * layers * hidden**2 * (1 + 13 / (12 * hidden) + (51200 + 2048) / (12 * layers * hidden))
    # The equation leaves the final norm out.
    assert parameters(model) - norm_parameters(model) == pytest.approx(equation, rel=1e-12)


@pytest.mark.parametrize(("layers", "hidden", "heads"), [(24, 2304, 24), (96, 12288, 96), (128, 25600, 160)])
def test_flops_equal_narayanan_with_the_full_square(layers: int, hidden: int, heads: int) -> None:
    batch, length, vocab = 512, 2048, 51200
    model = gpt(layers=layers, hidden=hidden, heads=heads)
    forward = forward_flops(
        model, sequences=batch, sequence_length=length, layers=layers, has_loss=True, causal_share=1.0
    )
    shape = 1 + length / (6 * hidden) + vocab / (12 * hidden * layers)
    assert 3 * forward.total == pytest.approx(72 * batch * layers * length * hidden**2 * shape, rel=1e-12)


def test_full_recomputation_gives_korthikanti_equation_8() -> None:
    batch, length, vocab, layers, hidden = 64, 2048, 51200, 96, 12288
    model = gpt(layers=layers, hidden=hidden, heads=96)
    sizes = {"sequences": batch, "sequence_length": length}
    hardware = model_flops(model, **sizes) + recomputed_flops(model, **sizes, layers=layers, recompute="full")
    # Causal attention halves the s/6h term of the printed 96BLsh^2(1 + s/6h + V/16hL).
    shape = 1 + length / (12 * hidden) + vocab / (16 * hidden * layers)
    assert hardware == pytest.approx(96 * batch * layers * length * hidden**2 * shape, rel=1e-12)


def test_selective_recomputation_repeats_the_attention_core_once() -> None:
    model = gpt(layers=96, hidden=12288, heads=96)
    sizes = {"sequences": 1, "sequence_length": 2048}
    useful = model_flops(model, **sizes)
    again = recomputed_flops(model, **sizes, layers=96, recompute="selective")
    # One more forward core is s/18h of the step's 1 + s/6h + V/12hL with the full square (s/4.5h less s/6h);
    # the causal half makes it s/36h of 1 + s/12h + V/12hL.
    step = 1 + 2048 / (12 * 12288) + 51200 / (12 * 12288 * 96)
    assert again / useful == pytest.approx(2048 / (36 * 12288) / step)
    assert recomputed_flops(model, **sizes, layers=96, recompute="none") == 0


def test_causal_flops_per_token_of_405b_by_hand() -> None:
    model = load_model("llama-3.1-405b")
    # One layer: q and output 2 x 16384^2, k and v 2 x 16384 x 1024, three matrices of 16384 x 53248.
    matrices = 126 * (2 * 16384**2 + 2 * 16384 * 1024 + 3 * 16384 * 53248)
    attention = 126 * 4 * 8192 * 16384 / 2
    logits = 2 * 16384 * 128256
    per_token = 3 * (2 * matrices + attention + logits)
    assert model_flops(model, sequences=1, sequence_length=8192) / 8192 == pytest.approx(per_token, rel=1e-12)


def test_mlperf_constant_of_405b_is_the_full_square() -> None:
    # The MLPerf scripts print 21,508 TFLOP a sample: 6(N - embedding) + 12 L h s a token.
    model = load_model("llama-3.1-405b")
    full = forward_flops(model, sequences=1, sequence_length=8192, layers=126, has_loss=True, causal_share=1.0)
    assert 3 * full.total == pytest.approx(21508e12, rel=0.001)


def test_grouped_query_heads_shrink_only_keys_and_values() -> None:
    model = load_model("llama-3-70b")
    assert dense_layer_parameters(model) == 2 * 8192**2 + 2 * 8192 * 1024 + 3 * 8192 * 28672 + 2 * 8192


def test_untied_head_is_a_table_and_a_norm() -> None:
    assert head_parameters(load_model("llama-3-70b")) == 128256 * 8192 + 8192


def test_windowed_model_is_refused_by_name() -> None:
    model = load_model("llama-3-8b").model_copy(update={"sliding_window": SlidingWindowSpec(size=128, every=2)})
    with pytest.raises(SpecError, match="Llama 3 8B is not a plain dense transformer"):
        require_dense(model)


def test_products_that_are_kept_are_not_counted_as_done_again() -> None:
    model = load_model("llama-3-8b")
    settings = {"sequences": 1, "sequence_length": 8192, "layers": 32, "recompute": "full"}
    all_four = recomputed_flops(model, **settings) - recomputed_flops(
        model, **settings, keeps=("qkv", "proj", "fc1", "fc2")
    )
    assert all_four == 32 * 2 * 8192 * layer_matrix_parameters(model)
