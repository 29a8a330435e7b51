"""Axes of message sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simnet.units import format_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_TICKS = 6
"""More sizes than that would touch on an axis half a page wide."""
_FEW_DECADES = 1000
"""Up to that ratio of the ends of an axis there is room for 1, 2 and 5 of every decade."""


def set_size_axis(ax: Axes) -> None:
    """Make the x axis logarithmic in sizes, with binary units."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_locator(LogLocator(base=2, numticks=MOST_TICKS))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_size(value, binary=True)))
    ax.xaxis.set_minor_formatter(NullFormatter())


def set_plain_numbers(ax: Axes) -> None:
    """Write the numbers of a logarithmic y axis as they are, not as powers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = ax.get_ylim()
    if high < _FEW_DECADES * low:  # one power of ten alone would be no scale
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
