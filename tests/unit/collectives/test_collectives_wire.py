"""Right answers from cases A02, A04 and A11 and from the mistakes that other simulators made."""

from __future__ import annotations

import numpy as np
import pytest

from simnet.collectives import names
from simnet.collectives.capacity import usable_capacity
from simnet.collectives.choice import choose
from simnet.collectives.cost import busbw_bytes_per_s, check_bound, terms, time_s, wire_bound_s
from simnet.collectives.edges import edges
from simnet.collectives.groups import by_shape
from simnet.collectives.known import machine_of
from simnet.collectives.lower import lower
from simnet.collectives.machine import Machine
from simnet.collectives.tasks import payload_bytes, uncontended_rate_bytes_per_s, uncontended_time_s
from simnet.errors import LayoutError, PhysicsError, SpecError
from simnet.spec.collectives import load_collectives

GIB = 2.0**30
HOPPER = load_collectives("hopper")
FITS = {
    "nvls": lambda nodes, local: nodes == 1,
    "nvls_tree": lambda nodes, local: nodes > 1 and local > 1,
    "symmetric": lambda nodes, local: nodes == 1,
    "pat": lambda nodes, local: nodes > 1 and local == 1,
    "hierarchical_3": lambda nodes, local: nodes == 4,
    "collnet": lambda nodes, local: False,
    "collnet_chain": lambda nodes, local: False,
}
"""What can run on nodes of so many ranks, four of which are two subclusters, and whose switches do not reduce."""


def switch(num_ranks: int, wire_bytes_per_s: float) -> Machine:
    return Machine(
        num_ranks=num_ranks,
        num_nodes=1,
        num_heads=0,
        max_local=num_ranks,
        min_local=num_ranks,
        nvlink_bytes_per_s=wire_bytes_per_s,
        nic_bytes_per_s=np.inf,
    )


def ideal_s(fabric, op, groups, size, algorithm):
    """Time of the bandwidth term at the wire rate."""
    tasks = lower(fabric, op, groups, size, constants=HOPPER, algorithm=algorithm)
    uncapped = np.full(tasks.num_tasks, np.inf)
    rate = uncontended_rate_bytes_per_s(
        type(tasks)(**{n: getattr(tasks, n) for n in tasks.__slots__} | {"rate_cap_bytes_per_s": uncapped}),
        fabric.capacity_bytes_per_s,
    )
    return tasks.size_bytes / rate


def test_ideal_ring_of_eight_h100_takes_4_176_ms_for_1_gib(make_fabric):
    assert ideal_s(make_fabric(), "all_reduce", np.arange(8), GIB, "ring") == pytest.approx(4.176e-3, rel=1e-3)


@pytest.mark.parametrize("algorithm", ["ring", "direct", "tree", "hierarchical"])
def test_all_reduce_at_400_gib_per_s_takes_at_least_4_375_ms(make_fabric, algorithm):
    fabric = make_fabric(nvlink=400 * GIB)
    assert ideal_s(fabric, "all_reduce", np.arange(8), GIB, algorithm)[0] >= 4.375e-3 * (1 - 1e-12)


def test_ring_on_a_switch_is_no_slower_than_its_wire_bound(make_fabric):
    fabric = make_fabric(nvlink=400 * GIB)
    ring, direct = (ideal_s(fabric, "all_reduce", np.arange(8), GIB, name) for name in ("ring", "direct"))
    assert ring[0] == pytest.approx(4.375e-3, rel=1e-12)
    assert direct == pytest.approx(ring, rel=1e-12)


def test_a_result_below_the_wire_bound_is_reported_as_a_bug():
    bound = wire_bound_s("all_reduce", switch(8, 400 * GIB), GIB, algorithm=names.RING)
    assert bound == pytest.approx(4.375e-3)
    with pytest.raises(PhysicsError, match="beats the wire"):
        check_bound(bound / 5.8, bound, "a direct all-reduce")


@pytest.mark.parametrize(
    ("op", "factor"), [("all_reduce", 1.75), ("all_gather", 0.875), ("reduce_scatter", 0.875), ("alltoall", 0.875)]
)
def test_bus_bandwidth_factors_of_eight_ranks(op, factor):
    assert names.bus_factor(names.operation(op), 8) == factor


@pytest.mark.parametrize(("algorithm", "busbw"), [("ring", 367e9), ("nvls", 480e9)])
def test_h100_node_reaches_the_measured_bus_bandwidth_at_16_gib(algorithm, busbw):
    time = time_s("all_reduce", algorithm, "simple", switch(8, 450e9), 16 * GIB, HOPPER)
    assert busbw_bytes_per_s("all_reduce", 8, 16 * GIB, time) == pytest.approx(busbw, rel=0.1)


@pytest.mark.parametrize("op", ["all_gather", "reduce_scatter"])
def test_gather_and_scatter_reach_the_bus_bandwidth_of_the_ring(op):
    time = time_s(op, "ring", "simple", switch(8, 450e9), 16 * GIB, HOPPER)
    assert busbw_bytes_per_s(op, 8, 16 * GIB, time) == pytest.approx(362e9, rel=0.03)


def test_one_rank_per_node_uses_only_its_own_nic(make_fabric):
    fabric = make_fabric(domains=4)
    tasks = lower(fabric, "reduce_scatter", np.arange(4) * 8 + 3, GIB, constants=HOPPER, algorithm="ring")
    moved = payload_bytes(tasks, len(fabric.capacity_bytes_per_s))
    used = np.flatnonzero(moved)
    rails = (used - fabric.first[2]) % 8
    assert set(rails) == {3}
    assert len(used) == 8  # egress and ingress of four NICs: no NVLink, no spine
    assert moved[used] == pytest.approx(0.75 * GIB)


def test_group_inside_a_node_touches_nvlink_only(make_fabric):
    fabric = make_fabric(domains=2)
    tasks = lower(fabric, "all_reduce", [[0, 1, 2, 3], [12, 13, 14, 15]], GIB, constants=HOPPER)
    assert tasks.resource.max() < 2 * fabric.num_gpus
    assert tasks.num_tasks == 2


def test_path_follows_placement_not_group_size(make_fabric):
    """A small group over two nodes is bound by NICs, a large one inside a rack is not."""
    rack = make_fabric(domains=2, gpus=72, nics=72)
    wide = lower(rack, "all_reduce", np.arange(72), GIB, constants=HOPPER, algorithm="ring")
    pair = lower(rack, "all_reduce", [0, 72], GIB, constants=HOPPER, algorithm="ring")
    capacity = usable_capacity(rack, HOPPER)
    rate = uncontended_rate_bytes_per_s(wide, capacity), uncontended_rate_bytes_per_s(pair, capacity)
    assert rate[0] == pytest.approx(450e9 * 0.815)
    assert rate[1] == pytest.approx(50e9 * 0.96)


def test_ring_over_whole_nodes_loads_every_nic_alike_and_no_spine(make_fabric):
    fabric = make_fabric(domains=4)
    tasks = lower(fabric, "all_reduce", np.arange(32), GIB, constants=HOPPER, algorithm="ring")
    moved = payload_bytes(tasks, len(fabric.capacity_bytes_per_s))
    assert moved[fabric.first[2] : fabric.first[4]] == pytest.approx(2 * 31 / 32 * GIB / 8)
    assert not moved[fabric.first[4] :].any()


@pytest.mark.parametrize(("nodes", "share"), [(2, 1.0), (3, 2 / 3), (4, 0.5), (9, 0.5), (16, 0.5)])
def test_double_tree_moves_at_most_this_share_of_the_nic_sum(make_fabric, nodes, share):
    fabric = make_fabric(domains=nodes, nvlink=1e15)
    time = ideal_s(fabric, "all_reduce", np.arange(8 * nodes), GIB, "tree")
    assert GIB / time == pytest.approx(8 * 50e9 * share)


def test_large_ring_latency_grows_with_ranks_and_tree_latency_with_their_logarithm(make_fabric):
    fabric = make_fabric(domains=32)
    latency = {
        (algorithm, nodes): lower(
            fabric, "all_reduce", np.arange(8 * nodes), 16384, constants=HOPPER, algorithm=algorithm
        ).latency_s[0]
        for algorithm in ("ring", "tree")
        for nodes in (2, 8, 32)
    }
    assert 3 < latency["ring", 8] / latency["ring", 2] < 4.5
    assert 3 < latency["ring", 32] / latency["ring", 8] < 4.5
    assert latency["tree", 32] - latency["tree", 8] == pytest.approx(latency["tree", 8] - latency["tree", 2])


def test_in_switch_all_reduce_sends_each_byte_once_and_a_share_again(make_fabric):
    fabric = make_fabric()
    tasks = lower(fabric, "all_reduce", np.arange(8), GIB, constants=HOPPER, algorithm="nvls")
    assert payload_bytes(tasks, len(fabric.capacity_bytes_per_s))[:16] == pytest.approx(GIB * 9 / 8)


@pytest.mark.parametrize("nodes", [2, 4])
def test_pairwise_all_to_all_puts_only_other_nodes_bytes_on_nics(make_fabric, nodes):
    fabric = make_fabric(domains=nodes)
    ranks = 8 * nodes
    for algorithm in ("pairwise", "pairwise_no_pxn"):
        tasks = lower(fabric, "all_to_all", np.arange(ranks), GIB, constants=HOPPER, algorithm=algorithm)
        moved = payload_bytes(tasks, len(fabric.capacity_bytes_per_s))
        assert moved[fabric.first[2] : fabric.first[4]] == pytest.approx(GIB * (ranks - 8) / ranks)
        assert moved[fabric.first[4] :].any() == (algorithm == "pairwise_no_pxn")  # PXN stays on rails


def test_busy_rail_sets_the_pace_of_the_whole_ring(make_fabric):
    fabric = make_fabric(domains=4)
    whole = ideal_s(fabric, "all_reduce", np.arange(32), GIB, "ring")
    fabric.capacity_bytes_per_s[fabric.first[2]] /= 2
    assert ideal_s(fabric, "all_reduce", np.arange(32), GIB, "ring") == pytest.approx(2 * whole)


def test_unequal_nodes_use_as_many_nics_as_the_smallest(make_fabric):
    fabric = make_fabric(domains=2)
    (shape,) = by_shape(fabric, [0, 1, 2, 3, 8, 9])
    assert (shape.num_nodes, shape.num_heads, shape.is_even) == (2, 2, False)
    assert machine_of(fabric, shape).max_local == 4


def test_groups_of_different_shape_keep_their_order(make_fabric):
    fabric = make_fabric(domains=2)
    tasks = lower(fabric, "all_reduce", [[0, 8], [0, 1], [9, 1], [3, 2]], GIB, constants=HOPPER, algorithm="ring")
    assert list(tasks.group) == [0, 1, 2, 3]
    times = uncontended_time_s(tasks, usable_capacity(fabric, HOPPER))
    assert times[0] == times[2] > 5 * times[1] == 5 * times[3]


@pytest.mark.parametrize(
    ("op", "algorithm"),
    [(op, algorithm) for op, known in names.ALGORITHMS.items() for algorithm in known],
)
@pytest.mark.parametrize(("domains", "per_node"), [(1, 8), (2, 8), (5, 4), (4, 1), (4, 8), (3, 8)])
@pytest.mark.parametrize("size", [64.0, 2.0**20, GIB])
def test_closed_form_equals_the_task_alone_on_the_fabric(make_fabric, op, algorithm, domains, per_node, size):
    fabric = make_fabric(domains=domains, latency_s=5e-6)
    fabric.gpu_module[:] = fabric.gpu_domain // 2 if domains == 4 else 0
    ranks = (np.arange(domains)[:, None] * 8 + np.arange(per_node)).ravel()
    buffers = "symmetric" if algorithm == "symmetric" else "plain"
    if algorithm in FITS and not FITS[algorithm](domains, per_node):
        with pytest.raises(SpecError, match="cannot run"):
            lower(fabric, op, ranks, size, constants=HOPPER, algorithm=algorithm, buffers=buffers)
        return
    tasks = lower(fabric, op, ranks, size, constants=HOPPER, algorithm=algorithm, repeats=3, buffers=buffers)
    (shape,) = by_shape(fabric, ranks)
    part = terms(op, algorithm, tasks.protocol, machine_of(fabric, shape), size / 3, HOPPER)
    alone = uncontended_time_s(tasks, usable_capacity(fabric, HOPPER))
    assert alone == pytest.approx(3 * part.time_s, rel=1e-9)
    time_s(op, algorithm, tasks.protocol, machine_of(fabric, shape), size / 3, HOPPER)


def test_group_that_names_a_gpu_twice_is_refused(make_fabric):
    with pytest.raises(LayoutError, match="twice"):
        lower(make_fabric(), "all_reduce", [0, 1, 1], GIB, constants=HOPPER)


def test_unknown_operation_and_algorithm_list_what_exists(make_fabric):
    with pytest.raises(SpecError, match="all_gather"):
        lower(make_fabric(), "gather", [0, 1], GIB, constants=HOPPER)
    with pytest.raises(SpecError, match="nvls"):
        lower(make_fabric(), "all_reduce", [0, 1], GIB, constants=HOPPER, algorithm="butterfly")


def test_sendrecv_sends_one_message_from_each_rank_and_one_over_each_nodes_nic(make_fabric):
    # Two nodes of eight: ranks 7 and 15 send to another node. With PXN they hand over to the first GPU of their node,
    # whose rail is the receiver's; without, they use their own NIC and cross rails.
    fabric = make_fabric(domains=2)
    for algorithm, sender in (("pairwise", 0), ("pairwise_no_pxn", 7)):
        tasks = lower(fabric, "sendrecv", np.arange(16), GIB, constants=HOPPER, algorithm=algorithm)
        moved = payload_bytes(tasks, len(fabric.capacity_bytes_per_s))
        assert np.flatnonzero(moved[fabric.first[2] : fabric.first[3]]).tolist() == [sender, 8 + sender]
        assert moved[fabric.first[2] + sender] == pytest.approx(GIB)
        inside = moved[: fabric.first[1]]
        assert inside.sum() == pytest.approx((16 if algorithm == "pairwise" else 14) * GIB)
        assert moved[fabric.first[4] :].any() == (algorithm == "pairwise_no_pxn")


def test_broadcast_takes_a_hop_for_every_rank_behind_the_root_and_its_bytes_once(make_fabric):
    # Two nodes of eight, a chain of 15 hops: 14 x 1.3 x 3.4 us over NVLink, one of 14 us between nodes, base 8.4 us.
    # Over NVLink each GPU but one of a node sends in each of the channels (7/8), over NICs an eighth: 8 x 50 GB/s x
    # 0.96 beats 450 GB/s x 0.815 x 8/7, and the last slices of 8 channels, at most S/32, are copied out.
    fabric = make_fabric(domains=2)
    tasks = lower(fabric, "broadcast", np.arange(16), GIB, constants=HOPPER, algorithm="ring", excluded=("ll", "ll128"))
    rate = min(8 * 50e9 * 0.96, 450e9 * 0.815 * 8 / 7)
    hops_s = 8.4e-6 + 14 * 1.3 * 3.4e-6 + 14e-6
    time = uncontended_time_s(tasks, usable_capacity(fabric, HOPPER))
    assert time == pytest.approx(hops_s + GIB / rate + 8 * 2**20 / rate, rel=1e-9)
    moved = payload_bytes(tasks, len(fabric.capacity_bytes_per_s))
    assert moved[fabric.first[2] : fabric.first[2] + 16] == pytest.approx([GIB / 8] * 8 + [0.0] * 8)


def test_sendrecv_runs_at_one_port():
    # nccl-tests count the message for both bandwidths; one NIC of 50 GB/s carries it.
    assert names.bus_factor("sendrecv", 16) == 1.0


@pytest.mark.parametrize("nodes", [2, 3, 4, 7, 16])
def test_aggregated_trees_send_each_block_once_over_every_nic(make_fabric, nodes):
    # NCCL's PAT moves (n-1)/n of the buffer over each NIC, in ceil(log2 n) steps of growing distance.
    fabric = make_fabric(domains=nodes)
    tasks = lower(fabric, "all_gather", 8 * np.arange(nodes), GIB, constants=HOPPER, algorithm="pat")
    moved = payload_bytes(tasks, len(fabric.capacity_bytes_per_s))
    assert moved[fabric.first[2] : fabric.first[3] : 8] == pytest.approx(GIB * (nodes - 1) / nodes)


def test_aggregated_trees_take_eight_and_four_a_step_and_2_8_us_a_rank():
    machine = Machine(
        num_ranks=16, num_nodes=16, num_heads=1, max_local=1, min_local=1,
        nvlink_bytes_per_s=np.inf, nic_bytes_per_s=50e9,
    )  # fmt: skip
    assert terms("all_gather", "pat", "simple", machine, 8.0, HOPPER).latency_s == pytest.approx(
        8e-6 + 4 * 14e-6 / 3.5 + 16 * 2.8e-6
    )


@pytest.mark.parametrize(("modules", "per_module"), [(2, 2), (2, 4), (4, 2), (4, 1)])
def test_three_levels_send_less_across_subclusters(make_fabric, modules, per_module):
    # Each NIC sends 2 ((m-1)/m + (K-1)/(K m)) S/8 = 2 (N-1)/N S/8, as with two levels. Across subclusters a ring for
    # each of the m nodes carries 2 (K-1)/(K m) S on each of its K edges; two levels have K edges of 2 (N-1)/N S.
    nodes = modules * per_module
    fabric = make_fabric(domains=nodes)
    fabric.gpu_module[:] = fabric.gpu_domain // per_module
    ranks = np.arange(8 * nodes)
    (shape,) = by_shape(fabric, ranks)
    across = {}
    for algorithm in ("hierarchical", "hierarchical_3"):
        tasks = lower(fabric, "all_reduce", ranks, GIB, constants=HOPPER, algorithm=algorithm)
        moved = payload_bytes(tasks, len(fabric.capacity_bytes_per_s))
        assert moved[fabric.first[2] : fabric.first[4]] == pytest.approx(2 * (nodes - 1) / nodes * GIB / 8)
        _, between = edges("all_reduce", algorithm, shape)
        crosses = fabric.gpu_module[between.src] != fabric.gpu_module[between.dst]
        across[algorithm] = between.load[crosses].sum() * GIB
    assert across["hierarchical"] == pytest.approx(modules * 2 * (nodes - 1) / nodes * GIB)
    assert across["hierarchical_3"] == pytest.approx(modules * 2 * (modules - 1) / modules * GIB)


def test_subclusters_of_unequal_size_have_no_third_level(make_fabric):
    fabric = make_fabric(domains=4)
    fabric.gpu_module[:] = np.minimum(fabric.gpu_domain, 1)
    with pytest.raises(SpecError, match="equally many nodes"):
        lower(fabric, "all_reduce", np.arange(32), GIB, constants=HOPPER, algorithm="hierarchical_3")


@pytest.mark.parametrize(
    ("generation", "op", "protocol", "latency_us", "bus"),
    [
        ("hopper", "all_reduce", "ll", 4.5, 240),
        ("hopper", "all_reduce", "simple", 7.8, 480),
        ("hopper", "all_gather", "simple", 7.8, 320),
        ("blackwell", "all_gather", "ll", 8.5, 300),
        ("blackwell", "all_reduce", "ll", 11, 500),
        ("blackwell", "all_reduce", "simple", 19.5, 1000),
        ("blackwell", "reduce_scatter", "simple", 13, 600),
    ],
)
def test_symmetric_kernels_have_nccls_latency_and_peak(generation, op, protocol, latency_us, bus):
    # NCCL 2.30.7, src/sym_kernels.cc; LL moves half payload. The wire is wide enough not to matter.
    constants = load_collectives(generation)
    found = terms(op, "symmetric", protocol, switch(8, 1e13), GIB, constants)
    assert found.latency_s == pytest.approx(latency_us * 1e-6)
    bandwidth = GIB / (found.task_bytes / found.rate_bytes_per_s) * names.bus_factor(op, 8)
    assert bandwidth == pytest.approx(bus * 1e9)


def test_ampere_has_no_symmetric_kernels():
    with pytest.raises(SpecError, match="no symmetric-memory kernels for the ampere generation"):
        choose("all_reduce", switch(8, 3e11), GIB, load_collectives("ampere"), algorithm="symmetric")
