"""The answer to a scenario's question: the sentence that a buyer reads, and the curves behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """Where the loss of step time reaches ``loss``: cables are whole, so it lies between two simulated tapers.

    Parameters
    ----------
    loss : allowed loss of step time against the reference (fraction, 0.01 is 1 %).
    taper : where the straight line between the two crosses it, as asked for in the scenario (4 means
        4:1), for figures; NaN if it never does within the range.
    effective_taper : after rounding to whole cables; NaN likewise.
    within_taper, within_cables, within_loss : the thinnest simulated join that stays within ``loss``: its
        effective taper, cables and loss; NaN and 0 if there is none.
    beyond_taper : effective taper of the next thinner one simulated, which does not; NaN if there is none.
    traffic : category of the traffic that is exposed there, e.g. "dp"; empty if none.
    why : why there is no knee within the range; empty where there is one.
    """

    loss: float
    taper: float
    effective_taper: float
    traffic: str
    why: str = ""
    within_taper: float = math.nan
    within_cables: int = 0
    within_loss: float = math.nan
    beyond_taper: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What a machine costs to buy [USD, the middle of the catalogue's range] and draws [W]."""

    price_usd: float
    power_w: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TaperPoint:
    """One simulated taper: step time and its loss against the curve's reference."""

    taper: float
    effective_taper: float
    step_time_s: float
    loss: float
    num_cables: int
    bill: Bill | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaperCurve:
    """Step time against taper of one kind of machine and layout, ordered by taper."""

    label: str
    reference_step_time_s: float
    points: tuple[TaperPoint, ...]
    knees: tuple[Knee, ...] = ()
    num_modules: int = 0
    reference_bill: Bill | None = None
    """Of the machine that the curve is compared with, where that is another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoint:
    """Throughput of one size of machine; efficiency is relative to the curve's baseline size."""

    num_gpus: int
    tokens_per_s_per_gpu: float
    efficiency: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingCurve:
    """Per-GPU throughput against machine size; ``kind`` says weak or strong scaling."""

    label: str
    kind: str
    baseline: str
    points: tuple[ScalingPoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimVerdict:
    """One claim about one case.

    Parameters
    ----------
    case : the case that it is about.
    tokens_per_s : as claimed [tokens/s].
    gpus_per_node : GPUs of a node of the machine, the other unit that a claim may mean.
    needed_flops_per_s, peak_share : what six FLOPs a parameter come to if the claim is of one GPU [FLOP/s], and over
        its dense peak (fraction).
    mfu_per_gpu, mfu_per_node : model FLOPs, the causal half of attention counted, over the dense peak if the claim
        is of one GPU, or of one node (fractions); above 1 is impossible.
    predicted_tokens_per_s : of one GPU [tokens/s].
    sustained_mfu : what the best measured matrix products of the chip sustain, without any other work (fraction).
    verdict_per_gpu, verdict_per_node : ``impossible`` beyond the peak, ``more than measured kernels sustain``, or
        ``plausible``.
    """

    case: str
    tokens_per_s: float
    gpus_per_node: int
    needed_flops_per_s: float
    peak_share: float
    mfu_per_gpu: float
    mfu_per_node: float
    predicted_tokens_per_s: float
    sustained_mfu: float
    verdict_per_gpu: str
    verdict_per_node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """One change: its name, the case behind it, and how many times the throughput, or the chip time, grew with it."""

    name: str
    case: str
    ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Throughput of a GPU, or chip time to the target, in one case over another's, as a product.

    Parameters
    ----------
    start : case from which the changes start.
    factors : the changes in order; their product is ``predicted``.
    predicted : ratio of the last case to the first.
    claimed : ratio of the claims about both, NaN without them.
    remainder : claimed over predicted: what no change explains, network and whatever the cases leave alike; NaN
        without claims.
    of : ``throughput`` [tokens/s/GPU], or ``chip_time`` (GPUs x time to the target).
    chips, minutes : GPUs and time to the target of the last case over the first's; NaN without targets.
    """

    start: str
    factors: tuple[Factor, ...]
    predicted: float
    claimed: float = math.nan
    remainder: float = math.nan
    of: str = "throughput"
    chips: float = math.nan
    minutes: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the scenario's question comes to.

    Parameters
    ----------
    headline : one or two sentences that a buyer understands, numbers included.
    details : further sentences, most important first.
    references : case to compare each case with, by name; cases without one are left out.
    claims : verdicts on the scenario's claims.
    split : a ratio of throughputs as a product of its causes, where the scenario asks for it.
    """

    headline: str
    details: tuple[str, ...] = ()
    knees: tuple[Knee, ...] = ()
    tapers: tuple[TaperCurve, ...] = ()
    scaling: tuple[ScalingCurve, ...] = ()
    references: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[ClaimVerdict, ...] = ()
    split: Split | None = None
