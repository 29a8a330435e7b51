"""One case by the closed forms instead of the engine: milliseconds, on a healthy fabric without cables."""

from __future__ import annotations

from simnet.analysis.result import Result
from simnet.analysis.result_parts import EngineUse, HottestLink
from simnet.analysis.screen import StepEstimate, estimate_step
from simnet.analysis.step import bottleneck_sentence
from simnet.runner.case import check, known_error_of, memory_use, provenance, screen_network, the_gpu, time_to_target
from simnet.spec.scenario import CaseSpec
from simnet.topology.build import build_cluster
from simnet.workload.attention import attention_time
from simnet.workload.checks import num_sequences
from simnet.workload.kernels import job_preset
from simnet.workload.plan import step_flops

NO_LINK = HottestLink(name="", link_class="", mean_utilisation=0.0, peak_utilisation=0.0, bytes=0.0)
"""Closed forms load no link."""
NOTE = (
    "Closed forms answered: they know the scale-up domain and the NIC of a GPU, neither cables nor tapers, routes, "
    "defects or collectives that meet on a link."
)


def screen(case: CaseSpec) -> Result:
    """Return the result of a case by the closed forms.

    Raises
    ------
    LayoutError, DoesNotFitError, TopologyError
        As :func:`simnet.runner.case.prepare`.
    """
    workload, gpu = case.workload, the_gpu(case)
    cluster = build_cluster(case.topology)
    grid, memory = check(case, cluster)
    preset = job_preset(workload, gpu)
    estimate = estimate_step(workload, gpu, preset, screen_network(case, cluster), dp=grid.dp)
    step_s, parts = estimate.step_time_s, breakdown(estimate)
    useful, executed = step_flops(workload, dp=grid.dp)
    tokens = num_sequences(workload, grid.dp) * workload.sequence_length
    peak = gpu.peak_flops_per_s(workload.precision) * grid.num_gpus
    steps, minutes = time_to_target(case, grid.dp, step_s)
    return Result(
        name=case.name,
        variant=case.variant,
        values=dict(case.values),
        num_gpus=grid.num_gpus,
        gpu=gpu.name,
        fidelity="screen",
        step_time_s=step_s,
        tokens_per_s_per_gpu=tokens / step_s / grid.num_gpus,
        tokens_per_s=tokens / step_s,
        mfu=useful / (step_s * peak),
        hfu=executed / (step_s * peak),
        breakdown_s=parts,
        hottest_link=NO_LINK,
        link_classes=(),
        census=cluster.census().to_dict(),
        memory=memory_use(memory),
        engine=EngineUse(rung="closed forms", classes=0, solves=0, events=0),
        bottleneck=bottleneck_sentence(parts, step_s),
        assumptions=(*((grid.note,) if grid.note else ()), NOTE, *preset.assumptions),
        known_error=known_error_of(gpu, workload.precision),
        provenance=provenance(case),
        attention_s=attention_time(workload, gpu, preset, dp=grid.dp),
        steps_to_target=steps,
        minutes_to_target=minutes,
    )


def breakdown(estimate: StepEstimate) -> dict[str, float]:
    """Seconds of the step by part; they add up to the step time."""
    return {
        "compute": estimate.compute_s,
        "exposed_tp": estimate.exposed_tp_s,
        "exposed_cp": estimate.exposed_cp_s,
        "exposed_pp": estimate.exposed_pp_s,
        "exposed_dp": estimate.exposed_dp_s,
        "bubble": estimate.bubble_s,
        "optimizer": estimate.optimizer_s,
    }
