"""A stage's passes woven into one list of operations: the compute of each in the frame of its communication."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simnet.workload.ops import Op, Start, Wait, many
from simnet.workload.pass_list import Pass
from simnet.workload.passes import PassTemplate

Ints = npt.NDArray[np.int64]
_START, _WAIT, _OTHER = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What stands around the compute of a pass: receive, collectives before and beside it, those after, send."""

    before: tuple[int, ...]
    """Kinds of the operations before the compute."""
    after: tuple[int, ...]
    """Kinds of those behind it."""
    starts: tuple[int, ...]
    """Communications started, in order."""
    waits: tuple[int, ...]
    """Communications waited for, in order; the neighbour's send first if there is one."""
    wait_shifts: tuple[int, ...]
    """Instance of each, less that of the pass."""


def frame_of(template: PassTemplate, *, waits_for_send: bool) -> Frame:
    """Return the frame of a pass that runs alone."""
    received = (template.receive,) if template.receive >= 0 else ()
    sent = (template.send,) if template.send >= 0 else ()
    held = sent if waits_for_send else ()
    between = (*template.before, *template.beside, *template.after)
    num_before, num_beside, num_after = len(template.before), len(template.beside), len(template.after)
    waits = (*received, *between, *held)
    return Frame(
        before=(_WAIT,) * len(received) + (_START, _WAIT) * num_before + (_START,) * num_beside,
        after=(_WAIT,) * num_beside + (_START, _WAIT) * num_after + (_START,) * len(sent) + (_WAIT,) * len(held),
        starts=(*between, *sent),
        waits=waits,
        wait_shifts=(template.receive_shift,) * len(received) + (0,) * (len(waits) - len(received)),
    )


class Framed(NamedTuple):
    """Operations in the frame of a pass."""

    frame: Frame
    instance: int
    """Which use of the frame's communications it is."""
    computes: list[Op]


def block_frames(template: PassTemplate, *, waits_for_send: bool) -> tuple[Frame, Frame]:
    """Return what opens and closes a pass that is part of a block: all its collectives run beside the block."""
    received = (template.receive,) if template.receive >= 0 else ()
    sent = (template.send,) if template.send >= 0 else ()
    held = sent if waits_for_send else ()
    between = (*template.before, *template.beside, *template.after)
    opening = Frame(
        before=(_WAIT,) * len(received) + (_START,) * len(between),
        after=(),
        starts=between,
        waits=received,
        wait_shifts=(template.receive_shift,) * len(received),
    )
    closing = Frame(
        before=(_WAIT,) * len(between),
        after=(_START,) * len(sent) + (_WAIT,) * len(held),
        starts=sent,
        waits=(*between, *held),
        wait_shifts=(0,) * (len(between) + len(held)),
    )
    return opening, closing


def joined(
    passes: tuple[Pass, ...], rows: list[Framed], blocks: dict[tuple[str, int], tuple[Frame, Frame]]
) -> list[Framed]:
    """Return *rows* with each pass that joins the next one run as a block with it.

    A block receives for both, starts the collectives of both, computes both, waits for all and sends for both.
    """
    found: list[Framed] = []
    first: tuple[Pass, Framed] | None = None
    for item, row in zip(passes, rows, strict=True):
        if item.joins_next:
            first = item, row
        elif first is None:
            found.append(row)
        else:
            other, ahead = first
            opens, closes = zip(blocks[other.kind, other.chunk], blocks[item.kind, item.chunk], strict=True)
            computes = [*ahead.computes, *row.computes]
            found += [
                Framed(frame=opens[0], instance=ahead.instance, computes=[]),
                Framed(frame=opens[1], instance=row.instance, computes=computes),
                Framed(frame=closes[0], instance=ahead.instance, computes=[]),
                Framed(frame=closes[1], instance=row.instance, computes=[]),
            ]
            first = None
    return found


def woven(rows: list[Framed]) -> list[Op]:
    """Return the operations of all passes; starts and waits are made as columns, since there are very many."""
    chain = itertools.chain.from_iterable
    frames, computes = [row.frame for row in rows], [row.computes for row in rows]
    instances: Ints = np.array([row.instance for row in rows])
    kinds = chain(
        (*frame.before, *(_OTHER,) * len(own), *frame.after) for frame, own in zip(frames, computes, strict=True)
    )
    started = list(chain(frame.starts for frame in frames))
    waited = list(chain(frame.waits for frame in frames))
    started_in = np.repeat(instances, [len(frame.starts) for frame in frames])
    waited_in = np.repeat(instances, [len(frame.waits) for frame in frames])
    waited_in += np.fromiter(chain(frame.wait_shifts for frame in frames), dtype=np.int64, count=len(waited))
    sources: tuple[Iterator[Op], ...] = (
        iter(many(Start, len(started), comm=started, instance=started_in.tolist())),
        iter(many(Wait, len(waited), comm=waited, instance=waited_in.tolist())),
        chain(computes),
    )
    return [next(sources[kind]) for kind in kinds]
