"""Step time, scaling and cost of training on GPU clusters, before they are bought."""

from __future__ import annotations

from simnet import errors

__version__ = "0.1.0"

__all__ = ["errors"]
