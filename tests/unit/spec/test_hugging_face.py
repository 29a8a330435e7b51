"""Configs of Hugging Face give the same counts as the cards that were read from other sources."""

from __future__ import annotations

import json

import pytest

from simnet.errors import SpecError
from simnet.spec.check import check_file
from simnet.spec.load import load_model
from simnet.workload.layers import expert_layers
from simnet.workload.transformer import active_parameters, parameters

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "hidden_act": "silu",
    "rms_norm_eps": 1e-05, "tie_word_embeddings": False, "max_position_embeddings": 131072, "attention_bias": False,
}  # fmt: skip
MIXTRAL = LLAMA | {
    "model_type": "mixtral", "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2,
    "sliding_window": None,
}  # fmt: skip
DEEPSEEK = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128,
    "num_key_value_heads": 128, "intermediate_size": 18432, "vocab_size": 129280, "rms_norm_eps": 1e-06,
    "tie_word_embeddings": False, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256, "n_shared_experts": 1,
    "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "moe_layer_freq": 1,
    "num_nextn_predict_layers": 1,
}  # fmt: skip
QWEN = {
    "model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32,
    "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "vocab_size": 151936, "rms_norm_eps": 1e-06,
    "tie_word_embeddings": False, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
    "decoder_sparse_step": 1, "sliding_window": 4096, "use_sliding_window": False,
}  # fmt: skip
GPT_OSS = {
    "model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 36, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "vocab_size": 201088, "rms_norm_eps": 1e-05,
    "tie_word_embeddings": False, "num_local_experts": 128, "num_experts_per_tok": 4, "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 18, "attention_bias": True,
}  # fmt: skip
MAVERICK = {
    "model_type": "llama4",
    "text_config": {
        "model_type": "llama4_text", "hidden_size": 5120, "num_hidden_layers": 48, "num_attention_heads": 40,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
        "vocab_size": 202048, "rms_norm_eps": 1e-05, "tie_word_embeddings": False, "num_local_experts": 128,
        "num_experts_per_tok": 1, "interleave_moe_layer_step": 2,
    },
}  # fmt: skip


@pytest.fixture
def write(tmp_path):
    def put(config):
        path = tmp_path / "config.json"
        path.write_text(config if isinstance(config, str) else json.dumps(config, indent=2))
        return path

    return put


@pytest.mark.parametrize(
    ("config", "card"),
    [
        (LLAMA, "llama-3-8b"),
        (MIXTRAL, "mixtral-8x7b"),
        (DEEPSEEK, "deepseek-v3-671b"),
        (QWEN, "qwen3-30b-a3b"),
        (GPT_OSS, "gpt-oss-120b"),
        (MAVERICK, "llama-4-maverick-400b"),
    ],
)
def test_a_config_is_the_card_that_was_read_elsewhere(write, config, card):
    read, shipped = load_model(write(config)), load_model(card)
    assert (parameters(read), active_parameters(read)) == (parameters(shipped), active_parameters(shipped))
    assert expert_layers(read) == expert_layers(shipped)
    for key in (
        "layers",
        "heads",
        "kv_heads",
        "head_dim",
        "attention",
        "mla",
        "mtp_layers",
        "sliding_window",
        "gated_mlp",
    ):
        assert getattr(read, key) == getattr(shipped, key), key


def test_gpt_2_has_no_gate_a_position_table_and_biases(write):
    # openai-community/gpt2-xl: 1,557,611,200 weights
    model = load_model(
        write(
            {
                "model_type": "gpt2",
                "n_embd": 1600,
                "n_layer": 48,
                "n_head": 25,
                "n_positions": 1024,
                "vocab_size": 50257,
            }
        )
    )
    assert parameters(model) == 1_557_611_200
    assert set(model.unverified) == {"head_dim", "ffn", "tied_embeddings"}


def test_check_says_what_the_file_is(write):
    assert check_file(write(LLAMA)) == "model, config.json of Hugging Face"


def test_a_lacking_figure_names_the_keys_that_would_give_it(write):
    with pytest.raises(SpecError) as caught:
        load_model(write({key: value for key, value in LLAMA.items() if key not in ("vocab_size", "hidden_size")}))
    assert [problem.path for problem in caught.value.problems] == ["hidden_size", "vocab_size"]
    assert "hidden_size or n_embd or d_model" in caught.value.problems[0].allowed


def test_a_wrong_value_is_told_at_its_line(write):
    with pytest.raises(SpecError) as caught:
        load_model(write(LLAMA | {"num_key_value_heads": 7}))
    (problem,) = caught.value.problems
    assert "multiple of kv_heads" in problem.message
    assert problem.where.endswith("config.json:6:3")


@pytest.mark.parametrize("value", ["many", -1, 0, 1.5, None, [], 1e300])
def test_a_layer_count_that_is_none_is_one_clear_fault(write, value):
    with pytest.raises(SpecError) as caught:
        load_model(write(LLAMA | {"num_hidden_layers": value, "n_layer": value}))
    assert len(caught.value.problems) == 1


def test_other_operators_are_refused_by_name(write):
    with pytest.raises(SpecError, match="operator that simnet does not have"):
        load_model(write(LLAMA | {"hybrid_override_pattern": "M-M*"}))


def test_a_scenario_names_a_config_as_its_model(write, tmp_path):
    from simnet.spec.load import load_scenario

    write(LLAMA)
    scenario = tmp_path / "own.yaml"
    scenario.write_text(
        "name: own\nquestion: How long is a step?\ntopology: {from: hgx-h100, nodes: 1}\n"
        "workload: {model: config.json, sequence_length: 4096, batch: {global_batch_size: 8}}\n"
    )
    assert load_scenario(str(scenario))._cases[0].workload.model.layers == 32
