"""The passes of a stage whose parameters are sharded.

Units are gathered ahead of the parts of a pass that need them, their gradients reduced behind. The
order of gathers is that of the parts, over the borders of passes too: hosts run ahead of their GPUs,
so the first unit of the next pass is gathered during the last part of this one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from simnet.workload.comms import ChunkKind
from simnet.workload.ops import Compute, Op, Start, Wait
from simnet.workload.pass_list import Pass
from simnet.workload.passes import Around, CommTable, PassTemplate, StageJob, part_template
from simnet.workload.units import (
    ROOT,
    Part,
    chunk_parts,
    unit_all_reduce,
    unit_gather,
    unit_reduce,
    unit_shard,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unit:
    """Communications of a unit; -1 where it has none."""

    gather: int
    reduce: int
    across: int
    """All-reduce over the shard groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One part of one pass."""

    item: Pass
    part: Part
    is_first: bool
    is_last: bool
    gather: int
    """Position among all gathers of the stage, or -1 where the unit is held already."""
    reduces: bool
    """Whether the unit's gradients are complete and reduced after it."""


@dataclass(slots=True, kw_only=True)
class _Counted:
    """Uses of communications so far."""

    uses: dict[int, int] = field(default_factory=dict)

    def next(self, comm: int) -> int:
        """Return the number of the next use of *comm*."""
        number = self.uses.get(comm, 0)
        self.uses[comm] = number + 1
        return number


def sharded_passes(job: StageJob, passes: tuple[Pass, ...], table: CommTable) -> tuple[Op, ...]:
    """Return the operations of all passes of a stage, gathers and reductions among them."""
    parts = [chunk_parts(job.layout, job.stage, chunk) for chunk in range(job.layout.num_chunks)]
    units = [_units(job, chunk, parts[chunk], table) for chunk in range(job.layout.num_chunks)]
    steps, gathers = _steps(job, passes, parts, units)
    return _Writer(job, table, units, gathers).written(steps)


def _units(job: StageJob, chunk: int, parts: tuple[Part, ...], table: CommTable) -> dict[int, _Unit]:
    """Return the units of a chunk by number; layers share their communications."""
    if job.replicas == 1:
        return {}
    workload, stage = job.workload, job.stage
    groups = job.replicas // workload.parallelism.cp // job.dp_shard
    is_split = job.dp_shard * workload.parallelism.cp > 1
    found: dict[int, _Unit] = {}
    layer: _Unit | None = None
    for number in dict.fromkeys(part.unit for part in parts):
        if number != ROOT and layer is not None:
            found[number] = layer
            continue
        held = unit_shard(workload, job.layout, stage, chunk, number)
        name = f"ends {chunk}" if number == ROOT else "layer"
        split = job.dp_shard * workload.parallelism.cp
        across = unit_all_reduce(workload, held, stage=stage, name=f"gradients of {name} across groups", split=split)
        found[number] = _Unit(
            gather=table.add(unit_gather(workload, held, stage=stage, name=f"parameters of {name}"))
            if is_split
            else -1,
            reduce=table.add(unit_reduce(workload, held, stage=stage, name=f"gradients of {name}")) if is_split else -1,
            across=table.add(across) if groups > 1 else -1,
        )
        if number != ROOT:
            layer = found[number]
    return found


def _steps(
    job: StageJob, passes: tuple[Pass, ...], parts: list[tuple[Part, ...]], units: list[dict[int, _Unit]]
) -> tuple[list[_Step], list[int]]:
    """Return the parts of all passes in order, and the communication of each gather."""
    fsdp = job.workload.fsdp
    keeps_all = not fsdp.reshard_after_forward and job.layout.num_stages > 1
    last_of = {item.chunk: item for item in passes if item.kind == "B"}
    held: set[tuple[int, int]] = set()
    steps: list[_Step] = []
    gathers: list[int] = []
    for item in passes:
        own = parts[item.chunk] if item.kind == "F" else parts[item.chunk][::-1]
        reduces_now = item.kind == "B" and (fsdp.reduce == "each_micro_batch" or item is last_of[item.chunk])
        last_use = {part.unit: index for index, part in enumerate(own)}
        for index, part in enumerate(own):
            unit, key = units[item.chunk].get(part.unit), (item.chunk, part.unit)
            needs = unit is not None and unit.gather >= 0 and key not in held
            if needs:
                assert unit is not None
                gathers.append(unit.gather)
                held.add(key)
            is_over = index == last_use[part.unit]
            steps.append(
                _Step(
                    item=item,
                    part=part,
                    is_first=index == 0,
                    is_last=index == len(own) - 1,
                    gather=len(gathers) - 1 if needs else -1,
                    reduces=reduces_now and is_over and unit is not None,
                )
            )
            frees = item.kind == "B" or (fsdp.reshard_after_forward and part.unit != ROOT)
            if is_over and frees and not keeps_all:
                held.discard(key)
    return steps, gathers


class _Writer:
    """Writes operations, and knows what has been gathered ahead and what is being reduced."""

    def __init__(self, job: StageJob, table: CommTable, units: list[dict[int, _Unit]], gathers: list[int]) -> None:
        """Start with nothing gathered."""
        self._job, self._table, self._units = job, table, units
        self._ahead = job.workload.fsdp.prefetch if job.workload.overlap.dp_param else 0
        counted = _Counted()
        self._gathers = [(comm, counted.next(comm)) for comm in gathers]
        self._num_started = 0
        self._counted = _Counted()
        self._reducing: tuple[int, int, int] | None = None
        """Reduce-scatter under way, its use, and the all-reduce that follows it."""
        self._across: list[Wait] = []
        self._templates: dict[tuple[str, int, ChunkKind, bool, bool], PassTemplate] = {}
        self._known: dict[tuple[str, ChunkKind], Around] = {}
        self._ops: list[Op] = []

    def written(self, steps: list[_Step]) -> tuple[Op, ...]:
        """Return the operations of all parts, and the end of the last reductions."""
        for number, step in enumerate(steps):
            if step.gather >= 0:
                self._gather_until(step.gather)
                comm, use = self._gathers[step.gather]
                self._ops.append(Wait(comm=comm, instance=use))
                self._gather_until(min(step.gather + self._ahead, len(self._gathers) - 1))
            self._part(step, number)
            if step.reduces:
                self._reduce(self._units[step.item.chunk][step.part.unit])
        self._follow()
        return (*self._ops, *self._across)

    def _gather_until(self, position: int) -> None:
        while self._num_started <= position:
            comm, use = self._gathers[self._num_started]
            self._ops.append(Start(comm=comm, instance=use))
            self._num_started += 1

    def _part(self, step: _Step, number: int) -> None:
        """Write one part: what it receives, its collectives, its compute, what it sends."""
        item, ops = step.item, self._ops
        template = self._template(step)
        of_pass = item.micro_batch * self._job.layout.num_chunks + item.chunk
        if template.receive >= 0:
            ops.append(Wait(comm=template.receive, instance=of_pass + template.receive_shift))
        for comm in template.before:
            ops += (Start(comm=comm, instance=number), Wait(comm=comm, instance=number))
        ops += [Start(comm=comm, instance=number) for comm in template.beside]
        ops.append(
            Compute(duration_s=template.duration_s, micro_batch=item.micro_batch, chunk=item.chunk, label=item.kind)
        )
        ops += [Wait(comm=comm, instance=number) for comm in template.beside]
        for comm in template.after:
            ops += (Start(comm=comm, instance=number), Wait(comm=comm, instance=number))
        if template.send >= 0:
            ops.append(Start(comm=template.send, instance=of_pass))
            if not self._job.workload.overlap.pp:
                ops.append(Wait(comm=template.send, instance=of_pass))

    def _template(self, step: _Step) -> PassTemplate:
        item = step.item
        key = (item.kind, item.chunk, step.part.kind, step.is_first, step.is_last)
        if key not in self._templates:
            self._templates[key] = part_template(
                self._job, item.kind, item.chunk, step.part.kind, self._table, self._known,
                is_first=step.is_first, is_last=step.is_last,
            )  # fmt: skip
        return self._templates[key]

    def _reduce(self, unit: _Unit) -> None:
        """Start the reduction of a unit's gradients once the one before is over: one at a time holds whole gradients.

        PyTorch's ``_fsdp_param_group.py`` waits likewise before it fills the next reduce-scatter's input.
        """
        self._follow()
        comm = unit.reduce if unit.reduce >= 0 else unit.across
        use = self._counted.next(comm)
        self._ops.append(Start(comm=comm, instance=use))
        self._reducing = comm, use, unit.across if unit.reduce >= 0 else -1
        if not self._job.workload.overlap.dp_grad:
            self._follow()
            self._ops += self._across
            self._across.clear()

    def _follow(self) -> None:
        """Wait for the reduction under way, and start the all-reduce over the groups behind it."""
        if self._reducing is None:
            return
        comm, use, across = self._reducing
        self._reducing = None
        self._ops.append(Wait(comm=comm, instance=use))
        if across >= 0:
            number = self._counted.next(across)
            self._ops.append(Start(comm=across, instance=number))
            self._across.append(Wait(comm=across, instance=number))
