"""The answer to a scenario's question: the sentence that a buyer reads, and the curves behind it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """The largest taper at which the loss of step time still stays within ``loss``.

    Parameters
    ----------
    loss : allowed loss of step time against the reference (fraction, 0.01 is 1 %).
    taper : where the curve crosses it, as asked for in the scenario (4 means 4:1); NaN if it
        never does within the range.
    effective_taper : after rounding to whole cables; NaN likewise.
    traffic : category of the traffic that is exposed there, e.g. "dp"; empty if none.
    why : why there is no knee within the range; empty where there is one.
    """

    loss: float
    taper: float
    effective_taper: float
    traffic: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaperPoint:
    """One simulated taper: step time and its loss against the curve's reference."""

    taper: float
    effective_taper: float
    step_time_s: float
    loss: float
    num_cables: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaperCurve:
    """Step time against taper of one kind of machine and layout, ordered by taper."""

    label: str
    reference_step_time_s: float
    points: tuple[TaperPoint, ...]
    knees: tuple[Knee, ...] = ()


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
class Answer:
    """What the scenario's question comes to.

    Parameters
    ----------
    headline : one or two sentences that a buyer understands, numbers included.
    details : further sentences, most important first.
    """

    headline: str
    details: tuple[str, ...] = ()
    knees: tuple[Knee, ...] = ()
    tapers: tuple[TaperCurve, ...] = ()
    scaling: tuple[ScalingCurve, ...] = ()
