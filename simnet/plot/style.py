"""One look for all figures: one colour per meaning, safe for colour-blind eyes, on light and dark.

Colours are Paul Tol's "bright" and "vibrant" schemes (https://personal.sron.nl/~pault/), chosen to
stay apart under the common colour deficiencies and to read on white and on near-black paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

INK = "#1f2329"
MUTED = "#667078"
GRID = "#d9dee3"
PAPER = "#fefefe"

PART_COLOURS = {
    "compute": "#4477aa",
    "optimizer": "#66ccee",
    "exposed_tp": "#ccbb44",
    "exposed_cp": "#aa3377",
    "exposed_pp": "#228833",
    "exposed_dp": "#ee6677",
    "bubble": "#b5b9bd",
}
PART_LABELS = {
    "compute": "compute",
    "exposed_tp": "exposed TP",
    "exposed_cp": "exposed CP",
    "exposed_pp": "exposed PP",
    "exposed_dp": "exposed DP",
    "bubble": "pipeline bubble",
    "optimizer": "optimizer",
}
TRAFFIC_COLOURS = {name: PART_COLOURS[f"exposed_{name}"] for name in ("tp", "cp", "pp", "dp")}

MONOLITHIC = INK
MODULAR = "#7357c0"
THEME_COLOURS = {"ink": INK, "muted": MUTED, "grid": GRID, "paper": PAPER, "modular": MODULAR}
"""Colours that the report replaces by those of its light or dark theme."""

KIND_COLOURS = {"monolithic": MONOLITHIC, "modular": MODULAR}
GENERATION_COLOURS = {"ampere": "#994455", "hopper": "#ee7733", "blackwell": "#009988"}
GENERATION_MARKERS = {"ampere": "^", "hopper": "s", "blackwell": "o"}
_GENERATION_BY_PREFIX = {
    "a100": "ampere",
    "h100": "hopper",
    "h200": "hopper",
    "gh200": "hopper",
    "b200": "blackwell",
    "b300": "blackwell",
    "gb200": "blackwell",
    "gb300": "blackwell",
}

FONT_PT = 10.0
HEAD_PT = 11.5
SMALL_PT = 9.0
"""No text is smaller: 9 pt is 12 px at the size that figures have in the report."""

WIDTH_IN = 9.4
"""Figure width that is 902 px wide at 96 px an inch, the text width of the report."""

POINTS_PER_INCH = 72.0
"""Typographic points in an inch."""


def new_axes(*, height_in: float, width_in: float = WIDTH_IN) -> Axes:
    """Return the Axes of a new figure that no global state knows of."""
    return new_row(1, height_in=height_in, width_in=width_in)[0]


def new_row(num_axes: int, *, height_in: float, width_in: float = WIDTH_IN) -> Sequence[Axes]:
    """Return ``num_axes`` Axes side by side in a new figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), layout="constrained", facecolor=PAPER)
    return [figure.add_subplot(1, num_axes, place + 1) for place in range(num_axes)]


@contextmanager
def save_settings() -> Iterator[None]:
    """Hold the settings under which the same figure gives the same bytes, and text stays text."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "simnet", "path.simplify": False}):
        yield


def clean(ax: Axes, *, title: str = "", grid: str = "") -> None:
    """Take the box away, mute the ticks, and set title and light grid lines ("x" or "y")."""
    ax.set_facecolor(PAPER)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(MUTED)
    ax.tick_params(colors=MUTED, labelcolor=INK, labelsize=SMALL_PT, length=3)
    ax.xaxis.label.set(color=INK, size=FONT_PT)
    ax.yaxis.label.set(color=INK, size=FONT_PT)
    if title:
        ax.set_title(title, loc="left", fontsize=FONT_PT, color=INK, fontweight="bold")
    if grid:
        ax.grid(axis="x" if grid == "x" else "y", color=GRID, linewidth=0.8)
        ax.set_axisbelow(True)


def draw_key(ax: Axes, handles: Sequence[Artist], labels: Sequence[str]) -> None:
    """Name the colours once, in one line above the axes, in the order of the stack."""
    ax.legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=len(labels),
        frameon=False,
        fontsize=SMALL_PT,
        labelcolor=INK,
        handlelength=1,
        handleheight=1,
        columnspacing=1.2,
        handletextpad=0.4,
        borderaxespad=0,
    )


def generation(gpu: str) -> str:
    """Return the architecture of a GPU name ("GB200 NVL72" is "blackwell"), "" if unknown."""
    words = gpu.lower().replace("-", " ").replace("_", " ").split()
    found = [_GENERATION_BY_PREFIX[word] for word in words if word in _GENERATION_BY_PREFIX]
    return found[0] if found else ""


def text_colour(background: str) -> str:
    """Return black or white, whichever stands out more on ``background`` (WCAG luminance)."""
    from matplotlib.colors import to_rgb

    linear = [
        channel / _SRGB_SLOPE
        if channel <= _SRGB_KNEE
        else ((channel + _SRGB_OFFSET) / (1 + _SRGB_OFFSET)) ** _SRGB_GAMMA
        for channel in to_rgb(background)
    ]
    luminance = sum(weight * value for weight, value in zip(_LUMINANCE, linear, strict=True))
    return "#000000" if luminance > _EQUAL_CONTRAST else "#ffffff"


# https://www.w3.org/TR/WCAG21/#dfn-relative-luminance
_SRGB_KNEE, _SRGB_SLOPE, _SRGB_OFFSET, _SRGB_GAMMA = 0.04045, 12.92, 0.055, 2.4
_LUMINANCE = (0.2126, 0.7152, 0.0722)
_EQUAL_CONTRAST = 0.179  # here black and white give the same contrast ratio


def spread(wanted: Sequence[float], *, gap: float) -> list[float]:
    """Return positions at least ``gap`` apart, in the order of ``wanted`` and near it.

    Groups that collide are spread around their mean, as labels beside line ends should be.
    """
    order = sorted(range(len(wanted)), key=lambda index: (wanted[index], index))
    blocks: list[list[float]] = []  # [centre, count]
    for index in order:
        blocks.append([wanted[index], 1])
        while len(blocks) > 1 and _overlap(blocks[-2], blocks[-1], gap):
            last, first = blocks.pop(), blocks.pop()
            count = first[1] + last[1]
            blocks.append([(first[0] * first[1] + last[0] * last[1]) / count, count])
    placed = [centre + (step - (count - 1) / 2) * gap for centre, count in blocks for step in range(int(count))]
    result = [0.0] * len(wanted)
    for index, place in zip(order, placed, strict=True):
        result[index] = place
    return result


def _overlap(lower: list[float], upper: list[float], gap: float) -> bool:
    return upper[0] - (upper[1] - 1) / 2 * gap < lower[0] + (lower[1] - 1) / 2 * gap + gap
