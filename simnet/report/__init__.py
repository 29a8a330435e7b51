"""What a person takes away: the page, the figure files and the rows of the terminal table."""

from __future__ import annotations

from simnet.report.content import ReportContent
from simnet.report.figures import ReportFigure, draw_figures, save_figures
from simnet.report.page import known_errors, render_report, write_report
from simnet.report.terminal import TerminalTable, breakdown_table, legend, terminal_table

__all__ = [
    "ReportContent",
    "ReportFigure",
    "TerminalTable",
    "breakdown_table",
    "draw_figures",
    "known_errors",
    "legend",
    "render_report",
    "save_figures",
    "terminal_table",
    "write_report",
]
