"""Flows over time, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from simnet.engine.fluid import FlowSet, run_flows
from simnet.errors import SpecError, TopologyError
from simnet.sharing.incidence import Incidence


def flow_set(*paths, sizes, starts=None, latencies=None, after=None, cap=None, weight=None):
    count = len(paths)
    after = after or [[] for _ in paths]
    return FlowSet(
        routes=Incidence(
            indptr=np.cumsum([0, *(len(path) for path in paths)]),
            link=np.array([link for path in paths for link in path], dtype=np.int32),
            coef=np.ones(sum(len(path) for path in paths)),
        ),
        size_bytes=np.array(sizes, dtype=float),
        start_s=np.zeros(count) if starts is None else np.array(starts, dtype=float),
        latency_s=np.zeros(count) if latencies is None else np.array(latencies, dtype=float),
        after_indptr=np.cumsum([0, *(len(flows) for flows in after)]),
        after=np.array([flow for flows in after for flow in flows], dtype=np.int64),
        cap=None if cap is None else np.array(cap, dtype=float),
        weight=None if weight is None else np.array(weight, dtype=float),
    )


def test_two_flows_share_a_link_until_one_ends():
    # 10 bytes/s: both at 5 until 30 bytes of the first are gone at 6 s; the second then has 70 left at 10.
    found = run_flows(flow_set([0], [0], sizes=[30, 100]), np.array([10.0]))
    assert found.finish_s == pytest.approx([6, 13])
    assert found.link_bytes == pytest.approx([130])
    assert found.num_solves == 2


def test_a_later_flow_takes_its_share_from_its_start():
    # Alone at 10 for 2 s, then 5 each: 80 bytes left take until 2 + 16 = 18 if the other lasts as long.
    found = run_flows(flow_set([0], [0], sizes=[100, 80], starts=[0, 2]), np.array([10.0]))
    assert found.finish_s == pytest.approx([18, 18])


def test_a_flow_waits_its_latency_without_taking_bandwidth():
    found = run_flows(flow_set([0], [0], sizes=[10, 10], latencies=[0, 1]), np.array([10.0]))
    assert found.finish_s == pytest.approx([1, 2])


def test_a_flow_starts_after_the_last_of_those_it_comes_after_and_its_own_delay():
    flows = flow_set([0], [1], [0], sizes=[10, 30, 10], starts=[0, 0, 0.5], after=[[], [], [0, 1]])
    assert run_flows(flows, np.array([10.0, 10.0])).finish_s == pytest.approx([1, 3, 4.5])


def test_flows_elsewhere_are_not_solved_again():
    # Two pairs on links of their own; each pair needs one solve at the start and one when its first flow ends.
    flows = flow_set([0], [0], [1], [1], sizes=[1, 4, 2, 6])
    found = run_flows(flows, np.array([1.0, 1.0]))
    assert found.finish_s == pytest.approx([2, 5, 4, 8])
    assert found.num_solves == 3


def test_a_change_reaches_over_a_long_chain_of_shared_links():
    # Flow i crosses links i and i + 1. When flow 0 (half the bytes) ends, its neighbour speeds up and so on; the
    # total over each link stays exact whichever flows are solved again.
    count = 40
    flows = flow_set(*[[i, i + 1] for i in range(count)], sizes=[5, *[10] * (count - 1)])
    found = run_flows(flows, np.ones(count + 1))
    assert found.finish_s[0] == pytest.approx(10)
    moved = [5, 15, *[20] * (count - 2), 10]
    assert found.link_bytes == pytest.approx(moved)


def test_caps_and_weights_bound_the_shares():
    # Weights 3 : 1 of 8 give 6 and 2; the cap of 4 leaves 4 to the other.
    flows = flow_set([0], [0], sizes=[8, 8], cap=[4, np.inf], weight=[3, 1])
    assert run_flows(flows, np.array([8.0])).finish_s == pytest.approx([2, 2])


@pytest.mark.parametrize("path", [[], [1]])
def test_flows_that_nothing_holds_back_take_no_time(path):
    flows = flow_set(path, [0], [0], sizes=[5, 0, 10], starts=[1, 1, 0], after=[[], [], [0, 1]])
    assert run_flows(flows, np.array([10.0, np.inf])).finish_s == pytest.approx([1, 1, 2])


def test_no_flows_end_at_once():
    found = run_flows(flow_set(sizes=[]), np.array([1.0]))
    assert len(found.finish_s) == 0
    assert found.num_solves == 0


def test_a_dead_link_is_named_with_the_flows_that_it_stops():
    flows = flow_set([0], [0, 1], [0], sizes=[1, 1, 1], after=[[], [], [1]])
    with pytest.raises(TopologyError, match="flow 1 crosses link 1, which carries nothing; 1 flows wait for them"):
        run_flows(flows, np.array([1.0, 0.0]))


def test_a_cap_of_zero_is_named():
    with pytest.raises(TopologyError, match="flow 0 has a cap of 0"):
        run_flows(flow_set([0], sizes=[1], cap=[0]), np.array([1.0]))


def test_a_circle_of_dependencies_is_named():
    flows = flow_set([0], [0], [0], [0], sizes=[1] * 4, after=[[], [0, 3], [1], [2]])
    with pytest.raises(SpecError, match="circle") as caught:
        run_flows(flows, np.array([1.0]))
    assert caught.value.problems[0].found == "flow 1 after flow 3 after flow 2 after flow 1"


@pytest.mark.parametrize(("path", "after"), [([7], []), ([-1], []), ([0], [5])])
def test_numbers_that_do_not_exist_are_refused(path, after):
    with pytest.raises(SpecError, match="does not exist"):
        run_flows(flow_set(path, sizes=[1], after=[after]), np.array([1.0]))
