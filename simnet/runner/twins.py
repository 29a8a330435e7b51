"""Cases that simulate the same step: different names and targets, or the same batch put in other words."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from simnet.analysis.result import Result
from simnet.runner.case import provenance, time_to_target
from simnet.spec.scenario import CaseSpec
from simnet.topology.build import build_cluster
from simnet.workload.checks import num_sequences
from simnet.workload.ranks import resolve_dp


def step_key(case: CaseSpec) -> str:
    """Return a hash of what decides the step: machine, job, routing and seed, in one form of words."""
    workload = case.workload
    content = case.model_dump(mode="json", include={"topology", "workload", "routing", "seed"})
    try:
        dp = resolve_dp(workload.parallelism, build_cluster(case.topology).num_gpus)
        sequences = num_sequences(workload, dp)
    except Exception:  # no step; the case itself will say why, and whether it is a bug
        return case.content_hash()
    content["workload"]["parallelism"]["dp"] = dp
    content["workload"]["batch"] = {"sequences": sequences, "micro_batch_size": workload.batch.micro_batch_size}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def restated(result: Result, case: CaseSpec) -> Result:
    """Return the result of a case whose step is that of another's."""
    dp = result.num_gpus // case.workload.parallelism.replica_size
    steps, minutes = time_to_target(case, dp, result.step_time_s)
    return replace(
        result,
        name=case.name,
        variant=case.variant,
        values=dict(case.values),
        provenance=provenance(case),
        steps_to_target=steps,
        minutes_to_target=minutes,
        timeline=(),
    )
