"""Behaviour classes against one process per rank, on random steps and fabrics with random defects."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simnet.engine.executor import run_program
from simnet.errors import TopologyError
from simnet.workload.ops import Start
from tests.oracle.examples import examples
from tests.oracle.one_process_per_rank import run_per_rank, run_ranks
from tests.oracle.random_program import Shape, random_program
from tests.oracle.renaming import renamed

TOLERANCE = 1e-9


def shapes(**fixed):
    flag, few = st.booleans(), st.integers(1, 3)
    parts = {
        "seed": st.integers(0, 2**32 - 1),
        "num_stages": st.integers(1, 4),
        "num_replicas": st.integers(1, 5),
        "num_lanes": st.integers(1, 2),
        "num_micro_batches": few,
        "num_buckets": few,
        "num_spines": few,
        "leaf_size": st.integers(1, 4),
        "num_defects": st.integers(0, 3),
        "num_slow": st.integers(0, 2),
        "replicas_outside": flag,
        "spreads": flag,
        "interleaves": flag,
        "has_subgroups": flag,
        "has_embedding": flag,
        "has_all_to_all": flag,
        "gathers": flag,
        "sender_waits": flag,
        "relays": flag,
        "is_round": flag,
    }
    return st.builds(Shape, **(parts | {name: st.just(value) for name, value in fixed.items()}))


@examples(200)
@given(shape=shapes())
def test_classes_equal_one_process_per_rank_and_move_the_same_bytes(shape):
    program = random_program(shape)
    trace = run_program(program)
    finish_s, resource_bytes = run_ranks(program)
    np.testing.assert_allclose(trace.finish_s, finish_s, rtol=TOLERANCE)
    np.testing.assert_allclose(trace.resource_bytes, resource_bytes, rtol=TOLERANCE, atol=TOLERANCE)


@examples(80)
@given(shape=shapes())
def test_classes_equal_classes_of_one(shape):
    program = random_program(shape)
    whole, split = run_program(program), run_program(program, is_split=True)
    np.testing.assert_allclose(whole.finish_s, split.finish_s, rtol=TOLERANCE)
    for mean, other in zip(whole.time_by_category_s, split.time_by_category_s, strict=True):
        assert mean == pytest.approx(other, rel=TOLERANCE, abs=TOLERANCE)


@examples(80)
@given(shape=shapes())
def test_links_that_cannot_bind_change_nothing(shape):
    every, pruned = random_program(shape), random_program(shape, prunes=True)
    before, after = run_program(every), run_program(pruned)
    np.testing.assert_allclose(after.finish_s, before.finish_s, rtol=TOLERANCE)
    np.testing.assert_array_equal(after.resource_bytes, before.resource_bytes)


@examples(80)
@given(shape=shapes(), seed=st.integers(0, 2**32 - 1))
def test_permuting_actors_tasks_transfers_and_resources_changes_nothing(shape, seed):
    program = random_program(shape, prunes=True)
    other = renamed(program, seed)
    trace, moved = run_program(program), run_program(other.program)
    np.testing.assert_allclose(moved.finish_s[other.actor], trace.finish_s, rtol=TOLERANCE)
    np.testing.assert_allclose(moved.resource_bytes[other.resource], trace.resource_bytes, rtol=TOLERANCE)
    np.testing.assert_allclose(moved.peak_share[other.resource], trace.peak_share, rtol=TOLERANCE, atol=TOLERANCE)


@examples(40)
@given(shape=shapes())
def test_bytes_and_time_are_conserved(shape):
    program = random_program(shape, prunes=True)
    trace = run_program(program)
    uses = [set() for _ in program.transfers]
    for role in program.roles:
        for op in role.ops:
            if isinstance(op, Start):
                uses[op.comm].add(op.instance)
    expected = np.zeros(len(program.capacity))
    for transfer, instances, moved in zip(program.transfers, uses, trace.bytes_by_transfer, strict=True):
        np.testing.assert_array_equal(moved, transfer.size_bytes * len(instances))
        rows = program.geometries[transfer.geometry].incidence
        np.add.at(expected, rows.link, rows.coef * np.repeat(moved, np.diff(rows.indptr)))
    np.testing.assert_allclose(trace.resource_bytes, expected, rtol=1e-12)
    assert (trace.resource_bytes <= program.capacity * trace.step_time_s * (1 + TOLERANCE)).all()
    for spent in trace.time_by_category_s:
        assert sum(spent.values()) == pytest.approx(trace.step_time_s, rel=TOLERANCE)


@examples(40)
@given(shape=shapes(num_dead=2))
def test_a_dead_link_stops_those_who_need_it_and_the_error_names_ranks_that_wait(shape):
    program = random_program(shape)
    finish_s = run_per_rank(program)
    stuck = {
        f"{role.name} replica {member}"
        for role in program.roles
        for member in range(role.num_actors)
        if np.isnan(finish_s[role.first_actor + member])
    }
    if not stuck:
        np.testing.assert_allclose(run_program(program).finish_s, finish_s, rtol=TOLERANCE)
        return
    with pytest.raises(TopologyError) as caught:
        run_program(program)
    named = {part.split(" waits for ")[0] for part in caught.value.problems[0].found.split("; ") if " waits " in part}
    assert named
    assert named <= stuck
