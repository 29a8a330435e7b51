"""Curves of machines, alike in every figure: colour by kind, dashes by variant, names at the ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from simnet.plot import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABEL_GAP_PT = 12.0
"""Distance of two label lines beside curve ends [pt], a little over their height."""

DASHES = ("-", "--", ":", "-.")
"""By order within a kind: two curves of one kind differ in dashes, never in a second colour."""


def kind_of(label: str) -> str:
    """Return "modular" or "monolithic", whichever the label speaks of."""
    is_modular = any(word in label.lower() for word in ("modular", "subcluster", "join"))
    return "modular" if is_modular else "monolithic"


def draw_curve(ax: Axes, x: Sequence[float], y: Sequence[float], *, label: str, order: int = 0) -> None:
    """Draw one curve; monolithic is thick and below, so that an equal modular one shows on it."""
    is_modular = kind_of(label) == "modular"
    ax.plot(
        x,
        y,
        label=label,
        color=style.KIND_COLOURS[kind_of(label)],
        linewidth=1.6 if is_modular else 3.0,
        linestyle=DASHES[order % len(DASHES)],
        marker="o",
        markersize=4.0 if is_modular else 6.5,
        zorder=2.5 if is_modular else 2.2,
    )


def label_line_ends(ax: Axes, ends: Sequence[tuple[str, float, float]]) -> None:
    """Write each label [text, x, y] beside its curve's last point, apart from the others."""
    height_in = ax.figure.get_figure(root=True).get_figheight() * ax.get_position().height
    to_axes = ax.transScale + ax.transLimits  # known before any layout, unlike places on the paper
    heights = [style.POINTS_PER_INCH * height_in * float(to_axes.transform((x, y))[1]) for _, x, y in ends]
    num_lines = max(label.count("\n") + 1 for label, _, _ in ends)
    places = style.spread(heights, gap=LABEL_GAP_PT * num_lines)
    for (label, x, y), height, place in zip(ends, heights, places, strict=True):
        ax.annotate(
            label,
            (x, y),
            xytext=(9, place - height),
            textcoords="offset points",
            va="center",
            fontsize=style.SMALL_PT,
            color=style.KIND_COLOURS[kind_of(label)],
        )
