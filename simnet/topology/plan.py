"""A monolithic spec to counts: leaves, groups, spines, cores, and the cables that each sends up."""

from __future__ import annotations

from dataclasses import dataclass

from simnet.spec.parts import NodePart
from simnet.spec.topology import ScaleOutSpec, TopologySpec
from simnet.topology.leaves import Ints, plan_leaves
from simnet.topology.tree import JoinDemand, Tree, plan_tops, plan_tree


@dataclass(frozen=True, slots=True, kw_only=True)
class ModulePlan:
    """Counts of one module; switches are those of one plane, and every plane is alike."""

    name: str
    spec: TopologySpec
    node: NodePart
    scale_out: ScaleOutSpec | None
    num_domains: int
    used_gpus: int
    """GPUs of a domain that are ranks, the first ones."""
    num_planes: int
    num_units: int
    leaf_rails: int
    """Rails that have leaves of their own; 1 if leaves take all rails."""
    leaf_down: int
    """Down-links of a full leaf."""
    leaf_unit: Ints
    leaf_rail: Ints
    leaf_index: Ints
    """Unit, rail and number within both, ``(num_leaves,)``."""
    leaf_wired: Ints
    """Down-links wired, compute and reserved, ``(num_leaves,)``."""
    leaf_cables: Ints
    """Up-links, ``(num_leaves,)``."""
    leaf_group: Ints
    """Group whose spines the leaf reaches, ``(num_leaves,)``."""
    spines_per_group: int
    group_pod: Ints
    group_rail: Ints
    """Pod and rail of a group (rail -1: all), ``(num_groups,)``."""
    group_cables: Ints
    """Cables to the core, ``(num_groups,)``."""
    group_core_set: Ints
    """Core set that joins the group, -1 for none, ``(num_groups,)``."""
    cores_per_set: int
    num_core_sets: int
    num_tiers: int
    management_cables: int
    top_cables: Ints
    """Cables to the join of each top element (core set, group or leaf), ``(num_tops,)``."""
    top_rail: Ints
    """Rail of each top element, -1 if it has all, ``(num_tops,)``."""
    leaf_top: Ints
    """Top element of each leaf, ``(num_leaves,)``."""

    @property
    def num_leaves(self) -> int:
        """Return the leaves of one plane."""
        return len(self.leaf_wired)

    @property
    def num_groups(self) -> int:
        """Return the groups of one plane."""
        return len(self.group_pod)

    @property
    def link_bandwidth(self) -> float:
        """Return the bandwidth of one link and direction [bytes/s]."""
        assert self.scale_out is not None
        if self.scale_out.link_bandwidth is not None:
            return self.scale_out.link_bandwidth
        return min(self.node.nic.bandwidth / self.num_planes, self.scale_out.switch.port_bandwidth)


def plan_module(name: str, spec: TopologySpec, demand: JoinDemand) -> ModulePlan:
    """Return the counts of one module.

    Raises
    ------
    TopologyError
        If no wiring of the allowed tiers has the ports; the message has the arithmetic.
    """
    assert spec.node is not None
    leaves = plan_leaves(spec, spec.node)
    tree = Tree.empty() if spec.scale_out is None else plan_tree(spec.name or name, spec.scale_out, leaves, demand)
    tops = plan_tops(tree, leaves, demand)
    return ModulePlan(
        name=name,
        spec=spec,
        node=spec.node,
        scale_out=spec.scale_out,
        num_domains=leaves.num_domains,
        used_gpus=spec.node.gpus * (spec.used_hosts or spec.node.hosts) // spec.node.hosts,
        num_planes=spec.scale_out.planes if spec.scale_out else 1,
        num_units=leaves.num_units,
        leaf_rails=leaves.rails,
        leaf_down=leaves.down,
        leaf_unit=leaves.unit,
        leaf_rail=leaves.rail,
        leaf_index=leaves.index,
        leaf_wired=leaves.wired,
        leaf_cables=tree.leaf_cables,
        leaf_group=tree.leaf_group,
        spines_per_group=tree.spines,
        group_pod=tree.group_pod,
        group_rail=tree.group_rail,
        group_cables=tree.group_cables,
        group_core_set=tree.group_core_set,
        cores_per_set=tree.cores_per_set,
        num_core_sets=tree.num_core_sets,
        num_tiers=tree.num_tiers,
        management_cables=leaves.management_cables,
        top_cables=tops[0],
        top_rail=tops[1],
        leaf_top=tops[2],
    )
