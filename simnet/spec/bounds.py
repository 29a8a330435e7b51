"""The largest and smallest numbers that a file may hold: beyond them lies a slip, not a machine.

Every count and quantity of a spec is bounded here, so that a slipped digit is told at its line
instead of exhausting memory, and no figure leaves the range in which arithmetic is exact enough.
"""

from __future__ import annotations

MAX_COUNT = 1_000_000_000
"""Of anything that is only multiplied: tokens, widths, ports, sequences."""
MAX_TOTAL = 10**15
"""Of a whole model or training: parameters (2 x 10^12 in the largest published), sequences."""
MAX_SEED = 2**63 - 1
"""A seed is hashed as a signed 64-bit number."""
MAX_GPUS = 4_000_000
"""Of a cluster; the largest that are announced have a million."""
MAX_DOMAINS = MAX_GPUS
"""Of a cluster, a unit, or a reserve."""
MAX_MODULES = 1024
"""Of a cluster; each is planned on its own, and a core that joins them has fewer ports."""
MAX_PLANES = 16
"""Of a network; 8 are built."""
MAX_PORTS = 65_536
"""Of a switch; 1,152 are built."""
MAX_LAYERS = 4096
"""Of a model, and chunks of a stage; the deepest published model has a few hundred."""
MAX_TAPER = 1_000_000
"""Down-links per up-link."""
MAX_PASSES_PER_STAGE = 20_000
"""Micro-batches times chunks that a stage runs in a step; the published run with most has 3,072."""
MAX_PASSES = 200_000
"""The same of all stages together, of which the published run with most has 49,152; they take minutes to simulate."""
MAX_KM = 100_000.0
"""Of a cable; more than twice round the Earth."""

RANGES: dict[str, tuple[str, str]] = {
    "bandwidth": ("1 kb/s", "1 Eb/s"),
    "size": ("1 B", "1 EB"),
    "time": ("0 s", "1e6 d"),
    "flops rate": ("1 MFLOP/s", "1000 EFLOP/s"),
    "power": ("0 W", "1e6 MW"),
    "money": ("0 USD", "1e6 GUSD"),
    "length": ("0 m", "100000 km"),
}
"""Smallest and largest quantity of each dimension; a machine without bandwidth, memory or compute is none."""
