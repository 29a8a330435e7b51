"""Census of the reference fabrics against the counts that their documents print."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from simnet.spec.load import load_topology
from simnet.topology import build_cluster

TABLE = Path(__file__).parent / "data" / "superpod_tables.csv"
TOPOLOGIES = {
    "DGX-A100": "dgx-a100-superpod",
    "DGX-H100": "dgx-h100-superpod",
    "DGX-B200": "dgx-b200-superpod",
    "DGX-B300-SpectrumX": "dgx-b300-superpod-spectrumx",
    "DGX-B300-XDR": "dgx-b300-superpod-xdr",
    "DGX-GB200-NVL72": "dgx-gb200-superpod",
}
TRAYS_PER_RACK = 18


def rows() -> list[dict[str, str]]:
    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def size(row: dict[str, str]) -> dict[str, int]:
    """Return the overrides that ask for the row's size; racks hold 18 trays, which the table calls nodes."""
    nodes = int(row["nodes"])
    if row["platform"] == "DGX-GB200-NVL72":
        return {"scalable_units": int(row["su"]), "racks": nodes // TRAYS_PER_RACK}
    return {"scalable_units": int(row["su"]), "nodes": nodes}


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['platform']}-{row['su']}su-{row['nodes']}")
def test_census_equals_printed_counts(row: dict[str, str]) -> None:
    census = build_cluster(load_topology(TOPOLOGIES[row["platform"]], size(row))).census()

    assert (census.nodes, census.gpus) == (int(row["nodes"]), int(row["gpus"]))
    assert census.switches == {
        "leaf": int(row["leaf"]),
        "spine": int(row["spine"]),
        "core": int(row["core"]),
        "join": 0,
        "total": int(row["switches_total"]),
    }
    assert census.cables == {
        "node_leaf": int(row["cables_node_leaf"]),
        "leaf_spine": int(row["cables_leaf_spine"]),
        "spine_core": int(row["cables_spine_core"]),
        "join": 0,
    }


def test_units_alone_give_a_printed_row() -> None:
    printed = {(row["platform"], row["su"]): set() for row in rows()}  # type: ignore[var-annotated]
    for row in rows():
        printed[row["platform"], row["su"]].add((int(row["nodes"]), int(row["cables_node_leaf"])))
    for (platform, units), expected in printed.items():
        census = build_cluster(load_topology(TOPOLOGIES[platform], {"scalable_units": int(units)})).census()
        assert (census.nodes, census.cables["node_leaf"]) in expected
