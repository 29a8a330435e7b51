"""Builders that the workload tests share."""

from __future__ import annotations

from simnet.spec.load import load_model
from simnet.spec.model import ModelSpec
from simnet.spec.workload import BatchSpec, LayoutSpec, OverlapSpec, ParallelismSpec, WorkloadSpec


def gpt(*, layers: int, hidden: int, heads: int, vocab: int = 51200, positions: int = 2048) -> ModelSpec:
    """A GPT as Narayanan and Korthikanti describe it: four times hidden, biases, learned positions, tied table."""
    return ModelSpec(
        name="gpt",
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        ffn=4 * hidden,
        gated_mlp=False,
        vocab=vocab,
        tied_embeddings=True,
        attention="mha",
        learned_positions=positions,
        linear_bias=True,
        norm="layernorm",
        source="test",
    )


def job(model: ModelSpec, *, batch: int = 8, micro: int = 1, sequence: int = 2048, **changes: object) -> WorkloadSpec:
    """A job on *model*; degrees are given as tp=, pp= and so on, everything else by its name."""
    degrees = {
        name: changes.pop(name)
        for name in ("tp", "cp", "pp", "virtual_stages", "dp", "micro_batch_group_size")
        if name in changes
    }
    return WorkloadSpec(
        model=model,
        sequence_length=sequence,
        parallelism=ParallelismSpec(**degrees),
        batch=BatchSpec(global_batch_size=batch, micro_batch_size=micro),
        **changes,
    )


def record_job(**changes: object) -> WorkloadSpec:
    """Llama 3.1 405B as in the record run of MLPerf Training v5.0 on 2,496 GB200."""
    settings: dict[str, object] = {
        "tp": 4,
        "cp": 2,
        "pp": 8,
        "virtual_stages": 8,
        "dp": 39,
        "batch": 1248,
        "sequence": 8192,
        "precision": "fp8",
        "gradient_dtype": "bf16",
        "layout": LayoutSpec(embedding_counts_as_layer=True, loss_counts_as_layer=True),
        "overlap": OverlapSpec(tp=True),
        "rank_order": "tp-cp-pp-dp",
    }
    return job(load_model("llama-3.1-405b"), **{**settings, **changes})
