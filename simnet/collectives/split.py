"""Ranks split into communicators that run at the same time, in the words of nccl-tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from simnet.errors import Problem, SpecError

_WORDS = re.compile(r"(MOD|DIV|AND|OR|%|/|&|\|)\s*(0[xX][0-9a-fA-F]{1,8}|\d{1,9})")
_SAYS = '"MOD 8", "DIV 8", "AND 0x7" or "OR 0x7"'
_COLOURS: dict[str, Callable[[int, int], int]] = {
    "MOD": lambda rank, number: rank % number,
    "DIV": lambda rank, number: rank // number,
    "AND": lambda rank, number: rank & number,
    "OR": lambda rank, number: rank | number,
}
_SIGNS = {"%": "MOD", "/": "DIV", "&": "AND", "|": "OR"}


def split_ranks(ranks: Sequence[int], text: str, *, where: str = "--split") -> tuple[tuple[int, ...], ...]:
    """Return the communicators into which a text splits ranks; all of them in one where it is empty.

    Ranks are numbered as they are listed; those of one colour, ``rank MOD 8`` say, form a
    communicator, as under ``NCCL_TESTS_SPLIT`` of nccl-tests. A mask ``0x7`` of
    ``NCCL_TESTS_SPLIT_MASK`` is ``AND 0x7``.

    Parameters
    ----------
    ranks
        GPU of each rank.
    text
        ``"MOD 8"``, ``"DIV 8"``, ``"AND 0x7"`` or ``"OR 0x7"``; signs ``% / & |`` do as well.
    where
        Place for the error.

    Raises
    ------
    SpecError
        If the text is none of these, or communicators are unequal or hold one rank.

    Examples
    --------
    >>> split_ranks(range(4), "MOD 2"), split_ranks(range(4), "DIV 2")
    (((0, 2), (1, 3)), ((0, 1), (2, 3)))
    """
    if not text.strip():
        return (tuple(ranks),)
    match = _WORDS.fullmatch(text.strip().upper().replace("0X", "0x"))
    word = "" if match is None else _SIGNS.get(match[1], match[1])
    number = 0 if match is None else int(match[2], 0) if match[2].startswith("0x") else int(match[2])
    if match is None or (number == 0 and word in ("MOD", "DIV")):
        raise SpecError(Problem(where=where, message="no split of ranks", found=f'"{text}"', allowed=_SAYS))
    groups: dict[int, list[int]] = {}
    for rank, gpu in enumerate(ranks):
        groups.setdefault(_COLOURS[word](rank, number), []).append(gpu)
    sizes = {len(group) for group in groups.values()}
    if len(sizes) > 1 or min(sizes) == 1:
        raise SpecError(
            Problem(
                where=where,
                message="communicators that run together have equally many ranks, at least two",
                found=f'"{text}" on {len(ranks)} ranks gives {len(groups)} of {min(sizes)} to {max(sizes)}',
                allowed=_SAYS,
            )
        )
    return tuple(tuple(group) for group in groups.values())
