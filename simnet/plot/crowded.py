"""Fewer boxes where a row of them is too crowded to read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simnet.plot.topology import LayoutLink, LayoutNode, TopologyLayout

MOST_BUNDLES = 96
"""More lines than these from the domains of one module run into a grey band."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """Some neighbours that are wired alike, as one box of a drawing."""

    kind: str
    label: str
    tier: int
    x: float
    count: int
    module: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The cables between two boxes."""

    lower: int
    upper: int
    cables: int
    link_class: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinned:
    """A layout with fewer boxes."""

    nodes: Sequence[LayoutNode]
    links: Sequence[LayoutLink]
    modules: Sequence[str]


def thin_out(layout: TopologyLayout, fits: Callable[[Sequence[LayoutNode]], bool]) -> TopologyLayout:
    """Return the layout with neighbouring domains in one box, as few as let the drawing be read.

    Only domains of one module with cables to the same boxes share one, the same number of them in each.

    Parameters
    ----------
    fits : whether the boxes of the lowest tier, if they were these, could carry their labels.
    """
    runs = _runs_wired_alike(layout)
    longest = max(len(run) for run in runs)
    for size in range(1, longest + 1):
        if size not in {1, longest} and any(len(run) % size for run in runs):
            continue
        thinned = layout if size == 1 else _merged(layout, [part for run in runs for part in _parts(run, size)])
        if _num_bundles(thinned) <= MOST_BUNDLES and fits([node for node in thinned.nodes if node.tier == 0]):
            break
    return thinned


def _runs_wired_alike(layout: TopologyLayout) -> list[list[int]]:
    """Return the indices of the domains, those in a row with cables to the same boxes together."""
    above: dict[int, set[tuple[int, str]]] = {}
    for link in layout.links:
        above.setdefault(link.lower, set()).add((link.upper, link.link_class))
    domains = sorted(
        (index for index, node in enumerate(layout.nodes) if node.tier == 0),
        key=lambda index: (layout.nodes[index].module, layout.nodes[index].x),
    )
    alike = itertools.groupby(domains, key=lambda index: (layout.nodes[index].module, above.get(index, set())))
    return [list(run) for _, run in alike]


def _parts(run: Sequence[int], size: int) -> list[Sequence[int]]:
    return [run[first : first + size] for first in range(0, len(run), size)]


def _merged(layout: TopologyLayout, parts: Sequence[Sequence[int]]) -> Thinned:
    """Return the layout with one box for each part and all other boxes as they are."""
    nodes: list[LayoutNode] = []
    place: dict[int, int] = {}
    alone = [[index] for index, node in enumerate(layout.nodes) if node.tier > 0]
    for part in (*parts, *alone):
        place |= dict.fromkeys(part, len(nodes))
        members = [layout.nodes[index] for index in part]
        nodes.append(members[0] if len(members) == 1 else _box(members))
    cables: dict[tuple[int, int, str], int] = {}
    for link in layout.links:
        key = (place[link.lower], place[link.upper], link.link_class)
        cables[key] = cables.get(key, 0) + link.cables
    links = [
        Bundle(lower=lower, upper=upper, cables=count, link_class=name)
        for (lower, upper, name), count in cables.items()
    ]
    return Thinned(nodes=nodes, links=links, modules=layout.modules)


def _box(members: Sequence[LayoutNode]) -> Box:
    first = members[0]
    return Box(
        kind=first.kind,
        label=f"{first.kind}s",
        tier=first.tier,
        x=sum(node.x for node in members) / len(members),
        count=sum(node.count for node in members),
        module=first.module,
    )


def _num_bundles(layout: TopologyLayout) -> int:
    """Return the most lines that rise from the domains of one module."""
    modules = [layout.nodes[link.lower].module for link in layout.links if layout.nodes[link.lower].tier == 0]
    return max((modules.count(module) for module in set(modules)), default=0)
