"""Rows of a table of runs that are quick to simulate."""

from __future__ import annotations

from simnet.validation.runs import RunCase, RunRow, to_case

SMALL = {
    "base_model_id": "llama-3.1-8b",
    "layers_override": "4",
    "gpu": "H100-SXM",
    "precision": "bf16",
    "seq": "4096",
    "global_batch": "160",
    "micro_batch": "1",
    "sharding": "zero1",
    "attention_kernel": "flash",
    "recompute": "none",
    "overlap_dp_grad": "yes",
    "overlap_dp_param": "yes",
    "overlap_pp": "yes",
    "cuda_graphs": "no",
    "software": "NeMo container 24.07",
}


def small_run(**values: str) -> RunCase:
    """A published run of a few layers, with *values* changed."""
    case = to_case(RunRow(run_id="small", values={**SMALL, **values}))
    assert isinstance(case, RunCase), case.reason
    return case
