from __future__ import annotations

import itertools

import pytest

from simnet.errors import SpecError
from simnet.spec.expand import MAX_CASES
from simnet.spec.load import expand, load_scenario, parse_set

SCENARIO = """\
name: what-if
question: one fabric or two?
topology: {from: hgx-h100, nodes: 16}
workload:
  model: llama-3.1-8b
  sequence_length: 8192
  parallelism: {tp: 4}
  batch: {global_batch_size: 128}
"""
VARIANTS = """\
variants:
  base: {}
  blackwell: {topology: hgx-b200}
  small: {topology: {nodes: 8}, workload: {parallelism: {pp: 2}}, routing: ecmp, target: {samples: 1000}}
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write_scenario(text):
        (tmp_path / "s.yaml").write_text(text)
        return "s.yaml"

    return write_scenario


def cases(write, text, *sets):
    return expand(load_scenario(write(text), parse_set(sets)))


def faults(write, text, *sets):
    with pytest.raises(SpecError) as caught:
        load_scenario(write(text), parse_set(sets))
    return [str(problem) for problem in caught.value.problems]


def test_a_scenario_without_variants_is_one_case(write):
    (case,) = cases(write, SCENARIO)
    assert (case.name, case.variant, case.values) == ("base", "", {})
    assert (case.topology.nodes, case.topology.node.gpu.name) == (16, "H100-SXM")
    assert (case.workload.model.layers, case.workload.parallelism.tp) == (32, 4)
    assert case.routing == case.topology.routing == "adaptive"


def test_a_variant_swaps_by_name_and_changes_by_mapping(write):
    base, blackwell, small = cases(write, SCENARIO + VARIANTS)
    assert (base.topology.nodes, small.topology.nodes) == (16, 8)
    assert blackwell.topology.node.gpu.name == "B200-HGX"
    assert (small.workload.parallelism.tp, small.workload.parallelism.pp) == (4, 2)
    assert (base.routing, small.routing) == ("adaptive", "ecmp")
    assert (base.target, small.target.samples) == (None, 1000)


def test_vary_makes_every_combination_in_order(write):
    text = SCENARIO + VARIANTS + "vary:\n  workload.parallelism.tp: [2, 8]\n  topology.nodes: [4, 8, 16]\n"
    made = [(case.variant, case.topology.nodes, case.workload.parallelism.tp) for case in cases(write, text)]
    assert made == [
        (variant, nodes, tp)
        for variant, tp, nodes in itertools.product(("base", "blackwell", "small"), (2, 8), (4, 8, 16))
    ]


def test_a_variant_may_vary_on_its_own(write):
    text = SCENARIO + (
        "variants:\n  a: {}\n  b: {vary: {topology.nodes: [2, 4]}}\nvary: {topology.nodes: [8], seed: [1, 2]}\n"
    )
    made = [(case.variant, case.topology.nodes, case.seed) for case in cases(write, text)]
    assert made == [("a", 8, 1), ("a", 8, 2), ("b", 2, 1), ("b", 2, 2), ("b", 4, 1), ("b", 4, 2)]


def test_vary_takes_names_mappings_and_quantities(write):
    text = SCENARIO + (
        "vary:\n"
        "  topology: [hgx-h100, hgx-b200]\n"
        "  topology.scale_out.link_bandwidth: [200 Gb/s]\n"
        "  workload.parallelism: [{tp: 2, pp: 4}]\n"
    )
    first, second = cases(write, text)
    assert [case.topology.node.gpu.name for case in (first, second)] == ["H100-SXM", "B200-HGX"]
    assert second.topology.scale_out.link_bandwidth == 25e9
    assert second.values == {
        "topology": "hgx-b200",
        "topology.scale_out.link_bandwidth": "200 Gb/s",
        "workload.parallelism": "tp=2 pp=4",
    }
    assert second.name == "topology=hgx-b200 link_bandwidth=200 Gb/s parallelism=tp=2 pp=4"


def test_precedence_is_part_topology_scenario_variant_vary_set(write):
    path = "topology.node.power"
    layers = ["topology: {from: hgx-h100, nodes: 16}", "variants: {v: {}}", ""]
    part = cases(write, SCENARIO)[0].topology.node.power
    layers[0] = "topology: {from: hgx-h100, nodes: 16, node: {power: 1 kW}}"
    scenario = SCENARIO.replace("topology: {from: hgx-h100, nodes: 16}", layers[0])
    variant = scenario + "variants: {v: {topology: {node: {power: 2 kW}}}}\n"
    varied = variant + f"vary: {{{path}: [3 kW]}}\n"
    steps = [cases(write, text)[0].topology.node.power for text in (scenario, variant, varied)]
    last = cases(write, varied, f"{path}=4 kW")[0].topology.node.power
    assert (part, *steps, last) == (10200.0, 1000.0, 2000.0, 3000.0, 4000.0)


def test_a_set_path_is_no_longer_varied(write):
    text = SCENARIO + "vary: {topology.nodes: [2, 4, 8]}\n"
    (case,) = cases(write, text, "topology.nodes=32")
    assert (case.topology.nodes, case.values) == (32, {})


def test_the_hash_follows_content_not_spelling(write):
    one, two = (cases(write, SCENARIO.replace("tp: 4", tp))[0] for tp in ("tp: 4", "tp: 4, dp: auto"))
    other = cases(write, SCENARIO.replace("tp: 4", "tp: 8"))[0]
    assert one.content_hash() == two.content_hash() != other.content_hash()
    assert len(one.content_hash()) == 64


def test_the_hash_follows_a_part_figure(write):
    one = cases(write, SCENARIO)[0]
    two = cases(write, SCENARIO, "topology.node.gpu.tdp=701 W")[0]
    assert one.content_hash() != two.content_hash()


def test_a_mistyped_key_and_a_missing_unit_are_told_together_and_once(write):
    text = (
        SCENARIO.replace("sequence_length", "sequence_lenght")
        + VARIANTS
        + (
            "vary: {topology.scale_out.link_bandwidth: [400, 200 Gb/s], topology.nodes: [2, 4]}\n"
            "target: {samples: 5, evaluation: 92}\n"
        )
    )
    found = faults(write, text)
    assert [line.split(";")[0] for line in found] == [
        "s.yaml:6:3 workload.sequence_lenght: unknown key",
        "s.yaml:13:44 topology.scale_out.link_bandwidth: unit missing, a bandwidth needs one",
        "s.yaml:14:34 target.evaluation: unit missing, a time needs one",
    ]


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ("vary: {topology.nods: [1]}", "s.yaml:9:8 topology.nods: unknown key"),
        ("vary: {nodes: [1]}", 's.yaml:9:8 nodes: no such path; allowed: a path that starts with topology'),
        ("vary: {topology.nodes: 3}", "s.yaml:9:24 vary.topology.nodes: must be a list; found 3"),
        ("vary: {topology.nodes: [2, 2]}",
         "s.yaml:9:28 vary.topology.nodes: a value stands twice in a list of vary; found 2; hint: the first"),
        ("vary: {topology.nodes: []}", "vary.topology.nodes"),
        ("variant: {}", 's.yaml:9:1 variant: unknown key'),
        ("variants: {a: {topolgy: hgx-b200}}", 'variants.a.topolgy: unknown key'),
        ("variants: {a: {topology: hgx-b201}}", 's.yaml:9:26 topology: no topology file of that name; found'),
        ("variants: [a]", "s.yaml:9:11 variants: must be a"),
        ("knee: {path: topology.nodes}", "s.yaml:9:8 knee.path: knee.path is not varied; found topology.nodes"),
        ("vary: {topology.nodes: [1, 2]}\nknee: {path: topology.nodes, baseline: x}",
         "s.yaml:10:30 knee.baseline: knee.baseline is no variant; found x"),
        ("seed: -1", "seed: must be greater than or equal to 0; found -1"),
        ("routing: random", 'routing: not one of the words allowed here; found "random"'),
    ],
)  # fmt: skip
def test_a_fault_of_the_scenario_itself_is_one_line(write, extra, told):
    (line,) = faults(write, SCENARIO + extra + "\n")
    assert told in line


def test_a_knee_may_have_one_baseline_for_all_or_one_for_each(write):
    text = SCENARIO + "variants: {a: {}, b: {}}\nvary: {topology.nodes: [1, 2]}\n"
    one = load_scenario(write(text + "knee: {path: topology.nodes, baseline: a}\n"))
    each = load_scenario(write(text + "knee: {path: topology.nodes, baseline: {b: a}}\n"))
    assert one.knee.baselines(one.variants) == {"a": "a", "b": "a"}
    assert each.knee.baselines(each.variants) == {"b": "a"}


def test_too_many_combinations_are_refused_before_they_are_made(write):
    values = ", ".join(str(number) for number in range(1, 102))
    text = SCENARIO + f"vary: {{topology.nodes: [{values}], seed: [{values}]}}\n"
    (line,) = faults(write, text)
    assert f"found 10,201 cases; allowed: {MAX_CASES:,} cases" in line


def test_a_set_path_that_does_not_exist_is_refused_with_a_hint(write):
    (line,) = faults(write, SCENARIO, "topology.node.gpu.tpd=600 W")
    assert line.startswith("--set topology.node.gpu.tpd=600 W topology.node.gpu.tpd: unknown key")
    assert line.endswith('hint: did you mean "tdp"?')
    (line,) = faults(write, SCENARIO, "global_batch_size=3")
    assert line.endswith('hint: did you mean "workload.batch.global_batch_size"?')


@pytest.mark.parametrize("text", ["name: x\n", "a: b\n", "[1]\n", "topology: hgx-h100\nworkload: 3\n"])
def test_a_file_that_is_no_scenario_is_told_so(write, text):
    assert faults(write, text)
