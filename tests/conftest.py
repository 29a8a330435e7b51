"""Settings that hold for all tests."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

os.environ.setdefault("MPLBACKEND", "Agg")
settings.register_profile("simnet", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("simnet")
