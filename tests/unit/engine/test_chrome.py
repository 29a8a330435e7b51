"""The Chrome trace of a step, against the Trace Event Format."""

from __future__ import annotations

import json
from itertools import pairwise

import jsonschema
import pytest

from simnet.engine.chrome import chrome_trace
from simnet.engine.executor import run_program
from simnet.workload.ops import Category, Compute, Start, Wait
from tests.oracle.hand_program import program, transfer
from tests.oracle.random_program import Shape, random_program

# "Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU: JSON object
# form; metadata M, complete events X, flow events s and f. Times in microseconds.
NUMBERED = {"pid": {"type": "integer", "minimum": 0}, "tid": {"type": "integer", "minimum": 0}}
TIMED = {"name": {"type": "string"}, "cat": {"type": "string"}, "ts": {"type": "number", "minimum": 0}}
FLOW = {"id": {"type": "integer"}, "bp": {"const": "e"}}


def kind(letter, required, **properties):
    return {
        "properties": {"ph": {"const": letter}, **NUMBERED, **properties},
        "required": ["ph", "name", "pid", "tid", *required],
        "additionalProperties": False,
    }


SCHEMA = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "traceEvents": {
            "type": "array",
            "items": {
                "type": "object",
                "oneOf": [
                    kind(
                        "M",
                        ["args"],
                        name={"enum": ["process_name", "thread_name"]},
                        args={"required": ["name"], "properties": {"name": {"type": "string", "minLength": 1}}},
                    ),
                    kind(
                        "X",
                        ["ts", "dur", "cat"],
                        **TIMED,
                        dur={"type": "number", "minimum": 0},
                        args={"type": "object"},
                    ),
                    kind("s", ["ts", "id", "cat"], **TIMED, **FLOW),
                    kind("f", ["ts", "id", "cat", "bp"], **TIMED, **FLOW),
                ],
            },
        },
    },
    "additionalProperties": False,
}


def overlapping_sends():
    send = transfer(({0: 1.0}, [0], [1]), name="activations", category=Category.PP, size=10)
    sender = [Start(comm=0, instance=0), Compute(duration_s=1.0, micro_batch=0), Start(comm=0, instance=1)]
    receiver = [Wait(comm=0, instance=0), Compute(duration_s=0.25, label="F"), Wait(comm=0, instance=1)]
    return program([sender, receiver], [send], [2.0])


STEPS = {
    "two sends overlap": overlapping_sends(),
    "a random step": random_program(
        Shape(
            seed=5, num_stages=3, num_replicas=3, num_micro_batches=3, num_buckets=2, gathers=True, has_embedding=True
        )
    ),
}


@pytest.fixture(params=STEPS.values(), ids=STEPS.keys())
def events(request):
    trace = chrome_trace(request.param, run_program(request.param))
    return json.loads(json.dumps(trace, allow_nan=False))


def test_the_trace_is_in_the_trace_event_format(events):
    jsonschema.validate(events, SCHEMA)


def test_every_track_has_a_name(events):
    named = {(e["pid"], e["tid"]) for e in events["traceEvents"] if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in events["traceEvents"] if e["ph"] == "X"} <= named


def test_spans_of_one_track_follow_one_another(events):
    # Viewers stack the spans of a track by nesting; those that overlap in part are drawn wrong.
    tracks = {}
    for event in events["traceEvents"]:
        if event["ph"] == "X":
            tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for spans in tracks.values():
        spans.sort()
        for (_, end), (start, _) in pairwise(spans):
            assert start >= end * (1 - 1e-12)


def test_arrows_start_and_end_once_and_never_go_back_in_time(events):
    starts = {e["id"]: e["ts"] for e in events["traceEvents"] if e["ph"] == "s"}
    ends = {e["id"]: e["ts"] for e in events["traceEvents"] if e["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert all(ends[number] >= starts[number] for number in starts)


def test_times_are_microseconds_and_operations_keep_their_names():
    found = chrome_trace(STEPS["two sends overlap"], run_program(STEPS["two sends overlap"]))
    spans = [e for e in found["traceEvents"] if e["ph"] == "X" and e["name"] == "F"]
    assert [(e["pid"], e["ts"], e["dur"]) for e in spans] == [
        (0, pytest.approx(0), pytest.approx(1e6)),
        (1, pytest.approx(9e6), pytest.approx(0.25e6)),
    ]
    assert spans[0]["args"] == {"micro_batch": 0, "chunk": -1}
