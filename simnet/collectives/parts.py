"""How unequal the parts of an all-to-all-v are, from the words of a command line."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from simnet.collectives.fabric_like import Float64
from simnet.errors import Problem, SpecError

EQUAL = "equal"
_ZIPF = re.compile(r"zipf:(\d+(\.\d+)?)")
_STEEPEST = 10.0
_SAYS = "equal, zipf:EXPONENT, as many numbers as ranks, or a CSV file of ranks by ranks"


def parse_parts(text: str, num_ranks: int, *, where: str = "--parts") -> Float64:
    """Return the share of the largest sender's buffer that each rank sends to each, ``(num_ranks, num_ranks)``.

    Parameters
    ----------
    text
        ``equal``; ``zipf:s``, where the k-th rank gets a share in proportion to k to the power of -s
        from everybody; a number for each rank, the shares that they get from everybody; or the path
        of a CSV file whose row i holds what rank i sends to each.
    num_ranks
        Ranks.
    where
        Place for the error.

    Raises
    ------
    SpecError
        If the text is none of these, or the numbers are negative, all zero or not as many as ranks.

    Examples
    --------
    >>> parse_parts("3,1", 2).tolist()
    [[0.75, 0.25], [0.75, 0.25]]
    """
    text = text.strip()
    if text == EQUAL:
        weights = np.ones((num_ranks, num_ranks))
    elif match := _ZIPF.fullmatch(text):
        exponent = float(match.group(1))
        if exponent > _STEEPEST:
            raise _wrong(where, "no such exponent", match.group(1), f"0 to {_STEEPEST:g}")
        weights = np.tile(np.arange(1, num_ranks + 1) ** -exponent, (num_ranks, 1))
    elif Path(text).suffix.lower() == ".csv":
        weights = _read(Path(text), where)
    else:
        weights = np.tile(_numbers(text.split(","), where, f'"{text}"'), (num_ranks, 1))
    return _scaled(weights, num_ranks, where)


def _read(path: Path, where: str) -> Float64:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong(where, "the file of parts cannot be read", str(path), "a CSV file", hint=str(error)) from None
    rows = [_numbers(line.split(","), f"{path}:{number}", line) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows or len({len(row) for row in rows}) > 1:
        raise _wrong(where, "the file of parts has rows of unequal length or none", str(path), "ranks by ranks")
    return np.stack(rows)


def _numbers(words: list[str], where: str, found: str) -> Float64:
    try:
        return np.array([float(word) for word in words])
    except ValueError:
        raise _wrong(where, "no parts of an all-to-all-v", found, _SAYS) from None


def _scaled(weights: Float64, num_ranks: int, where: str) -> Float64:
    if weights.shape != (num_ranks, num_ranks):
        shape = " x ".join(map(str, weights.shape if len(weights) != num_ranks else weights.shape[1:]))
        raise _wrong(where, "parts are one for each rank", shape, f"{num_ranks}")
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise _wrong(where, "parts are 0 or more, and not all 0", f"{weights.min():g}", "0 and more")
    scaled: Float64 = weights / weights.sum(axis=1).max()
    return scaled


def _wrong(where: str, message: str, found: str, allowed: str, *, hint: str = "") -> SpecError:
    return SpecError(Problem(where=where, message=message, found=found, allowed=allowed, hint=hint))
