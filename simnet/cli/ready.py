"""What a worker process does before its first case comes."""

from __future__ import annotations


def get_ready() -> None:
    """Import the runner and read the constants that every case needs."""
    import simnet.runner
    from simnet.spec.collectives import load_collectives
    from simnet.spec.compute import load_compute

    assert simnet.runner
    load_collectives("hopper")
    load_compute()
