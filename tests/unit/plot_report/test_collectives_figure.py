"""Figures of collectives hold what they were given."""

from __future__ import annotations

import pytest

from simnet.plot.collectives import CollectiveCurve, plot_by_ranks, plot_by_size


def curve(algorithm, x, seconds, dash=0):
    return CollectiveCurve(
        algorithm=algorithm,
        label=f"{algorithm} {dash}",
        x=tuple(x),
        time_s=tuple(seconds),
        busbw_bytes_per_s=tuple(size / time for size, time in zip(x, seconds, strict=True)),
        dash=dash,
    )


def test_curves_over_size_stand_in_two_logarithmic_panels_in_field_units():
    bandwidth, time = plot_by_size(
        [curve("ring", (2.0**20, 2.0**30), (1e-3, 2e-3))], measured=curve("measured", (2.0**20,), (3e-3,))
    )
    assert [ax.get_xscale() + ax.get_yscale() for ax in (bandwidth, time)] == ["loglog", "loglog"]
    line, points = time.lines
    assert list(line.get_ydata()) == pytest.approx([1000, 2000])
    assert (list(points.get_ydata()), points.get_linestyle()) == (pytest.approx([3000]), "None")
    assert list(bandwidth.lines[0].get_ydata()) == pytest.approx([2.0**20 / 1e-3 / 1e9, 2.0**30 / 2e-3 / 1e9])


def test_lines_of_one_algorithm_have_one_colour_in_all_panels_and_labels_do_not_touch():
    curves = [curve("ring", (512, 1024), (1.0, 1.0)), curve("ring", (512, 1024), (1.0, 1.01), 1)]
    axes = plot_by_ranks({"all_reduce": curves, "all_gather": [curve("tree", (512, 1024), (1.0, 1.0)), *curves]})
    colours = {line.get_color() for ax in axes for line in ax.lines}
    assert len(colours) == 2
    first, second = axes[0].lines
    assert (first.get_color(), first.get_linestyle()) == (second.get_color(), "-")
    assert second.get_linestyle() == "--"
    figure = axes[0].figure
    figure.draw_without_rendering()
    boxes = sorted((text.get_window_extent() for text in axes[0].texts), key=lambda box: box.y0)
    assert boxes[0].y1 <= boxes[1].y0 + 2
