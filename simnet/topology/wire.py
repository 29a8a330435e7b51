"""A topology spec to the arrays of its wiring: modules one after another, planes inside each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simnet.errors import Problem, TopologyError
from simnet.spec.topology import TopologySpec, module_specs
from simnet.topology.endpoints import endpoints
from simnet.topology.joins import core_join, numbered, pair_cables, pair_links, tiled, top_elements
from simnet.topology.plan import ModulePlan, plan_module
from simnet.topology.tree import JoinDemand
from simnet.topology.wiring import LEAF_SPINE, SPINE_CORE, Floats, Ints, Tier, Wiring, offsets


def wire(spec: TopologySpec) -> Wiring:
    """Return the wiring of a cluster.

    Raises
    ------
    TopologyError
        If switches have too few ports, or modules cannot be joined as asked.
    """
    plans = _plans(spec)
    first = _switch_numbers(plans)
    leaf_spine, spine_core = _leaf_spine(plans, first), _spine_core(plans, first)
    tops = top_elements(plans, first)
    end = int(first["core"][-1])
    join, num_join = core_join(spec, plans, tops, end)
    first["join"] = np.array([end, end + num_join])
    pairs, pair_first_top = pair_links(spec, plans, tops)
    leaf_group = numbered(plans, lambda plan: plan.leaf_group, lambda plan: plan.num_groups)
    wired = tiled(plans, lambda plan: plan.leaf_wired)
    return Wiring(
        plans=plans,
        is_modular=spec.kind == "modular",
        **endpoints(plans, first["leaf"]),
        switch_first=first,
        leaf_rail=tiled(plans, lambda plan: plan.leaf_rail).astype(np.int32),
        leaf_group=leaf_group,
        leaf_start=_starts(wired, leaf_group),
        leaf_top_start=_starts(wired, tops.of_leaf),
        leaf_top=tops.of_leaf,
        group_core_set=spine_core.block,
        top_module=tops.module,
        leaf_spine=leaf_spine,
        spine_core=spine_core,
        join=join,
        pairs=pairs,
        pair_first_top=pair_first_top,
    )


def _plans(spec: TopologySpec) -> tuple[ModulePlan, ...]:
    """Return the plan of every module."""
    named = module_specs(spec)
    cables = pair_cables(spec, named)
    taper = spec.join.taper if spec.join and len(named) > 1 else 0.0
    plans = []
    for index, (name, part) in enumerate(named):
        demand = JoinDemand(taper=taper, pair_cables=cables[index])
        plans.append(plan_module(name, part, demand))
    planes = {plan.num_planes for plan in plans}
    if len(planes) > 1:
        raise TopologyError(
            Problem(message=f"modules on {' and '.join(map(str, sorted(planes)))} planes cannot be one cluster")
        )
    return tuple(plans)


def _switch_numbers(plans: tuple[ModulePlan, ...]) -> dict[str, Ints]:
    leaves = offsets(np.array([plan.num_planes * plan.num_leaves for plan in plans]))
    spines = offsets(np.array([plan.num_planes * plan.num_groups * plan.spines_per_group for plan in plans]))
    cores = offsets(np.array([plan.num_planes * plan.num_core_sets * plan.cores_per_set for plan in plans]))
    spines += leaves[-1]
    return {"leaf": leaves, "spine": spines, "core": cores + spines[-1]}


def _per_plan(plans: tuple[ModulePlan, ...], counts: list[int], field: Callable[[ModulePlan], float]) -> Floats:
    """Return a figure of each module, repeated *counts* times."""
    return np.repeat([field(plan) for plan in plans], counts).astype(np.float64)


def _leaf_spine(plans: tuple[ModulePlan, ...], first: dict[str, Ints]) -> Tier:
    counts = [plan.num_planes * plan.num_leaves for plan in plans]
    group = numbered(plans, lambda plan: plan.leaf_group, lambda plan: plan.num_groups)
    spines = np.repeat([plan.spines_per_group for plan in plans], counts)
    group_first = _group_first(plans, first)
    return Tier(
        link_class=LEAF_SPINE,
        lower_first=np.arange(len(group)),
        lower_count=np.ones(len(group), dtype=np.int64),
        upper_first=np.where(group < 0, 0, group_first[group] if len(group_first) else 0),
        upper_count=spines,
        cables=tiled(plans, lambda plan: plan.leaf_cables),
        block=group,
        bandwidth=_per_plan(plans, counts, lambda plan: plan.link_bandwidth if plan.scale_out else 0.0),
        up_latency=_per_plan(plans, counts, _hop_latency),
        down_latency=_per_plan(plans, counts, _hop_latency),
    )


def _group_first(plans: tuple[ModulePlan, ...], first: dict[str, Ints]) -> Ints:
    """Return the first spine of each group of the cluster."""
    parts = [
        first["spine"][index] + np.arange(plan.num_planes * plan.num_groups) * plan.spines_per_group
        for index, plan in enumerate(plans)
    ]
    return np.concatenate(parts).astype(np.int64)


def _set_first(plans: tuple[ModulePlan, ...], first: dict[str, Ints]) -> Ints:
    parts = [
        first["core"][index] + np.arange(plan.num_planes * plan.num_core_sets) * plan.cores_per_set
        for index, plan in enumerate(plans)
    ]
    return np.concatenate(parts).astype(np.int64)


def _spine_core(plans: tuple[ModulePlan, ...], first: dict[str, Ints]) -> Tier:
    counts = [plan.num_planes * plan.num_groups for plan in plans]
    core_set = numbered(plans, lambda plan: plan.group_core_set, lambda plan: plan.num_core_sets)
    set_first = _set_first(plans, first)
    return Tier(
        link_class=SPINE_CORE,
        lower_first=_group_first(plans, first),
        lower_count=np.repeat([plan.spines_per_group for plan in plans], counts),
        upper_first=np.where(core_set < 0, 0, set_first[core_set] if len(set_first) else 0),
        upper_count=np.repeat([plan.cores_per_set for plan in plans], counts),
        cables=tiled(plans, lambda plan: plan.group_cables),
        block=core_set,
        bandwidth=_per_plan(plans, counts, lambda plan: plan.link_bandwidth if plan.scale_out else 0.0),
        up_latency=_per_plan(plans, counts, _hop_latency),
        down_latency=_per_plan(plans, counts, _hop_latency),
    )


def _hop_latency(plan: ModulePlan) -> float:
    """Return the time along one switch cable and through the switch at its end [s]."""
    if plan.scale_out is None:
        return 0.0
    return plan.scale_out.switch_cable.delay_s + plan.scale_out.switch.latency


def _starts(wired: Ints, element: Ints) -> Ints:
    """Return how many endpoints the leaves before each leaf have in the same element."""
    if not len(wired):
        return wired
    order = np.argsort(element, kind="stable")
    total = np.concatenate(([0], np.cumsum(wired[order])[:-1]))
    is_first = np.concatenate(([True], element[order][1:] != element[order][:-1]))
    base = total[np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))]
    starts = np.empty_like(wired)
    starts[order] = total - base
    return starts
