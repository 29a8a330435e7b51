"""Model cards out of ``config.json`` of Hugging Face: the same shape under other names.

Keys are those of ``transformers`` (src/transformers/models/*/configuration_*.py). What a config does not say follows
from its ``model_type`` and is listed in the card's ``unverified``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from simnet.errors import Problem, SpecError
from simnet.spec.located import Located, located

LAYER_KEYS = ("num_hidden_layers", "n_layer", "n_layers")
"""Keys that tell a config from a card of ours."""
TEXT_CONFIG = "text_config"
"""Where multi-modal configs keep the language model."""
PLAIN_MLP = (
    "gpt2",
    "gpt_neox",
    "gptj",
    "opt",
    "bloom",
    "falcon",
    "phi",
    "starcoder2",
    "nemotron",
    "mpt",
    "gpt_bigcode",
)
"""Families whose feed-forward block has no gate."""
TIED = ("gpt2", "gemma", "gemma2", "gemma3", "gemma3_text", "opt", "bloom", "mpt", "gpt_bigcode")
"""Families whose output projection is the embedding unless the config says otherwise."""
LEARNED = ("gpt2", "opt", "gpt_bigcode", "mpt")
"""Families with a table of positions."""
BIASED = ("gpt2", "opt", "bloom", "gpt_neox", "gpt_bigcode", "starcoder2", "phi")
"""Families whose linear layers have biases."""
NOT_PLAIN = ("mamba", "ssm_cfg", "hybrid_override_pattern", "mamba_num_heads", "linear_num_key_heads", "index_topk")
"""Keys of operators that simnet does not have."""


def is_config(tree: Located) -> bool:
    """Return whether a tree is a ``config.json`` of Hugging Face, perhaps of a multi-modal model."""
    return any(node.child(key) is not None for node in _levels(tree) for key in LAYER_KEYS)


def card(tree: Located) -> Located:
    """Return the model card that a config describes; every value keeps its place in the file.

    Raises
    ------
    SpecError
        If the config lacks a figure that nothing else gives, or has operators that simnet does not have.
    """
    text = next(node for node in _levels(tree) if any(node.child(key) is not None for key in LAYER_KEYS))
    work = _Config(tree=text, family=_word(text, "model_type") or _word(tree, "model_type"))
    work.refuse_others()
    made = work.made()
    if work.problems:
        raise SpecError(*work.problems)
    return replace(tree, value=made)


def _levels(tree: Located) -> tuple[Located, ...]:
    inner = tree.child(TEXT_CONFIG)
    return (tree, inner) if inner is not None else (tree,)


def _word(tree: Located, key: str) -> str:
    node = tree.child(key)
    return node.value if node is not None and isinstance(node.value, str) else ""


@dataclass(slots=True, kw_only=True)
class _Config:
    """One config on its way to a card."""

    tree: Located
    family: str
    problems: list[Problem] = field(default_factory=list)
    unverified: list[str] = field(default_factory=list)

    def made(self) -> dict[str, Located]:
        """Return the card's keys."""
        found = {
            "name": self.say(_word(self.tree, "_name_or_path") or self.family or "a Hugging Face model"),
            "layers": self.need(*LAYER_KEYS),
            "hidden": self.need("hidden_size", "n_embd", "d_model"),
            "heads": self.need("num_attention_heads", "n_head", "n_heads"),
            "vocab": self.need("vocab_size"),
        }
        hidden, heads = (
            self.number("hidden_size", "n_embd", "d_model"),
            self.number("num_attention_heads", "n_head", "n_heads"),
        )
        found["kv_heads"] = self.first("num_key_value_heads") or found["heads"]
        found["head_dim"] = self.first("head_dim") or self.say(hidden // max(heads, 1), "head_dim")
        found["ffn"] = self.first("intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_dim") or self.say(
            4 * hidden, "ffn"
        )
        found["gated_mlp"] = self.say(self.family not in PLAIN_MLP)
        found["tied_embeddings"] = self.first("tie_word_embeddings") or self.say(self.family in TIED, "tied_embeddings")
        found["linear_bias"] = self.say(self.family in BIASED or self.is_true("mlp_bias"))
        found["norm"] = self.say("rmsnorm" if self.first("rms_norm_eps", "norm_eps") else "layernorm")
        if self.family in LEARNED:
            found["learned_positions"] = self.need("n_positions", "max_position_embeddings", "max_seq_len")
        found |= self.attention(found) | self.experts() | self.window()
        if (extra := self.first("num_nextn_predict_layers")) is not None:
            found["mtp_layers"] = extra
        found["source"] = self.say(f"config.json of Hugging Face, {self.tree.origin}")
        found["unverified"] = located(self.unverified, self.tree.origin)
        return {key: node for key, node in found.items() if node is not None}

    def attention(self, found: dict[str, Located]) -> dict[str, Located]:
        """Return the kind of attention, with the widths of a latent one."""
        if self.first("kv_lora_rank") is None:
            same = found["heads"].value == found["kv_heads"].value
            return {"attention": self.say("mha" if same else "gqa")}
        keys = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        mla = {key: self.need(key) for key in keys} | {"q_lora_rank": self.first("q_lora_rank") or self.say(0)}
        dim = self.first("qk_nope_head_dim")
        width = {"head_dim": dim} if dim is not None else {}
        return {"attention": self.say("mla"), "mla": self.block(mla), "kv_heads": found["heads"], **width}

    def experts(self) -> dict[str, Located]:
        """Return the block of experts, if there is one."""
        number = self.first("num_local_experts", "n_routed_experts", "num_experts")
        if number is None or number.value in (0, 1):
            return {}
        layers, dense = self.number(*LAYER_KEYS), self.number("first_k_dense_replace")
        every = max(self.number("interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_freq"), 1)
        width = self.first("moe_intermediate_size") or self.need("intermediate_size")
        one = width.value if isinstance(width.value, int) else 0
        shared = self.number("n_shared_experts") or int(self.family.startswith("llama4"))
        shared_ffn = self.number("shared_expert_intermediate_size") or shared * one
        moe = {
            "experts": number,
            "top_k": self.need("num_experts_per_tok", "num_experts_per_token", "moe_topk"),
            "expert_ffn": width,
            "shared_experts": self.say(shared or int(shared_ffn > 0)),
            "shared_ffn": self.say(shared_ffn),
            "moe_layers": self.say((layers - dense) // every),
            "first_dense_layers": self.say(dense),
            "expert_bias": self.say(self.family == "gpt_oss"),
        }
        if every == 2:
            moe["moe_layer_pattern"] = self.say("alternate: dense, moe")
        elif every > 2:
            self.fault(
                "moe_layer_freq", "experts in every layer or in every second one are known", str(every), "1 or 2"
            )
        bias = {"linear_bias": self.say(True)} if self.family == "gpt_oss" else {}
        return {"moe": self.block(moe), **bias}

    def window(self) -> dict[str, Located]:
        """Return windowed attention, if layers have it."""
        size = self.first("sliding_window")
        off = self.tree.child("use_sliding_window")
        if size is None or (off is not None and off.value is False):
            return {}
        kinds = self.tree.child("layer_types")
        every = 1
        if kinds is not None and isinstance(kinds.value, list):
            windowed = sum(kind.value == "sliding_attention" for kind in kinds.value)
            if windowed == 0:
                return {}
            every = len(kinds.value) // windowed
        return {"sliding_window": self.block({"size": size, "every": self.say(every)})}

    def refuse_others(self) -> None:
        """Note a fault for each key of an operator that simnet does not have."""
        for key in NOT_PLAIN:
            node = self.tree.child(key)
            if node is not None and node.value not in (None, False):
                message = "no plain transformer: this key belongs to an operator that simnet does not have"
                self.problems.append(Problem(where=node.where_key, path=key, message=message, found=key))

    def first(self, *keys: str) -> Located | None:
        """Return the first of the keys that has a value."""
        for key in keys:
            node = self.tree.child(key)
            if node is not None and node.value is not None:
                return node
        return None

    def need(self, *keys: str) -> Located:
        """Return the first of the keys that has a value; a fault if none has."""
        node = self.first(*keys)
        if node is None:
            self.fault(keys[0], "the config does not say this", "nothing", " or ".join(keys))
            return self.say(1)
        return node

    def number(self, *keys: str) -> int:
        """Return a key's whole number, or 0; what is no number is told when the card is checked."""
        node = self.first(*keys)
        return node.value if node is not None and isinstance(node.value, int) else 0

    def is_true(self, key: str) -> bool:
        """Return whether a switch is on."""
        node = self.tree.child(key)
        return node is not None and node.value is True

    def say(self, value: object, unverified: str = "") -> Located:
        """Return a value that follows from others; *unverified* names it in the card if it is a guess."""
        if unverified:
            self.unverified.append(unverified)
        return replace(located(value, self.tree.origin), spot=self.tree.spot, key_spot=self.tree.key_spot)

    def block(self, children: dict[str, Located]) -> Located:
        """Return a mapping."""
        return replace(self.say({}), value=children)

    def fault(self, key: str, message: str, found: str, allowed: str) -> None:
        """Note a fault of the config as a whole."""
        where = self.tree.where
        self.problems.append(Problem(where=where, path=key, message=message, found=found, allowed=allowed))
