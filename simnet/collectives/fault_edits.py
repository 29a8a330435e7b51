"""Constants of collectives with slower hops between nodes."""

from __future__ import annotations

from collections.abc import Callable

from simnet.spec.collectives import PROTOCOLS, ByProtocol, CollectiveConstants, Protocol

Change = Callable[[float, Protocol], float]
_HOPS = ("ring_network_hop", "tree_network_hop")


def longer_hops(constants: CollectiveConstants, extra: ByProtocol, *, times: int) -> CollectiveConstants:
    """Return constants whose hops between nodes take *extra* longer, *times* over."""
    return _with_hops(constants, lambda value_s, protocol: value_s + times * extra.si(protocol))


def scaled_hops(constants: CollectiveConstants, factor: float) -> CollectiveConstants:
    """Return constants whose hops between nodes take *factor* times as long."""
    return _with_hops(constants, lambda value_s, _protocol: value_s * factor)


def _with_hops(constants: CollectiveConstants, change: Change) -> CollectiveConstants:
    table = constants.latency
    changed: dict[str, object] = {}
    for name in _HOPS:
        hop: ByProtocol = getattr(table, name)
        new: dict[str, object] = {protocol: change(hop.si(protocol), protocol) for protocol in PROTOCOLS}
        changed[name] = hop.model_copy(update=new | {"unit": "s"})
    hop_s = change(table.nvls_tree_network_hop.si, "simple")  # in-switch trees have no other protocol
    changed["nvls_tree_network_hop"] = table.nvls_tree_network_hop.model_copy(update={"value": hop_s, "unit": "s"})
    return constants.model_copy(update={"latency": table.model_copy(update=changed)})
