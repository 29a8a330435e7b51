"""The machine by tiers: domains below, switches above, modules side by side under their join."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from simnet.plot import style
from simnet.plot.crowded import thin_out

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

LABEL_MARGIN = 1
"""Room beside a label in its box [characters]."""

NUM_COLOURS = 256
PLURALS = {"leaf": "leaves", "join switch": "join switches"}
MODULE_MARGIN = 0.012


class LayoutNode(Protocol):
    """A domain, a switch, or a group of alike ones, at its place in the drawing."""

    @property
    def kind(self) -> str:
        """Return what the box is, in the singular, e.g. "rack" or "leaf"."""

    @property
    def label(self) -> str:
        """Return the name to write into the box."""

    @property
    def tier(self) -> int:
        """Return 0 for domains, 1 for leaves, 2 for spines, 3 for cores, 4 for what joins modules."""

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
        """Return the index of the box below; of the same tier for a link between two modules."""

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

    Neighbouring domains that are wired alike share a box where there are too many to tell apart.

    Parameters
    ----------
    layout : boxes, bundles and modules with their places.
    utilisation : class of links to the mean utilisation of its busiest link (fraction), as in
        :class:`simnet.analysis.result.LinkClassUse`; lines are grey where it is not known.
    ax : Axes to draw on; a new figure if None.
    """
    ax = ax or style.new_axes(height_in=HEIGHT_IN)
    utilisation = utilisation or {}
    layout = thin_out(layout, _can_be_labelled)
    style.clean(ax)
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    ax.set_xlim(-MODULE_MARGIN, 1 + MODULE_MARGIN)
    ax.set_ylim(-0.45 if layout.modules else -0.2, len(_rows(layout)) - 0.7)
    ax.set_xticks([])
    _draw_modules(ax, layout)
    _draw_links(ax, layout, utilisation)
    _draw_nodes(ax, layout)
    _name_tiers(ax, layout)
    _name_bundles(ax, layout, utilisation)
    return ax


def _rows(layout: TopologyLayout) -> dict[int, int]:
    """Return the height of each tier; a tier that the machine does not have leaves no gap."""
    return {tier: row for row, tier in enumerate(sorted({node.tier for node in layout.nodes}))}


def _draw_modules(ax: Axes, layout: TopologyLayout) -> None:
    from matplotlib.patches import FancyBboxPatch

    widths, rows = _box_widths(layout), _rows(layout)
    for module, name in enumerate(layout.modules):
        members = [(node.x, widths[node.tier], rows[node.tier]) for node in layout.nodes if node.module == module]
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
    rows = _rows(layout)
    colours = {name: use_colour(utilisation.get(name)) for name in {link.link_class for link in layout.links}}
    thickest_pt = max(THINNEST_PT, min(THICKEST_PT, ALL_LINKS_PT / len(layout.links)))
    lines = LineCollection(
        [_course(layout, link, rows) for link in layout.links],
        linewidths=[max(THINNEST_PT, thickest_pt * link.cables / most) for link in layout.links],
        colors=[colours[link.link_class] for link in layout.links],
        label="cables",
        zorder=1,
    )
    ax.add_collection(lines)


def _course(layout: TopologyLayout, link: LayoutLink, rows: Mapping[int, int]) -> list[tuple[float, float]]:
    """Return the points of a bundle; one between equal tiers goes over the top."""
    one, two = layout.nodes[link.lower], layout.nodes[link.upper]
    if one.tier == two.tier:
        over = rows[one.tier] + 2 * BOX_HEIGHT
        return [(one.x, rows[one.tier]), (one.x, over), (two.x, over), (two.x, rows[two.tier])]
    return [(one.x, rows[one.tier] + BOX_HEIGHT / 2), (two.x, rows[two.tier] - BOX_HEIGHT / 2)]


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
    tiers = {node.tier for node in layout.nodes}
    return {tier: _box_width([node for node in layout.nodes if node.tier == tier]) for tier in tiers}


def _box_width(row: Sequence[LayoutNode]) -> float:
    places = sorted(node.x for node in row)
    gaps = [right - left for left, right in itertools.pairwise(places) if right > left]
    return min(WIDEST_BOX, BOX_SHARE * min(gaps, default=1.0))


def _can_be_labelled(row: Sequence[LayoutNode]) -> bool:
    width = _box_width(row)
    return all(_fitting_text(node, width) for node in row)


def _draw_nodes(ax: Axes, layout: TopologyLayout) -> None:
    from matplotlib.collections import PolyCollection

    rows = _rows(layout)
    outlines = []
    for tier, height in rows.items():
        row = [node for node in layout.nodes if node.tier == tier]
        width = _box_width(row)
        top, bottom = height + BOX_HEIGHT / 2, height - BOX_HEIGHT / 2
        ends = [(node.x - width / 2, node.x + width / 2) for node in row]
        outlines += [[(left, bottom), (right, bottom), (right, top), (left, top)] for left, right in ends]
        if _can_be_labelled(row):  # some numbers without the others would puzzle
            for node in row:
                text = _fitting_text(node, width)
                ax.text(
                    node.x, height, text, ha="center", va="center", fontsize=style.SMALL_PT, color=style.INK, zorder=3
                )
    boxes = PolyCollection(
        outlines, facecolors=style.PAPER, edgecolors=style.INK, linewidths=0.8, zorder=2, label="boxes"
    )
    ax.add_collection(boxes, autolim=False)


def _fitting_text(node: LayoutNode, width: float) -> str:
    """Return the longest of the box's names that fits inside it, or nothing."""
    names = [f"{node.label}: {node.count:,}", f"×{node.count:,}"] if node.count > 1 else [node.label]
    return next((name for name in names if LABEL_CHARACTER * (len(name) + LABEL_MARGIN) <= width), "")


def _name_tiers(ax: Axes, layout: TopologyLayout) -> None:
    rows = _rows(layout)
    labels = []
    for tier in rows:
        members = [node for node in layout.nodes if node.tier == tier]
        count = sum(node.count for node in members)
        kinds = dict.fromkeys(node.kind if count == 1 else PLURALS.get(node.kind, f"{node.kind}s") for node in members)
        labels.append(f"{count:,} {' and '.join(kinds)}")
    ax.set_yticks(list(rows.values()), labels)
    ax.tick_params(axis="y", length=0)


def _name_bundles(ax: Axes, layout: TopologyLayout, utilisation: Mapping[str, float]) -> None:
    """Write cables and use of each class of links at the right edge, between the tiers that it joins."""
    rows = _rows(layout)
    classes: dict[tuple[str, float], int] = {}
    for link in layout.links:
        heights = [rows[layout.nodes[end].tier] for end in (link.lower, link.upper)]
        middle = sum(heights) / 2 if heights[0] != heights[1] else heights[0] + 2 * BOX_HEIGHT
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
