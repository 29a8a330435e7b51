"""A step as a Chrome trace (``chrome://tracing``, Perfetto): one process per pipeline stage.

The format is the "Trace Event Format" (JSON object form, complete events ``X``, flow arrows ``s``
and ``f``); times are microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter

from simnet.engine.program import Program
from simnet.engine.trace import FlowSpan, StepTrace
from simnet.units import MICROSECOND_S
from simnet.workload.ops import Compute, Wait

GPU_TRACK, WAIT_TRACK, FIRST_FLOW_TRACK = 0, 1, 2
Event = dict[str, object]


def chrome_trace(program: Program, trace: StepTrace) -> dict[str, object]:
    """Return the step of the first replica as a JSON object: GPU, waiting and transfers per stage."""
    events = [
        *_names(program),
        *_spans(program, trace),
        *_flows(program, trace),
    ]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _names(program: Program) -> list[Event]:
    found: list[Event] = []
    for index, role in enumerate(program.roles):
        found.append(_meta("process_name", index, 0, role.name))
        found.append(_meta("thread_name", index, GPU_TRACK, "GPU"))
        found.append(_meta("thread_name", index, WAIT_TRACK, "waits"))
    return found


def _meta(kind: str, pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def _spans(program: Program, trace: StepTrace) -> list[Event]:
    found: list[Event] = []
    transfers = _transfers(program)
    for span in trace.spans:
        op = program.roles[span.role].ops[span.op]
        if isinstance(op, Compute):
            name, category, track = op.label, op.category.value, GPU_TRACK
            args: dict[str, object] = {"micro_batch": op.micro_batch, "chunk": op.chunk}
        else:
            assert isinstance(op, Wait)
            transfer = transfers[op.comm]
            name = f"{span.kind}: {transfer.name}"
            category, track, args = transfer.category, WAIT_TRACK, {"instance": op.instance}
        found.append(
            {
                "ph": "X",
                "name": name,
                "cat": category,
                "pid": span.role,
                "tid": track,
                "ts": span.start_s / MICROSECOND_S,
                "dur": (span.end_s - span.start_s) / MICROSECOND_S,
                "args": args,
            }
        )
    return found


def _flows(program: Program, trace: StepTrace) -> list[Event]:
    """Transfers on the stage that starts them, each communication on tracks of its own, with an arrow."""
    found: list[Event] = []
    transfers = _transfers(program)
    tracks = [_Tracks(first=FIRST_FLOW_TRACK) for _ in program.roles]
    for number, flow in enumerate(sorted(trace.flows, key=attrgetter("start_s"))):
        transfer = transfers[flow.transfer]
        name, category, source, target = transfer.name, transfer.category, transfer.source, transfer.target
        track, is_new = tracks[source].place(flow)
        if is_new:
            found.append(_meta("thread_name", source, track, name))
        start, end = flow.start_s / MICROSECOND_S, flow.end_s / MICROSECOND_S
        found.append(
            {
                "ph": "X",
                "name": name,
                "cat": category,
                "pid": source,
                "tid": track,
                "ts": start,
                "dur": end - start,
                "args": {"instance": flow.instance},
            }
        )
        if source != target:
            arrow: Event = {"name": name, "cat": category, "id": number}
            found.append({**arrow, "ph": "s", "pid": source, "tid": track, "ts": start})
            found.append({**arrow, "ph": "f", "bp": "e", "pid": target, "tid": GPU_TRACK, "ts": end})
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ends:
    """What all instances of a transfer share: its name, and the stages that start and wait for it."""

    name: str
    category: str
    source: int
    target: int


def _transfers(program: Program) -> list[_Ends]:
    role_of = [index for index, role in enumerate(program.roles) for _ in range(role.num_actors)]
    return [
        _Ends(
            name=transfer.name,
            category=transfer.category.value,
            source=role_of[int(transfer.starters.actor[0])],
            target=role_of[int(transfer.waiters.actor[-1])],
        )
        for transfer in program.transfers
    ]


@dataclass(slots=True, kw_only=True)
class _Tracks:
    """Tracks of one stage's transfers; viewers draw spans wrong that overlap in part on one track."""

    first: int
    _busy_until_s: list[float] = field(default_factory=list)
    _of_transfer: dict[int, list[int]] = field(default_factory=dict)

    def place(self, flow: FlowSpan) -> tuple[int, bool]:
        """Track of the transfer that is free when the flow starts, and whether it is a new one."""
        own = self._of_transfer.setdefault(flow.transfer, [])
        for track in own:
            if self._busy_until_s[track] <= flow.start_s:
                self._busy_until_s[track] = flow.end_s
                return self.first + track, False
        own.append(len(self._busy_until_s))
        self._busy_until_s.append(flow.end_s)
        return self.first + own[-1], True
