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

GAP_BEFORE_TOTAL = 0.006
"""Space between a bar and its total, as a share of the axis."""

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
    _draw_bars(ax, results, right_s)
    ax.set_yticks(range(len(results)), [result.name for result in results])
    ax.set_xlabel("step time [s]")
    style.clean(ax)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    _draw_key(ax, [part for part in BREAKDOWN_PARTS if _is_seen(part, results, right_s)])
    return ax


def _draw_bars(ax: Axes, results: Sequence[Result], right_s: float) -> None:
    """Draw one part after the other, from all bars' left ends to their right ones."""
    lefts_s = [0.0] * len(results)
    for part in BREAKDOWN_PARTS:
        lengths_s = [result.breakdown_s[part] for result in results]
        colour = style.PART_COLOURS[part]
        ax.barh(range(len(results)), lengths_s, left=lefts_s, height=BAR_SHARE, color=colour, label=part)
        for row, (left_s, length_s) in enumerate(zip(lefts_s, lengths_s, strict=True)):
            if length_s >= LABEL_SHARE * right_s:
                _write(ax, f"{length_s:.2f}", left_s + length_s / 2, row, style.text_colour(colour), ha="center")
        lefts_s = [left_s + length_s for left_s, length_s in zip(lefts_s, lengths_s, strict=True)]
    for row, result in enumerate(results):
        _write(
            ax,
            f"{result.step_time_s:.2f} s, {result.num_gpus:,} GPUs",
            result.step_time_s + GAP_BEFORE_TOTAL * right_s,
            row,
            style.INK,
            ha="left",
        )


def _write(ax: Axes, text: str, x: float, row: int, colour: str, *, ha: str) -> None:
    ax.text(x, row, text, ha=ha, va="center", fontsize=style.SMALL_PT, color=colour)


def _is_seen(part: str, results: Sequence[Result], right_s: float) -> bool:
    """Return whether any bar shows the part at all (a thousandth of the axis is a pixel)."""
    return any(result.breakdown_s[part] * 1000 >= right_s for result in results)


def _draw_key(ax: Axes, parts: Sequence[str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=style.PART_COLOURS[part]) for part in parts]
    style.draw_key(ax, handles, [style.PART_LABELS[part] for part in parts])
