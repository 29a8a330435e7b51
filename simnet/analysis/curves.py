"""Curves across cases: loss against taper with its knees, throughput against size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from simnet.analysis.answer import Bill, Knee, ScalingCurve, ScalingPoint, TaperCurve, TaperPoint
from simnet.analysis.result import Result

SIZE_PATHS = ("topology.racks", "topology.nodes", "topology.scalable_units")
"""Varied paths that set the size of the machine."""
SAME_WORK = 0.01
"""Relative: tokens per GPU and step this close are weak scaling."""
MIN_POINTS = 2
"""Fewer points are no curve."""
_PERCENT = 100
_LEAST = 0.01
"""Smaller percentages are nothing to a buyer."""


def taper_curves(
    results: Sequence[Result],
    *,
    path: str,
    losses: Sequence[float],
    baselines: Mapping[str, str],
) -> tuple[TaperCurve, ...]:
    """One curve for each variant that varies ``path``, knees included.

    Parameters
    ----------
    results
        All cases.
    path
        Varied path of the taper.
    losses
        Losses of step time at which to look for a knee (fractions).
    baselines
        Variant to compare with, by variant; missing means the curve's own smallest taper.
    """
    curves: list[TaperCurve] = []
    for variant in dict.fromkeys(r.variant for r in results if path in r.values):
        members = sorted(
            (r for r in results if r.variant == variant and path in r.values),
            key=lambda r: float(r.values[path]),
        )
        if not any(_join_figure(r, "cables", 0) for r in members):
            continue  # nothing is joined, so nothing thins
        base = reference_of(members[0], results, baselines) or members[0]
        points = tuple(
            TaperPoint(
                taper=float(r.values[path]),
                effective_taper=_join_figure(r, "effective_taper", float(r.values[path])),
                step_time_s=r.step_time_s,
                loss=r.step_time_s / base.step_time_s - 1,
                num_cables=int(_join_figure(r, "cables", 0)),
                bill=bill_of(r),
            )
            for r in members
        )
        knees = tuple(_knee(loss, points, members, base) for loss in losses)
        curves.append(
            TaperCurve(
                label=variant,
                reference_step_time_s=base.step_time_s,
                reference_bill=None if base.variant == variant else bill_of(base),
                points=points,
                knees=knees,
                num_modules=_num_modules(members[0]),
            )
        )
    return tuple(curves)


def reference_of(result: Result, results: Sequence[Result], baselines: Mapping[str, str]) -> Result | None:
    """Return the case to compare with: the named variant's, of the same GPUs; None if there is none."""
    wanted = baselines.get(result.variant)
    return next((r for r in results if r.variant == wanted and r.gpu == result.gpu), None)


def bill_of(result: Result) -> Bill | None:
    """Return what a case's machine costs and draws; None where that is not known."""
    price, power = result.census.get("price_usd"), result.census.get("power_w")
    use = price.get("use") if isinstance(price, Mapping) else None
    if not isinstance(use, int | float) or not isinstance(power, int | float) or not use:
        return None
    return Bill(price_usd=float(use), power_w=float(power))


def scaling_curves(results: Sequence[Result]) -> tuple[ScalingCurve, ...]:
    """Return one curve for each variant that varies the size of its machine; all share the smallest as baseline."""
    curves: list[ScalingCurve] = []
    sized = [r for r in results if any(path in r.values for path in SIZE_PATHS)]
    for variant in dict.fromkeys(r.variant for r in results):
        members = sorted(
            (r for r in results if r.variant == variant and any(p in r.values for p in SIZE_PATHS)),
            key=lambda r: r.num_gpus,
        )
        if len({r.num_gpus for r in members}) < MIN_POINTS:
            continue
        first = min((r for r in sized if r.gpu == members[0].gpu), key=lambda r: r.num_gpus)
        curves.append(
            ScalingCurve(
                label=variant,
                kind="weak" if _is_weak(members) else "strong",
                baseline=f"{first.num_gpus:,} GPUs",
                points=tuple(
                    ScalingPoint(
                        num_gpus=r.num_gpus,
                        tokens_per_s_per_gpu=r.tokens_per_s_per_gpu,
                        efficiency=r.tokens_per_s_per_gpu / first.tokens_per_s_per_gpu,
                    )
                    for r in members
                ),
            )
        )
    return tuple(curves)


def _is_weak(members: Sequence[Result]) -> bool:
    work = [r.tokens_per_s_per_gpu * r.step_time_s for r in members]
    return max(work) <= min(work) * (1 + SAME_WORK)


def _num_modules(result: Result) -> int:
    count = result.census.get("modules")
    return count if isinstance(count, int) else 0


def _join_figure(result: Result, key: str, default: float) -> float:
    join = result.census.get("join")
    if isinstance(join, Mapping):
        value = join.get(key)
        if isinstance(value, int | float):
            return float(value)
    return default


def percent(fraction: float) -> str:
    """Return "0.4 %", "12 %"; nothing below a hundredth."""
    value = _PERCENT * max(fraction, 0.0)
    return f"{value:.1g} %" if _LEAST <= value < 1 else f"{value:.3g} %" if value >= 1 else "0 %"


def _knee(loss: float, points: Sequence[TaperPoint], members: Sequence[Result], base: Result) -> Knee:
    """Return the pair of simulated tapers between which the loss is reached."""
    for index, point in enumerate(points):
        if point.loss <= loss:
            continue
        traffic = grown_part(members[index], base)
        if index == 0:
            return Knee(
                loss=loss,
                taper=math.nan,
                effective_taper=math.nan,
                traffic=traffic,
                why=f"even the widest join simulated, {point.effective_taper:g}:1, loses {percent(point.loss)}",
            )
        before = points[index - 1]
        share = (loss - before.loss) / (point.loss - before.loss)
        return Knee(
            loss=loss,
            taper=before.taper + share * (point.taper - before.taper),
            effective_taper=before.effective_taper + share * (point.effective_taper - before.effective_taper),
            traffic=traffic,
            within_taper=before.effective_taper,
            within_cables=before.num_cables,
            within_loss=before.loss,
            beyond_taper=point.effective_taper,
        )
    last = points[-1]
    return Knee(
        loss=loss,
        taper=math.nan,
        effective_taper=math.nan,
        traffic="",
        within_taper=last.effective_taper,
        within_cables=last.num_cables,
        within_loss=last.loss,
        why=f"at {last.effective_taper:g}:1, the thinnest join simulated, only {percent(last.loss)} is lost",
    )


def grown_part(result: Result, base: Result) -> str:
    """Category of the communication whose exposed time grew most over the baseline's."""
    parts = ("exposed_tp", "exposed_cp", "exposed_pp", "exposed_dp")
    grown = {part: result.breakdown_s[part] - base.breakdown_s[part] for part in parts}
    return max(grown, key=lambda part: grown[part]).removeprefix("exposed_")
