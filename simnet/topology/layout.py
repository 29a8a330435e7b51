"""A cluster as boxes and bundles with coordinates, for drawing: few enough of them to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simnet.topology.plan import ModulePlan
from simnet.topology.wiring import JOIN, LEAF_SPINE, LINK_CLASSES, NIC_LEAF, SPINE_CORE, Ints, Wiring

DOMAIN, LEAF, SPINE, CORE, JOINING = range(5)
MOST_BOXES = 64
"""Boxes of one tier over all modules; more are drawn as groups."""

MODULE_GAP = 0.02
"""Room between two modules, as a share of the drawing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutNode:
    """A domain or switch, or a group of alike ones.

    Parameters
    ----------
    kind : what it is in the singular, e.g. "rack", "leaf".
    label : short name of the box.
    tier : 0 for domains, 1 for leaves, 2 for spines, 3 for cores, 4 for switches that join modules.
    x : horizontal place, 0 to 1.
    count : domains or switches that the box stands for, over all planes.
    module : index of its module, -1 outside all.
    """

    kind: str
    label: str
    tier: int
    x: float
    count: int
    module: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutLink:
    """All cables between two boxes, given by their indices; equal tiers are pairwise links of modules."""

    lower: int
    upper: int
    cables: int
    link_class: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A drawing of a cluster without a pen; ``modules`` is empty for a monolithic one."""

    nodes: tuple[LayoutNode, ...]
    links: tuple[LayoutLink, ...]
    modules: tuple[str, ...]


def layout(wiring: Wiring) -> Layout:
    """Return the places of a cluster's parts; domains and switches that are wired alike share a box.

    Examples
    --------
    >>> from simnet.spec.load import load_topology
    >>> from simnet.topology import build_cluster
    >>> drawing = layout(build_cluster(load_topology("hgx-h100", {"nodes": 4})).wiring)
    >>> sum(node.count for node in drawing.nodes if node.tier == 0)
    4
    """
    drawing = _Drawing(nodes=[], cables={})
    shares = np.array([plan.num_domains for plan in wiring.plans], dtype=float)
    room = 1 - MODULE_GAP * (len(shares) - 1)
    widths = room * shares / shares.sum()
    left = 0.0
    tops: list[Ints] = []
    for module, (plan, width) in enumerate(zip(wiring.plans, widths.tolist(), strict=True)):
        tops.append(_draw_module(drawing, plan, module, left, width, most=max(1, MOST_BOXES // len(shares))))
        left += width + MODULE_GAP
    _draw_joins(drawing, wiring, _top_boxes(wiring, tops))
    links = tuple(
        LayoutLink(lower=lower, upper=upper, cables=count, link_class=link_class)
        for (lower, upper, link_class), count in drawing.cables.items()
    )
    names = tuple(plan.name for plan in wiring.plans) if wiring.is_modular else ()
    return Layout(nodes=tuple(drawing.nodes), links=links, modules=names)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """Where boxes of one module may stand."""

    module: int
    left: float
    width: float


@dataclass(slots=True, kw_only=True)
class _Drawing:
    """Boxes so far, and cables by lower box, upper box and class."""

    nodes: list[LayoutNode]
    cables: dict[tuple[int, int, str], int]

    def add_row(self, row: _Row, counts: Sequence[int], labels: Sequence[str], *, kind: str, tier: int) -> Ints:
        """Return the indices of new boxes, evenly spaced over the row."""
        first = len(self.nodes)
        for place, (count, label) in enumerate(zip(counts, labels, strict=True)):
            x = row.left + row.width * (place + 0.5) / len(counts)
            self.nodes.append(LayoutNode(kind=kind, label=label, tier=tier, x=x, count=count, module=row.module))
        return np.arange(first, len(self.nodes))

    def add_cables(self, lower: Ints, upper: Ints, cables: Ints, link_class: str) -> None:
        """Add cables between boxes, element by element."""
        for low, high, count in zip(lower.tolist(), upper.tolist(), cables.tolist(), strict=True):
            if count:
                key = (low, high, link_class)
                self.cables[key] = self.cables.get(key, 0) + count


def _draw_module(drawing: _Drawing, plan: ModulePlan, module: int, left: float, width: float, most: int) -> Ints:
    """Add one module; return the box of each of its top elements (cores, groups or leaves)."""
    row = _Row(module=module, left=left, width=width)
    domain_group = _groups(np.arange(plan.num_domains), most)
    counts = np.bincount(domain_group).tolist()
    unit = plan.node.unit
    labels = [str(number) if count == 1 else f"{unit}s" for number, count in enumerate(counts)]
    domains = drawing.add_row(row, counts, labels, kind=unit, tier=DOMAIN)
    if not plan.num_leaves:
        return domains[:0]
    leaves = _draw_leaves(drawing, row, plan, most)
    _wire_domains(drawing, plan, domains[domain_group], leaves)
    if not plan.num_groups:
        return leaves
    spines = _draw_spines(drawing, row, plan, most)
    cables = plan.leaf_cables * plan.num_planes
    drawing.add_cables(leaves, spines[plan.leaf_group], cables, LINK_CLASSES[LEAF_SPINE])
    if not plan.num_core_sets:
        return spines
    counts = [plan.cores_per_set * plan.num_planes] * plan.num_core_sets
    cores = drawing.add_row(row, counts, ["cores"] * len(counts), kind="core", tier=CORE)
    up = plan.group_core_set >= 0
    cables = plan.group_cables[up] * plan.num_planes
    drawing.add_cables(spines[up], cores[plan.group_core_set[up]], cables, LINK_CLASSES[SPINE_CORE])
    return cores


def _draw_leaves(drawing: _Drawing, row: _Row, plan: ModulePlan, most: int) -> Ints:
    """Add the leaves, a box for each rail that has leaves of its own; return the box of each leaf."""
    has_rails = plan.leaf_rails > 1
    group = _groups(plan.leaf_rail if has_rails else np.arange(plan.num_leaves), most)
    counts = (np.bincount(group) * plan.num_planes).tolist()
    labels = [f"rail {number}" if has_rails else "leaves" for number in range(len(counts))]
    return drawing.add_row(row, counts, labels, kind="leaf", tier=LEAF)[group]


def _draw_spines(drawing: _Drawing, row: _Row, plan: ModulePlan, most: int) -> Ints:
    """Add the spines, a box for each group, by rail so that cables cross little; return the box of each group."""
    place = np.empty(plan.num_groups, dtype=np.int64)
    place[np.lexsort((plan.group_pod, plan.group_rail))] = np.arange(plan.num_groups)
    group = _groups(place, most)
    counts = (np.bincount(group) * plan.spines_per_group * plan.num_planes).tolist()
    return drawing.add_row(row, counts, ["spines"] * len(counts), kind="spine", tier=SPINE)[group]


def _groups(keys: Ints, most: int) -> Ints:
    """Return the box of each item: its own key, or that of a run of keys where there are more than *most*."""
    num = int(keys.max()) + 1
    return keys if num <= most else keys * most // num


def _wire_domains(drawing: _Drawing, plan: ModulePlan, domain_box: Ints, leaf_box: Ints) -> None:
    """Add the cables of the domains' NICs: a leaf's ports serve the domains of its unit evenly."""
    assert plan.scale_out is not None
    domain_unit = np.arange(plan.num_domains) // plan.scale_out.unit
    for unit in range(plan.num_units):
        domains = domain_box[domain_unit == unit]
        for leaf in np.flatnonzero(plan.leaf_unit == unit).tolist():
            share, extra = divmod(int(plan.leaf_wired[leaf]) * plan.num_planes, max(len(domains), 1))
            cables = share + (np.arange(len(domains)) < extra)
            drawing.add_cables(domains, np.full(len(domains), leaf_box[leaf]), cables, LINK_CLASSES[NIC_LEAF])


def _top_boxes(wiring: Wiring, tops: list[Ints]) -> Ints:
    """Return the box of each top element of the wiring, which counts them by module and plane."""
    parts = [np.tile(boxes, plan.num_planes) for boxes, plan in zip(tops, wiring.plans, strict=True)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _draw_joins(drawing: _Drawing, wiring: Wiring, top_box: Ints) -> None:
    """Add the switches that join modules, and the cables to them and between pairs of modules."""
    first, end = wiring.switch_first["join"][0], wiring.switch_first["join"][-1]
    joined = wiring.join.block >= 0
    if end > first and joined.any():
        sets, block = np.unique(wiring.join.block[joined], return_inverse=True)
        group = _groups(block.astype(np.int64), MOST_BOXES)
        per_set = int(end - first) // len(sets)
        counts = np.bincount(_groups(np.arange(len(sets)), MOST_BOXES)) * per_set
        row = _Row(module=-1, left=0.0, width=1.0)
        boxes = drawing.add_row(row, counts.tolist(), ["join"] * len(counts), kind="join switch", tier=JOINING)
        drawing.add_cables(top_box[joined], boxes[group], wiring.join.cables[joined], LINK_CLASSES[JOIN])
    if wiring.pairs.num_elements:
        drawing.add_cables(
            top_box[wiring.pair_first_top], top_box[wiring.pairs.block], wiring.pairs.cables, LINK_CLASSES[JOIN]
        )
