"""Predicted against measured: how far the tool can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simnet.plot import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEIGHT_IN = 4.4
ROW_IN = 0.24
FRAME_IN = 1.0
PERCENT = 100
BAND = 0.08
"""The tolerance that issue and README promise for a published step time (fraction)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRow:
    """One published measurement beside its prediction [s]; ``error`` is predicted over measured - 1."""

    id: str
    gpu: str
    num_gpus: int
    predicted_s: float
    measured_s: float
    source: str = ""

    @property
    def error(self) -> float:
        """Return the relative error (fraction, positive when predicted too slow)."""
        return self.predicted_s / self.measured_s - 1


def plot_parity(rows: Sequence[MeasuredRow], *, band: float = BAND, ax: Axes | None = None) -> Axes:
    """Return predicted step time [s] against measured [s], with the line of equality and its band.

    Parameters
    ----------
    rows : measurements, coloured and marked by generation of GPU.
    band : half width of the band around equality (fraction).
    ax : Axes to draw on; a new figure if None.
    """
    ax = ax or style.new_axes(height_in=HEIGHT_IN, width_in=HEIGHT_IN)
    times = [time for row in rows for time in (row.predicted_s, row.measured_s)]
    ends = [min(times) / 1.3, max(times) * 1.3]
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.fill_between(
        ends,
        [end * (1 - band) for end in ends],
        [end * (1 + band) for end in ends],
        color=style.GRID,
        linewidth=0,
        label="band",
    )
    ax.plot(ends, ends, color=style.MUTED, linewidth=1, label="equal")
    for name, group in _by_generation(rows).items():
        ax.plot(
            [row.measured_s for row in group],
            [row.predicted_s for row in group],
            linestyle="none",
            marker=style.GENERATION_MARKERS.get(name, "D"),
            color=style.GENERATION_COLOURS.get(name, style.INK),
            label=name,
        )
    ax.set_xlim(*ends)
    ax.set_ylim(*ends)
    ax.set_xlabel("measured step time [s]")
    ax.set_ylabel("predicted step time [s]")
    _plain_log_ticks(ax)
    style.clean(ax)
    _name_generations(ax, list(_by_generation(rows)), band)
    return ax


def plot_errors(rows: Sequence[MeasuredRow], *, band: float = BAND, ax: Axes | None = None) -> Axes:
    """Return the error [%] of each row as a dot beside its name and size, misses included."""
    ax = ax or style.new_axes(height_in=FRAME_IN + ROW_IN * len(rows))
    reach = 1.15 * PERCENT * max(band, *(abs(row.error) for row in rows))
    ax.axvspan(-PERCENT * band, PERCENT * band, color=style.GRID, linewidth=0, zorder=0)
    ax.axvline(0, color=style.MUTED, linewidth=1)
    for place, row in enumerate(rows):
        name = style.generation(row.gpu)
        colour = style.GENERATION_COLOURS.get(name, style.INK)
        ax.plot(
            [0, PERCENT * row.error],
            [place, place],
            color=colour,
            linewidth=1.5,
            marker=style.GENERATION_MARKERS.get(name, "D"),
            markevery=[1],
            label=row.id,
        )
    ax.set_xlim(-reach, reach)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    machines = [f"{row.num_gpus:,} × {row.gpu}" for row in rows]
    names = [row.id if machines.count(name) > 1 else name for row, name in zip(rows, machines, strict=True)]
    ax.set_yticks(range(len(rows)), names)
    ax.set_xlabel(f"error of the step time [%], band ±{PERCENT * band:g} %")
    style.clean(ax)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    return ax


def _by_generation(rows: Sequence[MeasuredRow]) -> dict[str, list[MeasuredRow]]:
    groups: dict[str, list[MeasuredRow]] = {}
    for row in rows:
        groups.setdefault(style.generation(row.gpu) or row.gpu, []).append(row)
    return groups


def _plain_log_ticks(ax: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


def _name_generations(ax: Axes, names: Sequence[str], band: float) -> None:
    """Name markers and band in the free corner above the line of equality."""
    words = [(name.capitalize(), style.GENERATION_COLOURS.get(name, style.INK)) for name in names]
    words.append((f"band: ±{PERCENT * band:g} %", style.MUTED))
    for line, (word, colour) in enumerate(words):
        ax.annotate(
            word,
            (0, 1),
            xytext=(8, -14 - 14 * line),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=style.SMALL_PT,
            color=colour,
            fontweight="bold" if word != words[-1][0] else "normal",
        )
