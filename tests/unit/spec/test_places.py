"""A rule over several keys is told at the key that the user wrote, not in the file that it builds on."""

from __future__ import annotations

import pytest

from simnet.errors import SpecError
from simnet.spec.check import check_file
from simnet.spec.load import build, load_model, load_scenario, load_topology, parse_set
from simnet.spec.model import ModelSpec
from simnet.spec.read import read_text
from tests.unit.spec.test_scenario import SCENARIO

HERE = "topology: {from: hgx-h100, nodes: 16}"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def faults(here, text, *sets):
    (here / "s.yaml").write_text(text)
    with pytest.raises(SpecError) as caught:
        load_scenario("s.yaml", parse_set(sets))
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("topology", "told"),
    [
        ("{from: hgx-h100, join: {taper: 2}}", "3:28 topology.join: join belongs to kind: modular"),
        ("{from: hgx-h100, racks: 1}", "3:28 topology.racks: HGX-H100 is counted in nodes, not in racks; found 1"),
        ("{from: hgx-h100, nodes: }", "3:28 topology.nodes: no size: give nodes or scalable_units; found null"),
        ("{from: hgx-h100, used_hosts: 2}", "3:28 topology.used_hosts: used_hosts is 2, but"),
        ("{from: hgx-h100-modular, nodes: 4, num_modules: 5}", "3:46 topology.num_modules: 4 domains do not fill 5"),
        ("{from: hgx-h100-modular, nodes: 1}", "3:36 topology.nodes: 1 domains do not fill 2 modules; found 1"),
        ("{from: gb200-nvl72, used_hosts: 19}", "3:31 topology.used_hosts: used_hosts is 19, but gb200-nvl72 has 18"),
        ("{from: hgx-h100, node: {from: hgx-h100, gpus: 7}}", "3:51 topology.node.gpus: 7 GPUs do not share 8 NICs"),
        ("{from: hgx-h100, node: {gpus: 7}}", "3:35 topology.node.gpus: 7 GPUs do not share 8 NICs"),
        ("{from: hgx-h100, node: {gpu: {nvlink_links: 1}}}", "3:41 topology.node.gpu.nvlink_links: the links to the"),
        ("{kind: modular, modules: [{topology: hgx-h100-modular}]}", "a module is monolithic; modules of modules"),
        ("{kind: modular, modules: [{name: a, topology: hgx-h100}, {name: a, topology: hgx-a100}]}",
         "3:27 topology.modules: two modules of the same name; found a"),
        ("{kind: modular, modules: [{name: a, count: 2, topology: hgx-h100}, {name: a-1, topology: hgx-a100}]}",
         "3:27 topology.modules: two modules of the same name; found a-1"),
    ],
)  # fmt: skip
def test_a_rule_is_told_at_the_key_that_the_user_changed(here, topology, told):
    (line,) = faults(here, SCENARIO.replace(HERE, f"topology: {topology}"))
    assert told.lower() in line.lower()


def test_a_rule_that_an_option_breaks_names_the_option(here):
    (line,) = faults(here, SCENARIO, "topology.join.taper=4")
    assert line == "--set topology.join.taper=4 topology.join: join belongs to kind: modular"
    with pytest.raises(SpecError, match=r"^--set racks=4 racks: .* is counted in nodes, not in racks; found 4$"):
        load_topology("hgx-h100", parse_set(["racks=4"]))


def test_a_rule_that_a_varied_value_breaks_is_told_at_vary(here):
    (line,) = faults(here, SCENARIO + "vary: {topology.used_hosts: [1, 3]}\n")
    assert line.startswith("s.yaml:9:8 topology.used_hosts: used_hosts is 3")


def test_several_broken_rules_are_several_lines(here):
    lines = faults(here, SCENARIO.replace(HERE, "topology: {from: hgx-h100, racks: 1, join: {}, num_modules: 2}"))
    assert [line.split(": ")[0] for line in lines] == [
        "s.yaml:3:28 topology.racks", "s.yaml:3:38 topology.join", "s.yaml:3:48 topology.num_modules",
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["topology..nodes", ".topology", "topology."])
def test_what_is_no_dotted_path_is_told_with_its_place(here, path):
    (line,) = faults(here, SCENARIO + f'vary: {{"{path}": [1]}}\n')
    assert line.startswith(f's.yaml:9:8: not a dotted path; found "{path}"')
    (line,) = faults(here, SCENARIO, f"{path}=1")
    assert line.startswith(f'--set {path}=1: not a dotted path; found "{path}"')


def test_a_key_without_a_value_is_told_at_its_own_line(here):
    lines = faults(here, SCENARIO.replace(HERE, "topology:"))
    assert lines == ["s.yaml:3:1 topology: must be a mapping; found null"]


def test_a_missing_entry_of_a_pair_is_told(here):
    text = "{kind: modular, modules: [{topology: hgx-h100, count: 2}], links: [{between: [m0], cables: 1}]}"
    (line,) = faults(here, SCENARIO.replace(HERE, f"topology: {text}"))
    assert "topology.links.0.between.1: entry missing" in line


TOP = "from: hgx-h100\nnodes: 2\n"


def test_a_topology_file_may_build_on_another(here):
    (here / "top.yaml").write_text(TOP)
    (here / "more.yaml").write_text("from: top\nname: more\nscale_out: {taper: {leaf: 2}}\n")
    spec = load_topology("more", parse_set(["nodes=3"]))
    assert (spec.name, spec.nodes, spec.scale_out.taper.leaf) == ("more", 3, 2.0)
    assert load_topology("top.yaml").nodes == 2
    assert check_file(here / "more.yaml") == "topology"


@pytest.mark.parametrize(
    ("text", "kind"),
    [("from: hgx-h100\n", "topology"), ("from: llama-3-8b\n", "model"), ("from: llama-3-8b\nvocab: 128000\n", "model")],
)
def test_a_file_that_says_little_more_than_from_is_of_the_kind_that_it_builds_on(here, text, kind):
    (here / "f.yaml").write_text(text)
    assert check_file(here / "f.yaml") == kind


def test_a_model_file_may_build_on_another(here):
    (here / "small.yaml").write_text("from: llama-3-8b\nlayers: 4\npublished_parameters: null\n")
    assert load_model("small.yaml").layers == 4


@pytest.mark.parametrize("load", [load_topology, check_file])
def test_files_that_build_on_one_another_in_a_circle_are_told(here, load):
    (here / "a.yaml").write_text("from: ./b.yaml\nnodes: 2\n")
    (here / "b.yaml").write_text("from: ./a.yaml\nnodes: 2\n")
    with pytest.raises(SpecError) as caught:
        load(here / "a.yaml")
    assert "a.yaml:1:7: this topology builds on itself" in str(caught.value.problems[0])


def test_faults_of_a_file_that_builds_on_another_are_told_in_it(here):
    (here / "top.yaml").write_text(TOP + "scale_out:\n  taper: {leaf: 0}\n  swich: QM9700\n  unit: 2 km\n")
    with pytest.raises(SpecError) as caught:
        check_file(here / "top.yaml")
    assert [str(problem).split(": ")[0] for problem in caught.value.problems] == [
        "top.yaml:4:17 scale_out.taper.leaf", "top.yaml:5:3 scale_out.swich", "top.yaml:6:9 scale_out.unit",
    ]  # fmt: skip


def test_from_is_no_key_of_what_may_not_build_on_another():
    with pytest.raises(SpecError, match="from: unknown key"):
        build(read_text("{from: llama-3-8b, layers: 3}", "f"), ModelSpec)


def test_a_name_that_leads_nowhere_is_told_under_an_override_too(here):
    (here / "bad.yaml").write_text("kind: monolithic\nnode: hgx-h1000\nnodes: 1\n")
    with pytest.raises(SpecError, match=r"bad\.yaml:2:7 node: no node of that name"):
        load_topology("bad.yaml", parse_set(["nodes=2"]))
