"""The answer to a scenario's question, in sentences that a buyer understands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

from simnet.analysis.answer import Answer, Knee, TaperCurve
from simnet.analysis.claims import ChipLimit, claim_sentence, judge_claims
from simnet.analysis.curves import percent, reference_of, scaling_curves, taper_curves
from simnet.analysis.result import Result
from simnet.analysis.split import CHIP_TIME, split_ratio, split_sentence
from simnet.units import format_money, format_power

EQUAL_SCALE = 0.1
"""Relative: machines this close in GPUs are compared chip for chip."""
SHORT_NAMES = {"dp": "gradients", "pp": "pipeline messages", "tp": "tensor parallelism", "cp": "context parallelism"}
TRAFFIC_NAMES = {
    "dp": "gradients and parameters (data parallel)",
    "pp": "activations between pipeline stages",
    "tp": "tensor-parallel traffic",
    "cp": "context-parallel traffic",
}
SCREENED = (
    "Closed forms answered: they see no cables, so tapers, routes and defects change nothing here; "
    "--fidelity simulate shows what those cost."
)
WORDS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven", "Twelve")


def answer_question(
    results: Sequence[Result],
    *,
    knee_path: str = "",
    losses: Sequence[float] = (),
    baselines: Mapping[str, str] | None = None,
    claims: Mapping[str, float] | None = None,
    limits: Mapping[str, ChipLimit] | None = None,
    split: tuple[str, Mapping[str, str], str] | None = None,
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
    claims
        Throughputs that somebody claims, by variant [tokens/s].
    limits
        What the chips of each variant with a claim can do.
    split
        Variant from which a ratio starts, the variants through which it goes, by the change, and what it is of.
    """
    verdicts = judge_claims(claims or {}, results, limits or {})
    causes = split_ratio(split[0], split[1], results, claims or {}, split[2]) if split is not None else None
    is_screened = any(result.fidelity == "screen" for result in results)
    has_knee = bool(knee_path and losses) and not is_screened
    tapers = taper_curves(results, path=knee_path, losses=losses, baselines=baselines or {}) if has_knee else ()
    sentences = [
        *([split_sentence(causes)] if causes is not None else []),
        *(claim_sentence(verdict, results) for verdict in verdicts),
        *(_headline(curve) for curve in tapers[:1]),
        *(_bill_sentence(curve) for curve in tapers[:1] if curve.reference_bill is not None),
        *(_taper_sentence(curve) for curve in tapers),
        *(_chip_sentences(results) if causes is None or causes.of != CHIP_TIME else []),
        *_target_sentences(results),
    ]
    if not sentences:
        sentences = [_plain_sentence(results[0])]
    sentences += _idle_sentences(results)
    sentences += [SCREENED] if is_screened else []
    return Answer(
        headline=sentences[0],
        details=tuple(sentences[1:]),
        knees=tapers[0].knees if tapers else (),
        tapers=tapers,
        scaling=scaling_curves(results),
        references=_references(results, baselines or {}),
        claims=verdicts,
        split=causes,
    )


def _headline(curve: TaperCurve) -> str:
    """Return the first curve in one breath: the thinnest join within the first loss, and what it then waits for."""
    count = curve.num_modules
    modules = f"{WORDS[count] if count < len(WORDS) else f'{count:,}'} subclusters"
    widest, knee = curve.points[0], curve.knees[0]
    if not knee.within_cables:
        return (
            f"{modules} lose {percent(widest.loss)} of step time even when joined by {widest.num_cables:,} cables "
            f"({widest.effective_taper:.3g}:1), to {SHORT_NAMES[knee.traffic]}."
        )
    if math.isnan(knee.beyond_taper):
        end = f"{percent(knee.loss)} is not lost up to {knee.within_taper:.3g}:1, the thinnest join simulated"
    else:
        end = f"{_between(knee)}, to {SHORT_NAMES[knee.traffic]}"
    return (
        f"{modules} joined by {knee.within_cables:,} cables instead of {widest.num_cables:,} lose "
        f"{percent(knee.within_loss)} of step time; {end}."
    )


def _bill_sentence(curve: TaperCurve) -> str:
    """Return what the joined machine costs and draws beside the one fabric, at the headline's join."""
    knee = curve.knees[0]
    point = next((p for p in curve.points if p.num_cables == knee.within_cables), curve.points[0])
    one, bill = curve.reference_bill, point.bill
    if one is None or bill is None:
        return ""
    saved = 1 - bill.price_usd / one.price_usd
    verdict = "as much as"
    if percent(abs(saved)) != percent(0):
        verdict = f"{percent(abs(saved))} {'less' if saved > 0 else 'more'} than"
    return (
        f"With {point.num_cables:,} cables the machine costs {format_money(bill.price_usd)} at catalogue prices, "
        f"{verdict} the one fabric's {format_money(one.price_usd)}; it draws {format_power(bill.power_w)} "
        f"against {format_power(one.power_w)}."
    )


def _idle_sentences(results: Sequence[Result]) -> list[str]:
    """Say where a job leaves GPUs of its machine without work; a buyer pays for them."""
    found: dict[tuple[int, int], str] = {}
    for result in results:
        there = result.census.get("gpus")
        if isinstance(there, int) and there > result.num_gpus:
            found.setdefault((result.num_gpus, there), result.name)
    return [f"{name} uses {used:,} of the machine's {there:,} GPUs." for (used, there), name in found.items()]


def _references(results: Sequence[Result], baselines: Mapping[str, str]) -> dict[str, str]:
    """Return the case to compare each with: its variant's baseline, else the first of the same GPUs and number."""
    found: dict[str, str] = {}
    for result in results:
        alike = (r for r in results if (r.gpu, r.num_gpus) == (result.gpu, result.num_gpus))
        reference = reference_of(result, results, baselines) or next(alike)
        if reference is not result and reference.num_gpus == result.num_gpus:
            found[result.name] = reference.name
    return found


def _between(knee: Knee) -> str:
    return f"{percent(knee.loss)} is lost between {knee.within_taper:.3g}:1 and {knee.beyond_taper:.3g}:1"


def _taper_sentence(curve: TaperCurve) -> str:
    """Return one curve in full: its wide end, how thin it may be for each loss, and what it waits for."""
    widest = curve.points[0]
    against = f"{percent(widest.loss)} more than" if percent(widest.loss) != percent(0) else "as"
    start = f"{curve.label}: {widest.step_time_s:.3f} s a step with a join of {widest.effective_taper:.3g}:1"
    parts = [f"{start}, {against} the one fabric"]
    parts += [
        f"within {percent(knee.loss)} up to {knee.within_taper:.3g}:1 ({knee.within_cables:,} cables)"
        for knee in curve.knees
        if knee.within_cables
    ]
    waits = [knee for knee in curve.knees if knee.traffic]
    parts += [knee.why for knee in curve.knees[-1:] if knee.why]
    if waits:
        parts.append(f"what a thinner join makes the step wait for is {TRAFFIC_NAMES[waits[-1].traffic]}")
    return "; ".join(parts) + "."


def _chip_sentences(results: Sequence[Result]) -> list[str]:
    """Per-chip ratio of the first case of each pair of GPUs at about equal scale, and the rest of the difference."""
    found: dict[tuple[str, str], list[str]] = {}
    for one, other in combinations(results, 2):
        if one.gpu == other.gpu or abs(one.num_gpus / other.num_gpus - 1) > EQUAL_SCALE:
            continue
        fast, slow = sorted((one, other), key=lambda r: -r.tokens_per_s_per_gpu)
        if (fast.gpu, slow.gpu) in found:
            continue
        ratio = fast.tokens_per_s_per_gpu / slow.tokens_per_s_per_gpu
        sentence = (
            f"Per chip {fast.gpu} is {ratio:.2f} times as fast as {slow.gpu} "
            f"({fast.tokens_per_s_per_gpu:,.0f} against {slow.tokens_per_s_per_gpu:,.0f} tokens/s/GPU "
            f"on {fast.num_gpus:,} and {slow.num_gpus:,} GPUs)."
        )
        found[fast.gpu, slow.gpu] = [sentence, *_chip_hours(fast, slow, results)]
    return [sentence for sentences in found.values() for sentence in sentences]


def _chip_hours(fast: Result, slow: Result, results: Sequence[Result]) -> list[str]:
    """Chip time to the target of the largest machine of the slower chip, split into its three causes."""
    same = (r for r in results if r.gpu == slow.gpu and not math.isnan(r.minutes_to_target))
    large = max(same, key=lambda r: r.num_gpus, default=slow)
    if large.num_gpus <= slow.num_gpus or math.isnan(fast.minutes_to_target):
        return []
    chips = large.num_gpus / fast.num_gpus
    times = chips * large.minutes_to_target / fast.minutes_to_target
    speed = fast.tokens_per_s_per_gpu / slow.tokens_per_s_per_gpu
    scaling = slow.tokens_per_s_per_gpu / large.tokens_per_s_per_gpu
    machines = f"{large.num_gpus:,} {large.gpu} ({chips:.1f} times the chips of {fast.num_gpus:,} {fast.gpu})"
    causes = f"{speed:.2f} for the chip x {scaling:.2f} for the loss of scaling from {slow.num_gpus:,}"
    rest = f"{times / speed / scaling:.2f} for samples to the target and evaluation"
    return [f"{machines} spend {times:.2f} times the chip time to the target: {causes} x {rest}."]


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
