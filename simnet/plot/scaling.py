"""How throughput holds up as the machine grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from simnet.analysis.answer import ScalingCurve
from simnet.plot import style
from simnet.plot.curves import draw_curve, kind_of, label_line_ends

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Quantity = Literal["tokens_per_s_per_gpu", "efficiency"]

HEIGHT_IN = 3.6
TOP_OF_SHARE = 1.005
"""Upper end of an efficiency axis when no point lies above one."""

HEADROOM = 0.25
"""Free space above and below the lines, as a share of their range."""

SMALLEST_RANGE = 0.1
"""The axis spans at least this share of the largest value, so that a flat line looks flat."""

TICK_RATIO = 1.25
"""Sizes nearer than this ratio share one tick label."""


def plot_scaling(
    curves: Sequence[ScalingCurve],
    *,
    quantity: Quantity = "tokens_per_s_per_gpu",
    ax: Axes | None = None,
) -> Axes:
    """Return one line per curve: throughput of each GPU [tokens/s], or efficiency [%], by GPUs.

    Parameters
    ----------
    curves : monolithic first; later curves are drawn thinner, on top, so that equal ones show.
    quantity : what the vertical axis shows.
    ax : Axes to draw on; a new figure if None.
    """
    ax = ax or style.new_axes(height_in=HEIGHT_IN)
    scale = 100 if quantity == "efficiency" else 1
    lines = [
        (
            curve,
            [point.num_gpus for point in curve.points],
            [scale * getattr(point, quantity) for point in curve.points],
        )
        for curve in curves
    ]
    ax.set_xscale("log", base=2)
    kinds = [kind_of(curve.label) for curve in curves]
    for place, (curve, sizes, values) in enumerate(lines):
        draw_curve(ax, sizes, values, label=curve.label, order=kinds[:place].count(kinds[place]))
    _set_limits(ax, [value for _, _, values in lines for value in values], scale=scale)
    _set_size_ticks(ax, sorted({size for _, sizes, _ in lines for size in sizes}))
    ax.set_ylabel(_axis_label(curves, quantity))
    style.clean(ax, grid="y")
    label_line_ends(ax, [(curve.label, sizes[-1], values[-1]) for curve, sizes, values in lines])
    return ax


def _set_limits(ax: Axes, values: Sequence[float], *, scale: float) -> None:
    low, high = min(values), max(values)
    span = max(high - low, SMALLEST_RANGE * high)
    middle = (low + high) / 2
    reach = span * (0.5 + HEADROOM)
    is_share_below_one = scale > 1 and high <= scale
    ax.set_ylim(
        max(0, middle - reach), min(middle + reach, TOP_OF_SHARE * scale) if is_share_below_one else middle + reach
    )


def _set_size_ticks(ax: Axes, sizes: Sequence[int]) -> None:
    shown: list[int] = []
    for size in reversed(sizes):
        if not shown or shown[-1] >= TICK_RATIO * size:
            shown.append(size)
    ax.set_xticks(shown, [f"{size:,}" for size in shown])
    ax.minorticks_off()
    ax.set_xlabel("GPUs")


def _axis_label(curves: Sequence[ScalingCurve], quantity: Quantity) -> str:
    if quantity == "tokens_per_s_per_gpu":
        return "throughput of each GPU [tokens/s]"
    kinds = ", ".join(dict.fromkeys(curve.kind for curve in curves))
    baselines = "; ".join(dict.fromkeys(curve.baseline for curve in curves))
    return f"{kinds} scaling efficiency [%]\nof {baselines}"
