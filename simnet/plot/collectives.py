"""Collectives over size or over the number of ranks, by algorithm, with measured points over them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simnet.plot import style
from simnet.plot.sizes import set_plain_numbers, set_size_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GB, _US = 1e-9, 1e6
HEIGHT_IN = 4.2
ALGORITHM_COLOURS = ("#4477aa", "#ee6677", "#228833", "#aa3377", "#ccbb44", "#009988", "#ee7733", "#66ccee")
"""Paul Tol's "bright" and "vibrant" schemes, in the order in which algorithms first come."""
_DASHES = ("-", "--", ":", "-.")
_MOST_LETTERS = 95
"""Letters of a headline that fit into a line."""
_LABEL_PT = 11
"""Least distance between two labels at the ends of lines [points]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveCurve:
    """One line."""

    algorithm: str
    """What runs; lines of one have one colour."""
    label: str
    """What is written at the end of the line."""
    x: tuple[float, ...]
    """Sizes [bytes] or numbers of ranks."""
    time_s: tuple[float, ...]
    """Time of each."""
    busbw_bytes_per_s: tuple[float, ...]
    """Bus bandwidth of each."""
    dash: int = 0
    """Which kind of line, where a figure has several of one algorithm; over sizes, how much thicker."""


def plot_by_size(
    curves: Sequence[CollectiveCurve],
    *,
    measured: CollectiveCurve | None = None,
    headline: str = "",
    axes: Sequence[Axes] | None = None,
) -> Sequence[Axes]:
    """Return two Axes, log-log: bus bandwidth and time of each algorithm by size, measured points over them."""
    bandwidth, time = axes or style.new_row(2, height_in=HEIGHT_IN)
    if headline:
        bandwidth.figure.get_figure(root=True).suptitle(
            textwrap.fill(headline, _MOST_LETTERS), x=0.01, ha="left", fontsize=style.HEAD_PT
        )
    colours = _colours(curves)
    for curve in curves:
        look = {"color": colours[curve.algorithm], "linewidth": 1.5 + curve.dash}
        bandwidth.plot(curve.x, [_GB * value for value in curve.busbw_bytes_per_s], **look)  # type: ignore[arg-type]
        time.plot(curve.x, [_US * value for value in curve.time_s], **look)  # type: ignore[arg-type]
    if measured is not None:
        shape = {"linestyle": "none", "marker": "o", "markersize": 4, "color": style.INK, "zorder": 3}
        bandwidth.plot(measured.x, [_GB * value for value in measured.busbw_bytes_per_s], **shape)  # type: ignore[arg-type]
        time.plot(measured.x, [_US * value for value in measured.time_s], **shape)  # type: ignore[arg-type]
    for ax, title in ((bandwidth, "bus bandwidth [GB/s]"), (time, "time [µs]")):
        ax.set_yscale("log")
        ax.set_xlabel("size of the whole buffer")
        style.clean(ax, title=title, grid="y")
        set_size_axis(ax)
        set_plain_numbers(ax)
    words = [(curve.label, colours[curve.algorithm]) for curve in curves]
    _list(bandwidth, words if measured is None else [*words, ("● measured", style.INK)])
    return bandwidth, time


def _list(ax: Axes, words: Sequence[tuple[str, str]]) -> None:
    """Write the labels one above the other where no line is: all end close together at the largest size."""
    for line, (text, colour) in enumerate(reversed(words)):
        ax.annotate(
            text,
            (0.98, 0.04),
            xycoords="axes fraction",
            xytext=(0, line * (_LABEL_PT + 2)),
            textcoords="offset points",
            ha="right",
            fontsize=style.SMALL_PT,
            color=colour,
        )


def plot_by_ranks(
    panels: dict[str, Sequence[CollectiveCurve]], *, axes: Sequence[Axes] | None = None
) -> Sequence[Axes]:
    """Return an Axes an operation: bus bandwidth of each algorithm by number of ranks."""
    axes = axes or style.new_row(len(panels), height_in=HEIGHT_IN)
    colours = _colours([curve for curves in panels.values() for curve in curves])
    for ax, (title, curves) in zip(axes, panels.items(), strict=True):
        for curve in curves:
            ax.plot(
                curve.x,
                [_GB * value for value in curve.busbw_bytes_per_s],
                _DASHES[curve.dash % len(_DASHES)],
                color=colours[curve.algorithm],
                marker="o",
                markersize=3,
            )
        ax.set_xscale("log", base=2)
        ax.set_ylim(bottom=0)
        ax.set_xlabel("ranks")
        ax.set_ylabel("bus bandwidth [GB/s]" if ax is axes[0] else "")
        style.clean(ax, title=title, grid="y")
        _rank_ticks(ax, sorted({x for curve in curves for x in curve.x}))
        _label_ends(ax, [(c.label, c.x[-1], _GB * c.busbw_bytes_per_s[-1], colours[c.algorithm]) for c in curves])
    return axes


def _colours(curves: Sequence[CollectiveCurve]) -> dict[str, str]:
    names = list(dict.fromkeys(curve.algorithm for curve in curves))
    return {name: ALGORITHM_COLOURS[place % len(ALGORITHM_COLOURS)] for place, name in enumerate(names)}


def _label_ends(ax: Axes, ends: Sequence[tuple[str, float, float, str]]) -> None:
    """Write each label beside the end of its line, moved up where two would touch."""
    figure = ax.figure.get_figure(root=True)
    figure.draw_without_rendering()
    points = [(ax.transData.transform((x, y))[1] * style.POINTS_PER_INCH / figure.dpi, text, x, y, colour)
              for text, x, y, colour in ends]  # fmt: skip
    last = float("-inf")
    for height, text, x, y, colour in sorted(points):
        place = max(height, last + _LABEL_PT)
        last = place
        ax.annotate(
            text,
            (x, y),
            xytext=(5, place - height),
            textcoords="offset points",
            va="center",
            fontsize=style.SMALL_PT,
            color=colour,
            annotation_clip=False,
        )


def _rank_ticks(ax: Axes, ranks: Sequence[float]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    ax.xaxis.set_major_locator(FixedLocator(list(ranks)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
