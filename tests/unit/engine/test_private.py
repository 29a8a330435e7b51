"""Two or more transfers on links of one actor's own, followed on its own time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simnet.engine.private import _ends, _of_two
from tests.oracle.examples import examples


def test_the_second_begins_when_the_first_is_half_done_and_both_then_take_twice_as_long():
    # Alone each takes 4 s, beside the other 8. First: half in 2 s, the rest in 4 s. Second: half meanwhile, 2 s alone.
    first, second = _of_two(np.array([2.0]), [np.array([4.0]), np.array([4.0])], [np.array([8.0]), np.array([8.0])])
    assert (first[0], second[0]) == (6.0, 6.0)


def test_the_shorter_one_ends_first_and_leaves_the_link_to_the_other():
    # Second takes 1 s alone, 2 s beside: it is over at 3 s, when the first has 1 - 1/4 - 2/8 = 1/2 left, 2 s alone.
    first, second = _of_two(np.array([1.0]), [np.array([4.0]), np.array([1.0])], [np.array([8.0]), np.array([2.0])])
    assert (first[0], second[0]) == (5.0, 2.0)


def test_one_that_begins_after_the_other_is_over_has_the_link_to_itself():
    first, second = _of_two(np.array([4.5]), [np.array([4.0]), np.array([1.0])], [np.array([8.0]), np.array([2.0])])
    assert (first[0], second[0]) == (4.0, 1.0)


def test_three_at_once_share_until_each_is_over():
    # Alone 1, 2 and 3 s, a third of the rate each: 3 s until the first is done; then halves: 2 s more; then 1 s alone.
    alone = np.array([[1.0], [2.0], [3.0]])
    ends = _ends(np.zeros((3, 1)), np.stack([alone, 2 * alone, 3 * alone]))
    np.testing.assert_allclose(ends[:, 0], [3.0, 5.0, 6.0])


@examples(100)
@given(later=st.floats(0, 9), first=st.floats(0.1, 9), second=st.floats(0.1, 9), beside=st.floats(1, 3))
def test_two_are_as_any_number_of_them(later, first, second, beside):
    alone = np.array([[first], [second]])
    begin = np.array([[0.0], [later]])
    moving = _ends(begin, np.stack([alone, beside * alone])) - begin
    two = _of_two(np.array([later]), list(alone), list(beside * alone))
    assert [one[0] for one in two] == pytest.approx(moving[:, 0].tolist())
