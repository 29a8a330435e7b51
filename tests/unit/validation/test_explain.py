"""Explaining tables that simnet itself made under a known fault, and refusing what one number cannot say."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simnet.collectives.faults import HEALTHY, catalogue
from simnet.collectives.under_fault import SEND, Query, predicted_times_s, site_of
from simnet.spec.collectives import load_collectives
from simnet.spec.faults import load_faults
from simnet.spec.load import load_topology
from simnet.topology import build_cluster
from simnet.validation.explain import NOT_EXPLAINED, explain
from simnet.validation.spread import healthy_spread
from tests.oracle.examples import examples

MIB = 2.0**20
HOPPER = load_collectives("hopper")
TWO = load_topology("hgx-h100", {"nodes": 2})
RANKS = tuple(range(16))
QUERIES = (
    Query(op="all_reduce", ranks=RANKS, sizes_bytes=(1024.0, 64 * MIB, 512 * MIB, 4096 * MIB)),
    Query(op="all_gather", ranks=RANKS, sizes_bytes=(512 * MIB, 4096 * MIB)),
    Query(op="all_to_all", ranks=RANKS, sizes_bytes=(512 * MIB,)),
    Query(op=SEND, ranks=RANKS, sizes_bytes=(512 * MIB,)),
)
# Faults that change these rows by more than healthy tables differ; the others say so in the list of unseen ones.
STRONG = {
    "slow_rail": (0.2, 0.7),
    "slow_rails": (0.2, 0.7),
    "slow_node": (0.2, 0.7),
    "nic_missing": (2, 6),
    "shared_nic": (0, 0),
    "no_gpudirect": (4.8, 8.4),
    "acs_iommu": (72, 110),
    "acs_redirect": (0.41, 0.55),
    "shared_port": (4, 4),
    "outstanding_reads": (8, 40),
    "bonded_port": (0, 0),
    "socket": (0.04, 0.066),
    "ll_forced": (0, 0),
}


@functools.cache
def machine():
    site = site_of(TWO, QUERIES, HOPPER)
    return site, {fault.name: fault for fault in catalogue(build_cluster(TWO), HOPPER, load_faults())}


@examples(3)
@given(name=st.sampled_from(sorted(STRONG)), share=st.floats(0, 1), seed=st.integers(0, 2**32 - 1))
def test_a_table_made_under_a_fault_is_explained_by_it(name, share, seed):
    site, faults = machine()
    low, high = STRONG[name]
    value = low + share * (high - low)
    value = round(value) if faults[name].parameter and faults[name].parameter.is_whole else value
    noise = np.exp(np.random.default_rng(seed).normal(0, 0.01, sum(len(query.sizes_bytes) for query in QUERIES)))
    found = explain(TWO, QUERIES, predicted_times_s(site, faults[name], value) * noise, HOPPER)
    assert found.verdict == "explained"
    assert name in found.causes


def test_a_healthy_table_is_healthy_and_names_what_it_could_not_show():
    site, _ = machine()
    found = explain(TWO, QUERIES, predicted_times_s(site, HEALTHY) * 1.02, HOPPER)
    assert (found.verdict, found.causes) == ("healthy", ("healthy",))
    assert set(found.unseen) == {"oversubscribed", "hash_collisions"}  # two nodes share their leaves


def test_one_number_is_explained_by_nothing():
    query = Query(op="all_reduce", ranks=RANKS, sizes_bytes=(4096 * MIB,))
    found = explain(TWO, [query], [0.1], HOPPER)
    assert found.verdict == NOT_EXPLAINED
    assert "one point" in found.reason
    twice = Query(op="all_reduce", ranks=RANKS, sizes_bytes=(4096 * MIB, 4096 * MIB))
    assert explain(TWO, [twice], [0.1, 0.1], HOPPER).verdict == NOT_EXPLAINED


def test_a_collapse_at_large_sizes_is_explained_by_nothing():
    site, _ = machine()
    times = predicted_times_s(site)
    times[[2, 3]] *= 6
    found = explain(TWO, QUERIES, times, HOPPER)
    assert (found.verdict, found.causes) == (NOT_EXPLAINED, ())


def test_a_parameter_with_a_source_goes_before_one_that_may_be_anything():
    site, faults = machine()
    found = explain(TWO, QUERIES, predicted_times_s(site, faults["acs_iommu"], 88.0), HOPPER)
    order = [one.name for one in found.candidates]
    assert order[0] == "acs_iommu"
    assert found.candidates[0].value == pytest.approx(88, rel=0.05)
    assert "slow_rails" in found.causes


def test_nine_of_ten_healthy_tables_lie_within_the_limit_that_they_set():
    spread = healthy_spread()
    assert spread.level["from 256 MiB"] < 0.05 < spread.level["1 to 256 MiB"]
    assert 2 < spread.limit < 10
    rows = np.full(4, 2 * spread.limit * spread.level["from 256 MiB"])
    assert spread.distance(rows, ["from 256 MiB"] * 4, ["x"] * 4) > spread.limit
