"""DualPipe: half of the micro-batches enter at each end of the pipeline, and forward meets backward in one block.

DeepSeek-V3 (arXiv:2412.19437, section 3.2.1), in the order of ``dualpipe.py`` of deepseek-ai/DualPipe.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from simnet.workload.pass_list import Pass, PassKind


def dualpipe(num_stages: int, stage: int, num_micro_batches: int) -> tuple[Pass, ...]:
    """Return the passes of *stage*; chunk 0 is the copy that goes down the stages, chunk 1 the one that comes up.

    Of the even number of micro-batches, at least twice the even number of stages, the first half goes down.
    Stages mirror one another: what one does with one copy its counterpart does with the other.
    """
    is_mirrored = stage >= num_stages // 2
    near = num_stages - 1 - stage if is_mirrored else stage  # stages to the nearer end
    behind, half = num_stages // 2 - near - 1, num_micro_batches // 2
    made = _Order(is_mirrored=is_mirrored, half=half)
    made.run("F0", 2 * behind)
    made.run("F0 F1", near + 1)
    made.run("I1 W F1", behind)
    made.run("F0+B1 F1+B0", half - num_stages + near + 1)
    made.run("B1 F1+B0", behind)
    for turn in range(near + 1):
        # Weight passes are saved up from the middle of the way out.
        is_late = turn > (near + 1) // 2
        is_middle = turn == (near + 1) // 2
        made.run("I1" if is_late or (is_middle and near % 2 == 1) else "B1")
        made.run("I0" if is_late or is_middle else "B0")
    made.run("W I0", behind)
    made.run("W", len(made.pending))
    return tuple(made.passes)


@dataclass(slots=True, kw_only=True)
class _Order:
    """Passes in order, written for the first half of the stages."""

    is_mirrored: bool
    half: int
    """Micro-batches of each direction."""
    passes: list[Pass] = field(default_factory=list)
    pending: list[tuple[int, int]] = field(default_factory=list)
    """Micro-batch and chunk of weight passes saved up."""
    count: dict[tuple[str, int], int] = field(default_factory=dict)

    def run(self, words: str, times: int = 1) -> None:
        """Add passes: a kind and the copy of each, ``F0+B1`` for one block of two, ``W`` for the oldest saved up."""
        for _ in range(times):
            for word in words.split():
                if word == "W":
                    micro_batch, chunk = self.pending.pop(0)
                    self.passes.append(Pass(kind="W", micro_batch=micro_batch, chunk=chunk))
                elif "+" in word:
                    forward, backward = word.split("+")
                    self._add("F", int(forward[1]), joins_next=True)
                    self._add("B", int(backward[1]))
                else:
                    self._add("F" if word[0] == "F" else "I" if word[0] == "I" else "B", int(word[1]))

    def _add(self, kind: PassKind, copy: int, *, joins_next: bool = False) -> None:
        chunk = 1 - copy if self.is_mirrored else copy
        key = ("F" if kind == "F" else "B", chunk)
        number = self.count.get(key, 0)
        self.count[key] = number + 1
        micro_batch = chunk * self.half + number
        self.passes.append(Pass(kind=kind, micro_batch=micro_batch, chunk=chunk, joins_next=joins_next))
        if kind == "I":
            self.pending.append((micro_batch, chunk))
