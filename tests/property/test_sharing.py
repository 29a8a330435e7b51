"""Fair sharing against the definition and against water-filling by the book."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simnet.sharing.max_min import NO_LINK, Incidence, max_min_rates
from tests.oracle.examples import examples
from tests.oracle.fair_sharing import dense, water_filling, why_unfair

# Values on coarse grids: many ties, and no difference of nearly equal numbers, whose rounding would be judged.
CAPACITY = st.sampled_from([0.0, 1.0, 2.0, 3.0, 4.0, 8.0, 100.0]) | st.integers(1, 1000).map(lambda n: n / 7)
COEF = st.sampled_from([1.0, 1.0, 0.5, 1 / 3, 2.0, 0.0625, 7.0])
CAP = st.sampled_from([np.inf, np.inf, 0.0, 0.5, 1.0, 1 / 3]) | st.integers(1, 300).map(lambda n: n / 11)
WEIGHT = st.sampled_from([1.0, 1.0, 1.0, 2.0, 0.25]) | st.integers(1, 50).map(lambda n: n / 13)


class Case:
    def __init__(self, capacity, rows, cap, weight, multiplicity):
        self.capacity = np.array(capacity, dtype=float)
        self.incidence = incidence_of(rows)
        self.cap, self.weight = np.array(cap, dtype=float), np.array(weight, dtype=float)
        self.multiplicity = np.array(multiplicity, dtype=float)

    @property
    def usage(self):
        return dense(self.incidence, len(self.capacity))

    def rates(self, capacity=None):
        return max_min_rates(
            self.capacity if capacity is None else capacity,
            self.incidence,
            cap=self.cap,
            weight=self.weight,
            multiplicity=self.multiplicity,
        )

    def __repr__(self):
        return f"{self.capacity=} {self.incidence=} {self.cap=} {self.weight=} {self.multiplicity=}"


def incidence_of(rows):
    return Incidence(
        indptr=np.cumsum([0, *(len(row) for row in rows)]),
        link=np.array([link for row in rows for link, _ in row], dtype=np.int32),
        coef=np.array([coef for row in rows for _, coef in row], dtype=float),
    )


@st.composite
def cases(draw, max_links=8, max_flows=12, max_hops=10):
    num_links = draw(st.integers(1, max_links))
    entry = st.tuples(st.integers(0, num_links - 1), COEF)
    rows = draw(st.lists(st.lists(entry, max_size=max_hops), min_size=1, max_size=max_flows))
    fixed = {"min_size": len(rows), "max_size": len(rows)}
    return Case(
        draw(st.lists(CAPACITY, min_size=num_links, max_size=num_links)),
        rows,
        draw(st.lists(CAP, **fixed)),
        draw(st.lists(WEIGHT, **fixed)),
        draw(st.lists(st.sampled_from([1, 1, 1, 2, 5]), **fixed)),
    )


def random_case(seed, num_flows, num_links, max_hops, is_plain=False):
    r = np.random.default_rng(seed)
    coefs, weights = ([1.0], [1.0]) if is_plain else ([1.0, 0.5, 1 / 3], [1.0, 1.0, 0.3, 2.0])
    rows = [
        [(int(link), float(r.choice(coefs))) for link in r.choice(num_links, r.integers(1, max_hops + 1))]
        for _ in range(num_flows)
    ]
    return Case(
        r.integers(1, 50, num_links) / r.choice([1, 7], num_links),
        rows,
        np.where(r.random(num_flows) < 0.2, r.integers(1, 9, num_flows) / 5, np.inf),
        r.choice(weights, num_flows),
        np.ones(num_flows),
    )


@examples(500)
@given(case=cases())
def test_rates_equal_water_filling_with_every_identical_flow_spelt_out(case):
    copies = np.repeat(np.arange(len(case.cap)), case.multiplicity.astype(int))
    reference = water_filling(case.capacity, case.usage[:, copies], case.cap[copies], case.weight[copies])
    np.testing.assert_allclose(case.rates().rate[copies], reference, rtol=1e-9)


@examples(500)
@given(case=cases())
def test_rates_are_feasible_and_nobody_could_have_more_without_taking_from_a_smaller_one(case):
    rate = case.rates().rate
    is_free = np.isinf(rate)
    assert (np.diff(case.incidence.indptr)[is_free] == 0).all()
    usage = (case.usage * case.multiplicity)[:, ~is_free]
    assert not why_unfair(case.capacity, usage, case.cap[~is_free], case.weight[~is_free], rate[~is_free])


@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize("seed", range(9))
def test_larger_systems_with_long_and_short_rows_equal_water_filling(seed, is_plain):
    max_hops = (3, 12, 40)[seed % 3]
    case = random_case(seed, 150, 40 + 20 * (seed % 3), max_hops, is_plain)
    reference = water_filling(case.capacity, case.usage, case.cap, case.weight)
    np.testing.assert_allclose(case.rates().rate, reference, rtol=1e-9)


@given(case=cases())
def test_the_named_bottleneck_is_a_saturated_link_of_the_flow(case):
    found = case.rates()
    used = case.usage @ np.where(np.isinf(found.rate), 0, found.rate * case.multiplicity)
    for flow, link in enumerate(found.bottleneck):
        if link == NO_LINK:
            assert found.rate[flow] == pytest.approx(case.cap[flow], rel=1e-9)
        else:
            assert case.usage[link, flow] > 0
            assert used[link] == pytest.approx(case.capacity[link], rel=1e-9)


@given(case=cases(), seed=st.integers(0, 2**32 - 1))
def test_renaming_flows_and_links_changes_nothing(case, seed):
    r = np.random.default_rng(seed)
    flows, links = r.permutation(len(case.cap)), r.permutation(len(case.capacity))
    indptr, link, coef = case.incidence.indptr, case.incidence.link, case.incidence.coef
    rows = [list(zip(links[link[low:high]], coef[low:high], strict=True)) for low, high in pairwise(indptr)]
    capacity = np.empty_like(case.capacity)
    capacity[links] = case.capacity
    renamed = Case(
        capacity, [rows[flow] for flow in flows], case.cap[flows], case.weight[flows], case.multiplicity[flows]
    )
    np.testing.assert_allclose(renamed.rates().rate, case.rates().rate[flows], rtol=1e-12)


@given(case=cases(), link=st.integers(0, 7), factor=st.sampled_from([1.01, 2.0, 1000.0]))
def test_a_wider_link_never_slows_the_slowest_flow_of_an_isolated_collective(case, link, factor):
    wider = case.capacity.copy()
    wider[link % len(wider)] *= factor
    before, after = case.rates().rate / case.weight, case.rates(wider).rate / case.weight
    assert after.min() >= before.min() * (1 - 1e-12)


@given(case=cases(max_flows=1))
def test_a_ring_alone_moves_at_its_slowest_edge(case):
    alone = case.multiplicity[0] * case.usage[:, 0]
    edges = np.divide(case.capacity, alone, out=np.full(len(alone), np.inf), where=alone > 0)
    assert case.rates().rate[0] == pytest.approx(min(edges.min(), case.cap[0]), rel=1e-12)


@given(case=cases(), scale=st.sampled_from([1e-9, 1e3, 5e10]))
def test_rates_scale_with_the_unit(case, scale):
    scaled = Case(case.capacity * scale, [[]], case.cap * scale, case.weight, case.multiplicity)
    scaled.incidence = case.incidence
    np.testing.assert_allclose(scaled.rates().rate, case.rates().rate * scale, rtol=1e-12)


def test_weights_far_apart_leave_no_rounding_behind():
    # The heavy flow stops at its cap of 1, the light ones share what is left: 2 / 20 each. Their weights are lost in
    # the sum with the heavy one, so it must be formed anew without it.
    num_light = 20
    rate = max_min_rates(
        np.array([3.0]),
        incidence_of([[(0, 1.0)]] * (1 + num_light)),
        cap=np.array([1.0] + [np.inf] * num_light),
        weight=np.array([1e13 / 3] + [1 / 7] * num_light),
    ).rate
    np.testing.assert_allclose(rate, [1] + [0.1] * num_light, rtol=1e-12)


def test_a_link_without_limit_holds_nobody_back():
    rates = max_min_rates(
        np.array([np.inf, 4.0]), incidence_of([[(0, 1.0), (1, 1.0)], [(0, 1.0)], [(0, 2.0), (1, 1.0)]])
    )
    assert rates.rate.tolist() == [2, np.inf, 2]
    assert rates.bottleneck.tolist() == [1, NO_LINK, 1]


def test_no_flows_have_no_rates():
    rates = max_min_rates(np.array([1.0]), incidence_of([]))
    assert rates.rate.shape == (0,)
    assert rates.rounds == 0
