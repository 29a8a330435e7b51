"""A figure into the file that a user named."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from simnet.cli.output import say
from simnet.errors import Problem, SpecError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def save_picture(ax: Axes, path: Path) -> None:
    """Write the figure of some axes and say so on stderr; the ending of the file tells the format.

    Raises
    ------
    SpecError
        If no format has that ending.
    """
    from simnet.plot import style

    figure = ax.figure.get_figure(root=True)
    known = sorted(figure.canvas.get_supported_filetypes())
    if path.suffix.removeprefix(".") not in known:
        raise SpecError(Problem(message="no kind of picture", found=f'"{path}"', allowed=", ".join(known)))
    with style.save_settings():
        figure.savefig(path)
    say(f"figure: {path}", err=True)
