from __future__ import annotations

import pytest

from simnet.errors import SpecError
from simnet.spec.load import load_model, load_part, load_topology, parse_set
from simnet.spec.parts import GpuPart

TOPOLOGY = """\
kind: monolithic
node: {from: hgx-h100, power: 9 kW, gpu: {from: H100-SXM, tdp: 650 W}}
nodes: 2
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(TOPOLOGY)
    return tmp_path


def test_a_name_stands_for_the_record_of_the_part():
    gpu = load_part("gpu", "H100-SXM", GpuPart)
    assert gpu.peak_flops.bf16 == 989e12
    assert load_topology("hgx-h100").node.gpu == gpu


def test_changes_after_from_win_over_the_part(own):
    spec = load_topology("mine")
    assert (spec.node.power, spec.node.gpu.tdp) == (9000.0, 650.0)
    assert spec.node.gpu.peak_flops.bf16 == 989e12


def test_an_override_reaches_into_a_part_and_wins(own):
    spec = load_topology("mine", {"node.gpu.tdp": "600 W", "nodes": 4})
    assert (spec.node.gpu.tdp, spec.nodes) == (600.0, 4)
    assert load_topology("mine", {"node": "hgx-b200"}).node.gpu.name == "B200-HGX"


def test_an_unknown_part_is_told_at_the_name_with_its_kin(own):
    (own / "mine.yaml").write_text(TOPOLOGY.replace("H100-SXM", "H100-SMX").replace("nodes: 2", "nods: 2"))
    with pytest.raises(SpecError) as caught:
        load_topology("mine")
    first, second = caught.value.problems
    assert str(first).startswith('mine.yaml:2:49 node.gpu: no gpu of that name; found "H100-SMX"')
    assert 'did you mean "H100-SXM"?' in first.hint
    assert second.path == "nods"


def test_a_fault_inside_a_named_file_is_told_in_that_file(own):
    (own / "inner.yaml").write_text(TOPOLOGY.replace("9 kW", "9"))
    (own / "outer.yaml").write_text("kind: modular\nmodules:\n- {topology: inner, count: 2}\n")
    with pytest.raises(SpecError) as caught:
        load_topology("outer")
    (problem,) = caught.value.problems
    assert problem.where == "inner.yaml:2:31"
    assert problem.path == "modules.0.topology.node.power"


def test_a_file_that_builds_on_itself_is_refused(own):
    (own / "loop.yaml").write_text("kind: modular\nmodules:\n- {topology: loop}\n")
    with pytest.raises(SpecError, match="builds on itself"):
        load_topology("loop")


@pytest.mark.parametrize("value", ["{from: 3}", "{from: [a]}", "{from: }"])
def test_from_takes_a_name(own, value):
    (own / "mine.yaml").write_text(f"kind: monolithic\nnodes: 1\nnode: {value}\n")
    with pytest.raises(SpecError, match="from takes the name of a node"):
        load_topology("mine")


@pytest.mark.parametrize(
    ("assignment", "told"),
    [
        ("scale_out.tapr.leaf=2", "--set scale_out.tapr.leaf=2 scale_out.tapr: unknown key"),
        ("nodes=none", '--set nodes=none nodes: must be a whole number; found "none"'),
        ("name.x=1", "the path has \"x\" below a plain value; found 'hgx-h100'"),
        ("scale_out.link_bandwidth=400", "unit missing, a bandwidth needs one; found 400"),
    ],
)
def test_a_wrong_override_names_itself_as_the_place(assignment, told):
    with pytest.raises(SpecError) as caught:
        load_topology("hgx-h100", parse_set([assignment]))
    assert told in str(caught.value)


@pytest.mark.parametrize("text", ["nodes", "=3", "a..b=1", "a=[1", "a=.nan"])
def test_what_is_no_assignment_is_refused(text):
    with pytest.raises(SpecError) as caught:
        load_topology("hgx-h100", parse_set([text]))
    assert f"--set {text}" in str(caught.value) or "not a dotted path" in str(caught.value)


def test_an_item_of_a_list_is_reached_by_its_number(own):
    (own / "two.yaml").write_text("kind: modular\nmodules:\n- {topology: mine}\n- {topology: mine}\n")
    spec = load_topology("two", {"modules.1.topology.nodes": 7})
    assert [module.topology.nodes for module in spec.modules] == [2, 7]
    with pytest.raises(SpecError, match="no such item in the list; found 2; allowed: 0 to 1"):
        load_topology("two", {"modules.2.topology.nodes": 7})


def test_an_override_that_no_file_could_hold_is_refused():
    with pytest.raises(SpecError, match="not a value that a file could hold"):
        load_model("llama-3.1-8b", {"layers": object()})
