"""Lost NICs: which GPUs cannot leave their node any more, and which neighbour speaks for them over NVLink."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simnet.collectives.fabric_like import FabricLike, Int32, Int64
from simnet.errors import NoPathError

_PROBES = 4


def can_route(fabric: FabricLike, src: Int32, dst: Int32) -> bool:
    """Return whether every pair has a path."""
    try:
        fabric.routes(src, dst)
    except NoPathError:
        return False
    return True


def find_relays(fabric: FabricLike, src: Int32, dst: Int32) -> dict[int, int]:
    """Return the GPUs among the pairs whose own NIC leads nowhere, each with the GPU that relays for it.

    Looks only at pairs without a path, which it finds by halving; called when there is one. The
    relay is the GPU of the same node with a live NIC and the nearest slot.

    Raises
    ------
    NoPathError
        If pairs without a path remain: a lost NIC is not what is wrong.
    """
    failing = _failing(fabric, src, dst, np.arange(len(src)))
    suspects = np.unique(np.concatenate((src[failing], dst[failing])))
    sound = np.setdiff1d(np.concatenate((src, dst)), suspects)
    relays: dict[int, int] = {}
    for gpu in suspects.tolist():
        targets = _targets(fabric, gpu, sound, suspects)
        if _reaches(fabric, gpu, targets):
            continue
        mates = np.flatnonzero(fabric.gpu_domain == fabric.gpu_domain[gpu])
        mates = mates[np.argsort(np.abs(fabric.gpu_slot[mates] - fabric.gpu_slot[gpu]), kind="stable")]
        found = (mate for mate in mates.tolist() if mate != gpu and _reaches(fabric, mate, targets))
        mate = next(found, None)
        if mate is not None:
            relays[gpu] = mate
    fabric.routes(spoken(src, relays), spoken(dst, relays))
    return relays


def spoken(gpu: Int32, relays: Mapping[int, int]) -> Int32:
    """Return the GPUs that speak for *gpu*, itself unless its NIC is lost."""
    speaker = gpu.copy()
    for lost, relay in relays.items():
        speaker[gpu == lost] = relay
    return speaker


def _failing(fabric: FabricLike, src: Int32, dst: Int32, index: Int64) -> Int64:
    if can_route(fabric, src[index], dst[index]):
        return index[:0]
    if len(index) == 1:
        return index
    middle = len(index) // 2
    return np.concatenate((_failing(fabric, src, dst, index[:middle]), _failing(fabric, src, dst, index[middle:])))


def _targets(fabric: FabricLike, gpu: int, sound: Int32, suspects: Int32) -> Int32:
    """Return some GPUs of other nodes: of the same rail first, among sound ones, else neighbours of suspects."""
    outside = sound[fabric.gpu_domain[sound] != fabric.gpu_domain[gpu]]
    if not len(outside):
        domains = np.setdiff1d(fabric.gpu_domain[suspects], fabric.gpu_domain[[gpu]])
        outside = np.setdiff1d(np.flatnonzero(np.isin(fabric.gpu_domain, domains)), suspects).astype(np.int32)
    order = np.argsort(fabric.gpu_rail[outside] != fabric.gpu_rail[gpu], kind="stable")
    chosen: Int32 = outside[order][:_PROBES]
    return chosen


def _reaches(fabric: FabricLike, gpu: int, targets: Int32) -> bool:
    """Return whether a GPU has a way to and from any of the targets."""
    own = np.array([gpu], dtype=np.int32)
    return any(
        can_route(fabric, own, np.array([target], dtype=np.int32))
        and can_route(fabric, np.array([target], dtype=np.int32), own)
        for target in targets.tolist()
    )
