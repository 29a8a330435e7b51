"""Time and memory of fair sharing and of flows over time. Counts are asserted, seconds only printed.

Seconds are CPU seconds of this process: two builders on two cores must not change the figure.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from simnet.engine.fluid import FlowSet, run_flows
from simnet.sharing.max_min import max_min_rates
from tests.bench.patterns import all_to_all, random_routes, three_tier_permutation
from tests.oracle.fair_sharing import dense, why_unfair

pytestmark = pytest.mark.benchmark(timer=time.process_time, warmup=False)
MEBIBYTE = 2**20
PEER = Path(__file__).with_name("simgrid_peer.py")


def peak_mib(work):
    """Most memory that the work held beyond what was there before [MiB]."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / MEBIBYTE
    finally:
        tracemalloc.stop()


PATTERNS = {"three tiers, hashed": (three_tier_permutation, 12), "random links": (random_routes, 60)}
"""Pattern and a generous bound on the rounds of filling, which grow with the logarithm of the size."""


@pytest.mark.parametrize("num_flows", [16_384, 98_304])
@pytest.mark.parametrize(("pattern", "max_rounds"), PATTERNS.values(), ids=PATTERNS.keys())
def test_fair_rates(benchmark, pattern, max_rounds, num_flows):
    capacity, routes = pattern(num_flows)
    benchmark.extra_info["peak_mib"] = round(peak_mib(lambda: max_min_rates(capacity, routes)), 1)
    rates = benchmark.pedantic(max_min_rates, (capacity, routes), rounds=15)
    assert routes.num_flows == num_flows
    assert rates.rounds <= max_rounds
    used = np.bincount(routes.link, weights=np.repeat(rates.rate, np.diff(routes.indptr)), minlength=len(capacity))
    assert (used <= capacity * (1 + 1e-9)).all()


def test_the_patterns_get_fair_rates():
    # The same patterns small enough for the definition to be checked link by link.
    for pattern, _ in PATTERNS.values():
        capacity, routes = pattern(1024)
        rate = max_min_rates(capacity, routes).rate
        usage = dense(routes, len(capacity))
        assert not why_unfair(capacity, usage, np.full(1024, np.inf), np.ones(1024), rate)


# Everyone sends 1,023 messages of 1 MB through a NIC of 50 GB/s. With 8 spines for 32 hosts of a leaf, a leaf's
# trunk to a spine carries 32 hosts' messages to the 992 / 8 = 124 hosts elsewhere that use it.
FULL_S = 1023 * 1e6 / 50e9
TAPERED_S = 32 * 124 * 1e6 / 50e9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_spines", "in_rounds", "num_solves", "seconds"),
    [(32, False, 1, FULL_S), (8, False, 2, TAPERED_S), (32, True, 1023, FULL_S)],
    ids=["at once", "at once, tapered 4:1", "in rounds"],
)
def test_all_to_all_over_1024_ranks(benchmark, num_spines, in_rounds, num_solves, seconds):
    flows, capacity = all_to_all(1024, num_spines, in_rounds=in_rounds)
    if benchmark.enabled:
        benchmark.extra_info["peak_mib"] = round(peak_mib(lambda: run_flows(flows, capacity)))
    found = benchmark.pedantic(run_flows, (flows, capacity), rounds=1)
    assert len(found.finish_s) == 1_047_552
    assert found.num_solves == num_solves
    assert found.finish_s.max() == pytest.approx(seconds, rel=1e-9)


def test_simgrid_finds_the_same_finish_times(benchmark):
    # A peer, no dependency: CPU seconds of the run alone, printed side by side; SimGrid's hold a thread for each flow.
    python = _with_simgrid()
    num_flows, size_bytes = 1024, 1e9
    capacity, routes = random_routes(num_flows)
    zero, none = np.zeros(num_flows), np.zeros(0, dtype=np.int64)
    flows = FlowSet(
        routes=routes,
        size_bytes=np.full(num_flows, size_bytes),
        start_s=zero,
        latency_s=zero,
        after_indptr=np.zeros(num_flows + 1, dtype=np.int64),
        after=none,
    )
    found = benchmark.pedantic(run_flows, (flows, capacity), rounds=3)
    links = np.split(routes.link, routes.indptr[1:-1])
    case = {"capacity": capacity.tolist(), "routes": [own.tolist() for own in links], "size_bytes": size_bytes}
    ran = subprocess.run([python, str(PEER)], input=json.dumps(case), capture_output=True, text=True, check=True)
    peer = json.loads(ran.stdout)
    benchmark.extra_info["simgrid_seconds"] = peer["seconds"]
    np.testing.assert_allclose(found.finish_s, peer["finish_s"], rtol=1e-9)


def _with_simgrid():
    """Return a Python that has SimGrid, or skip."""
    for python in (sys.executable, shutil.which("python3", path="/usr/bin")):
        if python and not subprocess.run([python, "-c", "import simgrid"], capture_output=True, check=False).returncode:
            return python
    return pytest.skip("SimGrid is not installed (Debian: python3-simgrid)")
