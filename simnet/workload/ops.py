"""What a training step is made of: the operations of each pipeline stage and the communications between them."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeVar


class Category(StrEnum):
    """What time is spent on; one colour in every figure."""

    COMPUTE = "compute"
    OPTIMIZER = "optimizer"
    TP = "tp"
    CP = "cp"
    EP = "ep"
    PP = "pp"
    DP = "dp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """Work of one stage's ranks on their GPUs."""

    duration_s: float
    """Time at nominal speed [s]."""
    category: Category = Category.COMPUTE
    micro_batch: int = -1
    """Micro-batch, or -1 if it serves none."""
    chunk: int = -1
    """Virtual stage, or -1 if it serves none."""
    label: str = "F"
    """``F`` forward, ``B`` backward, ``optimizer``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The stage's ranks start their part of a communication and go on."""

    comm: int
    """Index into :attr:`StepPlan.comms`."""
    instance: int
    """Which of the communication's uses in the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The stage's ranks wait until their part of a communication is done."""

    comm: int
    """Index into :attr:`StepPlan.comms`."""
    instance: int
    """Which of the communication's uses in the step."""


Op = Compute | Start | Wait

Value = TypeVar("Value")


def many(kind: type[Value], count: int, /, **columns: Iterable[object]) -> list[Value]:
    """Return *count* values of a frozen class with slots, given every field as a column.

    A step has tens of thousands of operations, and the frozen ``__init__`` takes ten times as long
    as writing the slots directly.

    Examples
    --------
    >>> many(Wait, 2, comm=(0, 1), instance=(5, 5))
    [Wait(comm=0, instance=5), Wait(comm=1, instance=5)]
    """
    made = list(map(object.__new__, itertools.repeat(kind, count)))
    for name, values in columns.items():
        collections.deque(map(vars(kind)[name].__set__, made, values), maxlen=0)
    return made


CollectiveOp = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comm:
    """A communication that the ranks of a stage make, one or many times in a step."""

    name: str
    category: Category
    op: CollectiveOp
    stage: int
    """Stage whose ranks start it."""
    peer_stage: int
    """Stage that receives a send; *stage* itself for a collective."""
    axes: tuple[str, ...]
    """Axes of the rank grid that a group spans, of ``tp``, ``cp``, ``dp``; empty for a send.

    ``dp_shard`` and ``dp_replica`` are the two parts of ``dp``: the replicas of one shard group, and the groups."""
    size_bytes: float
    """The whole buffer of a group (nccl-tests convention), or what each rank sends [bytes]."""
    repeats: int = 1
    """Back-to-back collectives of ``size_bytes / repeats`` in one: latency counts so many times."""
    algorithm: str = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """One training step of a job, the same for all replicas."""

    num_stages: int
    ops: tuple[tuple[Op, ...], ...]
    """Operations of each stage, in the order that its ranks issue them."""
    comms: tuple[Comm, ...]
    model_flops: float
    """FLOPs that the model needs per step, whole job, attention halved by the causal mask [FLOP]."""
    hardware_flops: float
    """The same with what recomputation repeats [FLOP]."""
    tokens_per_step: float
    """Tokens of a global batch."""
    dp_shard: int
    """Replicas of one shard group, neighbours along ``dp``; all of them unless hsdp splits in groups."""
    compute_floor_s: tuple[float, ...]
    """Matrix work of a rank of each stage at the GPU's peak, shape (num_stages,) [s]: no step is shorter."""
    assumptions: tuple[str, ...] = ()
    """What a reader of the result should know, one sentence each."""
