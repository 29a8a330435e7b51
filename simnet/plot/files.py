"""A figure as the content of a file, drawn once: ``savefig`` draws twice."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from simnet.plot import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PNG_DPI = 144.0
"""Half as dense again as a screen's 96 dots an inch, for slides."""

FAST = 1
"""Compression level of zlib: flat colours pack well at once."""


def svg_text(figure: Figure) -> str:
    """Return a figure as an SVG file; the same figure gives the same text.

    The layout is settled by it, and not worked out again when the figure is drawn in another format.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    stream = io.StringIO()
    with style.save_settings():  # the canvas draws once, ``savefig`` twice
        FigureCanvasSVG(figure).print_svg(  # type: ignore[no-untyped-call]  # its stubs leave it out
            stream, metadata={"Date": None, "Creator": None}
        )
    figure.set_layout_engine("none")
    return stream.getvalue()


def png_bytes(figure: Figure) -> bytes:
    """Return a figure as a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(PNG_DPI)
    stream = io.BytesIO()
    with style.save_settings():
        FigureCanvasAgg(figure).print_png(  # type: ignore[no-untyped-call]  # its stubs leave it out
            stream, metadata={"Software": None}, pil_kwargs={"compress_level": FAST}
        )
    return stream.getvalue()
