"""Schedules that split the backward pass, so that the gradients of the weights fill what would be idle.

Qi, "Zero Bubble Pipeline Parallelism", arXiv:2401.10241; Qi, "Pipeline Parallelism with Controllable Memory",
arXiv:2405.15362. The order of passes is fixed, whatever their times.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from simnet.workload.pass_list import Pass, PassKind


def zb1p(num_stages: int, stage: int, num_micro_batches: int) -> tuple[Pass, ...]:
    """Return 1F1B with the weight pass of a micro-batch *stage* backward passes late (ZB-H1).

    The stages near the loss, which idle last in 1F1B, save their weight passes for that time; with its warm-up
    each stage keeps at most num_stages micro-batches, as the first stage of 1F1B does.
    """
    made = _Order()
    warmup = min(num_stages - stage - 1, num_micro_batches)
    made.add("F", 0, warmup)
    for backward in range(num_micro_batches):
        made.add("F", 0, int(warmup + backward < num_micro_batches))
        made.add("I", 0)
        made.add("W", 0, int(backward >= stage))
    made.add("W", 0, min(stage, num_micro_batches))
    return tuple(made.passes)


def zbv(num_stages: int, stage: int, num_micro_batches: int) -> tuple[Pass, ...]:
    """Return ZB-V: chunk 0 goes down the stages, chunk 1 comes back up, so that the loss is on the first stage.

    The order is made for passes that fill the pipeline, at least 2p - 1 micro-batches; of fewer the same
    order with the missing ones left out.
    """
    made = _Order()
    behind, full = num_stages - stage, max(2 * num_stages - 1, num_micro_batches)
    made.add("F", 0, 2 * behind - 1)
    for _ in range(stage):
        made.add("F", 1)
        made.add("F", 0)
    for _ in range(behind):
        made.add("F", 1)
        made.whole_backward(1)
    while made.count["F", 1] < full:
        made.add("F", 0, int(made.count["F", 0] < full))
        made.whole_backward(0)
        made.add("F", 1)
        made.whole_backward(1)
    for _ in range(stage):
        made.add("I", 0)
        made.add("I", 1)
    for _ in range(behind):
        made.whole_backward(0)
    for chunk in (1, 0):
        made.add("W", chunk, full - made.count["W", chunk])
    return tuple(item for item in made.passes if item.micro_batch < num_micro_batches)


@dataclass(slots=True)
class _Order:
    """Passes in order; those of one kind and chunk take the micro-batches one after the other."""

    passes: list[Pass] = field(default_factory=list)
    count: dict[tuple[PassKind, int], int] = field(
        default_factory=lambda: dict.fromkeys([(kind, chunk) for kind in ("F", "I", "W") for chunk in (0, 1)], 0)
    )

    def add(self, kind: PassKind, chunk: int, times: int = 1) -> None:
        for _ in range(times):
            self.passes.append(Pass(kind=kind, micro_batch=self.count[kind, chunk], chunk=chunk))
            self.count[kind, chunk] += 1

    def whole_backward(self, chunk: int) -> None:
        """Add both parts of the next backward pass, the second for the oldest micro-batch that waits for it."""
        self.add("I", chunk)
        self.add("W", chunk)
