"""The engine's answer for real plans on built fabrics with random defects, against one process per rank."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simnet.engine.executor import run_program
from simnet.engine.recursion import run_recursion
from simnet.runner.case import lower_on, prepare
from simnet.spec.load import expand, load_scenario
from simnet.topology.build import build_cluster
from tests.oracle.examples import examples
from tests.oracle.one_process_per_rank import run_ranks

SCENARIO = """
name: small
question: Do classes change the answer?
reading: They must not.
topology: {{from: hgx-h100, nodes: {nodes}}}
workload:
  model: llama-3-8b
  sequence_length: 8192
  precision: bf16
  parallelism: {{tp: {tp}, cp: {cp}, pp: {pp}, dp: auto}}
  batch: {{num_micro_batches: 3, micro_batch_size: 1}}
  rank_order: {rank_order}
  link_shares: {link_shares}
routing: {routing}
"""
ORDERS = ("tp-cp-dp-pp", "tp-pp-dp-cp", "tp-cp-pp-dp")
ROUTINGS = ("adaptive", "static", "static-no-offset", "ecmp")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Cases by their choices, each prepared once."""
    folder, known = tmp_path_factory.mktemp("scenarios"), {}

    def get(**choices):
        key = tuple(choices.values())
        if key not in known:
            path = folder / f"{len(known)}.yaml"
            path.write_text(SCENARIO.format(**choices), encoding="utf-8")
            known[key] = prepare(expand(load_scenario(path))[0])
        return known[key]

    return get


def lowered(case, routing, seed):
    """The program on a fabric with one to four degraded cables, and slow replicas."""
    r = np.random.default_rng(seed)
    cluster = build_cluster(case.case.topology)
    edges = sorted(cluster.graph.edges)
    for _ in range(r.integers(1, 5)):
        cluster.scale_link(*edges[r.integers(len(edges))], float(r.choice([0.5, 0.9, 0.25])))
    program = lower_on(case, cluster.compile(routing=routing, seed=seed)).program
    slowdown = program.slowdown.copy()
    slowdown[r.integers(len(slowdown), size=r.integers(0, 3))] *= r.choice([1.1, 1.3])
    return replace(program, slowdown=slowdown)


@examples(12)
@given(
    split=st.sampled_from([(2, 1, 2), (4, 1, 2), (4, 2, 2), (2, 2, 1), (8, 1, 2), (2, 1, 4)]),
    nodes=st.sampled_from([2, 4]),
    rank_order=st.sampled_from(ORDERS),
    routing=st.sampled_from(ROUTINGS),
    link_shares=st.sampled_from(["equal", "connections"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_classes_blocks_and_pruning_equal_one_process_per_rank_on_a_real_fabric(
    prepared, split, nodes, rank_order, routing, link_shares, seed
):
    tp, cp, pp = split
    case = prepared(nodes=nodes, tp=tp, cp=cp, pp=pp, rank_order=rank_order, routing=routing, link_shares=link_shares)
    program = lowered(case, routing, seed)
    trace = run_program(program)
    finish_s, resource_bytes = run_ranks(program)
    np.testing.assert_allclose(trace.finish_s, finish_s, rtol=1e-9)
    np.testing.assert_allclose(trace.resource_bytes, resource_bytes, rtol=1e-9, atol=1e-3)
    _, bracket = run_recursion(program)
    assert bracket.low_s <= trace.step_time_s * (1 + 1e-9)
    assert trace.step_time_s <= bracket.high_s * (1 + 1e-9)
