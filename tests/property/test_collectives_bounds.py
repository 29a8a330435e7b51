"""What must hold for every machine: wire bounds, order in size, and scaling with link rates."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from simnet.collectives import names
from simnet.collectives.choice import choose
from simnet.collectives.cost import busbw_bytes_per_s, terms, time_s, wire_bound_s
from simnet.collectives.machine import REDUCTION_OFF, Machine
from simnet.errors import SpecError
from simnet.spec.collectives import PROTOCOLS, load_collectives

GENERATIONS = ("ampere", "hopper", "blackwell", "grace")
PAIRS = [(op, algorithm) for op, known in names.ALGORITHMS.items() for algorithm in known]
SIZES = np.exp2(np.arange(2, 36, 0.25))


@st.composite
def machines(draw):
    local = draw(st.sampled_from([1, 2, 3, 4, 6, 8, 18, 64, 72]))
    nodes = draw(st.integers(1, 40))
    assume(local * nodes > 1)
    nvlink = draw(st.sampled_from([50e9, 300e9, 450e9, 900e9, 1800e9]))
    nic = draw(st.sampled_from([12.5e9, 25e9, 50e9, 100e9]))
    heads = draw(st.integers(1, local)) if nodes > 1 else 0
    modules = draw(st.sampled_from([number for number in range(1, nodes + 1) if nodes % number == 0]))
    return Machine(
        num_ranks=local * nodes,
        num_nodes=nodes,
        num_heads=heads,
        max_local=local,
        min_local=local,
        num_modules=modules,
        nvlink_bytes_per_s=nvlink if local > 1 else math.inf,
        nic_bytes_per_s=nic if nodes > 1 else math.inf,
        network_latency_s=draw(st.sampled_from([0.0, 5e-6, 10e-3])) if nodes > 1 else 0.0,
        no_reduction=draw(st.sampled_from(["", REDUCTION_OFF])) if nodes > 1 else REDUCTION_OFF,
        reduction_path_s=draw(st.sampled_from([0.0, 5e-6])) if nodes > 1 else 0.0,
    )


def can_run(op, machine, algorithm, constants):
    try:
        choose(op, machine, 2.0**20, constants, algorithm=algorithm, buffers=names.SYMMETRIC)
    except SpecError:
        return False
    return True


def protocols_of(algorithm):
    if algorithm == names.SYMMETRIC:
        return ("ll", "simple")
    return PROTOCOLS if algorithm in (names.RING, names.TREE) else ("simple",)


@given(machines(), st.sampled_from(PAIRS), st.sampled_from(GENERATIONS))
def test_no_algorithm_beats_the_wire_and_time_never_falls_with_size(machine, pair, generation):
    op, algorithm = pair
    constants = load_collectives(generation)
    assume(can_run(op, machine, algorithm, constants))
    for protocol in protocols_of(algorithm):
        times = time_s(op, algorithm, protocol, machine, SIZES, constants)  # raises below the bound
        assert (times >= wire_bound_s(op, machine, SIZES, algorithm=algorithm)).all()
        assert (np.diff(times) >= -1e-12 * times[1:]).all(), (protocol, SIZES[1:][np.diff(times) < 0])


@given(machines(), st.sampled_from(GENERATIONS))
def test_ring_bus_bandwidth_stays_below_the_nic_sum(machine, generation):
    assume(machine.num_nodes > 1)
    time = time_s(names.ALL_REDUCE, names.RING, "simple", machine, 2.0**36, load_collectives(generation))
    bus = busbw_bytes_per_s(names.ALL_REDUCE, machine.num_ranks, 2.0**36, time)
    assert bus <= machine.num_heads * machine.nic_bytes_per_s


@given(machines(), st.sampled_from(GENERATIONS), st.sampled_from(["collnet", "collnet_chain", "nvls"]))
def test_reduction_in_the_network_moves_at_most_the_nic_sum_and_no_node_its_nvlink(machine, generation, algorithm):
    """Each NIC sends its share once, so bus bandwidth ends at 2(n-1)/n times the NIC sum."""
    constants = load_collectives(generation)
    assume(machine.num_nodes > 1 and can_run(names.ALL_REDUCE, machine, algorithm, constants))
    time = time_s(names.ALL_REDUCE, algorithm, "simple", machine, 2.0**36, constants)
    assert 2.0**36 / time <= machine.num_heads * machine.nic_bytes_per_s
    assert 2.0**36 / time <= machine.nvlink_bytes_per_s or machine.max_local == 1


@pytest.mark.parametrize(("nodes", "factor"), [(2, 1.875), (3, 1.28), (4, 1.0), (16, 1.0), (100, 1.0)])
@given(generation=st.sampled_from(GENERATIONS), nvlink=st.sampled_from([300e9, 900e9, 1e13]))
def test_double_tree_bus_bandwidth_stays_below_its_share_of_the_nic_sum(nodes, factor, generation, nvlink):
    machine = Machine(
        num_ranks=8 * nodes,
        num_nodes=nodes,
        num_heads=8,
        max_local=8,
        min_local=8,
        nvlink_bytes_per_s=nvlink,
        nic_bytes_per_s=50e9,
    )
    time = time_s(names.ALL_REDUCE, names.TREE, "simple", machine, 2.0**36, load_collectives(generation))
    assert busbw_bytes_per_s(names.ALL_REDUCE, 8 * nodes, 2.0**36, time) <= 400e9 * factor


@given(machines(), st.sampled_from(GENERATIONS), st.sampled_from(names.ALGORITHMS[names.ALL_TO_ALL]))
def test_all_to_all_bus_bandwidth_stays_below_the_nics_share(machine, generation, algorithm):
    """B (n - 1) / (n - g) for a NIC of rate B at each GPU, see NVIDIA/nccl-tests#130."""
    assume(machine.num_nodes > 1)
    time = time_s(names.ALL_TO_ALL, algorithm, "simple", machine, 2.0**36, load_collectives(generation))
    per_gpu = machine.nic_bytes_per_s * machine.num_heads / machine.max_local
    limit = per_gpu * (machine.num_ranks - 1) / (machine.num_ranks - machine.max_local)
    assert busbw_bytes_per_s(names.ALL_TO_ALL, machine.num_ranks, 2.0**36, time) <= limit


@given(machines(), st.sampled_from(PAIRS), st.sampled_from(GENERATIONS))
def test_half_the_link_rates_double_the_bandwidth_term(machine, pair, generation):
    op, algorithm = pair
    constants = load_collectives(generation)
    assume(can_run(op, machine, algorithm, constants))
    half = dataclasses.replace(
        machine, nvlink_bytes_per_s=machine.nvlink_bytes_per_s / 2, nic_bytes_per_s=machine.nic_bytes_per_s / 2
    )
    whole, halved = (terms(op, algorithm, "simple", one, 2.0**30, constants) for one in (machine, half))
    assume(np.isclose(whole.cap_bytes_per_s, np.inf) or halved.rate_bytes_per_s < halved.cap_bytes_per_s)
    assume(whole.rate_bytes_per_s < whole.cap_bytes_per_s)
    assert whole.task_bytes / whole.rate_bytes_per_s * 2 == pytest.approx(halved.task_bytes / halved.rate_bytes_per_s)


@given(machines(), st.sampled_from(GENERATIONS), st.floats(2, 36))
def test_choice_gives_a_reason_and_what_it_picks_can_run(machine, generation, exponent):
    constants = load_collectives(generation)
    for op in names.ALGORITHMS:
        choice = choose(op, machine, 2.0**exponent, constants)
        assert choice.why
        assert can_run(op, machine, choice.algorithm, constants)
