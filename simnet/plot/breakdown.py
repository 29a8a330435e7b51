"""Where the time of a step goes, case by case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from simnet.analysis.result import BREAKDOWN_PARTS, Result
from simnet.plot import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW_IN = 0.33
FRAME_IN = 1.15
"""Height of a bar with its gap, and of key, axis and labels together [inch]."""

BAR_SHARE = 0.72
ROOM_FOR_TOTALS = 1.22
"""Axis length over the longest bar: room for the total beside it."""

LABEL_SHARE = 0.045
"""A part is labelled inside the bar if it takes this share of the axis (four digits at 9 pt)."""


def plot_breakdown(results: Sequence[Result], *, ax: Axes | None = None) -> Axes:
    """Return horizontal stacked bars of step time [s], one per case, from a zero baseline.

    Parameters
    ----------
    results : cases in the order in which they shall stand, top to bottom.
    ax : Axes to draw on; a new figure of fitting height if None.
    """
    if ax is None:
        ax = style.new_axes(height_in=FRAME_IN + ROW_IN * len(results))
    right_s = ROOM_FOR_TOTALS * max(result.step_time_s for result in results)
    ax.set_xlim(0, right_s)
    ax.set_ylim(len(results) - 0.5, -0.5)
    for row, result in enumerate(results):
        _draw_bar(ax, row, result, right_s)
    ax.set_yticks(range(len(results)), [result.name for result in results])
    ax.set_xlabel("step time [s]")
    style.clean(ax)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    _draw_key(ax, [part for part in BREAKDOWN_PARTS if _is_seen(part, results, right_s)])
    return ax


def _draw_bar(ax: Axes, row: int, result: Result, right_s: float) -> None:
    left_s = 0.0
    for part in BREAKDOWN_PARTS:
        seconds = result.breakdown_s[part]
        colour = style.PART_COLOURS[part]
        ax.barh(row, seconds, left=left_s, height=BAR_SHARE, color=colour, label=part)
        if seconds >= LABEL_SHARE * right_s:
            ax.text(
                left_s + seconds / 2,
                row,
                f"{seconds:.2f}",
                ha="center",
                va="center",
                fontsize=style.SMALL_PT,
                color=style.text_colour(colour),
            )
        left_s += seconds
    ax.annotate(
        f"{result.step_time_s:.2f} s, {result.num_gpus:,} GPUs",
        (result.step_time_s, row),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        fontsize=style.SMALL_PT,
        color=style.INK,
    )


def _is_seen(part: str, results: Sequence[Result], right_s: float) -> bool:
    """Return whether any bar shows the part at all (a thousandth of the axis is a pixel)."""
    return any(result.breakdown_s[part] * 1000 >= right_s for result in results)


def _draw_key(ax: Axes, parts: Sequence[str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=style.PART_COLOURS[part]) for part in parts]
    style.draw_key(ax, handles, [style.PART_LABELS[part] for part in parts])
