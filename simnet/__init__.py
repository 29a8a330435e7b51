"""Step time, scaling and cost of training on GPU clusters, before they are bought.

The whole public door is ``__all__``; everything else may change without notice.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from simnet import errors
from simnet.version import __version__ as __version__

if TYPE_CHECKING:
    from simnet.analysis.result import Result
    from simnet.runner import run, sweep
    from simnet.runner.collective import simulate_collective
    from simnet.spec.load import load_scenario
    from simnet.topology import build_cluster

__all__ = ["Result", "build_cluster", "errors", "load_scenario", "run", "simulate_collective", "sweep"]

_HOMES = {
    "Result": "simnet.analysis.result",
    "build_cluster": "simnet.topology",
    "load_scenario": "simnet.spec.load",
    "run": "simnet.runner",
    "simulate_collective": "simnet.runner.collective",
    "sweep": "simnet.runner",
}
"""Where each name lives; imported when first asked for, so that ``simnet --help`` stays quick."""


def __getattr__(name: str) -> object:
    """Return a public name from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module 'simnet' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
