"""Which GPU each rank runs on, and which ranks form a communicator."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simnet.errors import LayoutError, Problem
from simnet.spec.workload import ParallelismSpec

GRID_AXES = ("pp", "dp", "cp", "tp")
"""Axes of :attr:`RankGrid.gpu`, outermost first."""

IntArray = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RankGrid:
    """Ranks of a job on the GPUs of a cluster."""

    gpu: IntArray
    """GPU of each rank in the cluster's enumeration, shape (pp, dp, cp, tp)."""
    num_gpus_available: int
    """GPUs of the cluster."""

    @property
    def num_gpus(self) -> int:
        """GPUs of the job."""
        return self.gpu.size

    @property
    def dp(self) -> int:
        """Replicas."""
        return int(self.gpu.shape[GRID_AXES.index("dp")])

    @property
    def note(self) -> str:
        """What a reader should know: whether GPUs stay idle."""
        if self.num_gpus == self.num_gpus_available:
            return ""
        idle = self.num_gpus_available - self.num_gpus
        return f"the job uses the first {self.num_gpus:,} of {self.num_gpus_available:,} GPUs; {idle:,} stay idle"


def rank_grid(parallelism: ParallelismSpec, rank_order: str, num_gpus_available: int) -> RankGrid:
    """Return the GPU of every rank; rank *r* runs on GPU *r*, ranks being numbered along *rank_order*.

    Parameters
    ----------
    rank_order
        Axes, innermost (neighbouring ranks) first, such as ``tp-cp-dp-pp``.
    num_gpus_available
        GPUs of the cluster, enumerated scale-up domain by domain.

    Raises
    ------
    LayoutError
        If the job needs more GPUs than there are, or ``dp: auto`` does not divide them.
    """
    dp = resolve_dp(parallelism, num_gpus_available)
    size = {"tp": parallelism.tp, "cp": parallelism.cp, "pp": parallelism.pp, "dp": dp}
    world = math.prod(size.values())
    if world > num_gpus_available:
        raise _too_large(size, num_gpus_available)
    outermost_first = rank_order.split("-")[::-1]
    ranks = np.arange(world, dtype=np.int32).reshape([size[axis] for axis in outermost_first])
    gpu = np.ascontiguousarray(ranks.transpose([outermost_first.index(axis) for axis in GRID_AXES]))
    gpu.flags.writeable = False
    return RankGrid(gpu=gpu, num_gpus_available=num_gpus_available)


def resolve_dp(parallelism: ParallelismSpec, num_gpus_available: int) -> int:
    """Return the number of replicas; ``auto`` means all GPUs.

    Raises
    ------
    LayoutError
        If ``auto`` leaves a remainder or not even one replica fits.
    """
    if parallelism.dp != "auto":
        return parallelism.dp
    size = {"tp": parallelism.tp, "cp": parallelism.cp, "pp": parallelism.pp}
    replica = math.prod(size.values())
    if replica > num_gpus_available:
        raise _too_large(size, num_gpus_available)
    dp, rest = divmod(num_gpus_available, replica)
    if rest:
        raise LayoutError(
            Problem(
                message=f"{num_gpus_available:,} GPUs are not whole replicas: "
                f"{num_gpus_available:,} = {dp:,} x {_product(size)} + {rest:,}",
                path="workload.parallelism.dp",
                found="auto",
                hint=f"dp: {dp} uses {dp * replica:,} GPUs and leaves {rest:,} idle",
            )
        )
    return dp


def groups(grid: RankGrid, axes: tuple[str, ...], *, stage: int | None = None) -> IntArray:
    """Return the GPUs of all groups that span *axes*, in rank order inside each, shape (num_groups, group_size).

    Parameters
    ----------
    axes
        Axes of :data:`GRID_AXES` that a group spans.
    stage
        Pipeline stage whose groups are wanted; None takes all stages (and allows ``pp`` among *axes*).
    """
    gpu = grid.gpu if stage is None else grid.gpu[stage : stage + 1]
    spanned = [position for position, axis in enumerate(GRID_AXES) if axis in axes]
    kept = [position for position in range(len(GRID_AXES)) if position not in spanned]
    size = math.prod(gpu.shape[position] for position in spanned)
    return np.sort(gpu.transpose(kept + spanned).reshape(-1, size), axis=1)


def _product(size: dict[str, int]) -> str:
    """Return the arithmetic of a product, such as ``tp 8 x pp 4 = 32``."""
    return " x ".join(f"{axis} {degree}" for axis, degree in size.items()) + f" = {math.prod(size.values()):,}"


def _too_large(size: dict[str, int], num_gpus_available: int) -> LayoutError:
    return LayoutError(
        Problem(
            message=f"the job needs more GPUs than there are: {_product(size)} GPUs of work "
            f"on {num_gpus_available:,} GPUs",
            path="workload.parallelism",
            hint="lower a degree, or take a larger cluster",
        )
    )
