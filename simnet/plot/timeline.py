"""One step of one pipeline: stages as rows, micro-batches as blocks, waits as gaps with a colour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from simnet.analysis.result import Span
from simnet.plot import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW_IN = 0.46
FRAME_IN = 1.25
BLOCKS = (-0.4, 0.2)
"""Top and bottom of compute blocks around the row's middle (rows count downwards)."""

LANE = (0.26, 0.4)
"""Top and bottom of the lane of data-parallel traffic below them."""

TINTS = {"F": (0.65, 0.35), "B": (0.12, -0.3), "I": (0.12, -0.1), "W": (-0.4, -0.5)}
"""Share of white (positive) or black (negative) in the compute colour, first to last chunk, by kind of pass."""

EDGE_IN = 0.06
"""Blocks wider than this get an edge; edges of narrower ones would wash their colour out [inch]."""

WAIT_OPACITY = 0.75
LABEL_IN = 0.17
"""A block is labelled with its micro-batch if it is at least this wide [inch]."""


def plot_timeline(
    spans: Sequence[Span], *, window_s: tuple[float, float] | None = None, ax: Axes | None = None
) -> Axes:
    """Return the blocks of each stage over time [s]; empty ground is idle without a wait recorded.

    Spans labelled "F", "B", "I" and "W" are blocks, tinted by chunk; "optimizer" is its own colour; labels that
    begin with "wait" take the colour of the traffic waited for, or of the bubble;
    other spans of category "dp" are traffic and lie in the lane below.

    Parameters
    ----------
    spans : of one pipeline; see :class:`simnet.analysis.result.Span`.
    window_s : part of the step to show; all of it if None.
    ax : Axes to draw on; a new figure if None.
    """
    stages = sorted({span.stage for span in spans})
    if ax is None:
        ax = style.new_axes(height_in=FRAME_IN + ROW_IN * len(stages))
    start_s, end_s = window_s or (0.0, max(span.end_s for span in spans))
    seen = [span for span in spans if span.end_s > start_s and span.start_s < end_s]
    kinds: dict[tuple[str, str], list[Span]] = {}
    num_chunks = 1 + max(span.chunk for span in spans)
    for span in seen:
        kinds.setdefault((_kind(span), _colour(span, num_chunks)), []).append(span)
    edges_s = EDGE_IN * (end_s - start_s) / style.WIDTH_IN
    for (kind, colour), members in kinds.items():
        seconds = [span for span in members if span.end_s > span.start_s]
        if seconds:
            _draw(ax, kind, colour, seconds, edges_s=edges_s)
    ax.set_xlim(start_s, end_s)
    ax.set_ylim(stages[-1] + 0.55, stages[0] - 0.55)
    ax.set_yticks([stage + sum(BLOCKS) / 2 for stage in stages], [f"stage {stage}" for stage in stages])
    ax.set_xlabel("time since the step began [s]")
    style.clean(ax)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    _number_blocks(ax, seen, num_chunks)
    _draw_key(ax, seen, num_chunks)
    return ax


def _kind(span: Span) -> str:
    if span.label in {*TINTS, "optimizer"}:
        return span.label
    if span.label.startswith("wait"):
        return f"wait {span.category}"
    return f"traffic {span.category}"


def _colour(span: Span, num_chunks: int) -> str:
    if span.label == "optimizer":
        return style.PART_COLOURS["optimizer"]
    if span.label in TINTS:
        first, last = TINTS[span.label]
        share = max(span.chunk, 0) / max(num_chunks - 1, 1)
        return _tinted(style.PART_COLOURS["compute"], first + (last - first) * share)
    return style.TRAFFIC_COLOURS.get(span.category, style.PART_COLOURS["bubble"])


@cache  # a few tints, asked for by thousands of blocks
def _tinted(colour: str, share: float) -> str:
    from matplotlib.colors import to_hex, to_rgb

    toward = 1.0 if share > 0 else 0.0
    red, green, blue = (channel + (toward - channel) * abs(share) for channel in to_rgb(colour))
    return to_hex((red, green, blue))


def _draw(ax: Axes, kind: str, colour: str, spans: Sequence[Span], *, edges_s: float) -> None:
    """Add all spans of one look as one path: thousands of blocks stay a small picture."""
    import numpy as np
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    top, bottom = LANE if kind.startswith("traffic") else BLOCKS
    starts_s, ends_s, stages = (
        np.array(row) for row in zip(*((s.start_s, s.end_s, s.stage) for s in spans), strict=True)
    )
    across = np.stack([starts_s, ends_s, ends_s, starts_s, starts_s], axis=1)
    down = stages[:, None] + np.array([top, top, bottom, bottom, top])
    box = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    outline = Path(np.stack([across.ravel(), down.ravel()], axis=1), np.tile(np.array(box, Path.code_type), len(spans)))
    opacity = WAIT_OPACITY if kind.startswith("wait") else 1.0
    is_wide = kind in TINTS and all(span.end_s - span.start_s > edges_s for span in spans)
    patch = PathPatch(
        outline,
        facecolor=colour,
        edgecolor=style.PAPER,
        linewidth=0.6 if is_wide else 0,
        alpha=opacity,
        label=kind,
    )
    ax.add_artist(patch)  # the limits are set: add_patch would walk through every corner for them


def _number_blocks(ax: Axes, spans: Iterable[Span], num_chunks: int) -> None:
    """Write the micro-batch into blocks that are wide enough."""
    width_in = ax.figure.get_figwidth() * ax.get_position().width  # type: ignore[union-attr]
    start_s, end_s = ax.get_xlim()
    least_s = LABEL_IN * (end_s - start_s) / width_in
    for span in spans:
        middle_s = (span.start_s + span.end_s) / 2
        if span.label in TINTS and span.end_s - span.start_s >= least_s and start_s < middle_s < end_s:
            ax.text(
                middle_s,
                span.stage + sum(BLOCKS) / 2,
                str(span.micro_batch),
                ha="center",
                va="center",
                fontsize=style.SMALL_PT,
                color=style.text_colour(_colour(span, num_chunks)),
            )


_KEY_LABELS = {
    "optimizer": "optimizer",
    "wait bubble": "bubble",
    "wait pp": "waits for PP",
    "wait tp": "for TP",
    "wait cp": "for CP",
    "wait dp": "for DP",
    "traffic dp": "DP traffic",
}


def _draw_key(ax: Axes, spans: Sequence[Span], num_chunks: int) -> None:
    from matplotlib.patches import Patch

    kinds = {_kind(span): _colour(span, num_chunks) for span in spans}
    handles = []
    names = {"F": "forward", "B": "backward", "I": "backward of inputs", "W": "backward of weights"}
    later = " (later chunks darker)" if num_chunks > 1 else ""
    last = "B" if "B" in kinds else "I"
    for kind, name in names.items():
        if kind in kinds:
            tints = TINTS[kind]
            handles.append(
                Patch(color=_tinted(style.PART_COLOURS["compute"], sum(tints) / 2), label=name + later * (kind == last))
            )
    handles += [
        Patch(color=kinds[kind], alpha=WAIT_OPACITY if kind.startswith("wait") else 1.0, label=label)
        for kind, label in _KEY_LABELS.items()
        if kind in kinds
    ]
    style.draw_key(ax, handles, [str(handle.get_label()) for handle in handles])
