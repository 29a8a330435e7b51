"""The tables of the page as plain cells: text to read, and a value to sort by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simnet.analysis.result import BREAKDOWN_PARTS, JsonValue, Result
from simnet.plot.parity import BAND, MeasuredRow
from simnet.plot.style import PART_LABELS
from simnet.units import format_size

PERCENT = 100
LINK_CLASS_NAMES = {
    "nvlink": "NVLink",
    "gpu_nic": "GPU to NIC",
    "nic_leaf": "NIC to leaf",
    "leaf_spine": "leaf to spine",
    "spine_core": "spine to core",
    "join": "join of the modules",
}
CABLE_NAMES = {
    "node_leaf": "NIC to leaf",
    "leaf_spine": "leaf to spine",
    "spine_core": "spine to core",
    "join": "to join",
}
NOTHING = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What to read and what to sort by; numbers stand flush right, and ``mark`` sets a cell apart."""

    text: str
    value: float | str
    mark: str = ""

    @property
    def is_number(self) -> bool:
        """Return whether the column sorts by size."""
        return not isinstance(self.value, str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A caption, heads (with a unit where there is one) and rows of cells."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def time_table(results: Sequence[Result], references: Mapping[str, str]) -> Table:
    """Return step time, throughput and breakdown of each case; ``references`` as in :class:`Answer`."""
    by_name = {result.name: result for result in results}
    has_target = any(not math.isnan(result.minutes_to_target) for result in results)
    heads = ["case", "GPUs", "step [s]", "change [%]", "tokens/s per GPU", "MFU [%]"]
    heads += [f"{PART_LABELS[part].replace('pipeline ', '')} [s]" for part in BREAKDOWN_PARTS]
    heads += ["minutes to target"] if has_target else []
    rows = []
    for result in results:
        cells = [
            _text(result.name),
            _number(result.num_gpus, "{:,}"),
            _number(result.step_time_s, "{:.3f}"),
            _change(result, by_name.get(references.get(result.name, ""))),
            _number(result.tokens_per_s_per_gpu, "{:,.0f}"),
            _number(PERCENT * result.mfu, "{:.1f}"),
            *(_number(result.breakdown_s[part], "{:.3f}") for part in BREAKDOWN_PARTS),
        ]
        cells += [_number(result.minutes_to_target, "{:.1f}")] if has_target else []
        rows.append(tuple(cells))
    caption = (
        "Step time and where it goes, as the mean over all ranks. Change: against the one fabric, or else "
        "the first case with as many GPUs of the same kind."
    )
    return Table(caption=caption, heads=tuple(heads), rows=tuple(rows))


def machine_table(results: Sequence[Result]) -> Table:
    """Return switches and cables of each case, its hottest link and its memory."""
    cables = list(dict.fromkeys(tier for result in results for tier in census_numbers(result, "cables")))
    has_join = any(census_numbers(result, "switches").get("join") for result in results)
    tiers = SWITCH_TIERS if has_join else SWITCH_TIERS[:-1]
    heads = ["case", "GPU", *tiers]
    heads += [f"cables {CABLE_NAMES.get(tier, tier.replace('_', ' '))}" for tier in cables]
    heads += ["hottest link", "mean use [%]", "peak use [%]", "memory of fullest GPU"]
    rows = [
        (
            _text(result.name),
            _text(result.gpu),
            *(_number(census_numbers(result, "switches").get(tier, math.nan), "{:,.0f}") for tier in tiers),
            *(_number(census_numbers(result, "cables").get(tier, math.nan), "{:,.0f}") for tier in cables),
            Cell(
                text=_arrowed(_hottest(result)) or NOTHING,
                value=result.hottest_link.name,
                mark="wide",
            ),
            _number(PERCENT * result.hottest_link.mean_utilisation if _hottest(result) else math.nan, "{:.0f}"),
            _number(PERCENT * result.hottest_link.peak_utilisation if _hottest(result) else math.nan, "{:.0f}"),
            Cell(
                text=f"{format_size(result.memory.peak_bytes)} of {format_size(result.memory.limit_bytes)}",
                value=result.memory.peak_bytes,
            ),
        )
        for result in results
    ]
    return Table(
        caption="Machines: switches and cables by tier, hottest link, memory; join is what couples the modules.",
        heads=tuple(heads),
        rows=tuple(rows),
    )


def _arrowed(link: str) -> str:
    """Return the name of a link with an arrow that no browser breaks in two."""
    return link.replace("->", "→")


SWITCH_TIERS = ("leaf", "spine", "core", "join")
"""Tiers; the last joins modules and is left out where no case has any."""


def link_table(results: Sequence[Result]) -> Table:
    """Return the payload that each class of links carries in a step, and whose it is."""
    traffic = list(
        dict.fromkeys(name for result in results for use in result.link_classes for name in use.traffic_bytes)
    )
    heads = ["case", "links", "bytes in a step", *(f"of {name.upper()}" for name in traffic)]
    heads += ["mean use of busiest [%]", "peak use [%]", "busiest"]
    rows = [
        (
            _text(result.name),
            _text(_link_class(use.link_class)),
            _size(use.bytes),
            *(_size(use.traffic_bytes.get(name, 0.0)) for name in traffic),
            _number(PERCENT * use.mean_utilisation, "{:.1f}"),
            _number(PERCENT * use.peak_utilisation, "{:.0f}"),
            Cell(text=_arrowed(use.busiest), value=use.busiest, mark="wide"),
        )
        for result in results
        for use in result.link_classes
    ]
    caption = "Payload by class of links, over all links and both directions."
    return Table(caption=caption, heads=tuple(heads), rows=tuple(rows))


def validation_table(rows: Sequence[MeasuredRow], *, band: float = BAND) -> Table:
    """Return predicted and measured step time of each published run; misses are marked."""
    cells = [
        (
            _text(row.id),
            _text(row.gpu),
            _number(row.num_gpus, "{:,}"),
            _number(row.measured_s, "{:.3f}"),
            _number(row.predicted_s, "{:.3f}"),
            Cell(
                text=f"{PERCENT * row.error:+.1f}" + (" miss" if abs(row.error) > band else ""),
                value=row.error,
                mark="miss" if abs(row.error) > band else "",
            ),
            _text(row.source or NOTHING),
        )
        for row in rows
    ]
    heads = ("run", "GPU", "GPUs", "measured [s]", "predicted [s]", "error [%]", "source")
    caption = f"Published step times beside predictions; a miss is off by more than {PERCENT * band:g} %."
    return Table(caption=caption, heads=heads, rows=tuple(cells))


def provenance_table(results: Sequence[Result]) -> Table:
    """Return what has to be the same for the same numbers to come out, and the engine's work."""
    heads = ("case", "simnet", "spec hash", "seed", "fidelity", "engine", "classes", "rate solves", "events")
    rows = [
        (
            _text(result.name),
            _text(result.provenance.version),
            _text(result.provenance.spec_hash),
            _number(result.provenance.seed, "{}"),
            _text(result.fidelity),
            _text(result.engine.rung),
            _number(result.engine.classes, "{:,}"),
            _number(result.engine.solves, "{:,}"),
            _number(result.engine.events, "{:,}"),
        )
        for result in results
    ]
    return Table(caption="Same spec, seed and version: same numbers.", heads=heads, rows=tuple(rows))


def _hottest(result: Result) -> str:
    """Return class and name of the hottest link; nothing where closed forms answered."""
    link = result.hottest_link
    return f"{_link_class(link.link_class)}: {link.name}" if link.name else ""


def _text(text: str) -> Cell:
    return Cell(text=text, value=text)


def _number(value: float, form: str) -> Cell:
    return Cell(text=NOTHING if math.isnan(value) else form.format(value), value=value)


def _size(size_bytes: float) -> Cell:
    return Cell(text=format_size(size_bytes) if size_bytes else NOTHING, value=size_bytes)


def _link_class(name: str) -> str:
    return LINK_CLASS_NAMES.get(name, name)


def _change(result: Result, reference: Result | None) -> Cell:
    if reference is None:
        return Cell(text=NOTHING, value=math.nan)
    change = PERCENT * (result.step_time_s / reference.step_time_s - 1)
    text = f"{change:+.2f}"
    return Cell(text="0.00" if text in {"+0.00", "-0.00"} else text, value=change)


def census_numbers(result: Result, group: str) -> Mapping[str, float]:
    """Return the numbers of one group of a case's census, e.g. "switches"."""
    return _numbers(result.census.get(group))


def _numbers(value: JsonValue) -> Mapping[str, float]:
    if not isinstance(value, Mapping):
        return {}
    return {key: float(count) for key, count in value.items() if isinstance(count, int | float)}
