"""Figures say what the data say; tests read artists, not pixels."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch

from simnet.analysis.answer import Answer
from simnet.analysis.result import BREAKDOWN_PARTS, Result, Span
from simnet.plot import style
from simnet.plot.breakdown import plot_breakdown
from simnet.plot.parity import MeasuredRow, plot_errors, plot_parity
from simnet.plot.scaling import plot_scaling
from simnet.plot.taper import plot_taper
from simnet.plot.timeline import plot_timeline
from simnet.plot.topology import plot_topology, use_colour


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_each_function_draws_on_the_axes_it_is_given(
    cases: list[Result], answer: Answer, rows: list[MeasuredRow], timeline: tuple[Span, ...], layout: object
) -> None:
    for draw in (
        lambda ax: plot_breakdown(cases, ax=ax),
        lambda ax: plot_scaling(answer.scaling, ax=ax),
        lambda ax: plot_taper(answer.tapers, ax=ax),
        lambda ax: plot_timeline(timeline, ax=ax),
        lambda ax: plot_parity(rows, ax=ax),
        lambda ax: plot_errors(rows, ax=ax),
        lambda ax: plot_topology(layout, ax=ax),  # type: ignore[arg-type]
    ):
        ax = Figure().add_subplot()
        assert draw(ax) is ax


@pytest.mark.parametrize("name", ["breakdown", "taper", "scaling", "efficiency", "timeline", "errors", "topology"])
def test_text_is_at_least_nine_points_and_nothing_overlaps(
    name: str,
    cases: list[Result],
    answer: Answer,
    rows: list[MeasuredRow],
    timeline: tuple[Span, ...],
    layout: object,
    reads_well: Callable[[Axes], None],
) -> None:
    reads_well(
        {
            "breakdown": lambda: plot_breakdown(cases),
            "taper": lambda: plot_taper(answer.tapers),
            "scaling": lambda: plot_scaling(answer.scaling),
            "efficiency": lambda: plot_scaling(answer.scaling, quantity="efficiency"),
            "timeline": lambda: plot_timeline(timeline),
            "errors": lambda: plot_errors(rows),
            "topology": lambda: plot_topology(layout, utilisation={"join": 0.5}),  # type: ignore[arg-type]
        }[name]()
    )


def test_bars_stack_from_zero_to_the_step_time(cases: list[Result]) -> None:
    ax = plot_breakdown(cases)
    assert ax.get_xlim()[0] == 0
    for row, result in enumerate(cases):
        own = [container[row] for container in ax.containers]  # type: ignore[index]
        assert [bar.get_width() for bar in own] == pytest.approx([result.breakdown_s[part] for part in BREAKDOWN_PARTS])
        assert own[0].get_x() == 0
        assert own[-1].get_x() + own[-1].get_width() == pytest.approx(result.step_time_s)


def test_the_first_case_stands_on_top_and_the_axis_has_its_unit(cases: list[Result]) -> None:
    ax = plot_breakdown(cases)
    assert ax.get_ylim()[0] > ax.get_ylim()[1]
    assert ax.get_yticklabels()[0].get_text() == cases[0].name
    assert "[s]" in ax.get_xlabel()


def test_a_part_has_the_same_colour_in_every_figure(cases: list[Result], answer: Answer) -> None:
    bars = {bars.get_label(): bars[0].get_facecolor() for bars in plot_breakdown(cases).containers}  # type: ignore[index]
    assert set(bars) == set(BREAKDOWN_PARTS)
    knees = [line for line in plot_taper(answer.tapers).lines if line.get_label() == "knee"]
    assert {to_hex(line.get_color()) for line in knees} == {to_hex(bars["exposed_dp"])}


def test_meanings_have_distinct_colours() -> None:
    colours = [*style.PART_COLOURS.values(), *style.KIND_COLOURS.values(), *style.GENERATION_COLOURS.values()]
    assert len(set(colours)) == len(colours)


@pytest.mark.parametrize("quantity", ["tokens_per_s_per_gpu", "efficiency"])
def test_scaling_lines_hold_the_points(answer: Answer, quantity: str) -> None:
    ax = plot_scaling(answer.scaling, quantity=quantity)  # type: ignore[arg-type]
    factor = 100 if quantity == "efficiency" else 1
    for line, curve in zip(ax.lines, answer.scaling, strict=True):
        assert list(line.get_xdata()) == [point.num_gpus for point in curve.points]
        assert list(line.get_ydata()) == pytest.approx([factor * getattr(point, quantity) for point in curve.points])
    assert "[" in ax.get_ylabel()
    assert {curve.label for curve in answer.scaling} <= set(texts(ax))


def test_efficiency_names_its_baseline_and_whether_it_is_weak_or_strong(answer: Answer) -> None:
    label = plot_scaling(answer.scaling, quantity="efficiency").get_ylabel()
    assert "weak" in label
    assert "monolithic, 64 GPUs" in label


def test_taper_curve_stands_at_the_effective_taper_and_in_percent(answer: Answer) -> None:
    curve = answer.tapers[0]
    line = plot_taper([curve]).lines[0]
    assert list(line.get_xdata()) == [point.effective_taper for point in curve.points]
    assert list(line.get_ydata()) == pytest.approx([100 * point.loss for point in curve.points])


def test_knees_are_marked_where_they_are_and_say_in_which_traffic(answer: Answer) -> None:
    ax = plot_taper(answer.tapers[:1])
    knees = [line for line in ax.lines if line.get_label() == "knee"]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in knees] == [(8.7, 1.0), (21.0, 5.0)]  # type: ignore[index]
    assert "8.7:1, DP traffic" in texts(ax)


def test_a_knee_outside_the_range_is_not_drawn(answer: Answer) -> None:
    curve = answer.tapers[0]
    missing = tuple(replace(knee, taper=math.nan, effective_taper=math.nan) for knee in curve.knees)
    ax = plot_taper([replace(curve, knees=missing)])
    assert not [line for line in ax.lines if line.get_label() == "knee"]


def test_large_losses_leave_the_knees_apart(answer: Answer) -> None:
    assert plot_taper(answer.tapers[:1]).get_yscale() == "linear"
    assert plot_taper(answer.tapers).get_yscale() == "symlog"


def test_timeline_has_a_box_for_every_span_at_its_stage_and_time(timeline: tuple[Span, ...]) -> None:
    ax = plot_timeline(timeline)
    patches = [patch for patch in ax.patches if isinstance(patch, PathPatch)]
    assert sum(len(patch.get_path().vertices) // 5 for patch in patches) == sum(
        span.end_s > span.start_s for span in timeline
    )
    (optimizer,) = [patch for patch in patches if patch.get_label() == "optimizer"]
    spans = [span for span in timeline if span.label == "optimizer"]
    starts = optimizer.get_path().vertices[::5]
    assert [round(float(y)) for _, y in starts] == [span.stage for span in spans]  # type: ignore[misc]
    assert [x for x, _ in starts] == pytest.approx([span.start_s for span in spans])  # type: ignore[misc]


def test_traffic_lies_in_a_lane_of_its_own_below_the_blocks(timeline: tuple[Span, ...]) -> None:
    patches = {patch.get_label(): patch for patch in plot_timeline(timeline).patches}
    lane = patches["traffic dp"].get_path().get_extents()
    blocks = patches["F"].get_path().get_extents()
    assert lane.y0 % 1 > blocks.y1 % 1


def test_a_window_shows_only_its_part_of_the_step(timeline: tuple[Span, ...]) -> None:
    ax = plot_timeline(timeline, window_s=(0.0, 0.1))
    assert ax.get_xlim() == (0.0, 0.1)
    assert "optimizer" not in {patch.get_label() for patch in ax.patches}


def test_parity_holds_predicted_over_measured_by_generation(rows: list[MeasuredRow]) -> None:
    ax = plot_parity(rows)
    hopper = next(line for line in ax.lines if line.get_label() == "hopper")
    own = [row for row in rows if row.gpu in {"H100", "H200"}]
    assert list(hopper.get_xdata()) == [row.measured_s for row in own]
    assert list(hopper.get_ydata()) == [row.predicted_s for row in own]


def test_errors_show_misses_outside_the_band(rows: list[MeasuredRow]) -> None:
    ends = [line.get_xdata()[1] for line in plot_errors(rows).lines if len(line.get_xdata()) == 2][1:]  # type: ignore[arg-type,index]
    assert ends == pytest.approx([100 * row.error for row in rows])
    assert min(ends) == pytest.approx(-9.4)


def test_topology_draws_a_line_for_each_bundle_wider_for_more_cables(layout: object) -> None:
    ax = plot_topology(layout, utilisation={"join": 1.0})  # type: ignore[arg-type]
    (lines,) = [found for found in ax.collections if isinstance(found, LineCollection)]
    widths = list(lines.get_linewidths())  # type: ignore[arg-type]
    assert len(widths) == 16
    assert widths[0] == pytest.approx(4 * widths[-1])
    assert {to_hex(colour) for colour in lines.get_colors()} == {use_colour(None), use_colour(1.0)}  # type: ignore[union-attr]


def test_topology_counts_its_tiers_and_cables(layout: object) -> None:
    ax = plot_topology(layout, utilisation={"join": 0.5})  # type: ignore[arg-type]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["6 racks", "4 leaves", "4 cores"]
    assert {"192 cables", "16 cables\nbusiest 50 % used", "m0", "m1"} <= set(texts(ax))


def test_topology_puts_domains_into_one_box_until_they_can_be_labelled(layout: object) -> None:
    racks = [replace(layout.nodes[0], label=str(place), x=(place + 0.5) / 39, module=0) for place in range(39)]  # type: ignore[attr-defined]
    leaves = [replace(layout.nodes[3], label=f"rail {rail}", x=(rail + 0.5) / 4, count=39) for rail in range(4)]  # type: ignore[attr-defined]
    links = [replace(layout.links[0], lower=rack, upper=39 + leaf) for rack in range(39) for leaf in range(4)]  # type: ignore[attr-defined]
    crowded = replace(layout, nodes=(*racks, *leaves), links=tuple(links), modules=())  # type: ignore[type-var]
    ax = plot_topology(crowded)  # type: ignore[arg-type]
    (lines,) = [found for found in ax.collections if isinstance(found, LineCollection)]
    assert len(lines.get_segments()) == 13 * 4
    assert texts(ax).count("×3") == 13
    assert [label.get_text() for label in ax.get_yticklabels()] == ["39 racks", "156 leaves"]
    assert f"{39 * 4 * 16:,} cables" in texts(ax)


def test_topology_keeps_domains_apart_that_are_wired_to_different_leaves(layout: object) -> None:
    racks = [replace(layout.nodes[0], label="racks", count=2, x=(place + 0.5) / 64, module=0) for place in range(64)]  # type: ignore[attr-defined]
    leaves = [replace(layout.nodes[3], label=f"l{half}", x=0.25 + 0.5 * half) for half in range(2)]  # type: ignore[attr-defined]
    links = [replace(layout.links[0], lower=rack, upper=64 + rack // 32) for rack in range(64)]  # type: ignore[attr-defined]
    ax = plot_topology(replace(layout, nodes=(*racks, *leaves), links=tuple(links), modules=()))  # type: ignore[arg-type,type-var]
    (lines,) = [found for found in ax.collections if isinstance(found, LineCollection)]
    ends = [segment[1][0] for segment in lines.get_segments()]
    assert ends == sorted(ends)
    assert set(ends) == {0.25, 0.75}
    assert len(ends) < 64


def test_labels_spread_apart_and_keep_their_order() -> None:
    assert style.spread([0.0, 100.0], gap=10) == [0.0, 100.0]
    assert style.spread([5.0, 5.0, 5.0], gap=10) == [-5.0, 5.0, 15.0]
    assert style.spread([20.0, 0.0, 4.0], gap=10) == pytest.approx([20.0, -3.0, 7.0])


def test_generation_of_a_gpu_by_its_name() -> None:
    assert [style.generation(name) for name in ("GB200 NVL72", "H200", "A100-80GB", "unknown")] == [
        "blackwell",
        "hopper",
        "ampere",
        "",
    ]


def test_importing_plots_does_not_import_matplotlib() -> None:
    code = "import sys, simnet.plot.topology, simnet.plot.taper, simnet.report; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
