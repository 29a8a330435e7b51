"""Whether a machine is one whose counts a document prints."""

from __future__ import annotations

from simnet.errors import SpecError
from simnet.spec.load import load_topology
from simnet.spec.topology import TopologySpec

_SIZE = ("scalable_units", "nodes", "racks", "routing", "note")


def known_status(spec: TopologySpec) -> str:
    """Return how the counts are known: the file's word for the sizes and the wiring that its source prints.

    Another size, or the same size wired otherwise, is port arithmetic: derived.
    """
    if not spec.printed_units:
        return spec.status
    is_printed = spec.scalable_units in spec.printed_units and _is_full(spec) and _is_wired_as_shipped(spec)
    return spec.status if is_printed else "derived"


def _is_full(spec: TopologySpec) -> bool:
    """Whether all slots of the units are taken, or those that the wiring rules leave."""
    if spec.scale_out is None or spec.scalable_units is None:
        return False
    return spec.nodes in {None, spec.scalable_units * spec.scale_out.unit}


def _is_wired_as_shipped(spec: TopologySpec) -> bool:
    try:
        shipped = load_topology(spec.name)
    except SpecError:  # a file of the user's own, which speaks for itself
        return True
    unlike: dict[str, bool | set[str]] = dict.fromkeys(_SIZE, True) | {"scale_out": {"in_network_reduction"}}
    return spec.model_dump(exclude=unlike) == shipped.model_dump(exclude=unlike)
