"""The page, figure and data of a question about collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simnet.analysis.collectives import CollectivePoint
from simnet.plot.collectives import CollectiveCurve, plot_by_ranks, plot_by_size
from simnet.plot.files import png_bytes, svg_text
from simnet.plot.style import THEME_COLOURS
from simnet.report.svg import inline_svg
from simnet.units import format_size, format_time

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEMPLATES = Path(__file__).parent.parent / "templates"
_GB, _PERCENT = 1e-9, 100
COLUMNS = ("case", "ranks", "size", "time", "algbw", "busbw", "algorithm", "wire", "hottest link", "busy %")
IS_NUMBER = (False, True, True, True, True, True, False, True, False, True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectivePage:
    """What a page says."""

    name: str
    """Name of the question."""
    question: str
    """The question."""
    reading: str
    """How to read the result."""
    answer: tuple[str, ...]
    """Sentences, the most important first."""
    points: tuple[CollectivePoint, ...]
    """Predicted calls."""
    notes: tuple[str, ...]
    """Assumptions, known errors, and where a prediction leaves the validated range."""
    version: str
    """Version of simnet."""


def point_rows(points: Sequence[CollectivePoint]) -> list[tuple[str, ...]]:
    """Return the cells of a table with the columns ``COLUMNS``; bandwidths in GB/s."""
    return [
        (
            point.case,
            f"{point.num_ranks:,}",
            format_size(point.size_bytes, binary=True),
            format_time(point.time_s),
            f"{_GB * point.size_bytes / point.time_s:.1f}",
            f"{_GB * point.busbw_bytes_per_s:.1f}",
            f"{point.algorithm}/{point.protocol}",
            format_size(point.wire_bytes, binary=True),
            point.hottest_link,
            f"{_PERCENT * point.hottest_utilisation:.0f}",
        )
        for point in points
    ]


def draw_points(points: Sequence[CollectivePoint]) -> Figure:
    """Return the figure of predicted calls: over ranks if their number varies, else over size."""
    if len({point.num_ranks for point in points}) > 1:
        axes = plot_by_ranks({op: _over_ranks([p for p in points if p.op == op]) for op in _ops(points)})
    else:
        first = _ops(points)[0]
        axes = plot_by_size(_over_size([p for p in points if p.op == first]))
    return axes[0].figure.get_figure(root=True)


def write_collective_page(page: CollectivePage, figure: Figure, directory: Path) -> list[Path]:
    """Return the paths of ``report.html`` and of the figure's files, written into a folder that exists."""
    svg = svg_text(figure)
    (directory / "collectives.svg").write_text(svg, encoding="utf-8")
    (directory / "collectives.png").write_bytes(png_bytes(figure))
    path = directory / "report.html"
    path.write_text(_html(page, svg), encoding="utf-8")
    return [path, directory / "collectives.svg", directory / "collectives.png"]


def _html(page: CollectivePage, svg: str) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    drawing = inline_svg(svg, name="collectives", title=page.question)
    return environment.get_template("collectives.html.j2").render(
        page=page,
        columns=list(zip(COLUMNS, IS_NUMBER, strict=True)),
        rows=[list(zip(row, IS_NUMBER, strict=True)) for row in point_rows(page.points)],
        figure=Markup(drawing),  # noqa: S704 (our own drawing)
        theme=THEME_COLOURS,
    )


def _ops(points: Sequence[CollectivePoint]) -> list[str]:
    return list(dict.fromkeys(point.op for point in points))


def _over_ranks(points: Sequence[CollectivePoint]) -> list[CollectiveCurve]:
    sizes = sorted({point.size_bytes for point in points}, reverse=True)
    curves = []
    for dash, size in enumerate(sizes):
        for algorithm in dict.fromkeys(point.algorithm for point in points):
            own = sorted(
                (p for p in points if (p.algorithm, p.size_bytes) == (algorithm, size)), key=lambda p: p.num_ranks
            )
            if own:
                label = f"{algorithm}, {format_size(size, binary=True)}" if len(sizes) > 1 else algorithm
                curves.append(_curve(algorithm, label, [float(p.num_ranks) for p in own], own, dash))
    return curves


def _over_size(points: Sequence[CollectivePoint]) -> list[CollectiveCurve]:
    by_case: dict[str, list[CollectivePoint]] = {}
    for point in points:
        by_case.setdefault(point.case, []).append(point)
    return [_curve(case, case, [p.size_bytes for p in own], own, 0) for case, own in by_case.items()]


def _curve(
    algorithm: str, label: str, x: Sequence[float], points: Sequence[CollectivePoint], dash: int
) -> CollectiveCurve:
    return CollectiveCurve(
        algorithm=algorithm,
        label=label,
        x=tuple(x),
        time_s=tuple(p.time_s for p in points),
        busbw_bytes_per_s=tuple(p.busbw_bytes_per_s for p in points),
        dash=dash,
    )
