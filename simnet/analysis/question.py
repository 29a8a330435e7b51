"""The answer to a scenario's question, in sentences that a buyer understands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

from simnet.analysis.answer import Answer, Knee, TaperCurve
from simnet.analysis.curves import scaling_curves, taper_curves
from simnet.analysis.result import Result

AS_GOOD_AS_FREE = 0.005
"""Loss of step time that no buyer would pay cables for (fraction)."""
EQUAL_SCALE = 0.1
"""Relative: machines this close in GPUs are compared chip for chip."""
TRAFFIC_NAMES = {
    "dp": "gradients and parameters (data parallel)",
    "pp": "activations between pipeline stages",
    "tp": "tensor-parallel traffic",
    "cp": "context-parallel traffic",
}


def answer_question(
    results: Sequence[Result],
    *,
    knee_path: str = "",
    losses: Sequence[float] = (),
    baselines: Mapping[str, str] | None = None,
) -> Answer:
    """Tell what the cases say together.

    Parameters
    ----------
    results
        All cases, the reference first.
    knee_path
        Varied path whose curve is searched for its knee; empty for none.
    losses
        Losses of step time at which to look (fractions).
    baselines
        Variant to compare with, by variant.
    """
    tapers = taper_curves(results, path=knee_path, losses=losses, baselines=baselines or {}) if knee_path else ()
    sentences = [
        *(_headline(curve) for curve in tapers[:1]),
        *(_taper_sentence(curve) for curve in tapers),
        *_chip_sentences(results),
        *_target_sentences(results),
    ]
    if not sentences:
        sentences = [_plain_sentence(results[0])]
    return Answer(
        headline=sentences[0],
        details=tuple(sentences[1:]),
        knees=tapers[0].knees if tapers else (),
        tapers=tapers,
        scaling=scaling_curves(results),
    )


def _headline(curve: TaperCurve) -> str:
    """Return the first curve in one breath: the thinnest join that is as good as free, and the knees."""
    free = [point for point in curve.points if point.loss <= AS_GOOD_AS_FREE] or [curve.points[0]]
    widest, best = curve.points[0], free[-1]
    found = [knee for knee in curve.knees if not math.isnan(knee.effective_taper)]
    knees = "; ".join(_knee_words(knee) for knee in found) or f"no knee in the range: {curve.knees[0].why}"
    return (
        f"Subclusters joined by {best.num_cables:,} cables instead of {widest.num_cables:,} "
        f"({best.effective_taper:.3g}:1) take {_loss(best.loss)} the one fabric for a step; {knees}."
    )


def _taper_sentence(curve: TaperCurve) -> str:
    widest, thinnest = curve.points[0], curve.points[-1]
    start = (
        f"{curve.label}: with a join as wide as {widest.effective_taper:g}:1 the step takes "
        f"{widest.step_time_s:.3f} s, {_loss(widest.loss)} the one fabric"
    )
    found = [knee for knee in curve.knees if not math.isnan(knee.effective_taper)]
    missing = [knee for knee in curve.knees if math.isnan(knee.effective_taper)]
    parts = [start]
    if found:
        parts.append("; ".join(_knee_words(knee) for knee in found))
    if missing:
        levels = " and ".join(f"{knee.loss:.0%}" for knee in missing)
        parts.append(f"no knee at {levels}: {missing[0].why}")
    if not found:
        parts.append(
            f"so a core {thinnest.effective_taper:g} times thinner ({thinnest.num_cables:,} cables "
            f"instead of {widest.num_cables:,}) is enough"
        )
    return "; ".join(parts) + "."


def _knee_words(knee: Knee) -> str:
    name = TRAFFIC_NAMES.get(knee.traffic, knee.traffic)
    return f"{knee.loss:.0%} of the step is lost at {knee.effective_taper:.3g}:1, to {name}"


def _loss(loss: float) -> str:
    if abs(loss) < 5e-5:
        return "the same as"
    return f"{abs(loss):.2%} {'more' if loss > 0 else 'less'} than"


def _chip_sentences(results: Sequence[Result]) -> list[str]:
    """Per-chip ratio of the first case of each pair of GPUs that come at about equal scale."""
    found: dict[tuple[str, str], str] = {}
    for one, other in combinations(results, 2):
        if one.gpu == other.gpu or abs(one.num_gpus / other.num_gpus - 1) > EQUAL_SCALE:
            continue
        fast, slow = sorted((one, other), key=lambda r: -r.tokens_per_s_per_gpu)
        ratio = fast.tokens_per_s_per_gpu / slow.tokens_per_s_per_gpu
        found.setdefault(
            (fast.gpu, slow.gpu),
            f"Per chip {fast.gpu} is {ratio:.2f} times as fast as {slow.gpu} "
            f"({fast.tokens_per_s_per_gpu:,.0f} against {slow.tokens_per_s_per_gpu:,.0f} tokens/s/GPU "
            f"on {fast.num_gpus:,} and {slow.num_gpus:,} GPUs).",
        )
    return list(found.values())


def _target_sentences(results: Sequence[Result]) -> list[str]:
    """Minutes to target of the first case of each machine, fewest minutes first."""
    timed: dict[tuple[str, int], Result] = {}
    for result in results:
        if not math.isnan(result.minutes_to_target) and not result.values:
            timed.setdefault((result.gpu, result.num_gpus), result)
    if not timed:
        return []
    ranked = sorted(timed.values(), key=lambda r: r.minutes_to_target)
    words = ", ".join(f"{r.minutes_to_target:.1f} min on {r.num_gpus:,} {r.gpu}" for r in ranked)
    return [f"To the target, each entry with its own samples and evaluation: {words}."]


def _plain_sentence(result: Result) -> str:
    return (
        f"{result.name}: {result.step_time_s:.3f} s a step, {result.tokens_per_s_per_gpu:,.0f} tokens/s/GPU "
        f"on {result.num_gpus:,} {result.gpu}, MFU {result.mfu:.1%}; {result.bottleneck}."
    )
