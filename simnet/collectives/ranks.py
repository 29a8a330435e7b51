"""Which GPUs take part in a collective, from the words of a command line."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from simnet.collectives.fabric_like import Int32
from simnet.errors import Problem, SpecError

ALL = "all"
ONE_PER_NODE = "one-per-node"
_RANGES = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
_LONGEST = 9
"""Digits of a number of a GPU; longer ones are not even read."""
_SAYS = f"16, 0-7,16-23, {ONE_PER_NODE} or {ALL}"


def parse_ranks(text: str, gpu_domain: Int32, *, where: str = "--ranks") -> tuple[int, ...]:
    """Return the GPUs that a text names: a count, numbers and ranges of them, ``one-per-node`` or ``all``.

    Parameters
    ----------
    text
        What the user wrote.
    gpu_domain
        Scale-up domain of each GPU of the machine, ``(num_gpus,)``; a node of NCCL's.
    where
        Place for the error.

    Raises
    ------
    SpecError
        If the text is no such list, or names a GPU twice, fewer than two, or some that do not exist.

    Examples
    --------
    >>> import numpy as np
    >>> domain = np.arange(16, dtype=np.int32) // 8
    >>> parse_ranks("0-2,8", domain), parse_ranks("one-per-node", domain)
    ((0, 1, 2, 8), (0, 8))
    """
    found = _named(text.strip(), gpu_domain, where)
    if not 1 < len(set(found)) == len(found) or max(found) >= len(gpu_domain):
        raise SpecError(
            Problem(
                where=where,
                message="ranks are two or more different GPUs of the topology",
                found=f'"{text}"',
                allowed=f"0 to {len(gpu_domain) - 1}",
                hint="give a larger topology, say --set nodes=N" if found and max(found) >= len(gpu_domain) else "",
            )
        )
    return found


def _named(text: str, gpu_domain: Int32, where: str) -> tuple[int, ...]:
    if text == ALL:
        return tuple(range(len(gpu_domain)))
    if text == ONE_PER_NODE:
        return tuple(np.unique(gpu_domain, return_index=True)[1].tolist())
    numbers = re.findall(r"\d+", text)
    if not _RANGES.fullmatch(text) or max(map(len, numbers)) > _LONGEST:
        raise SpecError(Problem(where=where, message="no list of GPUs", found=f'"{text}"', allowed=_SAYS))
    if text.isdigit():
        return tuple(range(min(int(text), len(gpu_domain) + 1)))
    return tuple(_numbers(text.split(","), len(gpu_domain)))


def _numbers(parts: Iterable[str], num_gpus: int) -> Iterable[int]:
    for part in parts:
        first, _, last = part.partition("-")
        # One past the last GPU tells as much as a million past it.
        yield from range(min(int(first), num_gpus), min(int(last or first), num_gpus) + 1)
