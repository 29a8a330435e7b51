"""What a thinner join between modules costs, and where the knee is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from simnet.analysis.answer import Knee, TaperCurve, TaperPoint
from simnet.plot import style
from simnet.plot.curves import draw_curve, label_line_ends

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEIGHT_IN = 4.0
PERCENT = 100
LEAST_TOP_PERCENT = 7.0
"""The loss axis reaches at least here, so that the knees of 1 % and 5 % are on it."""

LOG_FROM_PERCENT = 40.0
"""Losses beyond this would press the knees flat: the axis turns logarithmic above 10 %."""

LINEAR_UP_TO_PERCENT = 10.0
TICK_RATIO = 1.4
"""Tapers nearer than this ratio share one tick label (three lines of 9 pt need the room)."""


def plot_taper(curves: Sequence[TaperCurve], *, ax: Axes | None = None) -> Axes:
    """Return the loss of step time [%] by effective taper, with the knees marked.

    Step times [s] stand at the first and the last point of each curve. The horizontal axis is the
    taper that whole cables give; the tick labels add the taper asked for and the cables of the first curve.

    Parameters
    ----------
    curves : one per layout, the one of interest first.
    ax : Axes to draw on; a new figure if None.
    """
    ax = ax or style.new_axes(height_in=HEIGHT_IN)
    ax.set_xscale("log", base=2)
    _set_loss_axis(ax, [PERCENT * point.loss for curve in curves for point in curve.points])
    for order, curve in enumerate(curves):
        tapers = [point.effective_taper for point in curve.points]
        losses = [PERCENT * point.loss for point in curve.points]
        draw_curve(ax, tapers, losses, label=curve.label, order=order)
    for loss in sorted({knee.loss for curve in curves for knee in curve.knees}):
        ax.axhline(PERCENT * loss, color=style.MUTED, linewidth=1, linestyle=":", zorder=1)
    for curve in curves:
        for knee in curve.knees:
            _mark_knee(ax, knee)
    _set_taper_ticks(ax, curves[0])
    style.clean(ax, grid="y")
    label_line_ends(ax, [_end(curve) for curve in curves])
    return ax


def _end(curve: TaperCurve) -> tuple[str, float, float]:
    last = curve.points[-1]
    label = f"{curve.label}\n{curve.reference_step_time_s:.3f} → {last.step_time_s:.3f} s"
    return label, last.effective_taper, PERCENT * last.loss


def _set_loss_axis(ax: Axes, losses: Sequence[float]) -> None:
    top = max(LEAST_TOP_PERCENT, 1.15 * max(losses))
    ax.set_ylabel("step time lost [%]")
    if top <= LOG_FROM_PERCENT:
        ax.set_ylim(min(0, *losses) - 0.03 * top, top)
        return
    from matplotlib.ticker import FuncFormatter

    ax.set_yscale("symlog", linthresh=LINEAR_UP_TO_PERCENT, linscale=1)
    ax.set_ylim(min(0, *losses) - 0.3, top)
    ticks = [0, 1, 5, 10, *(10 * factor for factor in (2, 5, 10, 20, 50, 100) if 10 * factor <= top)]
    ax.set_yticks(ticks)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.minorticks_off()


def _mark_knee(ax: Axes, knee: Knee) -> None:
    if math.isnan(knee.effective_taper):
        return
    loss = PERCENT * knee.loss
    colour = style.TRAFFIC_COLOURS.get(knee.traffic, style.INK)
    ax.plot([knee.effective_taper], [loss], marker="D", markersize=8, color=colour, label="knee", zorder=4)
    ax.vlines(knee.effective_taper, ax.get_ylim()[0], loss, color=colour, linewidth=1, linestyle=":", zorder=1)
    where = (
        f"{knee.effective_taper:.3g}:1"
        if math.isnan(knee.beyond_taper)
        else f"{knee.within_taper:.3g} to {knee.beyond_taper:.3g}:1"
    )
    traffic = f", {knee.traffic.upper()} traffic" if knee.traffic else ""
    ax.annotate(
        f"{where}{traffic}",
        (knee.effective_taper, loss),
        xytext=(-9, 6),
        textcoords="offset points",
        ha="right",
        fontsize=style.SMALL_PT,
        color=style.INK,
        bbox={"facecolor": style.PAPER, "edgecolor": "none", "pad": 1},  # another knee's line may pass behind
        zorder=5,
    )


def _set_taper_ticks(ax: Axes, curve: TaperCurve) -> None:
    shown: list[TaperPoint] = []
    for point in curve.points:
        if not shown or point.effective_taper >= TICK_RATIO * shown[-1].effective_taper:
            shown.append(point)
    ax.set_xticks([point.effective_taper for point in shown], [_tick_label(point) for point in shown])
    ax.minorticks_off()
    ax.set_xlabel(f"effective taper of the join (asked for; cables in {curve.label})")


def _tick_label(point: TaperPoint) -> str:
    return f"{point.effective_taper:.3g}:1\n({point.taper:g}:1)\n{point.num_cables:,}"
