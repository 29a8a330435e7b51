"""One self-contained page: the answer first, then what it stands on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from pathlib import Path

from simnet.analysis.result import KnownError, Result
from simnet.plot.style import THEME_COLOURS
from simnet.report import tables
from simnet.report.content import ReportContent
from simnet.report.figures import ReportFigure, draw_figures, save_figures
from simnet.report.svg import inline_svg

PERCENT = 100
NO_BREAK = "\N{NO-BREAK SPACE}"
TEMPLATE_DIRECTORY = Path(__file__).parent.parent / "templates"


def render_report(content: ReportContent, *, figures: Iterable[ReportFigure] | None = None) -> str:
    """Return the HTML of the report: no request leaves the page, and it works without scripts.

    Parameters
    ----------
    figures : what :func:`draw_figures` gives for this content, if it was called before.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(TEMPLATE_DIRECTORY),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unbroken"] = lambda text: text.replace(" %", NO_BREAK + "%")
    drawn = draw_figures(content) if figures is None else figures
    inline = [
        {
            "name": figure.name,
            "title": figure.title,
            "caption": figure.caption,
            "svg": Markup(inline_svg(figure.svg, name=figure.name, title=figure.title)),  # noqa: S704 (our own drawing)
        }
        for figure in drawn
    ]
    return environment.get_template("report.html.j2").render(
        content=content,
        figures=inline,
        theme=THEME_COLOURS,
        time=tables.time_table(content.results, content.answer.references),
        machines=tables.machine_table(content.results),
        links=tables.link_table(content.results),
        validation=tables.validation_table(content.validation),
        provenance=tables.provenance_table(content.results),
        assumptions=list(dict.fromkeys(line for result in content.results for line in result.assumptions)),
        bottlenecks=_bottlenecks(content.results),
        known_errors=known_errors(content.results),
        version=content.results[0].provenance.version,
    )


def write_report(content: ReportContent, directory: Path, *, executor: Executor | None = None) -> list[Path]:
    """Return the paths of ``report.html`` and of the figure files, written into ``directory``, which must exist.

    Parameters
    ----------
    executor : draws the figures side by side; without one they are drawn in turn.
    """
    figures = draw_figures(content, executor=executor)
    page = directory / "report.html"
    page.write_text(render_report(content, figures=figures), encoding="utf-8")
    return [page, *save_figures(figures, directory)]


def _bottlenecks(results: Sequence[Result]) -> dict[str, list[str]]:
    """Return each sentence on what dominates, with the cases that it holds for."""
    sentences: dict[str, list[str]] = {}
    for result in results:
        if result.bottleneck:
            sentences.setdefault(result.bottleneck, []).append(result.name)
    return sentences


def known_errors(results: Sequence[Result]) -> list[str]:
    """Return a sentence on each kind of prediction, with the GPUs that it is about."""
    gpus: dict[KnownError, dict[str, None]] = {}
    for result in results:
        gpus.setdefault(result.known_error, {})[result.gpu] = None
    return [_error_sentence(known, " and ".join(names)) for known, names in gpus.items()]


def _error_sentence(known: KnownError, gpu: str) -> str:
    if not known.rows or math.isnan(known.median):
        return f"{gpu}: no published measurement of this kind has been compared: {known.source}."
    return (
        f"{gpu}: on {known.rows} published runs of this kind the predicted step time was off by "
        f"{PERCENT * known.median:.1f} % in the median and {PERCENT * known.p90:.1f} % at the 90th percentile "
        f"({known.source})."
    )
