"""The figures of a report, each with its caption."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simnet.report.content import ReportContent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PNG_DPI = 144.0
"""Half as dense again as a screen's 96 dots an inch, for slides."""

ZOOM_SHARE = 0.12
"""The close-up of the timeline shows this first share of the step."""

PAIR_HEIGHT_IN = 3.6


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFigure:
    """A drawn figure: file name without ending, what it shows, how to read it."""

    name: str
    title: str
    caption: str
    ax: Axes


def draw_figures(content: ReportContent) -> Iterator[ReportFigure]:
    """Yield every figure that the content has data for, in the order of the report."""
    yield from _breakdown(content)
    yield from _tapers(content)
    yield from _scaling(content)
    yield from _topology(content)
    yield from _timeline(content)
    yield from _validation(content)


def save_figures(
    figures: Iterable[ReportFigure], directory: Path, *, endings: Sequence[str] = ("svg", "png")
) -> list[Path]:
    """Return the paths of the figure files written into ``directory``, which must exist."""
    from simnet.plot import style

    paths = []
    for figure in figures:
        for ending in endings:
            path = directory / f"{figure.name}.{ending}"
            metadata = {"Date": None, "Creator": None} if ending == "svg" else {"Software": None}
            with style.save_settings():
                figure.ax.figure.get_figure(root=True).savefig(path, dpi=PNG_DPI, metadata=metadata)
            paths.append(path)
    return paths


def _breakdown(content: ReportContent) -> Iterator[ReportFigure]:
    from simnet.plot.breakdown import plot_breakdown

    yield ReportFigure(
        name="breakdown",
        title="Where the time of a step goes",
        caption="Seconds of one optimizer step on the critical rank. Communication counts only where compute "
        "does not hide it.",
        ax=plot_breakdown(content.results),
    )


def _tapers(content: ReportContent) -> Iterator[ReportFigure]:
    from simnet.plot.taper import plot_taper

    if content.answer.tapers:
        yield ReportFigure(
            name="taper",
            title="Step time lost as the join between subclusters thins",
            caption="A taper of 4:1 means a quarter of the full bandwidth; it rounds up to whole cables, and the axis "
            "has the taper that these give. Diamonds mark where 1 % and 5 % of the step are lost, in the colour of "
            "the traffic that is exposed there.",
            ax=plot_taper(content.answer.tapers),
        )


def _scaling(content: ReportContent) -> Iterator[ReportFigure]:
    from simnet.plot import style
    from simnet.plot.scaling import plot_scaling

    if content.answer.scaling:
        left, right = style.new_row(2, height_in=PAIR_HEIGHT_IN)
        plot_scaling(content.answer.scaling, ax=left)
        plot_scaling(content.answer.scaling, quantity="efficiency", ax=right)
        yield ReportFigure(
            name="scaling",
            title="How throughput holds up as the machine grows",
            caption="The vertical axes do not start at zero.",
            ax=left,
        )


def _topology(content: ReportContent) -> Iterator[ReportFigure]:
    from simnet.plot.topology import plot_topology

    uses = {
        result.name: {use.link_class: use.mean_utilisation for use in result.link_classes} for result in content.results
    }
    for order, (case, layout) in enumerate(content.layouts):
        yield ReportFigure(
            name=f"topology-{order + 1}",
            title=f"The machine: {case}",
            caption="Domains and switches by tier. A line is all cables between two boxes: wider for more cables, from "
            "grey blue through amber to red as the busiest link of that class fills.",
            ax=plot_topology(layout, utilisation=uses.get(case)),
        )


def _timeline(content: ReportContent) -> Iterator[ReportFigure]:
    from simnet.plot.timeline import plot_timeline

    for result in content.results:
        if result.timeline:
            end_s = max(span.end_s for span in result.timeline)
            yield ReportFigure(
                name="timeline",
                title=f"One step of one pipeline: {result.name}",
                caption="Each row is a pipeline stage.",
                ax=plot_timeline(result.timeline),
            )
            yield ReportFigure(
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
        yield ReportFigure(
            name="validation",
            title="Predicted against measured",
            caption="Published step times; the same constants for all rows of one GPU and precision.",
            ax=left,
        )
