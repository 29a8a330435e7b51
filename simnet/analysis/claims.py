"""What a claimed throughput would need, and whether that is possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simnet.analysis.answer import ClaimVerdict
from simnet.analysis.curves import percent
from simnet.analysis.result import Result

PETA = 1e15


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipLimit:
    """What a claim about a variant is held to."""

    peak_flops_per_s: float
    """Dense peak of the datasheet [FLOP/s]."""
    sustained_share: float
    """Share of it that the best measured matrix products sustain."""
    flops_per_token: float
    """Six for each parameter, attention left out [FLOP]."""


IMPOSSIBLE, UNHEARD, PLAUSIBLE = "impossible", "more than measured kernels sustain", "plausible"


def judge_claims(
    claims: Mapping[str, float], results: Sequence[Result], limits: Mapping[str, ChipLimit]
) -> tuple[ClaimVerdict, ...]:
    """Return the verdict on each claim, about the first case of its variant.

    Parameters
    ----------
    claims
        Tokens per second by variant.
    results
        The cases.
    limits
        What the chips of each variant can do.
    """
    first: dict[str, Result] = {}
    for result in results:
        first.setdefault(result.variant, result)
    return tuple(
        _verdict(first[variant], rate, limits[variant]) for variant, rate in claims.items() if variant in first
    )


def claim_sentence(verdict: ClaimVerdict, results: Sequence[Result]) -> str:
    """Tell a verdict, with the arithmetic behind it."""
    gpu = next(result.gpu for result in results if result.name == verdict.case)
    need = f"{verdict.needed_flops_per_s / PETA:.1f} PFLOP/s at six FLOPs a parameter"
    start = f"{verdict.case}: {verdict.tokens_per_s:,.0f} tokens/s of one {gpu} need {need}"
    if verdict.verdict_per_gpu == IMPOSSIBLE:
        head = f"{start}, {verdict.peak_share:.1f} times its dense peak: impossible"
    else:
        head = f"{start}, {verdict.peak_share:.0%} of its dense peak: {verdict.verdict_per_gpu}"
    if verdict.verdict_per_gpu == PLAUSIBLE:
        return f"{head} ({_beside(verdict, 1)})."
    each = verdict.tokens_per_s / verdict.gpus_per_node
    share = verdict.peak_share / verdict.gpus_per_node
    tail = (
        f"of a node of {verdict.gpus_per_node} it is {each:,.0f} tokens/s/GPU, {share:.0%} of the peak "
        f"({verdict.mfu_per_node:.0%} MFU with attention)"
    )
    return f"{head}; {tail}: {verdict.verdict_per_node} ({_beside(verdict, verdict.gpus_per_node)})."


def _beside(verdict: ClaimVerdict, gpus: int) -> str:
    off = verdict.tokens_per_s / gpus / verdict.predicted_tokens_per_s - 1
    side = "above" if off > 0 else "below"
    return f"{percent(abs(off))} {side} the predicted {verdict.predicted_tokens_per_s:,.0f}"


def _verdict(result: Result, tokens_per_s: float, limit: ChipLimit) -> ClaimVerdict:
    gpus, nodes = (result.census.get(key) for key in ("gpus", "nodes"))
    per_node = round(gpus / nodes) if isinstance(gpus, int) and isinstance(nodes, int) and nodes else 1
    ratio = tokens_per_s / result.tokens_per_s_per_gpu
    return ClaimVerdict(
        case=result.name,
        tokens_per_s=tokens_per_s,
        gpus_per_node=per_node,
        mfu_per_gpu=result.mfu * ratio,
        mfu_per_node=result.mfu * ratio / per_node,
        predicted_tokens_per_s=result.tokens_per_s_per_gpu,
        needed_flops_per_s=tokens_per_s * limit.flops_per_token,
        peak_share=tokens_per_s * limit.flops_per_token / limit.peak_flops_per_s,
        sustained_mfu=limit.sustained_share,
        verdict_per_gpu=_word(result.mfu * ratio, limit.sustained_share),
        verdict_per_node=_word(result.mfu * ratio / per_node, limit.sustained_share),
    )


def _word(mfu: float, sustained: float) -> str:
    if mfu > 1:
        return IMPOSSIBLE
    return UNHEARD if mfu > sustained else PLAUSIBLE
