"""The figures of a report, each with its caption."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simnet.report.content import ReportContent
from simnet.report.svg import svg_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PNG_DPI = 144.0
"""Half as dense again as a screen's 96 dots an inch, for slides."""

FAST = 1
"""Compression level of zlib: flat colours pack well at once."""

ZOOM_SHARE = 0.1
"""The close-up of the timeline shows this first share of the step."""

PAIR_HEIGHT_IN = 3.6


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFigure:
    """A drawn figure: file name without ending, what it shows, how to read it, and itself as an SVG file."""

    name: str
    title: str
    caption: str
    ax: Axes
    svg: str


def draw_figures(content: ReportContent) -> list[ReportFigure]:
    """Return every figure that the content has data for, in the order of the report."""
    parts = (_breakdown, _tapers, _scaling, _topology, _timeline, _validation)
    return [figure for part in parts for figure in part(content)]


def _figure(ax: Axes, *, name: str, title: str, caption: str) -> ReportFigure:
    return ReportFigure(name=name, title=title, caption=caption, ax=ax, svg=svg_text(ax))


def save_figures(figures: Iterable[ReportFigure], directory: Path) -> list[Path]:
    """Return the paths of an SVG and a PNG file of each figure, written into ``directory``, which must exist."""
    from simnet.plot import style

    paths = []
    for figure in figures:
        vector, pixels = (directory / f"{figure.name}.{ending}" for ending in ("svg", "png"))
        vector.write_text(figure.svg, encoding="utf-8")
        with style.save_settings():
            figure.ax.figure.get_figure(root=True).savefig(
                pixels, dpi=PNG_DPI, metadata={"Software": None}, pil_kwargs={"compress_level": FAST}
            )
        paths += [vector, pixels]
    return paths


def _breakdown(content: ReportContent) -> Iterator[ReportFigure]:
    from simnet.plot.breakdown import plot_breakdown

    yield _figure(
        name="breakdown",
        title="Where the time of a step goes",
        caption="Seconds of one optimizer step, as the mean over all ranks. Communication counts only where "
        "compute does not hide it.",
        ax=plot_breakdown(content.results),
    )


def _tapers(content: ReportContent) -> Iterator[ReportFigure]:
    from simnet.plot.taper import plot_taper

    if content.answer.tapers:
        yield _figure(
            name="taper",
            title="Step time lost as the join between subclusters thins",
            caption="A taper of 4:1 means a quarter of the full bandwidth; it rounds up to whole cables, and the axis "
            "has the taper that these give, so the line between two points is only a guide. Diamonds mark "
            "where 1 % and 5 % of the step are lost, in the colour of the traffic that is exposed there.",
            ax=plot_taper(content.answer.tapers),
        )


def _scaling(content: ReportContent) -> Iterator[ReportFigure]:
    from simnet.plot import style
    from simnet.plot.scaling import plot_scaling

    if content.answer.scaling:
        left, right = style.new_row(2, height_in=PAIR_HEIGHT_IN)
        plot_scaling(content.answer.scaling, ax=left)
        plot_scaling(content.answer.scaling, quantity="efficiency", ax=right)
        yield _figure(
            name="scaling",
            title="How throughput holds up as the machine grows",
            caption="Each replica keeps its work as machines grow; where the axis says strong, the job does. "
            "Subclusters grow with the machine, their number stays. The vertical axes do not start at zero.",
            ax=left,
        )


def _topology(content: ReportContent) -> Iterator[ReportFigure]:
    from simnet.plot.topology import plot_topology

    uses = {
        result.name: {use.link_class: use.mean_utilisation for use in result.link_classes} for result in content.results
    }
    for order, (case, layout) in enumerate(content.layouts):
        yield _figure(
            name=f"topology-{order + 1}",
            title=f"The machine: {case}",
            caption=""
            if order
            else "Domains and switches by tier. A line is all cables between two boxes: wider for more cables, from "
            "grey blue through amber to red as the busiest link of that class fills.",
            ax=plot_topology(layout, utilisation=uses.get(case)),
        )


def _timeline(content: ReportContent) -> Iterator[ReportFigure]:
    from simnet.plot.timeline import plot_timeline

    for result in content.results:
        if result.timeline:
            end_s = max(span.end_s for span in result.timeline)
            yield _figure(
                name="timeline",
                title=f"One step of one pipeline: {result.name}",
                caption="Each row is a pipeline stage.",
                ax=plot_timeline(result.timeline),
            )
            yield _figure(
                name="timeline-start",
                title="The same step, its beginning",
                caption="Numbers are micro-batches where the blocks are wide enough.",
                ax=plot_timeline(result.timeline, window_s=(0.0, ZOOM_SHARE * end_s)),
            )
            return


def _validation(content: ReportContent) -> Iterator[ReportFigure]:
    from simnet.plot import style
    from simnet.plot.parity import HEIGHT_IN, plot_errors, plot_parity

    if content.validation:
        left, right = style.new_row(2, height_in=HEIGHT_IN)
        plot_parity(content.validation, ax=left)
        plot_errors(content.validation, ax=right)
        yield _figure(
            name="validation",
            title="Predicted against measured",
            caption="Published step times; the same constants for all rows of one GPU and precision.",
            ax=left,
        )
