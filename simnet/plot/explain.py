"""A measured table against the healthy prediction and the best fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simnet.plot import style
from simnet.plot.sizes import set_plain_numbers, set_size_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from simnet.validation.explain import Explanation

HEIGHT_IN = 3.9
_MARKERS = ("o", "s", "^", "D", "v", "P")


def plot_explanation(found: Explanation, *, ax: Axes | None = None) -> Axes:
    """Return size over time [GB/s] of every row by its size: measured, healthy and under the best fault.

    Parameters
    ----------
    found : what was measured and how faults predict it; each run has a marker of its own.
    ax : Axes to draw on; a new figure if None.
    """
    ax = ax or style.new_axes(height_in=HEIGHT_IN)
    healthy = next(one for one in found.candidates if one.name == "healthy")
    best = found.candidates[0] if not found.causes else next(
        one for one in found.candidates if one.name == found.causes[0]
    )  # fmt: skip
    lines = [("healthy", healthy.predicted_s, style.MUTED, "--")]
    if best is not healthy:
        lines.append((best.title, best.predicted_s, style.MODULAR, "-"))
    runs = list(dict.fromkeys(found.run))
    for place, run in enumerate(runs):
        rows = sorted((row for row, own in enumerate(found.run) if own == run), key=lambda row: found.size_bytes[row])
        sizes = [found.size_bytes[row] for row in rows]
        marker = _MARKERS[place % len(_MARKERS)]
        for name, times, colour, dash in lines:
            ax.plot(sizes, [_rate(found.size_bytes[row], times[row]) for row in rows], dash, color=colour,
                    marker=marker, markersize=4, markerfacecolor="none", label=f"{name}, {run}")  # fmt: skip
        ax.plot(sizes, [_rate(found.size_bytes[row], found.measured_s[row]) for row in rows], linestyle="none",
                marker=marker, color=style.INK, markersize=7, label=f"measured, {run}", zorder=3)  # fmt: skip
    ax.set_yscale("log")
    ax.set_xlabel("size of the whole buffer")
    ax.set_ylabel("algorithm bandwidth [GB/s]")
    set_size_axis(ax)
    set_plain_numbers(ax)
    style.clean(ax)
    _legend(ax, [(name, colour) for name, _, colour, _ in lines], runs, found.verdict_words)
    return ax


def _rate(size_bytes: float, time_s: float) -> float:
    return size_bytes / time_s / 1e9


def _legend(ax: Axes, names: list[tuple[str, str]], runs: list[str], verdict: str) -> None:
    """Say in the margin above what colours and markers mean."""
    words = [(f"verdict: {verdict}", style.INK), ("measured (filled)", style.INK), *names]
    if len(runs) > 1:
        shapes = {"o": "●", "s": "■", "^": "▲", "D": "◆", "v": "▼", "P": "✚"}
        named = (f"{shapes[_MARKERS[place % len(_MARKERS)]]} {run}" for place, run in enumerate(runs))
        words.append(("  ".join(named), style.MUTED))
    for line, (word, colour) in enumerate(words):
        ax.annotate(
            word,
            (0, 1),
            xytext=(8, 14 * (len(words) - line) - 6),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=style.SMALL_PT,
            color=colour,
            fontweight="bold" if line == 0 else "normal",
        )
