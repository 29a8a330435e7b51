"""Everything that a report shows, as one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simnet.analysis.answer import Answer
from simnet.analysis.result import Result
from simnet.plot.parity import MeasuredRow
from simnet.plot.topology import TopologyLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportContent:
    """What a report shows.

    Parameters
    ----------
    name, question, reading : of the scenario, as its file states them.
    results : cases in the order in which they shall stand; the first is the reference.
    layouts : machines to draw, each with the name of its case.
    validation : published measurements beside their predictions, misses included.
    """

    name: str
    question: str
    reading: str
    answer: Answer
    results: Sequence[Result]
    layouts: Sequence[tuple[str, TopologyLayout]] = ()
    validation: Sequence[MeasuredRow] = ()
