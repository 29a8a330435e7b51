"""The figures of a report, each with its caption."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from simnet.analysis.answer import ScalingCurve
from simnet.plot import style
from simnet.plot.files import png_bytes, svg_text
from simnet.plot.parity import MeasuredRow
from simnet.report.content import ReportContent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ZOOM_SHARE = 0.1
"""The close-up of the timeline shows this first share of the step."""

PAIR_HEIGHT_IN = 3.6


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFigure:
    """A drawn figure: file name without ending, what it shows, how to read it, and itself as files."""

    name: str
    title: str
    caption: str
    svg: str
    png: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """A figure still to be drawn; it travels to another process."""

    name: str
    title: str
    caption: str
    draw: Callable[[], Axes]


def draw_figures(content: ReportContent, *, executor: Executor | None = None) -> list[ReportFigure]:
    """Return every figure that the content has data for, in the order of the report.

    Parameters
    ----------
    executor : draws the figures side by side; without one they are drawn in turn.
    """
    parts = (_breakdown, _tapers, _scaling, _topology, _timeline, _validation)
    plans = [plan for part in parts for plan in part(content)]
    return list(map(_draw, plans) if executor is None else executor.map(_draw, plans))


def save_figures(figures: Iterable[ReportFigure], directory: Path) -> list[Path]:
    """Return the paths of an SVG and a PNG file of each figure, written into ``directory``, which must exist.

    Drawings of an earlier run's machines that this one has not drawn go: they belong to no report.
    """
    figures = list(figures)
    names = {figure.name for figure in figures}
    for old in (*directory.glob("topology-*.svg"), *directory.glob("topology-*.png")):
        if old.stem not in names:
            old.unlink()
    paths = []
    for figure in figures:
        vector, pixels = (directory / f"{figure.name}.{ending}" for ending in ("svg", "png"))
        vector.write_text(figure.svg, encoding="utf-8")
        pixels.write_bytes(figure.png)
        paths += [vector, pixels]
    return paths


def _draw(plan: _Plan) -> ReportFigure:
    figure = plan.draw().figure.get_figure(root=True)
    return ReportFigure(
        name=plan.name, title=plan.title, caption=plan.caption, svg=svg_text(figure), png=png_bytes(figure)
    )


def _breakdown(content: ReportContent) -> Iterator[_Plan]:
    from simnet.plot.breakdown import plot_breakdown

    yield _Plan(
        name="breakdown",
        title="Where the time of a step goes",
        caption="Seconds of one optimizer step, as the mean over all ranks. Communication counts only where "
        "compute does not hide it.",
        draw=partial(plot_breakdown, content.results),
    )


def _tapers(content: ReportContent) -> Iterator[_Plan]:
    from simnet.plot.taper import plot_taper

    if content.answer.tapers:
        yield _Plan(
            name="taper",
            title="Step time lost as the join between subclusters thins",
            caption="A taper of 4:1 means a quarter of the full bandwidth; it rounds up to whole cables, and the axis "
            "has the taper that these give, so the line between two points is only a guide. Diamonds mark "
            "where 1 % and 5 % of the step are lost, in the colour of the traffic that is exposed there.",
            draw=partial(plot_taper, content.answer.tapers),
        )


def _scaling(content: ReportContent) -> Iterator[_Plan]:
    if content.answer.scaling:
        yield _Plan(
            name="scaling",
            title="How throughput holds up as the machine grows",
            caption="Each replica keeps its work as machines grow; where the axis says strong, the job does. "
            "Subclusters grow with the machine, their number stays. The vertical axes do not start at zero.",
            draw=partial(_scaling_pair, content.answer.scaling),
        )


def _scaling_pair(curves: Sequence[ScalingCurve]) -> Axes:
    from simnet.plot.scaling import plot_scaling

    left, right = style.new_row(2, height_in=PAIR_HEIGHT_IN)
    plot_scaling(curves, ax=left)
    return plot_scaling(curves, quantity="efficiency", ax=right)


def _topology(content: ReportContent) -> Iterator[_Plan]:
    from simnet.plot.topology import plot_topology

    uses = {
        result.name: {use.link_class: use.mean_utilisation for use in result.link_classes} for result in content.results
    }
    for order, (case, layout) in enumerate(content.layouts):
        yield _Plan(
            name=f"topology-{order + 1}",
            title=f"The machine: {case}",
            caption=""
            if order
            else "Domains and switches by tier; some that are wired alike share a box, ×6 for six. A line is all "
            "cables between two boxes: wider for more cables, from grey blue through amber to red as the busiest "
            "link of that class fills.",
            draw=partial(plot_topology, layout, utilisation=uses.get(case)),
        )


def _timeline(content: ReportContent) -> Iterator[_Plan]:
    from simnet.plot.timeline import plot_timeline

    for result in content.results:
        if result.timeline:
            end_s = max(span.end_s for span in result.timeline)
            yield _Plan(
                name="timeline",
                title=f"One step of one pipeline: {result.name}",
                caption="Each row is a pipeline stage.",
                draw=partial(plot_timeline, result.timeline),
            )
            yield _Plan(
                name="timeline-start",
                title="The same step, its beginning",
                caption="Numbers are micro-batches where the blocks are wide enough.",
                draw=partial(plot_timeline, result.timeline, window_s=(0.0, ZOOM_SHARE * end_s)),
            )
            return


def _validation(content: ReportContent) -> Iterator[_Plan]:
    if content.validation:
        yield _Plan(
            name="validation",
            title="Predicted against measured",
            caption="Published step times; the same constants for all rows of one GPU and precision.",
            draw=partial(_validation_pair, content.validation),
        )


def _validation_pair(rows: Sequence[MeasuredRow]) -> Axes:
    from simnet.plot.parity import HEIGHT_IN, plot_errors, plot_parity

    left, right = style.new_row(2, height_in=HEIGHT_IN)
    plot_parity(rows, ax=left)
    return plot_errors(rows, ax=right)
