"""A whole step, machine included, at sizes that buyers ask for: counts are asserted, CPU seconds printed.

The step of ``reference_step.py`` on three-tier rail-optimised trees: 16,384 H100 on QM9700, 131,072 B300 on Q3400. A
defect may add at most one replica's events.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from simnet.collectives.lower import lower
from simnet.engine.executor import run_program
from simnet.runner.case import lower_on, prepare
from simnet.spec.collectives import load_collectives
from simnet.topology.build import build_cluster
from tests.bench.reference_step import reference_step
from tests.oracle.one_use import one_use

pytestmark = [pytest.mark.slow, pytest.mark.benchmark(timer=time.process_time, warmup=False)]
MEBIBYTE = 2**20
GIB = 2**30
MACHINES = {"16,384 H100": ("hgx-h100", 2048), "131,072 B300": ("hgx-b300", 16384)}
PASSES = 2 * 16 * 8 * 16
"""Passes of a replica: forward and backward of 16 micro-batches over 8 chunks of 16 stages."""
EVENTS_PER_PASS = 6
"""Computing, and begin and end of at most one gather or scatter beside it, one after it, and one send: generous."""


def simulate(case, defect=""):
    """Build, lower and run one step; ``defect`` is a degraded cable, a slow GPU, or none."""
    gc.disable()
    try:
        cluster = build_cluster(case.topology)
        if defect == "cable":
            cluster.scale_link("d5/nic0", "leaf0", 0.5)
        ready = prepare(case, cluster)
        program = lower_on(ready, cluster.compile(routing=case.routing, seed=case.seed)).program
        if defect == "gpu":
            slowdown = program.slowdown.copy()
            slowdown[5] = 1.1
            program = replace(program, slowdown=slowdown)
        return run_program(program)
    finally:
        gc.enable()


@pytest.fixture(scope="module", params=MACHINES.values(), ids=MACHINES.keys())
def case(request, tmp_path_factory):
    topology, nodes = request.param
    one = reference_step(tmp_path_factory.mktemp("large"), topology, nodes)
    prepare(one)  # reads the catalogue once
    return one


@pytest.mark.parametrize("defect", ["", "cable", "gpu"], ids=["healthy", "one cable at half", "one GPU 10 % slower"])
def test_a_405b_step(benchmark, case, defect):
    trace = benchmark.pedantic(simulate, (case, defect), rounds=1)
    replicas = 1 if not defect else 2
    assert trace.num_classes <= replicas * 16
    assert trace.num_events <= replicas * PASSES * EVENTS_PER_PASS
    benchmark.extra_info |= {"events": trace.num_events, "solves": trace.num_solves, "classes": trace.num_classes}
    benchmark.extra_info["step_time_s"] = trace.step_time_s


@pytest.mark.parametrize("algorithm", ["ring", "hierarchical"])
def test_an_all_reduce_of_1_gib_over_16384_gpus(benchmark, algorithm):
    # The ring's rails and the shards' rings move (n - 1) / n of twice the buffer over 8 NICs of 400 Gb/s at 96 %.
    fabric = build_cluster("hgx-h100", {"nodes": 2048}).compile()
    constants = load_collectives("hopper", "H100-SXM")

    def run():
        tasks = lower(fabric, "all_reduce", np.arange(16384)[None, :], GIB, constants=constants, algorithm=algorithm)
        return run_program(one_use(tasks, fabric, constants)).step_time_s

    run()
    tracemalloc.start()
    run()
    peak_mib = tracemalloc.get_traced_memory()[1] / MEBIBYTE
    tracemalloc.stop()
    seconds = benchmark.pedantic(run, rounds=1)
    benchmark.extra_info["peak_mib"] = round(peak_mib)
    assert seconds >= 2 * GIB / (8 * 50e9)
    assert peak_mib < 500
