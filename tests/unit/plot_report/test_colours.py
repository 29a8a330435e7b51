"""Colours of one figure stay apart for colour-blind eyes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from numpy.typing import NDArray

from simnet.plot import style

# Machado, Oliveira and Fernandes 2009, doi:10.1109/TVCG.2009.113, severity 1.0, on linear sRGB.
VISION = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
XYZ = np.array(((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505)))
WHITE = XYZ.sum(axis=1)
LEAST_DIFFERENCE = 10.0  # CIE 1976; 2.3 is just noticeable side by side


def seen(colour: str, vision: str) -> NDArray[np.float64]:
    """Return the CIELAB place of a colour as an eye sees it."""
    channel = np.array(to_rgb(colour))
    linear = np.where(channel <= 0.04045, channel / 12.92, ((channel + 0.055) / 1.055) ** 2.4)
    ratio = XYZ @ np.clip(np.array(VISION[vision]) @ linear, 0, 1) / WHITE
    x, y, z = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio * 841 / 108 + 4 / 29)
    return np.array((116 * y - 16, 500 * (x - y), 200 * (y - z)))


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("colours", [style.PART_COLOURS, style.GENERATION_COLOURS, style.KIND_COLOURS])
def test_meanings_of_one_figure_stay_apart(colours: dict[str, str], vision: str) -> None:
    for one, other in itertools.combinations(colours, 2):
        difference = float(np.linalg.norm(seen(colours[one], vision) - seen(colours[other], vision)))
        assert difference > LEAST_DIFFERENCE, f"{one} and {other} differ by {difference:.1f}"


@pytest.mark.parametrize("colour", style.PART_COLOURS.values())
def test_text_on_a_coloured_bar_has_the_contrast_that_wcag_asks_for(colour: str) -> None:
    def luminance(name: str) -> float:
        channel = np.array(to_rgb(name))
        return float(np.where(channel <= 0.04045, channel / 12.92, ((channel + 0.055) / 1.055) ** 2.4) @ XYZ[1])

    low, high = sorted((luminance(colour), luminance(style.text_colour(colour))))
    assert (high + 0.05) / (low + 0.05) >= 4.5
