"""The tiers above the leaves: groups of spines, cores, and the cables that leave a module."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simnet.errors import Problem, TopologyError
from simnet.spec.topology import ScaleOutSpec
from simnet.topology.dealing import Deal, deal_round_robin, deal_whole
from simnet.topology.leaves import Ints, Leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinDemand:
    """What a module must send beyond itself: a share of its injection, and cables of pairwise links."""

    taper: float = 0.0
    """Injection over join bandwidth; 0 if no core joins the modules."""
    pair_cables: int = 0
    """Cables of links to other modules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Counts of the tiers above the leaves of one plane; see :class:`~simnet.topology.plan.ModulePlan`."""

    leaf_cables: Ints
    leaf_group: Ints
    spines: int
    group_pod: Ints
    group_rail: Ints
    group_cables: Ints
    group_core_set: Ints
    cores_per_set: int
    num_core_sets: int
    num_tiers: int

    @staticmethod
    def empty(num_leaves: int = 0) -> Tree:
        """Return a tree without switches above the leaves."""
        none = np.zeros(0, dtype=np.int64)
        return Tree(
            leaf_cables=np.zeros(num_leaves, dtype=np.int64), leaf_group=np.full(num_leaves, -1), spines=0,
            group_pod=none, group_rail=none, group_cables=none, group_core_set=none,
            cores_per_set=0, num_core_sets=0, num_tiers=1 if num_leaves else 0,
        )  # fmt: skip


def plan_tree(name: str, scale_out: ScaleOutSpec, leaves: Leaves, demand: JoinDemand) -> Tree:
    """Return the tree of the fewest tiers that the spec allows.

    Raises
    ------
    TopologyError
        If the switches have too few ports.
    """
    tiers = scale_out.tiers
    is_alone = len(leaves.wired) == 1 and not demand.taper and not demand.pair_cables
    if tiers == 1 or (tiers == "auto" and is_alone):
        return Tree.empty(len(leaves.wired))
    if tiers in {"auto", 2}:
        tree = _two_tiers(scale_out, leaves, demand)
        if tree is not None:
            return tree
        if tiers == 2:
            raise _too_large(name, scale_out, leaves, 2)
    return _three_tiers(name, scale_out, leaves, demand)


def _two_tiers(scale_out: ScaleOutSpec, leaves: Leaves, demand: JoinDemand) -> Tree | None:
    """Return the tree whose spines reach all leaves (of a rail, if the rails are separate), or ``None``."""
    is_joined = scale_out.rails == "joined"
    group_rail = np.full(1, -1) if is_joined else np.arange(leaves.rails)
    leaf_group = np.zeros(len(leaves.rail), dtype=np.int64) if is_joined else leaves.rail
    inner = _Groups(
        leaf=leaf_group, pod=np.zeros(len(group_rail), dtype=np.int64), rail=group_rail,
        rails_inside=leaves.rails if is_joined else 1,
    )  # fmt: skip
    share = join_cables(inner.injection(leaves), inner.rails_inside, len(group_rail), demand)
    deal = _deal(scale_out, leaves, inner, int(share.max()))
    return None if deal is None else _assembled(scale_out, leaves, inner, deal, num_tiers=2)


def _three_tiers(name: str, scale_out: ScaleOutSpec, leaves: Leaves, demand: JoinDemand) -> Tree:
    """Return the tree of rail groups under a core; pods double until the core reaches all groups."""
    pod_units = scale_out.pod_units
    while True:
        inner = _rail_groups(leaves, pod_units)
        num_pods = int(inner.pod.max()) + 1
        joins_rails = scale_out.rails == "joined" and scale_out.has_single_pod_core and leaves.rails > 1
        has_core = num_pods > 1 or joins_rails
        upward = np.ceil(inner.injection(leaves) / scale_out.taper.spine).astype(np.int64)
        share = upward if has_core else join_cables(inner.injection(leaves), 1, len(inner.pod), demand)
        if not share.any() and np.bincount(inner.leaf).max() == 1:
            return Tree.empty(len(leaves.wired))
        deal = _deal(scale_out, leaves, inner, int(max(share.max(), upward.max())))
        if deal is None:
            raise _too_large(name, scale_out, leaves, 3)
        if not has_core:
            return _assembled(scale_out, leaves, inner, deal, num_tiers=2)
        core = _core(scale_out, leaves, inner, upward, demand)
        if core is not None:
            return _assembled(scale_out, leaves, inner, deal, num_tiers=3, upward=upward, core=core)
        if num_pods == 1:
            raise _too_large(name, scale_out, leaves, 3)
        pod_units *= 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Groups:
    """Leaves that share spines."""

    leaf: Ints
    pod: Ints
    rail: Ints
    rails_inside: int

    def injection(self, leaves: Leaves) -> Ints:
        """Return the endpoints below each group."""
        return np.bincount(self.leaf, weights=leaves.wired, minlength=len(self.pod)).astype(np.int64)


def _rail_groups(leaves: Leaves, pod_units: int) -> _Groups:
    key = (leaves.unit // pod_units) * leaves.rails + leaves.rail
    used, leaf = np.unique(key, return_inverse=True)
    return _Groups(leaf=leaf.astype(np.int64), pod=used // leaves.rails, rail=used % leaves.rails, rails_inside=1)


def _deal(scale_out: ScaleOutSpec, leaves: Leaves, inner: _Groups, upward: int) -> Deal | None:
    """Return how the leaves of the fullest group deal their cables over its spines."""
    most = int(leaves.wired.max())
    up_links = int(np.ceil(most / scale_out.taper.leaf))
    ports = scale_out.switch.ports
    return deal_whole(
        num_lower=int(np.bincount(inner.leaf).max()),
        up_links=up_links,
        up_links_max=min(most, max(up_links, ports - most)),
        ports=ports,
        upward=upward,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Core:
    set_of_group: Ints
    num_sets: int
    per_set: int


def _core(scale_out: ScaleOutSpec, leaves: Leaves, inner: _Groups, upward: Ints, demand: JoinDemand) -> _Core | None:
    """Return the cores that reach all groups; one set for each rail where rails are, or must be, separate."""
    injection = inner.injection(leaves)
    ports = scale_out.switch.ports
    one = np.zeros(len(inner.pod), dtype=np.int64)
    ways = [inner.rail] if scale_out.rails == "separate" else [one]
    if scale_out.core_growth == "rails" and scale_out.rails == "joined":
        ways.append(inner.rail)
    for sets in ways:
        num_sets = int(sets.max()) + 1
        rails_inside = leaves.rails if num_sets == 1 else 1
        below = np.bincount(sets, weights=injection).astype(np.int64)
        share = join_cables(below, rails_inside, num_sets, demand)
        counts = [
            deal_round_robin(upward[sets == index].tolist(), ports=ports, upward=int(share[index]))
            for index in range(num_sets)
        ]
        found = [count for count in counts if count is not None]
        if len(found) == num_sets:
            return _Core(set_of_group=sets, num_sets=num_sets, per_set=max(found))
    return None


def _assembled(
    scale_out: ScaleOutSpec, leaves: Leaves, inner: _Groups, deal: Deal, *, num_tiers: int,
    upward: Ints | None = None, core: _Core | None = None,
) -> Tree:  # fmt: skip
    is_full = leaves.wired == leaves.wired.max()
    wanted = np.where(is_full, deal.up_links, np.ceil(leaves.wired / scale_out.taper.leaf))
    nothing = np.zeros(len(inner.pod), dtype=np.int64)
    return Tree(
        leaf_cables=(np.ceil(wanted / deal.num_upper) * deal.num_upper).astype(np.int64),
        leaf_group=inner.leaf,
        spines=deal.num_upper,
        group_pod=inner.pod,
        group_rail=inner.rail,
        group_cables=nothing if upward is None else upward,
        group_core_set=nothing - 1 if core is None else core.set_of_group,
        cores_per_set=0 if core is None else core.per_set,
        num_core_sets=0 if core is None else core.num_sets,
        num_tiers=num_tiers,
    )


def join_cables(injection: Ints, rails_inside: int, num_tops: int, demand: JoinDemand) -> Ints:
    """Return the cables to the join of each top element: whole ones for each rail, and pairwise links dealt."""
    cables = np.full(len(injection), -(-demand.pair_cables // max(num_tops, 1)), dtype=np.int64)
    if demand.taper:
        cables += rails_inside * np.ceil(injection / rails_inside / demand.taper).astype(np.int64)
    return cables


def plan_tops(tree: Tree, leaves: Leaves, demand: JoinDemand) -> tuple[Ints, Ints, Ints]:
    """Return join cables and rail of each top element, and the top element of each leaf."""
    own = JoinDemand(taper=demand.taper)
    if tree.num_core_sets:
        leaf_top = tree.group_core_set[tree.leaf_group]
        count = tree.num_core_sets
        rail = np.full(1, -1) if count == 1 else np.arange(count)
    elif len(tree.group_pod):
        leaf_top, count, rail = tree.leaf_group, len(tree.group_pod), tree.group_rail
    else:
        count = len(leaves.wired)
        leaf_top, rail = np.arange(count), leaves.rail if leaves.rails > 1 else np.full(count, -1)
    injection = np.bincount(leaf_top, weights=leaves.wired, minlength=count).astype(np.int64)
    rails_inside = leaves.rails if count and rail[0] < 0 else 1
    return join_cables(injection, rails_inside, count, own), rail, leaf_top


def _too_large(name: str, scale_out: ScaleOutSpec, leaves: Leaves, tiers: int) -> TopologyError:
    ports = scale_out.switch.ports
    limit = ports * (ports // 2) ** (tiers - 1)
    return TopologyError(
        Problem(
            message=f"{name or 'this cluster'}: {int(leaves.wired.sum())} endpoints on {len(leaves.wired)} leaves do "
            f"not fit into {tiers} tiers of {ports}-port switches as wired",
            path="scale_out.tiers",
            found=str(scale_out.tiers),
            allowed=f"a non-blocking tree of {tiers} tiers ends at {limit} endpoints",
            hint="larger pod_units, a taper, a switch with more ports, or several modules",
        )
    )
