"""The exception tree.

::

    SimnetError                exit code 2: the input is wrong
    ├── SpecError              a file, an option or an override
    ├── TopologyError          a cluster that cannot be built
    │   └── NoPathError        two endpoints that no link joins
    ├── LayoutError            a job that does not divide over layers or GPUs
    ├── DoesNotFitError        exit code 1: a correct input to which the model says no
    └── PhysicsError           exit code 3: a result beats the wire or the roofline, a bug in simnet

Each error carries :class:`Problem` records, one for every fault found, so that a file is
reported in one go.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

_MAX_LISTED = 24
"""Names that one line can hold."""
_LEAST_BEGINNING = 3
"""Letters of which a longer name may be the one that was meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One fault: what is wrong, where it stands, and what would be right."""

    message: str
    """What is wrong, in one clause."""
    where: str = ""
    """``file:line:column``, or what stands in for it (``--set topology.racks=x``)."""
    path: str = ""
    """Dotted key path inside the file."""
    found: str = ""
    """The offending value."""
    allowed: str = ""
    """What is accepted there."""
    hint: str = ""
    """One suggestion."""

    def __str__(self) -> str:
        """Return the fault as one line."""
        head = " ".join(part for part in (self.where, self.path) if part)
        clauses = [self.message]
        clauses += [
            f"{label} {text}"
            for label, text in (("found", self.found), ("allowed:", self.allowed), ("hint:", self.hint))
            if text
        ]
        return (f"{head}: " if head else "") + "; ".join(clauses)


class SimnetError(Exception):
    """Root of all errors that a user can cause and mend."""

    exit_code = 2

    def __init__(self, *problems: Problem) -> None:
        """Keep the *problems* and read as one line for each of them."""
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems

    def __reduce__(self) -> tuple[type[SimnetError], tuple[Problem, ...]]:
        """Return how to rebuild the error in another process, with its problems whole."""
        return type(self), self.problems


class SpecError(SimnetError):
    """A scenario, topology, model, part or option is not valid."""


class TopologyError(SimnetError):
    """A cluster cannot be built as described."""


class NoPathError(TopologyError):
    """Two endpoints have no path between them; the message names both."""


class LayoutError(SimnetError):
    """Layers, ranks or batches do not divide as asked; the message has the arithmetic."""


class DoesNotFitError(SimnetError):
    """The job does not fit in memory; the message names the smallest degree that does."""

    exit_code = 1


class PhysicsError(SimnetError):
    """A result beats the wire, the roofline or 100 % of a peak: a bug that simnet reports on itself."""

    exit_code = 3


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint that names the known word that begins with *word*, else the nearest one, or nothing."""
    folded = {_fold(name): name for name in known}
    begun = [name for name in folded if len(word) >= _LEAST_BEGINNING and name.startswith(_fold(word))]
    near = [min(begun, key=len)] if begun else difflib.get_close_matches(_fold(word), folded, n=1)
    return f'did you mean "{folded[near[0]]}"?' if near else ""


def listed(known: Iterable[str], *, near: str = "") -> str:
    """Return names for the ``allowed`` of a problem; of very many, those most like *near*."""
    names = list(known)
    if len(names) <= _MAX_LISTED:
        return ", ".join(names)
    likest = difflib.get_close_matches(near, names, n=_MAX_LISTED // 2, cutoff=0)
    return f"{', '.join(sorted(likest))} and {len(names) - len(likest)} more"


def _fold(name: str) -> str:
    return name.lower().replace("-", "_")
