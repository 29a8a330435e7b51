"""Whatever stands in a file: a value, or a SpecError; never a traceback."""

from __future__ import annotations

import json
import math
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from simnet.errors import SpecError
from simnet.spec.load import build
from simnet.spec.read import read_text, read_yaml
from simnet.spec.workload import WorkloadSpec

MARKS = st.sampled_from(list("{}[]:,-?&*!|>'\"%@`#<~ \n\t\\0123456789abtnf._/=+eE\x07\x85\u2028é🙂"))
SEED = """\
model: llama-3.1-8b
sequence_length: 8192
parallelism: {tp: 8, pp: 4, virtual_stages: 2, dp: auto}
batch: {global_batch_size: 64, micro_batch_size: 1}
layout: {embedding_counts_as_layer: true}
overlap: {tp: true}
"""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=8), children, max_size=4),
    max_leaves=12,
)
WORDS = st.sampled_from(SEED.replace("{", " ").replace("}", " ").replace(",", " ").replace(":", " ").split())


def outcome(text):
    """Return the value, or ``None`` after a clear refusal."""
    try:
        return build(read_text(text, "f.yaml"), WorkloadSpec)
    except SpecError as error:
        problems = error.problems
    assert problems
    assert all(problem.message for problem in problems)
    return None


@given(text=st.text(alphabet=MARKS, max_size=60))
def test_random_marks_are_a_value_or_a_spec_error(text):
    assert outcome(text) is None


@given(start=st.integers(0, len(SEED)), length=st.integers(0, 12), patch=st.text(alphabet=MARKS, max_size=8))
def test_a_damaged_file_is_a_value_or_a_spec_error(start, length, patch):
    workload = outcome(SEED[:start] + patch + SEED[start + length :])
    assert workload is None or workload.sequence_length > 0


@given(data=st.dictionaries(WORDS, JSON | WORDS, max_size=6))
def test_wrong_types_under_right_keys_are_spec_errors(data):
    assert outcome(json.dumps(data)) is None


@given(data=JSON)
def test_json_values_come_back_as_they_were(data):
    try:
        back = read_text(json.dumps(data), "f").plain()
    except SpecError as error:
        assert "surrogate" in str(error) or "stands twice" in str(error)  # noqa: PT017
        return
    assert back == data or (isinstance(data, float) and math.isclose(back, data))


@given(raw=st.binary(max_size=60))
def test_random_bytes_are_a_value_or_a_spec_error(tmp_path_factory, raw):
    path = Path(tmp_path_factory.getbasetemp()) / "random.yaml"
    path.write_bytes(raw)
    try:
        assert read_yaml(path) is not None
    except SpecError as error:
        assert error.problems  # noqa: PT017
