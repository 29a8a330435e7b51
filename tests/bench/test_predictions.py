"""One prediction of the record step by the engine, and one candidate of a search by the closed forms."""

from __future__ import annotations

import itertools
import random
import time

import pytest

from simnet.analysis.screen import estimate_step
from simnet.errors import LayoutError
from simnet.runner.case import prepare, screen_network, simulate
from simnet.spec.load import expand, load_scenario
from simnet.spec.workload import BatchSpec, OverlapSpec, ParallelismSpec
from simnet.workload.kernels import job_preset

pytestmark = [pytest.mark.slow, pytest.mark.benchmark(timer=time.process_time, warmup=False, disable_gc=True)]
NUM_CANDIDATES = 10_000
GPUS = 1024


def test_a_prediction_of_the_record_step_takes_2_s(benchmark):
    """2,496 GB200: machine, plan and engine, from the case to its result."""
    case = expand(load_scenario("blackwell-vs-hopper"))[0]
    prepare(case)  # reads the catalogue once

    result = benchmark.pedantic(lambda: simulate(prepare(case), with_timeline=False).result, rounds=1)
    assert result.num_gpus == 2496


def candidates():
    """Layouts of the 405B on 1,024 H100, in no order, each built when it is asked for."""
    base = expand(load_scenario("blackwell-vs-hopper"))[1].workload
    choices = list(
        itertools.product(
            (1, 2, 4, 8), (1, 2, 4), (1, 2, 4, 8, 16), (1, 2, 4, 8), (1, 2, 4),
            ("tp-cp-dp-pp", "tp-cp-pp-dp"), ("none", "selective", "full"), (True, False), ("bf16", "fp32"),
            ("ring", "all_gather"),
        )
    )  # fmt: skip
    random.Random(0).shuffle(choices)  # noqa: S311 (an order, no secret)
    for tp, cp, pp, chunks, micro, order, again, is_split, gradients, keys in choices:
        yield base.model_copy(
            update={
                "parallelism": ParallelismSpec(tp=tp, cp=cp, pp=pp, virtual_stages=chunks),
                "batch": BatchSpec(global_batch_size=1024, micro_batch_size=micro),
                "rank_order": order,
                "recompute": again,
                "overlap": OverlapSpec(tp=is_split),
                "gradient_dtype": gradients,
                "context_parallel": keys,
            }
        )


def test_ten_thousand_candidates_of_a_search(benchmark):
    """Each with its own workload; refused ones are told apart, not counted."""
    case = expand(load_scenario("blackwell-vs-hopper"))[1]
    ready = prepare(case)
    network = screen_network(case, ready.cluster)
    preset = job_preset(case.workload, ready.gpu)  # no candidate changes precision or stack

    def search():
        found = []
        for workload in candidates():
            dp = GPUS // workload.parallelism.replica_size
            try:
                found.append(estimate_step(workload, ready.gpu, preset, network, dp=dp).step_time_s)
            except LayoutError:
                continue
            if len(found) == NUM_CANDIDATES:
                break
        return found

    found = benchmark.pedantic(search, rounds=1)
    assert len(found) == NUM_CANDIDATES
    assert min(found) > 0
    if benchmark.stats is not None:
        benchmark.extra_info["milliseconds_each"] = 1e3 * benchmark.stats.stats.mean / NUM_CANDIDATES
