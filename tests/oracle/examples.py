"""How many examples a property test draws: a few in CI, many under ``HYPOTHESIS_PROFILE=long``."""

from __future__ import annotations

import os

from hypothesis import settings

LONG_FACTOR = 40
"""500 examples of the engine in CI are 20,000 in a long run."""


def examples(count):
    """Settings for so many examples, or ``LONG_FACTOR`` times as many in a long run."""
    factor = LONG_FACTOR if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 1
    return settings(max_examples=count * factor)
