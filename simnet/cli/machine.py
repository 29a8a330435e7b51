"""The verb show: what a cluster is made of."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simnet.cli.output import say
from simnet.cli.table import print_pairs

if TYPE_CHECKING:
    from simnet.topology import Census, Cluster


def show_topology(ref: str, *, sets: Sequence[str], as_json: bool, plot: Path | None) -> None:
    """Print the census of a topology, and draw it into the file *plot* if one is given.

    Raises
    ------
    SimnetError
        With all faults of the file and the overrides, or if the cluster cannot be built.
    """
    from simnet.spec.load import load_topology, parse_set
    from simnet.topology import build_cluster

    cluster = build_cluster(load_topology(ref, parse_set(sets)))
    if plot is not None:
        _draw(cluster, plot)
    census = cluster.census()
    if as_json:
        say(json.dumps(census.to_dict(), indent=1))
        return
    print_pairs(list(_rows(census)))


def _draw(cluster: Cluster, path: Path) -> None:
    from simnet.cli.picture import save_picture
    from simnet.plot.topology import plot_topology
    from simnet.topology.layout import layout

    save_picture(plot_topology(layout(cluster.wiring)), path)


def _rows(census: Census) -> Iterator[tuple[str, str]]:
    """Yield label and text of each line; what the cluster does not have is left out."""
    from simnet import units

    yield "cluster", " ".join(part for part in (census.name, f"({census.status})" if census.status else "") if part)
    yield (
        "GPUs",
        f"{census.gpus:,} {', '.join(census.gpu_parts)}"
        + (f" of {census.gpus_installed:,} installed" if census.gpus_installed != census.gpus else ""),
    )
    yield "hosts", f"{census.nodes:,} in {census.domains:,} scale-up domains"
    if census.modules > 1:
        yield "modules", f"{census.modules:,}"
    yield "switches", _counts(census.switches)
    yield "cables", _counts(census.cables)
    tapers = {tier: ratio for tier, ratio in census.oversubscription.items() if ratio > 0}
    if tapers:
        yield "oversubscription", ", ".join(f"{tier} {ratio:.4g}:1" for tier, ratio in tapers.items())
    join = census.join
    if join.cables:
        asked = f", {join.effective_taper:.4g}:1 as cabled where {join.taper:.4g}:1 was asked" if join.taper else ""
        yield "join", f"{join.cables:,} cables, {units.format_bandwidth(join.bytes_per_s)} per direction{asked}"
    yield "injection", f"{units.format_bandwidth(census.injection_bytes_per_s)} per direction"
    yield "bisection", f"{units.format_bandwidth(census.bisection_bytes_per_s)} per direction"
    if census.reduction:
        yield "reduction", census.reduction
    yield "power", units.format_power(census.power_w)
    low, use, high = (units.format_money(census.price_usd[key]) for key in ("low", "use", "high"))
    yield "price", f"{use} ({low} to {high})"
    if census.source:
        yield "source", census.source
    for line in census.assumptions:
        yield "assumed", line


def _counts(counts: Mapping[str, int]) -> str:
    named = [f"{count:,} {kind.replace('_', '-')}" for kind, count in counts.items() if count and kind != "total"]
    return ", ".join(named) if named else "none"
