"""Communicators that run together: what they share, against hand computation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simnet.collectives.split import split_ranks
from simnet.collectives.tasks import TaskSet, uncontended_time_s
from simnet.collectives.together import shared_times_s
from simnet.errors import SpecError
from simnet.runner.collective import simulate_collective
from simnet.spec.load import load_topology
from simnet.topology import build_cluster

GB = 1e9


def tasks_on(links, sizes, *, latency_s=None, cap=None, coef=None):
    """Return tasks with a list of links each."""
    number = [len(own) for own in links]
    count = len(links)
    return TaskSet(
        indptr=np.concatenate(([0], np.cumsum(number))),
        resource=np.array([link for own in links for link in own], dtype=np.int32),
        coef=np.ones(sum(number)) if coef is None else np.array(coef, dtype=float),
        edge_src_port=np.full(sum(number), -1, dtype=np.int32),
        edge_dst_port=np.full(sum(number), -1, dtype=np.int32),
        size_bytes=np.array(sizes, dtype=float),
        latency_s=np.zeros(count) if latency_s is None else np.array(latency_s, dtype=float),
        rate_cap_bytes_per_s=np.full(count, np.inf) if cap is None else np.array(cap, dtype=float),
        weight=np.ones(count),
        group=np.arange(count),
        algorithm="ring",
        protocol="simple",
        channels=1,
        why="by hand",
    )


def test_what_one_leaves_the_other_takes():
    """1 and 3 GB on 2 GB/s: both at 1 GB/s for a second, then 2 GB at 2 GB/s."""
    assert shared_times_s(tasks_on([[0], [0]], [1 * GB, 3 * GB]), np.array([2 * GB])) == pytest.approx([1.0, 2.0])


def test_a_capped_task_leaves_the_rest_of_the_link():
    found = shared_times_s(tasks_on([[0], [0]], [1 * GB, 3 * GB], cap=[0.5 * GB, np.inf]), np.array([2 * GB]))
    assert found == pytest.approx([2.0, 2.0])  # 0.5 and 1.5 GB/s


def test_latency_comes_first_and_loads_no_link():
    """The second starts after 1 s, when the first has 1 of its 3 GB left: at 1 GB/s each it ends a second later."""
    found = shared_times_s(tasks_on([[0], [0]], [3 * GB, 2 * GB], latency_s=[0.0, 1.0]), np.array([2 * GB]))
    assert found == pytest.approx([2.0, 2.5])


def test_several_entries_of_a_task_on_one_link_add_up():
    found = shared_times_s(tasks_on([[0, 0], [0]], [1 * GB, 1 * GB]), np.array([3 * GB]))
    assert found == pytest.approx([1.0, 1.0])  # 2 + 1 GB


def test_a_task_of_no_bytes_takes_its_latency():
    assert shared_times_s(tasks_on([[0]], [0.0], latency_s=[3e-6]), np.array([GB])) == pytest.approx([3e-6])


@st.composite
def random_tasks(draw):
    links = [
        draw(st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True)) for _ in range(draw(st.integers(1, 6)))
    ]
    numbers = st.floats(0.1, 10.0)
    return tasks_on(
        links,
        [GB * draw(numbers) for _ in links],
        latency_s=[draw(st.sampled_from([0.0, 0.1, 1.0])) for _ in links],
        cap=[draw(st.sampled_from([np.inf, 0.5 * GB])) for _ in links],
    )


@given(random_tasks())
def test_nobody_is_quicker_than_alone_and_no_link_moves_more_than_it_can(tasks):
    capacity = np.array([1.0, 2.0, 3.0, 4.0, 5.0]) * GB
    end = shared_times_s(tasks, capacity)
    assert (end >= uncontended_time_s(tasks, capacity) * (1 - 1e-9)).all()
    moved = np.bincount(tasks.resource, weights=(tasks.coef * tasks.size_bytes[tasks.entry_task]), minlength=5)
    assert (moved <= capacity * (end.max() - tasks.latency_s.min()) * (1 + 1e-9)).all()


@given(random_tasks())
def test_half_the_bytes_never_take_longer(tasks):
    capacity = np.array([1.0, 2.0, 3.0, 4.0, 5.0]) * GB
    half = dataclasses.replace(tasks, size_bytes=tasks.size_bytes / 2)
    assert shared_times_s(half, capacity).max() <= shared_times_s(tasks, capacity).max() * (1 + 1e-9)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ((0, 1, 2, 3, 4, 5, 6, 7),)),
        ("MOD 4", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("AND 0x3", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("DIV 4", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("or 0x3", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("%4", ((0, 4), (1, 5), (2, 6), (3, 7))),
    ],
)
def test_ranks_are_split_as_nccl_tests_split_them(text, expected):
    assert split_ranks(range(8), text) == expected


def test_ranks_are_numbered_as_they_are_listed():
    assert split_ranks([0, 8, 1, 9], "MOD 2") == ((0, 1), (8, 9))


@pytest.mark.parametrize(
    "text", ["MOD 0", "DIV 0", "XOR 3", "8", "MOD -2", "MOD 3", "DIV 5", "MOD 8", "AND 0x7", "MOD 99999999999"]
)
def test_words_that_split_nothing_are_refused_with_what_does(text):
    with pytest.raises(SpecError, match="MOD 8"):
        split_ranks(range(8), text)


def machine(name="hgx-h100", **changes):
    return build_cluster(load_topology(name, {key.replace("__", "."): value for key, value in changes.items()}))


def row(cluster, split, size="1GiB", **more):
    return simulate_collective(cluster, split=split, sizes=size, **more).rows[0]


def test_communicators_that_share_no_link_take_the_time_of_one():
    cluster = machine(nodes=4)
    alone = row(cluster, "", ranks=16)
    assert row(cluster, "DIV 16").time_s == pytest.approx(alone.time_s)
    assert row(cluster, "DIV 8").time_s == pytest.approx(row(cluster, "", ranks=8).time_s)


def test_two_gpus_on_one_nic_get_half_of_it_each():
    """Rings of one GPU in each node, as data-parallel groups under tensor parallelism: 0.96 x 50 GB/s, or half."""
    own, shared = (row(machine(nodes=4, node__nics=nics), "MOD 8", "16GiB", algorithm="ring") for nics in (8, 4))
    assert own.busbw_bytes_per_s == pytest.approx(0.96 * 50e9, rel=0.01)
    assert shared.busbw_bytes_per_s == pytest.approx(0.96 * 50e9 / 2, rel=0.01)


def test_even_and_odd_nodes_share_tapered_uplinks():
    """Two rings over all leaves of a rail: with 1 cable of 4 left, each gets half of it, alone all of it."""
    cluster = machine(nodes=64, scale_out__taper__leaf=32)
    both = row(cluster, "AND 0x8", "16GiB", algorithm="ring")
    one = row(cluster, "", "16GiB", algorithm="ring", ranks=[g for g in range(512) if not g & 8])
    assert both.time_s == pytest.approx(2 * one.time_s, rel=0.02)


def test_times_are_means_and_the_table_says_how_slow_the_slowest_is():
    """One communicator on a node with half of its NVLink, the other on a sound one."""
    cluster = machine(nodes=2)
    cluster.limit_links("nvlink", factor=0.5, domains=(1,))
    table = simulate_collective(cluster, split="DIV 8", sizes="16GiB", algorithm="ring")
    found = table.rows[0]
    fast, slow = (row(cluster, "", "16GiB", algorithm="ring", ranks=ranks).time_s for ranks in (range(8), range(8, 16)))
    assert found.time_s == pytest.approx((fast + slow) / 2, rel=1e-3)  # chunks fill at the pace of the first of a shape
    assert found.slowest_s == pytest.approx(slow, rel=1e-3)
    assert any("slowest takes" in note for note in table.notes)


def test_of_two_communicators_on_a_nic_one_gets_the_reduction_tree():
    cluster = machine(nodes=4, node__nics=4, scale_out__in_network_reduction=True)
    table = simulate_collective(cluster, split="MOD 8", sizes="64KiB")
    assert table.num_communicators == 8
    assert any(note.startswith("4 communicators without reduction trees: its NICs already") for note in table.notes)
    assert any(note.startswith("4 reduction trees: 4 switches") for note in table.notes)
    assert "+" in table.rows[0].algorithm


def test_the_largest_reduction_that_a_leaf_of_quantum_takes_is_of_one_communicator():
    cluster = machine("hgx-a100", nodes=4, scale_out__rail_optimised=False, scale_out__in_network_reduction=True)
    table = simulate_collective(cluster, split="MOD 8", sizes="64KiB")
    assert any("7 communicators without reduction trees" in note for note in table.notes)
