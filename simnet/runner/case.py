"""One case from its spec to its result: cluster, placement, plan, program, trace."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from simnet import __version__
from simnet.analysis.links import link_use
from simnet.analysis.result import Result
from simnet.analysis.result_parts import EngineUse, KnownError, MemoryUse, Provenance
from simnet.analysis.screen import replicated_traffic_s
from simnet.analysis.screen_network import ScreenNetwork
from simnet.analysis.step import bottleneck_sentence, breakdown, check_floors, timeline
from simnet.collectives.capacity import usable_capacity
from simnet.collectives.connections import BY_CONNECTIONS, message_weight
from simnet.collectives.known import Known
from simnet.collectives.lower import lower
from simnet.collectives.tasks import TaskSet, send
from simnet.engine.executor import TooManyClassesError, run_program
from simnet.engine.lower import Lowered, lower_plan
from simnet.engine.program import Program
from simnet.engine.recursion import Bracket, run_recursion
from simnet.engine.trace import StepTrace
from simnet.errors import Problem, TopologyError
from simnet.spec.collectives import load_collectives
from simnet.spec.known_error import known_error
from simnet.spec.parts import GpuPart
from simnet.spec.scenario import CaseSpec
from simnet.spec.topology import module_specs
from simnet.topology.build import build_cluster
from simnet.topology.cluster import Cluster
from simnet.topology.fabric import Fabric
from simnet.topology.in_network import switch_that_reduces
from simnet.units import MINUTE_S, format_time
from simnet.workload.attention import attention_time
from simnet.workload.checks import check_divides, check_shard_groups, num_sequences
from simnet.workload.kernels import check_kernels, job_preset
from simnet.workload.layout import pipeline_layout
from simnet.workload.memory import MemoryEstimate, require_fit
from simnet.workload.ops import Comm, StepPlan
from simnet.workload.plan import build_plan
from simnet.workload.ranks import RankGrid, rank_grid
from simnet.workload.transformer import require_dense

CLASSES_PER_STAGE = 40
"""Classes per pipeline stage beyond which the approximate rung answers: some forty defects that
differ; each costs the engine one replica's events more, so exactness still costs only seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A case checked as far as it can be without simulating."""

    case: CaseSpec
    cluster: Cluster
    gpu: GpuPart
    grid: RankGrid
    memory: MemoryEstimate
    plan: StepPlan
    attention_s: float
    """Part of the step's compute in the attention core, mean over all ranks [s]."""
    assumptions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """A case with its trace."""

    result: Result
    program: Program
    trace: StepTrace
    lowered: Lowered
    fabric: Fabric


def prepare(case: CaseSpec, cluster: Cluster | None = None) -> Prepared:
    """Build the case's cluster, placement and plan.

    Parameters
    ----------
    case
        A resolved case.
    cluster
        Use this one, perhaps edited, instead of building it.

    Raises
    ------
    LayoutError
        When the job does not divide or needs more GPUs than there are.
    DoesNotFitError
        When a pipeline stage needs more memory than a GPU has.
    """
    gpu = the_gpu(case)
    built = build_cluster(case.topology) if cluster is None else cluster
    workload = case.workload
    grid, memory = check(case, built)
    preset = job_preset(workload, gpu)
    beside_s = replicated_traffic_s(workload, gpu, preset, screen_network(case, built), dp=grid.dp)
    plan = build_plan(workload, gpu, preset, dp=grid.dp, dp_beside_s=beside_s)
    notes = (grid.note,) if grid.note else ()
    return Prepared(
        case=case,
        cluster=built,
        gpu=gpu,
        grid=grid,
        memory=memory,
        plan=plan,
        attention_s=attention_time(workload, gpu, preset, dp=grid.dp),
        assumptions=(*notes, *preset.assumptions, *plan.assumptions),
    )


def check(case: CaseSpec, cluster: Cluster) -> tuple[RankGrid, MemoryEstimate]:
    """Placement and memory of a case; raises as ``prepare`` does, without planning the step."""
    workload = case.workload
    require_dense(workload.model)
    check_divides(workload)
    pipeline_layout(workload)
    check_kernels(workload, the_gpu(case))
    grid = rank_grid(workload.parallelism, workload.rank_order, cluster.num_gpus)
    check_shard_groups(workload, dp=grid.dp)
    return grid, require_fit(workload, the_gpu(case), dp=grid.dp)


def screen_network(case: CaseSpec, cluster: Cluster) -> ScreenNetwork:
    """Return what the closed forms know of the case's machine: its domains and the rates of their ports."""
    spec = module_specs(case.topology)[0][1]
    assert spec.node is not None
    node = spec.node
    used = node.gpus * (spec.used_hosts or node.hosts) // node.hosts
    return ScreenNetwork(
        scale_up_domain=used,
        nvlink_bytes_per_s=node.gpu.nvlink_bandwidth,
        # Where nothing joins the domains, the engine says so if a rank sends to another domain.
        nic_bytes_per_s=cluster.nic_bytes_per_s or node.nic.bandwidth,
        generation=node.gpu.generation,
        reduces=switch_that_reduces(cluster.wiring) is not None,
    )


def the_gpu(case: CaseSpec) -> GpuPart:
    """Return the GPU of the machine.

    Raises
    ------
    TopologyError
        When its modules have different ones.
    """
    parts = [spec.node.gpu for _, spec in module_specs(case.topology) if spec.node is not None]
    names = sorted({part.name for part in parts})
    if len(names) > 1:
        raise TopologyError(
            Problem(
                message="one job runs on one kind of GPU",
                path="topology.modules",
                found=", ".join(names),
                hint="simulate each kind as a variant of its own",
            )
        )
    return parts[0]


def simulate(prepared: Prepared, *, with_timeline: bool = True) -> Simulated:
    """Simulate a prepared case with the engine.

    Raises
    ------
    NoPathError
        When two ranks that exchange data are not connected; names both.
    PhysicsError
        When a result beats the wire or the roofline (a bug that the tool reports).
    """
    case = prepared.case
    fabric = prepared.cluster.compile(routing=case.routing, seed=case.seed)
    lowered = lower_on(prepared, fabric)
    trace, bracket = _run(lowered.program)
    check_floors(prepared.plan, trace)
    spans = timeline(lowered.program, trace) if with_timeline else ()
    result = replace(_result(prepared, fabric, lowered, trace, bracket), timeline=spans)
    return Simulated(result=result, program=lowered.program, trace=trace, lowered=lowered, fabric=fabric)


def lower_on(prepared: Prepared, fabric: Fabric) -> Lowered:
    """Lower a prepared case on a compiled fabric to the engine's program."""
    constants = load_collectives(prepared.gpu.generation, prepared.gpu.name)
    known = Known()
    by_connections = prepared.case.workload.link_shares == BY_CONNECTIONS
    shares = [message_weight(constants, is_near=is_near) for is_near in (False, True)]
    weights = (shares[0], shares[1]) if by_connections else (1.0, 1.0)

    def collective(comm: Comm, groups: np.ndarray) -> TaskSet:
        return lower(
            fabric,
            comm.op,
            groups,
            comm.size_bytes,
            constants=constants,
            algorithm=comm.algorithm,
            repeats=comm.repeats,
            known=known,
            by_connections=by_connections,
        )

    def one_way(comm: Comm, source: np.ndarray, target: np.ndarray) -> TaskSet:
        return send(fabric, source, target, comm.size_bytes, constants, weights=weights)

    return lower_plan(
        prepared.plan,
        prepared.grid.gpu,
        usable_capacity(fabric, constants),
        collective=collective,
        send=one_way,
    )


def _run(program: Program) -> tuple[StepTrace, Bracket | None]:
    """Return the exact trace where behaviour classes stay few, else the approximate one."""
    try:
        limit = CLASSES_PER_STAGE * len(program.roles)
        return run_program(program, max_classes=limit), None
    except TooManyClassesError:
        return run_recursion(program)


def _result(
    prepared: Prepared,
    fabric: Fabric,
    lowered: Lowered,
    trace: StepTrace,
    bracket: Bracket | None,
) -> Result:
    case, plan, gpu = prepared.case, prepared.plan, prepared.gpu
    step_s = trace.step_time_s
    num_gpus = prepared.grid.num_gpus
    parts = breakdown(trace)
    links = link_use(fabric, lowered.program, trace)
    peak = gpu.peak_flops_per_s(case.workload.precision) * num_gpus
    steps, minutes = time_to_target(case, prepared.grid.dp, step_s)
    return Result(
        name=case.name,
        variant=case.variant,
        values=dict(case.values),
        num_gpus=num_gpus,
        gpu=gpu.name,
        step_time_s=step_s,
        tokens_per_s_per_gpu=plan.tokens_per_step / step_s / num_gpus,
        tokens_per_s=plan.tokens_per_step / step_s,
        mfu=plan.model_flops / (step_s * peak),
        hfu=plan.hardware_flops / (step_s * peak),
        breakdown_s=parts,
        hottest_link=links.hottest,
        link_classes=links.classes,
        census=prepared.cluster.census().to_dict(),
        memory=memory_use(prepared.memory),
        engine=_engine_use(trace, bracket),
        bottleneck=bottleneck_sentence(parts, step_s),
        assumptions=(
            *prepared.assumptions,
            *_latency_note(lowered),
            *_engine_notes(bracket, step_s),
        ),
        known_error=known_error_of(gpu, case.workload.precision),
        provenance=provenance(case),
        attention_s=prepared.attention_s,
        steps_to_target=steps,
        minutes_to_target=minutes,
    )


def time_to_target(case: CaseSpec, dp: int, step_time_s: float) -> tuple[float, float]:
    """Return steps and minutes to the case's target; not a number without one."""
    if case.target is None:
        return math.nan, math.nan
    steps = case.target.samples / num_sequences(case.workload, dp)
    return steps, (steps * step_time_s + case.target.evaluation) / MINUTE_S


def provenance(case: CaseSpec) -> Provenance:
    """Return what a case's result came from."""
    return Provenance(spec_hash=case.content_hash(), version=__version__, seed=case.seed)


def memory_use(estimate: MemoryEstimate) -> MemoryUse:
    """Return the memory of the fullest stage as a result tells it."""
    peak = estimate.peak
    return MemoryUse(
        peak_bytes=estimate.needed_bytes,
        limit_bytes=estimate.limit_bytes,
        stage=peak.stage,
        classes_bytes={**peak.classes, "runtime": estimate.runtime_bytes},
    )


def _engine_use(trace: StepTrace, bracket: Bracket | None) -> EngineUse:
    rung = "exact: behaviour classes" if bracket is None else "approximate: max-plus recursion"
    return EngineUse(
        rung=rung,
        classes=trace.num_classes,
        solves=trace.num_solves,
        events=trace.num_events,
    )


def _latency_note(lowered: Lowered) -> tuple[str, ...]:
    if not lowered.merged_latency_s:
        return ()
    added = format_time(lowered.merged_latency_s)
    return (
        f"All messages of one communication take the latency of its longest path, at most {added} more than their own.",
    )


def _engine_notes(bracket: Bracket | None, step_s: float) -> tuple[str, ...]:
    if bracket is None:
        return ()
    note = (
        "nearly every replica behaves differently, so a max-plus recursion answered: the exact "
        f"step lies between {bracket.low_s:.4g} and {bracket.high_s:.4g} s "
        f"({bracket.width(step_s):.1%} wide)"
    )
    return (note,)


def known_error_of(gpu: GpuPart, precision: str) -> KnownError:
    """Return how far off such predictions were."""
    record = known_error(gpu.name, precision)
    return KnownError(median=record.median, p90=record.p90, rows=record.rows, source=record.source)
