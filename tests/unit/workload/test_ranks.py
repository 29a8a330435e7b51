from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simnet.errors import LayoutError
from simnet.spec.workload import RANK_AXES, ParallelismSpec
from simnet.workload.ranks import groups, rank_grid, resolve_dp


def test_innermost_axis_has_neighbouring_gpus() -> None:
    grid = rank_grid(ParallelismSpec(tp=4, cp=2, pp=8, dp=39), "tp-cp-pp-dp", 2496)
    # One replica of 64 GPUs after the other: with 64 GPUs a rack each replica has a rack of its own.
    assert grid.gpu.shape == (8, 39, 2, 4)
    assert grid.gpu[0, 0, 0].tolist() == [0, 1, 2, 3]
    assert grid.gpu[:, 0].max() == 63
    assert grid.gpu[0, 1, 0, 0] == 64


def test_megatron_order_puts_the_pipeline_outermost() -> None:
    grid = rank_grid(ParallelismSpec(tp=8, cp=2, pp=8, dp=64), "tp-cp-dp-pp", 8192)
    assert grid.gpu[1, 0, 0, 0] == 1024
    assert grid.gpu[0, 1, 0, 0] == 16


@given(
    order=st.sampled_from(["-".join(axes) for axes in itertools.permutations(RANK_AXES)]),
    degrees=st.tuples(*[st.integers(1, 4)] * 4),
)
def test_every_order_places_every_rank_once(order: str, degrees: tuple[int, int, int, int]) -> None:
    tp, cp, pp, dp = degrees
    grid = rank_grid(ParallelismSpec(tp=tp, cp=cp, pp=pp, dp=dp), order, tp * cp * pp * dp)
    assert grid.gpu.shape == (pp, dp, cp, tp)
    assert sorted(grid.gpu.ravel()) == list(range(tp * cp * pp * dp))
    size = {"tp": tp, "cp": cp, "pp": pp, "dp": dp}
    innermost = next((axis for axis in order.split("-") if size[axis] > 1), None)
    if innermost is not None:
        assert np.all(np.diff(groups(grid, (innermost,)), axis=1) == 1)


def test_auto_takes_all_gpus() -> None:
    assert resolve_dp(ParallelismSpec(tp=4, cp=2, pp=8), 2496) == 39


def test_auto_refuses_a_rest_with_the_arithmetic() -> None:
    with pytest.raises(LayoutError, match=r"100 = 6 x tp 4 x cp 1 x pp 4 = 16 \+ 4") as caught:
        resolve_dp(ParallelismSpec(tp=4, pp=4), 100)
    assert "dp: 6 uses 96 GPUs" in caught.value.problems[0].hint


def test_512_gpus_of_work_on_128_are_refused() -> None:
    with pytest.raises(LayoutError, match="tp 8 x cp 1 x pp 8 x dp 8 = 512 GPUs of work on 128 GPUs"):
        rank_grid(ParallelismSpec(tp=8, pp=8, dp=8), "tp-cp-dp-pp", 128)


def test_smaller_job_uses_the_first_gpus_and_says_so() -> None:
    grid = rank_grid(ParallelismSpec(tp=8, dp=4), "tp-cp-dp-pp", 72)
    assert grid.gpu.max() == 31
    assert grid.note == "the job uses the first 32 of 72 GPUs; 40 stay idle"
    assert rank_grid(ParallelismSpec(tp=8), "tp-cp-dp-pp", 72).note == ""


def test_groups_span_their_axes_in_rank_order() -> None:
    grid = rank_grid(ParallelismSpec(tp=2, cp=2, pp=2, dp=2), "tp-cp-dp-pp", 16)
    assert groups(grid, ("tp",), stage=0).tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert groups(grid, ("cp", "dp"), stage=1).tolist() == [[8, 10, 12, 14], [9, 11, 13, 15]]
    assert groups(grid, ("pp",)).tolist() == [[k, k + 8] for k in range(8)]
