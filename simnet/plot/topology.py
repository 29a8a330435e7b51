"""The machine by tiers: domains below, switches above, modules side by side under their join."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from simnet.plot import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEIGHT_IN = 4.6
PERCENT = 100
BOX_HEIGHT = 0.2
BOX_SHARE = 0.8
"""Width of a box over the distance to its neighbour."""

WIDEST_BOX = 0.16
THICKEST_PT, THINNEST_PT, ALL_LINKS_PT = 6.0, 0.4, 160.0
"""Line width of the thickest and thinnest bundle, and of all side by side, so that gaps stay [pt]."""

LABEL_CHARACTER = 0.0085
"""Width of a character at 9 pt as a share of the drawing; longer labels than their box are left out."""

NUM_COLOURS = 256
TIER_NAMES = ("domain", "leaf", "spine", "core")
TIER_PLURALS = {"leaf": "leaves"}
MODULE_MARGIN = 0.012


class LayoutNode(Protocol):
    """A domain, a switch, or a group of alike ones, at its place in the drawing."""

    @property
    def label(self) -> str:
        """Return the name to write into the box."""

    @property
    def tier(self) -> int:
        """Return 0 for domains, 1 for leaves, 2 for spines, 3 for the core."""

    @property
    def x(self) -> float:
        """Return the horizontal place, 0 to 1."""

    @property
    def count(self) -> int:
        """Return how many domains or switches the box stands for."""

    @property
    def module(self) -> int:
        """Return the index of its module, -1 outside all."""


class LayoutLink(Protocol):
    """All cables between two boxes."""

    @property
    def lower(self) -> int:
        """Return the index of the box below."""

    @property
    def upper(self) -> int:
        """Return the index of the box above."""

    @property
    def cables(self) -> int:
        """Return the number of cables."""

    @property
    def link_class(self) -> str:
        """Return the class of links, as results name it."""


class TopologyLayout(Protocol):
    """What :func:`simnet.topology.layout.layout` hands over."""

    @property
    def nodes(self) -> Sequence[LayoutNode]:
        """Return the boxes."""

    @property
    def links(self) -> Sequence[LayoutLink]:
        """Return the bundles of cables between them."""

    @property
    def modules(self) -> Sequence[str]:
        """Return the names of the modules; empty for a monolithic machine."""


def plot_topology(
    layout: TopologyLayout, *, utilisation: Mapping[str, float] | None = None, ax: Axes | None = None
) -> Axes:
    """Return the machine drawn by tiers; line width follows cables, line colour the busiest link's use.

    Parameters
    ----------
    layout : boxes, bundles and modules with their places.
    utilisation : class of links to the mean utilisation of its busiest link (fraction), as in
        :class:`simnet.analysis.result.LinkClassUse`; lines are grey where it is not known.
    ax : Axes to draw on; a new figure if None.
    """
    ax = ax or style.new_axes(height_in=HEIGHT_IN)
    utilisation = utilisation or {}
    style.clean(ax)
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    ax.set_xlim(-MODULE_MARGIN, 1 + MODULE_MARGIN)
    top = max(node.tier for node in layout.nodes)
    ax.set_ylim(-0.45, top + 0.3)
    ax.set_xticks([])
    _draw_modules(ax, layout)
    _draw_links(ax, layout, utilisation)
    _draw_nodes(ax, layout)
    _name_tiers(ax, layout)
    _name_bundles(ax, layout, utilisation)
    return ax


def _draw_modules(ax: Axes, layout: TopologyLayout) -> None:
    from matplotlib.patches import FancyBboxPatch

    widths = _box_widths(layout)
    for module, name in enumerate(layout.modules):
        members = [(node.x, widths[node.tier], node.tier) for node in layout.nodes if node.module == module]
        left = min(x - width / 2 for x, width, _ in members) - MODULE_MARGIN / 2
        right = max(x + width / 2 for x, width, _ in members) + MODULE_MARGIN / 2
        top = max(tier for _, _, tier in members) + BOX_HEIGHT
        frame = FancyBboxPatch(
            (left, -BOX_HEIGHT),
            right - left,
            top + BOX_HEIGHT,
            boxstyle="round,pad=0,rounding_size=0.01",
            facecolor="none",
            edgecolor=style.MODULAR,
            linewidth=1,
            label=f"module {name}",
        )
        ax.add_patch(frame)
        ax.text(
            (left + right) / 2,
            -BOX_HEIGHT - 0.04,
            name,
            ha="center",
            va="top",
            fontsize=style.SMALL_PT,
            color=style.MODULAR,
        )


def _draw_links(ax: Axes, layout: TopologyLayout, utilisation: Mapping[str, float]) -> None:
    from matplotlib.collections import LineCollection

    if not layout.links:
        return
    most = max(link.cables for link in layout.links)
    thickest_pt = max(THINNEST_PT, min(THICKEST_PT, ALL_LINKS_PT / len(layout.links)))
    lines = LineCollection(
        [
            (
                (layout.nodes[link.lower].x, layout.nodes[link.lower].tier + BOX_HEIGHT / 2),
                (layout.nodes[link.upper].x, layout.nodes[link.upper].tier - BOX_HEIGHT / 2),
            )
            for link in layout.links
        ],
        linewidths=[max(THINNEST_PT, thickest_pt * link.cables / most) for link in layout.links],
        colors=[use_colour(utilisation.get(link.link_class)) for link in layout.links],
        label="cables",
        zorder=1,
    )
    ax.add_collection(lines)


def use_colour(share: float | None) -> str:
    """Return the colour of a utilisation, grey blue for idle to red for full; grey if unknown."""
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    if share is None:
        return style.PART_COLOURS["bubble"]
    scale = LinearSegmentedColormap.from_list("use", USE_COLOURS, N=NUM_COLOURS)
    red, green, blue, _ = scale(min(max(share, 0.0), 1.0))
    return to_hex((red, green, blue))


USE_COLOURS = ("#9fb4c7", "#ddaa33", "#cc3311")
"""Idle, half full, full: lightness falls along the scale, so that it reads without hue."""


def _box_widths(layout: TopologyLayout) -> dict[int, float]:
    widths = {}
    for tier in {node.tier for node in layout.nodes}:
        places = sorted(node.x for node in layout.nodes if node.tier == tier)
        gaps = [right - left for left, right in itertools.pairwise(places) if right > left]
        widths[tier] = min(WIDEST_BOX, BOX_SHARE * min(gaps, default=1.0))
    return widths


def _draw_nodes(ax: Axes, layout: TopologyLayout) -> None:
    from matplotlib.patches import Rectangle

    widths = _box_widths(layout)
    for node in layout.nodes:
        width = widths[node.tier]
        box = Rectangle(
            (node.x - width / 2, node.tier - BOX_HEIGHT / 2),
            width,
            BOX_HEIGHT,
            facecolor=style.PAPER,
            edgecolor=style.INK,
            linewidth=0.8,
            zorder=2,
            label=node.label,
        )
        ax.add_patch(box)
        text = f"{node.count:,} × {node.label}" if node.count > 1 else node.label
        if LABEL_CHARACTER * len(text) <= width:
            ax.text(
                node.x, node.tier, text, ha="center", va="center", fontsize=style.SMALL_PT, color=style.INK, zorder=3
            )


def _name_tiers(ax: Axes, layout: TopologyLayout) -> None:
    tiers = sorted({node.tier for node in layout.nodes})
    labels = []
    for tier in tiers:
        count = sum(node.count for node in layout.nodes if node.tier == tier)
        name = TIER_NAMES[tier]
        labels.append(f"{count:,} {name if count == 1 else TIER_PLURALS.get(name, name + 's')}")
    ax.set_yticks(tiers, labels)
    ax.tick_params(axis="y", length=0)


def _name_bundles(ax: Axes, layout: TopologyLayout, utilisation: Mapping[str, float]) -> None:
    """Write cables and use of each class of links at the right edge, between the tiers that it joins."""
    classes: dict[tuple[str, float], int] = {}
    for link in layout.links:
        middle = (layout.nodes[link.lower].tier + layout.nodes[link.upper].tier) / 2
        key = (link.link_class, middle)
        classes[key] = classes.get(key, 0) + link.cables
    for (link_class, middle), cables in classes.items():
        share = utilisation.get(link_class)
        use = "" if share is None else f"\nbusiest {PERCENT * share:.0f} % used"
        ax.annotate(
            f"{cables:,} cables{use}",
            (1, middle),
            xycoords=("axes fraction", "data"),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=style.SMALL_PT,
            color=style.INK,
        )
