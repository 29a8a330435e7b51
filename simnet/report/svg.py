"""A figure as inline SVG: small, accessible, and in the colours of the page's theme."""

from __future__ import annotations

import re
from html import escape

from simnet.plot import style

_ROOT = re.compile(r"<svg\b[^>]*>")
_VIEW_BOX = re.compile(r'viewBox="([^"]+)"')
_FONT = re.compile(r"(?P<head>font(?:-family)?: [^;\"]*?)'DejaVu Sans'[^;\"]*")
_STYLE = re.compile(r"<defs>\s*<style.*?</style>\s*</defs>\s*", re.DOTALL)
"""Its rule is for all elements, of the page too; the page has it for figures alone."""
_METADATA = re.compile(r"<metadata>.*?</metadata>\s*", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->\s*", re.DOTALL)


def inline_svg(text: str, *, name: str, title: str) -> str:
    """Return an SVG file as an ``<svg>`` element for a page that defines the theme's colours.

    Parameters
    ----------
    text : what :func:`simnet.plot.files.svg_text` returns.
    name : prefix of the element ids, so that figures on one page do not share any.
    title : what the figure shows, for screen readers.
    """
    text = _STYLE.sub("", _METADATA.sub("", _COMMENT.sub("", text[text.index("<svg") :])))
    view_box = _VIEW_BOX.search(text)
    width = view_box.group(1).split()[2] if view_box else ""
    head = (
        f'<svg class="figure" viewBox="{view_box.group(1) if view_box else ""}" role="img" '
        f'aria-label="{escape(title)}" style="max-width:{width}pt" xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    for reference in (' id="', "url(#", 'href="#'):
        text = text.replace(reference, f"{reference}{name}-")
    text = _ROOT.sub(head, text, count=1)
    text = _FONT.sub(lambda match: f"{match.group('head')}var(--sans)", text)
    for role, colour in style.THEME_COLOURS.items():
        text = text.replace(colour, f"var(--{role})")
    return text
