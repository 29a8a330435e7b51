"""Step time, scaling and cost of training on GPU clusters, before they are bought."""

from __future__ import annotations

from simnet import errors

__all__ = ["errors"]
