from __future__ import annotations

import pytest
from pydantic import Field

from simnet.errors import SpecError
from simnet.spec.base import Bandwidth, Constant, SpecModel, Time
from simnet.spec.load import build
from simnet.spec.read import read_text
from simnet.spec.workload import WorkloadSpec

GOOD = """\
model: llama-3.1-405b
sequence_length: 8192
batch: {global_batch_size: 64}
"""


class LinkSpec(SpecModel):
    bandwidth: Bandwidth
    """Rate of one direction."""
    latency: Time = 0.0
    count: int = Field(default=1, ge=1)


class NetSpec(SpecModel):
    link: LinkSpec
    other: LinkSpec | None = None
    links: tuple[LinkSpec, ...] = ()
    tiers: int | str = 2


def lines(text, model=NetSpec):
    with pytest.raises(SpecError) as caught:
        build(read_text(text, "f.yaml"), model)
    return [str(problem) for problem in caught.value.problems]


def test_a_file_gives_units_and_python_gives_si():
    assert build(read_text("link: {bandwidth: 400 Gb/s}", "f"), NetSpec).link.bandwidth == 50e9
    assert LinkSpec(bandwidth=50e9).bandwidth == 50e9


def test_a_misspelt_key_is_one_fault_with_its_place_and_a_suggestion():
    assert lines("link:\n  bandwith: 400 Gb/s\n") == [
        'f.yaml:2:3 link.bandwith: unknown key; allowed: bandwidth, latency, count; hint: did you mean "bandwidth"?'
    ]


def test_a_bandwidth_without_unit_is_one_fault_with_an_example():
    (line,) = lines("link:\n  bandwidth: 400\n")
    assert line.startswith("f.yaml:2:14 link.bandwidth: unit missing, a bandwidth needs one; found 400; allowed: b/s")
    assert line.endswith('hint: such as "400 Gb/s"')


def test_all_faults_come_in_reading_order():
    text = """\
link: {bandwidth: 400, count: 0, colour: red}
other:
  latency: 2 GB
links:
- {bandwidth: 1 Gb/s}
- {bandwidth: -1 Gb/s, count: "8"}
tyres: 3
"""
    places = [line.split(":", 3) for line in lines(text)]
    assert [(int(row), int(column)) for _, row, column, _ in [(p[0], p[1], p[2].split()[0], p[3]) for p in places]] == [
        (1, 19), (1, 31), (1, 34), (2, 1), (3, 12), (6, 15), (6, 31), (7, 1),
    ]  # fmt: skip


def test_a_missing_key_is_told_at_its_parent_with_what_it_means():
    (line,) = lines("link:\n  latency: 1 us\n")
    assert line == "f.yaml:1:1 link.bandwidth: key missing; hint: Rate of one direction."


def test_a_key_in_the_wrong_place_is_sent_to_the_right_one():
    (line,) = lines(f"{GOOD}tp: 8\n", WorkloadSpec)
    assert line.startswith("f.yaml:4:1 tp: unknown key")
    assert line.endswith('hint: "tp" stands under parallelism')


def test_a_dotted_key_in_a_file_is_refused_with_the_reason():
    (line,) = lines(f"{GOOD}parallelism.tp: 8\n", WorkloadSpec)
    assert "only vary and --set take dots" in line


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        (
            "schedule: interleved",
            'found "interleved"; allowed: 1f1b, interleaved, gpipe, zb1p, zbv or dualpipe; hint: did you mean',
        ),
        ("sequence_parallel: no", 'must be true or false; found "no"'),
        ("parallelism: {tp: '8'}", 'parallelism.tp: must be a whole number; found "8"'),
        ("parallelism: {tp: 8.0}", "parallelism.tp: must be a whole number; found 8.0"),
        ("parallelism: {dp: many}", "parallelism.dp: none of the forms"),
        ("parallelism: [8]", "parallelism: must be a mapping; found [8]"),
        ("layout: {loss_count_as_layer: true}", "layout.loss_count_as_layer: unknown key; allowed: embedding"),
        ("layout: even", 'layout: none of the forms that this key takes; found "even"'),
        ("overlap:", "overlap: must be a mapping; found null"),
    ],
)
def test_a_wrong_value_is_one_fault_that_shows_it(extra, told):
    (line,) = lines(f"{GOOD}{extra}\n", WorkloadSpec)
    assert told in line


def test_of_a_union_only_the_alternative_that_was_meant_is_told():
    assert len(lines("link: {bandwidth: 1 Gb/s}\nother: {bandwith: 3}\n")) == 1
    assert len(lines("link: {bandwidth: 1 Gb/s}\ntiers: [1]\n")) == 1


def test_a_file_that_is_no_mapping_is_told_so():
    assert lines("[1, 2]") == [
        "f.yaml:1:1: a mapping of keys is needed here; found [1, 2]; allowed: link, other, links, tiers"
    ]


def test_a_constant_keeps_its_spread_unit_source_and_date():
    text = "{value: 2, low: 1, high: 3, unit: us, source: NCCL 2.30, as_of: 2025-06-30}"
    constant = build(read_text(text, "f"), Constant)
    assert constant.si == 2e-6
    for wrong, told in (("value: 4", "low <= value <= high"), ("unit: furlong", '"furlong" is no unit')):
        key = wrong.partition(":")[0]
        broken = ", ".join(wrong if part.split(":")[0] == key else part for part in text.strip("{}").split(", "))
        (line,) = lines(f"{{{broken}}}", Constant)
        assert told in line
