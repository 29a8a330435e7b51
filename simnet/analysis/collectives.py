"""Which algorithm is quickest where, in words: the answer to a question about collectives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from simnet.units import format_size, format_time

_GB = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectivePoint:
    """One call of one case."""

    case: str
    """Name of the case."""
    variant: str
    """Variant that the case belongs to; empty if the question has none."""
    op: str
    """Operation."""
    num_ranks: int
    """Ranks."""
    size_bytes: float
    """Whole buffer."""
    algorithm: str
    """Algorithm that ran."""
    protocol: str
    """Protocol that ran."""
    time_s: float
    """Time of the call."""
    busbw_bytes_per_s: float
    """Bus bandwidth as nccl-tests count it."""
    wire_bytes: float
    """Payload on the busiest link."""
    hottest_link: str
    """Link that is closest to its wire rate."""
    hottest_utilisation: float
    """How much of its wire rate it uses."""


def quickest(points: Iterable[CollectivePoint]) -> Iterator[str]:
    """Yield a sentence on each operation and size at its largest communicator: what is quickest, and by how much."""
    largest: dict[tuple[str, float], list[CollectivePoint]] = {}
    for point in points:
        largest.setdefault((point.op, point.size_bytes), []).append(point)
    for (op, size_bytes), group in largest.items():
        num_ranks = max(point.num_ranks for point in group)
        ranked = _by_time([point for point in group if point.num_ranks == num_ranks])
        yield (
            f"{op} of {format_size(size_bytes, binary=True)} on {num_ranks:,} ranks: "
            + _best(ranked)
            + _since_smallest(group, ranked[0])
        )


def _best(ranked: Sequence[CollectivePoint]) -> str:
    """Return what is quickest, and by how much: than the best of other variants, else than another algorithm."""
    first = ranked[0]
    rivals = [point for point in ranked if point.variant != first.variant]
    rate = f"{_GB * first.busbw_bytes_per_s:.0f} GB/s of bus bandwidth"
    text = f"{_name(first, is_long=bool(rivals))} with {format_time(first.time_s)}, {rate}"
    if len(ranked) == 1:
        return text
    other = rivals[0] if rivals else ranked[1]
    return f"{text}, {other.time_s / first.time_s:.2f} times as fast as {_name(other, is_long=bool(rivals))}"


def _name(point: CollectivePoint, *, is_long: bool) -> str:
    return f"{point.algorithm} ({point.variant})" if is_long else point.algorithm


def _since_smallest(group: Sequence[CollectivePoint], last: CollectivePoint) -> str:
    fewest = min(point.num_ranks for point in group)
    if fewest == last.num_ranks:
        return ""
    first = _by_time([point for point in group if point.num_ranks == fewest])[0]
    return f"; on {fewest:,} ranks {first.algorithm} with {format_time(first.time_s)}"


def _by_time(points: Sequence[CollectivePoint]) -> list[CollectivePoint]:
    """Return the quickest point of each algorithm in each variant, quickest first."""
    best: dict[tuple[str, str], CollectivePoint] = {}
    for point in sorted(points, key=lambda one: one.time_s):
        best.setdefault((point.variant, point.algorithm), point)
    return list(best.values())
