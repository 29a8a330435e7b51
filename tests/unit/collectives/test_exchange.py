"""Messages of any size between every two ranks: send-and-receive, all-to-all-v, and who sets their time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as some

from simnet.collectives.capacity import usable_capacity
from simnet.collectives.exchange import exchange, least_times_s, nic_of
from simnet.collectives.groups import by_shape
from simnet.collectives.lower import lower
from simnet.collectives.messages import message_edges, message_loads
from simnet.collectives.parts import parse_parts
from simnet.collectives.table import collective_table
from simnet.collectives.tasks import payload_bytes, send, uncontended_time_s
from simnet.errors import NoPathError, SpecError
from simnet.runner.collective import simulate_collective
from simnet.spec.collectives import load_collectives
from simnet.spec.load import load_topology
from simnet.topology import build_cluster

GIB = 2.0**30
HOPPER = load_collectives("hopper")
PXN = pytest.mark.parametrize("algorithm", ["pairwise", "pairwise_no_pxn"])


def matrices(num_ranks):
    sizes = st.floats(0, 1e9, allow_subnormal=False)
    return some.arrays(np.float64, (num_ranks, num_ranks), elements=sizes, fill=st.just(0.0))


def moved_by(fabric, tasks):
    """Bytes into and out of each GPU's NVLink port and each NIC."""
    bytes_on = payload_bytes(tasks, len(fabric.capacity_bytes_per_s))
    return np.split(bytes_on, fabric.first[1:5])


def test_send_and_receive_reaches_the_nic_as_measured():
    # NVIDIA/nccl#2409 after its fix: sendrecv_perf gave 48.4 GB/s between two nodes of 400 Gb/s NICs.
    table = simulate_collective("hgx-h100", "sendrecv", ranks=16, sizes="1GiB")
    (row,) = table.rows
    assert row.busbw_bytes_per_s == row.algbw_bytes_per_s
    assert row.busbw_bytes_per_s == pytest.approx(48.4e9, rel=0.02)


def test_send_and_receive_takes_base_and_hop_and_its_bytes_over_the_link(make_fabric):
    # Ring base 8.4 us and one step: 3.4 us x 1.3 over NVLink (hop of operations that do not reduce), 14 us between
    # nodes. Links: 450 GB/s x 0.815, 50 GB/s x 0.96.
    for domains, hop_s, rate in ((1, 1.3 * 3.4e-6, 450e9 * 0.815), (2, 14e-6, 50e9 * 0.96)):
        fabric = make_fabric(domains=domains)
        tasks = lower(fabric, "sendrecv", np.arange(8 * domains), GIB, constants=HOPPER)
        time = uncontended_time_s(tasks, usable_capacity(fabric, HOPPER))
        assert time == pytest.approx(8.4e-6 + hop_s + GIB / rate, rel=1e-12)


@PXN
def test_send_and_receive_moves_each_buffer_once(make_fabric, algorithm):
    # Seven of eight GPUs send over NVLink, and the eighth with PXN, too: to the GPU on the receiver's rail.
    fabric = make_fabric(domains=2)
    tasks = lower(fabric, "sendrecv", np.arange(16), GIB, constants=HOPPER, algorithm=algorithm)
    out, _, nic_out, nic_in, spine = (part / GIB for part in (*moved_by(fabric, tasks),))
    has_pxn = algorithm == "pairwise"
    assert out.tolist() == [1.0] * 7 + [float(has_pxn)] + [1.0] * 7 + [float(has_pxn)]
    assert nic_out.tolist() == [float(slot == (0 if has_pxn else 7)) for _ in range(2) for slot in range(8)]
    assert nic_in.tolist() == [float(slot == 0) for _ in range(2) for slot in range(8)]
    assert spine.any() == (not has_pxn)


def test_send_and_receive_follows_the_order_of_the_ranks(make_fabric):
    # Ranks that alternate between two nodes put every message on a NIC; those that fill one node put two there.
    fabric = make_fabric(domains=2)
    for order, messages in (([0, 8, 1, 9], 4), ([0, 1, 8, 9], 2)):
        tasks = lower(fabric, "sendrecv", order, GIB, constants=HOPPER)
        assert moved_by(fabric, tasks)[2].sum() == pytest.approx(messages * GIB)


@PXN
@pytest.mark.parametrize(("domains", "nics"), [(1, 8), (2, 8), (3, 8), (2, 4)])
def test_equal_parts_are_an_all_to_all(make_fabric, algorithm, domains, nics):
    fabric = make_fabric(domains=domains, nics=nics, latency_s=5e-6)
    ranks = np.arange(8 * domains)
    equal, plain = (
        lower(fabric, op, ranks, GIB, constants=HOPPER, algorithm=algorithm) for op in ("all_to_all_v", "all_to_all")
    )
    capacity = usable_capacity(fabric, HOPPER)
    assert uncontended_time_s(equal, capacity) == pytest.approx(uncontended_time_s(plain, capacity), rel=1e-9)
    number = len(capacity)
    np.testing.assert_allclose(payload_bytes(equal, number), payload_bytes(plain, number), rtol=1e-9, atol=1e-3)


@PXN
@given(sent=matrices(8))
def test_every_byte_leaves_and_arrives_once(make_fabric, algorithm, sent):
    """On NICs exactly what goes to the other node; over NVLink what stays, and with PXN what changes its rail."""
    fabric = make_fabric(domains=2, gpus=4, nics=4)
    tasks = exchange(fabric, np.arange(8), sent, constants=HOPPER, algorithm=algorithm)
    out, into, nic_out, nic_in, _ = moved_by(fabric, tasks)
    node, place = np.divmod(np.arange(8), 4)
    far = np.where(node[:, None] != node[None, :], sent, 0.0)
    near = np.where(node[:, None] == node[None, :], sent, 0.0) * ~np.eye(8, dtype=bool)
    relayed = np.where(place[:, None] != place[None, :], far, 0.0) if algorithm == "pairwise" else 0 * far
    close = {"rel": 1e-9, "abs": 1e-3}
    assert nic_in == pytest.approx(far.sum(axis=0), **close)
    assert nic_out.sum() == pytest.approx(far.sum(), **close)
    assert out == pytest.approx((near + relayed).sum(axis=1), **close)
    assert into.sum() == pytest.approx((near + relayed).sum(), **close)


@PXN
@given(sent=matrices(8))
def test_closed_form_of_the_busiest_link_equals_the_fabric_and_never_beats_the_wire(make_fabric, algorithm, sent):
    fabric = make_fabric(domains=2, gpus=4, nics=2)
    tasks = exchange(fabric, np.arange(8), sent, constants=HOPPER, algorithm=algorithm)
    (groups,) = by_shape(fabric, np.arange(8))
    size = max(sent.sum(axis=0).max(), sent.sum(axis=1).max())
    assert tasks.size_bytes == pytest.approx(size)
    busiest = message_loads(sent, groups.node[0], nic_of(fabric, groups)[0], pxn=algorithm == "pairwise")
    out, into, nic_out, nic_in, _ = moved_by(fabric, tasks)
    assert max(out.max(), into.max()) == pytest.approx(busiest.nvlink, rel=1e-9, abs=1e-3)
    assert max(nic_out.max(), nic_in.max()) == pytest.approx(busiest.nic, rel=1e-9, abs=1e-3)
    time = uncontended_time_s(tasks, usable_capacity(fabric, HOPPER))
    assert time >= least_times_s(fabric, np.arange(8), sent)


def test_the_hottest_receiver_sets_the_time(make_fabric):
    # One node of four: shares 4, 2, 1, 1 of 8. Everybody sends half of its GiB to rank 0, which takes in 3 x 1/2 GiB;
    # NVLink 450 GB/s x 0.815 and all-to-all 0.945 of that; base 8.4 us, hop 1.3 x 3.4 us, and the last slices of 24
    # channels, 24 MiB, at the rate of the task, 2 GiB (the buffer of rank 0).
    fabric = make_fabric(gpus=4, nics=4)
    parts = parse_parts("4,2,1,1", 4)
    tasks = lower(fabric, "all_to_all_v", np.arange(4), GIB, constants=HOPPER, parts=parts)
    rate = 0.945 * 450e9 * 0.815
    expected = 8.4e-6 + 1.3 * 3.4e-6 + 1.5 * GIB / rate + 24 * 2**20 * 0.75 / rate
    assert tasks.size_bytes == pytest.approx(2 * GIB)
    assert uncontended_time_s(tasks, usable_capacity(fabric, HOPPER)) == pytest.approx(expected, rel=1e-9)


def test_times_rise_with_imbalance():
    fabric = build_cluster(load_topology("hgx-h100", {"nodes": 4})).compile()
    all_parts = [parse_parts(f"zipf:{exponent}", 32) for exponent in (0, 0.5, 1, 2)]
    times = [
        collective_table(fabric, "all_to_all_v", np.arange(32), [GIB], constants=HOPPER, parts=parts)[0].time_s
        for parts in all_parts
    ]
    assert np.all(np.diff(times) > 0)


def test_many_groups_keep_their_own_matrices(make_fabric):
    fabric = make_fabric(domains=2)
    sent = np.zeros((2, 2, 2))
    sent[0, 0, 1], sent[1, 1, 0] = 3e9, 5e9
    tasks = exchange(fabric, [[0, 9], [12, 4]], sent, constants=HOPPER)
    assert tasks.size_bytes == pytest.approx([3e9, 5e9])
    nic_out = moved_by(fabric, tasks)[2]
    assert {int(nic): float(nic_out[nic]) for nic in np.flatnonzero(nic_out)} == pytest.approx({0: 3e9, 4: 5e9})


def test_nothing_to_send_takes_the_latency_alone(make_fabric):
    fabric = make_fabric(domains=2)
    tasks = exchange(fabric, np.arange(16), np.zeros((16, 16)), constants=HOPPER)
    assert uncontended_time_s(tasks, usable_capacity(fabric, HOPPER)) == pytest.approx(8.4e-6 + 14e-6)


def test_hashed_routes_slow_an_uneven_exchange_in_batches_too():
    fabric = build_cluster(load_topology("hgx-h100", {"nodes": 8})).compile("ecmp", 1)
    parts = parse_parts(",".join(["1"] * 63 + ["0"]), 64)  # the last rank gets nothing: rows without links
    tasks = lower(
        fabric, "all_to_all_v", np.arange(64), GIB, constants=HOPPER, parts=parts, algorithm="pairwise_no_pxn"
    )
    assert 0 < tasks.rate_cap_bytes_per_s[0] < np.inf


def test_without_pxn_rails_that_nothing_joins_have_no_path():  # NVIDIA/nccl#2345
    fabric = build_cluster(load_topology("hgx-h100", {"nodes": 2, "scale_out.rails": "separate"})).compile()
    for op in ("all_to_all", "all_to_all_v", "sendrecv"):
        assert lower(fabric, op, np.arange(16), GIB, constants=HOPPER, algorithm="pairwise").num_tasks == 1
        with pytest.raises(NoPathError, match=r"d\d/gpu\d.*d\d/gpu\d"):
            lower(fabric, op, np.arange(16), GIB, constants=HOPPER, algorithm="pairwise_no_pxn")


def test_a_send_equals_the_send_and_receive_of_two(make_fabric):
    fabric = make_fabric(domains=2)
    capacity = usable_capacity(fabric, HOPPER)
    alone = send(fabric, [0], [8], GIB, HOPPER)
    both = lower(fabric, "sendrecv", [0, 8], GIB, constants=HOPPER)
    assert uncontended_time_s(both, capacity) == pytest.approx(uncontended_time_s(alone, capacity))


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (np.ones((3, 3)), "matrix of ranks by ranks"),
        (-np.ones((4, 4)), "no such size"),
        (np.full((4, 4), np.nan), "no such size"),
    ],
)
def test_a_matrix_that_does_not_fit_is_refused(make_fabric, sent, message):
    with pytest.raises(SpecError, match=message):
        exchange(make_fabric(gpus=4, nics=4), np.arange(4), sent, constants=HOPPER)


def test_parts_are_scaled_to_the_largest_sender(tmp_path):
    assert parse_parts("zipf:1", 3)[0] == pytest.approx(np.array([6, 3, 2]) / 11)
    file = tmp_path / "parts.csv"
    file.write_text("0,3\n1,0\n")
    assert parse_parts(str(file), 2) == pytest.approx(np.array([[0, 1], [1 / 3, 0]]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2,3", "one for each rank"),
        ("-1,2", "0 or more"),
        ("0,0", "not all 0"),
        ("zipf:99", "no such exponent"),
        ("many", "no parts"),
        ("none.csv", "cannot be read"),
    ],
)
def test_parts_that_say_nothing_is_refused(text, message):
    with pytest.raises(SpecError, match=message):
        parse_parts(text, 2)


def test_message_edges_stay_on_rails_with_pxn(make_fabric):
    fabric = make_fabric(domains=3)
    (groups,) = by_shape(fabric, np.arange(24))
    _, between = message_edges(groups, np.ones((1, 24, 24)), pxn=True)
    assert (fabric.gpu_rail[between.src] == fabric.gpu_rail[between.dst]).all()
