"""Which links can hold a flow back: hand-made incidences."""

from __future__ import annotations

import numpy as np
import pytest

from simnet.engine.pruning import PortUse, links_that_can_bind


def port_use(*tasks):
    """Tasks as lists of (link, coef, source port, target port)."""
    flat = np.array([entry for task in tasks for entry in task], dtype=float).reshape(-1, 4)
    return PortUse(
        indptr=np.cumsum([0, *(len(task) for task in tasks)]),
        link=flat[:, 0].astype(np.int32),
        coef=flat[:, 1],
        source_port=flat[:, 2].astype(np.int32),
        target_port=flat[:, 3].astype(np.int32),
    )


def message(source, link, target, share=1.0, load=1.0):
    return [
        (source, load, source, target),
        (link, load * share, source, target),
        (target, load, source, target),
    ]


def test_a_link_as_wide_as_the_ports_behind_it_cannot_bind():
    # Ports 0 and 1 in, 2 and 3 out, all 10; both messages cross link 4.
    use = port_use(message(0, 4, 2), message(1, 4, 3))
    for width, can_bind in ((20.0, False), (19.9, True)):
        found = links_that_can_bind(np.array([10.0, 10, 10, 10, width]), [use])
        assert found.tolist() == [True] * 4 + [can_bind]


def test_the_narrower_side_counts():
    # Two sources of 10 each, but all traffic leaves through one port of 10.
    use = port_use(message(0, 3, 2), message(1, 3, 2))
    assert not links_that_can_bind(np.array([10.0, 10, 10, 10]), [use])[3]


def test_one_port_counts_once_however_many_messages_use_it():
    use = port_use(message(0, 3, 1), message(0, 3, 2))
    assert not links_that_can_bind(np.array([10.0, 10, 10, 10]), [use, use])[3]


def test_traffic_spread_over_links_counts_with_its_share():
    use = port_use(message(0, 2, 1, share=0.5))
    assert not links_that_can_bind(np.array([10.0, 10, 5]), [use])[2]
    assert links_that_can_bind(np.array([10.0, 10, 4.9]), [use])[2]


def test_a_message_of_part_of_its_task_can_still_fill_its_port():
    # A task of rate x sends x/8 from each of two ports of 10 over link 4 of 10. Alone it reaches x = 40: 5 on each
    # port and 10 on the link, which therefore binds, although x/8 is a small part of the task.
    task = message(0, 4, 2, load=1 / 8) + message(1, 4, 3, load=1 / 8)
    assert links_that_can_bind(np.array([10.0, 10, 10, 10, 10]), [port_use(task)])[4]


@pytest.mark.parametrize("port", [-1, 0])
def test_traffic_of_unknown_origin_can_bind_anywhere(port):
    # No port named, or one that the task's entries do not load.
    use = port_use([(1, 1.0, port, port)])
    assert links_that_can_bind(np.array([10.0, 1e9]), [use])[1]


def test_without_traffic_nothing_binds():
    assert not links_that_can_bind(np.array([1.0, 0.0]), []).any()
