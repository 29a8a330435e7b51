"""Parts and topologies as they are written down."""

from __future__ import annotations

import pytest

from simnet import library
from simnet.errors import SpecError, TopologyError
from simnet.spec.load import build, load_part, load_topology, located, read_yaml
from simnet.spec.parts import CablePart, GpuPart, NicPart, NodePart, NvSwitchPart, SwitchPart
from simnet.spec.topology import TopologySpec, gpu_part_names, module_specs
from simnet.topology import build_cluster
from tests.unit.topology.builders import cluster, two_sites

KINDS = {
    "gpu": GpuPart,
    "nvswitch": NvSwitchPart,
    "nic": NicPart,
    "switch": SwitchPart,
    "cable": CablePart,
    "node": NodePart,
}


def parts() -> list[tuple[str, str]]:
    found = []
    for path in library.list_shipped("part"):
        for kind in KINDS:
            group = read_yaml(path).child(kind)
            if group is not None and isinstance(group.value, dict):
                found += [(kind, name) for name in group.value]
    return found


@pytest.mark.parametrize(("kind", "name"), parts())
def test_every_part_is_valid_and_bears_its_own_name(kind: str, name: str) -> None:
    assert load_part(kind, name, KINDS[kind]).name == name


def test_fp16_runs_on_the_bf16_units_and_mxfp8_on_the_fp8_units() -> None:
    for kind, name in parts():
        if kind == "gpu":
            peak = load_part(kind, name, GpuPart).peak_flops
            assert peak.fp16 == peak.bf16
            assert peak.mxfp8 == peak.fp8


def test_a_precision_without_units_is_refused_by_name() -> None:
    part = load_part("gpu", "H100-SXM", GpuPart)
    assert part.peak_flops_per_s("fp8") == 1979e12
    with pytest.raises(SpecError, match="H100-SXM has no nvfp4 units; found nvfp4; allowed: bf16, fp16, fp8, mxfp8"):
        part.peak_flops_per_s("nvfp4")


def test_nvlink_per_gpu_is_the_vendors_figure() -> None:
    # half of 600, 900 and 1,800 GB/s, which vendors print for both directions
    bandwidth = {name: load_part("gpu", name, GpuPart).nvlink_bandwidth for kind, name in parts() if kind == "gpu"}
    assert bandwidth["A100-80G-SXM"] == 300e9
    assert bandwidth["H100-SXM"] == bandwidth["H200-SXM"] == 450e9
    assert {bandwidth[name] for name in ("B200-HGX", "GB200", "B300-HGX", "GB300")} == {900e9}


def test_72_racks_gpus_have_one_link_to_each_of_18_nvswitches() -> None:
    rack = load_part("node", "gb200-nvl72", NodePart)
    assert rack.nvlink_links_per_switch == (1,) * 18
    assert (rack.rails, rack.hosts, rack.gpus) == (4, 18, 72)


@pytest.mark.parametrize("path", library.list_shipped("topology"), ids=lambda path: path.stem)
def test_every_topology_is_valid_builds_and_names_its_source(path: object) -> None:
    spec = load_topology(path)  # type: ignore[arg-type]
    assert spec.name == path.stem  # type: ignore[attr-defined]
    assert spec.source
    assert spec.status
    assert build_cluster(spec).census().power_w > 0


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"racks": 4}, "counted in nodes"),
        ({"nodes": 4, "scale_out.taper.leaf": 0.5}, "scale_out.taper.leaf"),
        ({"scale_out.link_bandwidth": 400}, "unit missing"),
        ({"scale_out.swich": "QM9700"}, 'did you mean "switch"'),
        ({"node.nics": 3}, "do not share"),
        ({"node.nvlink_links_per_switch": [9, 8]}, "add up to 17, but the GPU has 18"),
        ({"node.gpus": 16, "node.nics": 16}, "need 80 ports, but NVSwitch3 has 64"),
        ({"used_hosts": 2}, "has 1 hosts"),
        ({"join": {"kind": "core"}}, "join belongs to kind: modular"),
        ({"module": "hgx-h100"}, "module belongs to kind: modular"),
        ({"scale_out.switch": "QM970"}, 'did you mean "QM9700"'),
    ],
)
def test_mistakes_in_a_topology_are_named(overrides: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load_topology("hgx-h100", overrides)


def test_a_monolithic_cluster_without_a_size_is_refused() -> None:
    with pytest.raises(SpecError, match="no size: give nodes or scalable_units"):
        build(located({"kind": "monolithic", "node": "hgx-h100"}, "test"), TopologySpec)


def test_module_names_follow_the_list_unless_given() -> None:
    spec = two_sites() | {"modules": [{"topology": "hgx-h100"}, {"name": "b", "count": 2, "topology": "hgx-a100"}]}
    made = build(located(spec, "test"), TopologySpec)
    assert [name for name, _ in module_specs(made)] == ["m0", "b-0", "b-1"]
    assert gpu_part_names(made) == ("H100-SXM", "A100-80G-SXM")


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("hgx-h100", {"nodes": 8300}, "66400 endpoints on 2080 leaves do not fit into 3 tiers of 64-port switches"),
        ("hgx-h100", {"nodes": 300, "scale_out.tiers": 2}, "do not fit into 2 tiers"),
        ("hgx-h100", {"scale_out.unit": 65}, "65 down-links, but QM9700 has 64 ports"),
        ("gb200-nvl72", {"scale_out.leaves_per_rail": 7}, "144 NICs of one rail of a unit do not divide over 7"),
        ("dgx-h100-superpod", {"nodes": 40}, "40 domains do not fit into 1 units of 32"),
        ("dgx-gb200-superpod", {"racks": 16}, "hint: scalable_units=2 is large enough, scalable_units=null follows"),
        ("dgx-h100-superpod", {"scale_out.reserved.slots": 40}, "40 reserved slots leave none of 32 to compute"),
    ],
)
def test_what_has_too_few_ports_is_refused_with_the_arithmetic(
    name: str, overrides: dict[str, object], message: str
) -> None:
    with pytest.raises(TopologyError, match=message):
        build_cluster(load_topology(name, overrides))


def test_modules_with_different_planes_are_refused() -> None:
    spec = two_sites() | {"modules": [{"topology": "hgx-h100"}, {"topology": {"from": "dgx-b300-superpod-spectrumx"}}]}
    with pytest.raises(TopologyError, match="1 and 2 planes"):
        build_cluster(build(located(spec, "test"), TopologySpec))


def test_a_cluster_without_a_network_is_its_domains() -> None:
    spec = {"kind": "monolithic", "node": "hgx-h100", "nodes": 2}
    machine = build_cluster(build(located(spec, "test"), TopologySpec))
    census = machine.census()
    assert (census.gpus, census.switches["total"], census.bisection_bytes_per_s) == (16, 0, 0.0)
    assert machine.compile().routes([0], [7]).num_nvlink_hops.tolist() == [1]


def test_sixteen_of_eighteen_trays_leave_the_fabric_as_wired() -> None:
    used, whole = cluster("record-405b-monolithic").census(), cluster("gb200-nvl72", racks=39).census()
    assert (used.gpus, used.gpus_installed, used.nodes) == (2496, 2808, 624)
    assert (used.switches, used.cables) == (whole.switches, whole.cables)
