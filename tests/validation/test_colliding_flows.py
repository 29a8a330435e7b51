"""Hashed routes collide, ideal spreading does not: cases that operators reported, and the odds of balls in bins.

The cases are NVIDIA/nccl#319 (a ring that crosses two switches needlessly often), NVIDIA/nccl#883 (adaptive routing
switched off) and uccl-project/uccl#153 (collisions without oversubscription).
"""

from __future__ import annotations

import numpy as np
import pytest

from simnet.collectives.capacity import usable_capacity
from simnet.collectives.lower import lower
from simnet.runner import prepare, simulate
from simnet.sharing.incidence import Incidence
from simnet.sharing.max_min import max_min_rates
from simnet.spec.collectives import load_collectives
from simnet.spec.load import expand, load_scenario
from simnet.topology.build import build_cluster
from simnet.topology.wiring import LINK_CLASSES

HOPPER = load_collectives("hopper", "H100-SXM")
GIB = 1024**3
SEEDS = range(40)
BETWEEN_SWITCHES = [LINK_CLASSES.index("leaf_spine"), LINK_CLASSES.index("spine_core")]


def rates(fabric, source, target):
    """Fair rates of plain flows, as a share of what one gets that is alone."""
    routes = fabric.routes(source, target)
    incidence = Incidence(indptr=routes.indptr, link=routes.resource, coef=routes.weight)
    rate = max_min_rates(fabric.capacity_bytes_per_s, incidence).rate
    return rate / fabric.capacity_bytes_per_s[routes.src_port]


def ring_share(fabric, nodes):
    """Rate of a ring all-reduce over the nodes in this order, as a share of what its NICs alone allow."""
    group = (8 * np.asarray(nodes)[:, None] + np.arange(8)).reshape(1, -1)
    tasks = lower(fabric, "all_reduce", group, GIB, constants=HOPPER, algorithm="ring")
    incidence = Incidence(indptr=tasks.indptr, link=tasks.resource, coef=tasks.coef)
    capacity = usable_capacity(fabric, HOPPER)
    shared = max_min_rates(capacity, incidence).rate[0]
    wide = capacity.copy()
    wide[np.isin(fabric.link_class, BETWEEN_SWITCHES)] = np.inf
    return shared / max_min_rates(wide, incidence).rate[0]


def test_the_heaviest_link_of_a_hashed_permutation_is_that_of_balls_in_bins():
    # 16 leaves send 32 flows each over 32 cables up, and as many come down on 32: 32 throws of 32 balls.
    machine = build_cluster("hgx-h100", {"nodes": 64})
    source = np.arange(512)
    target = np.roll(source, -256)
    random = np.random.default_rng(5)
    thrown = [np.max([np.bincount(random.integers(32, size=32)).max() for _ in range(32)]) for _ in range(2000)]
    found = [1 / rates(machine.compile("ecmp", seed), source, target).min() for seed in SEEDS]
    assert np.mean(found) == pytest.approx(np.mean(thrown), abs=4 * np.std(thrown) / len(SEEDS) ** 0.5)
    assert rates(machine.compile("adaptive"), source, target).min() == pytest.approx(1)


def test_adaptive_routing_carries_the_mean_load_where_a_static_hash_carries_the_largest():
    machine = build_cluster("hgx-h100", {"nodes": 64})
    source = np.arange(512)
    target = np.random.default_rng(1).permutation(64)[source // 8] * 8 + source % 8
    assert rates(machine.compile("adaptive"), source, target).min() == pytest.approx(1)
    hashed = [rates(machine.compile("ecmp", seed), source, target) for seed in SEEDS]
    assert all(1 / one.min() >= 3 - 1e-9 for one in hashed)


def test_one_to_one_is_not_enough_with_hashing_but_a_shared_leaf_is():
    # Six nodes in two racks of three: three flows of a rail over its leaf's cables; on one leaf none waits.
    machine = build_cluster("hgx-h100", {"nodes": 6, "scale_out.unit": 3})
    near = [rates(machine.compile("ecmp", seed), np.arange(16), np.arange(16) + 8).min() for seed in SEEDS]
    far = [rates(machine.compile("ecmp", seed), np.arange(24), np.arange(24) + 24).min() for seed in SEEDS]
    assert min(near) == pytest.approx(1)
    assert max(far) <= 1 / 2 + 1e-9
    assert rates(machine.compile("adaptive"), np.arange(24), np.arange(24) + 24).min() == pytest.approx(1)


def test_a_ring_that_crosses_two_switches_once_each_way_keeps_its_rate():
    # Eight nodes, four a leaf. In order, a rail crosses once each way, and no hash can collide; alternating, all four
    # of a leaf's nodes send across on every rail.
    machine = build_cluster("hgx-h100", {"nodes": 8, "scale_out.unit": 4})
    in_order, alternating = np.arange(8), np.arange(8).reshape(2, 4).T.reshape(-1)
    for seed in SEEDS:
        fabric = machine.compile("ecmp", seed)
        assert ring_share(fabric, in_order) == pytest.approx(1)
        assert ring_share(fabric, alternating) <= 1 / 2 + 1e-9
    assert ring_share(machine.compile("adaptive"), alternating) == pytest.approx(1)


SCENARIO = """
name: offset
question: Does destination-based routing without a rail offset overload a core cable?
topology: {from: hgx-h100, nodes: 512}
workload:
  model: llama-3.1-8b
  sequence_length: 8192
  parallelism: {pp: 4}
  batch: {num_micro_batches: 4}
  rank_order: tp-cp-dp-pp
vary: {routing: [static, static-no-offset]}
"""


def test_a_step_names_the_core_cable_that_a_missing_rail_offset_overloads(tmp_path):
    # Stages lie 128 nodes apart, so all sends cross the core; without the offset four leaves of a group take one cable.
    path = tmp_path / "offset.yaml"
    path.write_text(SCENARIO)
    spread, crowded = (simulate(prepare(case), with_timeline=False).result for case in expand(load_scenario(path)))
    assert spread.hottest_link.link_class == "nic_leaf"
    assert crowded.hottest_link.link_class == "spine_core"
    assert "core" in crowded.hottest_link.name
    over_core = [next(use for use in r.link_classes if use.link_class == "spine_core") for r in (spread, crowded)]
    assert over_core[0].traffic_bytes["pp"] == pytest.approx(over_core[1].traffic_bytes["pp"])
    assert crowded.breakdown_s["exposed_pp"] > 1.5 * spread.breakdown_s["exposed_pp"]
