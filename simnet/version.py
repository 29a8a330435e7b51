"""The version of simnet, a part of every result's provenance."""

from __future__ import annotations

__version__ = "0.1.0"
