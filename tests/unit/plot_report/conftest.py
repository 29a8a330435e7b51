"""Made-up results: the numbers are invented, round and only good for looking at figures."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from matplotlib.axes import Axes
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from simnet.analysis.answer import Answer, Knee, ScalingCurve, ScalingPoint, TaperCurve, TaperPoint
from simnet.analysis.result import (
    EngineUse,
    HottestLink,
    KnownError,
    LinkClassUse,
    MemoryUse,
    Provenance,
    Result,
    Span,
)
from simnet.plot.parity import MeasuredRow


def made_up_result(name: str = "monolithic", **changes: object) -> Result:
    compute_s, dp_s = 4.0, float(changes.pop("exposed_dp_s", 0.02))  # type: ignore[arg-type]
    scale = float(changes.pop("scale", 1.0))  # type: ignore[arg-type]
    parts = {
        "compute": compute_s,
        "exposed_tp": 0.3,
        "exposed_cp": 0.1,
        "exposed_pp": 0.05,
        "exposed_dp": dp_s,
        "bubble": 0.4,
        "optimizer": 0.03,
    }
    breakdown_s = {part: seconds * scale for part, seconds in parts.items()}
    step_time_s = sum(breakdown_s.values())
    fields: dict[str, object] = {
        "name": name,
        "variant": name.split(" ", maxsplit=1)[0],
        "values": {},
        "num_gpus": 2496,
        "gpu": "GB200",
        "step_time_s": step_time_s,
        "tokens_per_s": 1248 * 8192 / step_time_s,
        "tokens_per_s_per_gpu": 1248 * 8192 / step_time_s / 2496,
        "mfu": 0.4,
        "hfu": 0.41,
        "breakdown_s": breakdown_s,
        "hottest_link": HottestLink(
            name="m0/d3/gpu5 -> nvswitch", link_class="nvlink", mean_utilisation=0.21, peak_utilisation=0.97, bytes=1e12
        ),
        "link_classes": (
            _use("nvlink", 4e15, 0.21, {"tp": 3e15, "cp": 0.8e15, "pp": 0.2e15}),
            _use("nic_leaf", 6e13, 0.08, {"dp": 6e13}),
            _use("join", 4e12, 0.31, {"dp": 4e12}),
        ),
        "census": {
            "gpus": 2496,
            "nodes": 39,
            "switches": {"leaf": 80, "spine": 40, "core": 0},
            "cables": {"node_leaf": 2496, "leaf_spine": 2560, "spine_core": 0},
        },
        "memory": MemoryUse(peak_bytes=120e9, limit_bytes=186e9, stage=0, classes_bytes={"weights": 60e9}),
        "engine": EngineUse(rung="classes by behaviour", classes=8, solves=120, events=70000),
        "bottleneck": "Compute takes 82 % of the step.",
        "assumptions": ("Made-up assumption: GEMM efficiency 0.62 (invented, 2025).",),
        "known_error": KnownError(median=0.03, p90=0.07, rows=14, source="made-up table"),
        "provenance": Provenance(spec_hash="0123abcd", version="0.1.0", seed=0),
        "timeline": made_up_timeline(),
        "steps_to_target": 259.0,
        "minutes_to_target": 259.0 * step_time_s / 60 + 1.5,
    }
    return Result(**(fields | changes))  # type: ignore[arg-type]


def _use(link_class: str, payload: float, share: float, traffic: dict[str, float]) -> LinkClassUse:
    return LinkClassUse(
        link_class=link_class,
        bytes=payload,
        mean_utilisation=share,
        peak_utilisation=min(1.0, 3 * share),
        busiest=f"m0/d3/gpu5 -> {link_class}",
        traffic_bytes=traffic,
    )


def made_up_timeline(stages: int = 4, micro_batches: int = 8, chunks: int = 2) -> tuple[Span, ...]:
    """Return interleaved-looking blocks: forward 1 unit, backward 2, each stage one unit later."""
    spans = []
    for stage in range(stages):
        clock = 0.02 * stage
        spans.append(_span(stage, "wait forward", "bubble", -1, -1, 0.0, clock))
        for label, length in (("F", 0.02), ("B", 0.04)):
            for chunk in range(chunks):
                for micro_batch in range(micro_batches):
                    spans.append(_span(stage, label, "compute", micro_batch, chunk, clock, clock + length))
                    clock += length + (0.004 if micro_batch % 4 == 3 else 0)
        spans.append(_span(stage, "reduce-scatter", "dp", -1, -1, clock - 0.3, clock + 0.05))
        spans.append(_span(stage, "wait gradients", "dp", -1, -1, clock, clock + 0.05))
        spans.append(_span(stage, "optimizer", "optimizer", -1, -1, clock + 0.05, clock + 0.09))
    return tuple(spans)


def _span(stage: int, label: str, category: str, micro_batch: int, chunk: int, start: float, end: float) -> Span:
    return Span(
        stage=stage, label=label, category=category, micro_batch=micro_batch, chunk=chunk, start_s=start, end_s=end
    )


TAPERS = ((1, 1.0, 0.0), (2, 2.0, 0.0), (4, 4.0, 0.001), (8, 8.0, 0.008), (16, 15.6, 0.031), (32, 31.2, 0.084))


def made_up_taper(label: str = "modular, replica in a rack", factor: float = 1.0) -> TaperCurve:
    points = tuple(
        TaperPoint(
            taper=taper,
            effective_taper=effective,
            step_time_s=4.9 * (1 + factor * loss),
            loss=factor * loss,
            num_cables=int(2560 / effective),
        )
        for taper, effective, loss in TAPERS
    )
    knees = (
        Knee(loss=0.01, taper=8.7, effective_taper=8.7, traffic="dp"),
        Knee(loss=0.05, taper=21.0, effective_taper=21.0, traffic="dp"),
    )
    return TaperCurve(label=label, reference_step_time_s=4.9, points=points, knees=knees if factor == 1 else ())


def made_up_scaling() -> tuple[ScalingCurve, ScalingCurve]:
    sizes = (64, 128, 256, 512, 1024, 2048, 2496)
    return tuple(  # type: ignore[return-value]
        ScalingCurve(
            label=label,
            kind="weak",
            baseline="monolithic, 64 GPUs",
            points=tuple(
                ScalingPoint(
                    num_gpus=size,
                    tokens_per_s_per_gpu=840 * (1 - loss * math.log2(size / 64)),
                    efficiency=1 - loss * math.log2(size / 64),
                )
                for size in sizes
            ),
        )
        for label, loss in (("monolithic", 0.006), ("modular 4:1", 0.0075))
    )


def made_up_rows() -> list[MeasuredRow]:
    rows = [
        ("GB200", 256, 42.0, 0.012),
        ("GB200", 512, 21.2, -0.03),
        ("GB200", 2496, 5.6, 0.041),
        ("H100", 512, 48.0, -0.02),
        ("H100", 1024, 25.0, 0.055),
        ("H100", 8192, 5.1, -0.094),
        ("H200", 512, 46.0, 0.01),
    ]
    return [
        MeasuredRow(id=f"{gpu}-{size}", gpu=gpu, num_gpus=size, predicted_s=time * (1 + error), measured_s=time)
        for gpu, size, time, error in rows
    ]


def made_up_answer() -> Answer:
    curve = made_up_taper()
    return Answer(
        headline="Joining the four subclusters with a 16:1 core costs 3.1 % of step time (made-up numbers).",
        details=("In the record layout only data-parallel traffic leaves the rack.",),
        knees=curve.knees,
        tapers=(curve, made_up_taper("modular, pipeline crosses the join", 9.0)),
        scaling=made_up_scaling(),
    )


def made_up_cases() -> list[Result]:
    return [
        made_up_result("monolithic"),
        *(made_up_result(f"modular {taper}:1", exposed_dp_s=0.02 + 4.9 * loss) for taper, _, loss in TAPERS),
        made_up_result("modular, pipeline across", exposed_dp_s=0.6),
        made_up_result("H100, 2,560", scale=2.2, gpu="H100", num_gpus=2560),
        made_up_result("H100, 8,192", scale=0.9, gpu="H100", num_gpus=8192),
    ]


@pytest.fixture(scope="session")
def make_result() -> Callable[..., Result]:
    return made_up_result


@pytest.fixture(scope="session")
def cases() -> list[Result]:
    return made_up_cases()


@pytest.fixture(scope="session")
def answer() -> Answer:
    return made_up_answer()


@pytest.fixture(scope="session")
def rows() -> list[MeasuredRow]:
    return made_up_rows()


@pytest.fixture(scope="session")
def timeline() -> tuple[Span, ...]:
    return made_up_timeline()


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeUpNode:
    kind: str
    label: str
    tier: int
    x: float
    count: int
    module: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeUpLink:
    lower: int
    upper: int
    cables: int
    link_class: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeUpLayout:
    nodes: tuple[MadeUpNode, ...]
    links: tuple[MadeUpLink, ...]
    modules: tuple[str, ...]


def made_up_layout() -> MadeUpLayout:
    """Return two modules of three racks and two leaves each, under one core switch."""
    nodes: list[MadeUpNode] = []
    links: list[MadeUpLink] = []
    for module in range(2):
        first = len(nodes)
        for tier, places in ((0, (0.1, 0.25, 0.4)), (1, (0.15, 0.35))):
            nodes += [
                MadeUpNode(
                    kind=("rack", "leaf")[tier],
                    label=f"{'rl'[tier]}{order}",
                    tier=tier,
                    x=0.5 * module + x,
                    count=1,
                    module=module,
                )
                for order, x in enumerate(places)
            ]
        links += [
            MadeUpLink(lower=first + rack, upper=first + 3 + leaf, cables=16, link_class="nic_leaf")
            for rack in range(3)
            for leaf in range(2)
        ]
    nodes.append(MadeUpNode(kind="core", label="core", tier=3, x=0.5, count=4, module=-1))
    links += [MadeUpLink(lower=leaf, upper=10, cables=4, link_class="join") for leaf in (3, 4, 8, 9)]
    return MadeUpLayout(nodes=tuple(nodes), links=tuple(links), modules=("m0", "m1"))


@pytest.fixture(scope="session")
def layout() -> MadeUpLayout:
    return made_up_layout()


def check_reads_well(ax: Axes) -> None:
    """Fail if a text is small, leaves the figure, or lies on another text."""
    figure = ax.figure.get_figure(root=True)
    figure.draw_without_rendering()
    shown = [text for one in figure.axes for text in _texts(one) if text.get_visible() and text.get_text().strip()]
    assert min(text.get_fontsize() for text in shown) >= 9
    left, bottom, right, top = figure.bbox.extents
    boxes = [(text.get_text(), text.get_window_extent()) for text in shown]
    for name, box in boxes:
        inside = left - 1 <= box.x0 and box.x1 <= right + 1 and bottom - 1 <= box.y0 and box.y1 <= top + 1
        assert inside, f"{name!r} leaves the figure"
    for (one, box), (other, other_box) in itertools.combinations(boxes, 2):
        overlap = Bbox.intersection(box, other_box)
        touches = overlap is not None and overlap.width > 1 and overlap.height > 1
        assert not touches, f"{one!r} lies on {other!r}"


def _texts(ax: Axes) -> list[Text]:
    """Return all texts that are drawn; ticks outside the limits exist, but are not."""
    legend = ax.get_legend()
    found = [*ax.texts, ax.title, ax.xaxis.label, ax.yaxis.label, *(legend.get_texts() if legend else ())]
    for axis in (ax.xaxis, ax.yaxis):
        low, high = sorted(axis.get_view_interval())
        found += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return found


@pytest.fixture(scope="session")
def reads_well() -> Callable[[Axes], None]:
    return check_reads_well
