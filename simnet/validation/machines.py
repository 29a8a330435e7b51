"""The machine of a published run: a shipped cluster of its GPU, as large as the run, with the row's network rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simnet.spec.load import load_part, load_topology
from simnet.spec.parts import NodePart
from simnet.spec.topology import TopologySpec

HGX_TOPOLOGIES: Mapping[str, str] = {
    "A100-40G": "hgx-a100",
    "A100-80G-SXM": "hgx-a100",
    "H100-SXM": "hgx-h100",
    "H200-SXM": "hgx-h200",
    "B200-HGX": "hgx-b200",
    "B300-HGX": "hgx-b300",
}
"""Shipped cluster of 8-GPU nodes by GPU part."""
OTHER_NODES: Mapping[str, str] = {"A100-40G": "hgx-a100-40g"}
"""Node that takes the place of the cluster's own."""
RACK_TOPOLOGIES: Mapping[str, str] = {"GB200": "gb200-nvl72", "GB300": "gb300-nvl72"}
"""Shipped cluster of NVL72 racks by GPU part."""
NODE_GPUS = 8
RACK_GPUS = 72
TRAY_GPUS = 4
RACK_GPUS_USED = 64
"""GPUs of a rack that jobs of a multiple of 64 GPUs use: 16 of 18 trays (MLPerf v5.x entries)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSize:
    """How many scale-up domains a run has, and how much of each it uses."""

    domains: int
    used_gpus: int
    """GPUs that the job uses in each domain; in the last one perhaps fewer."""


def machine_size(gpu: str, num_gpus: int) -> MachineSize:
    """Return the domains of a run of *num_gpus* on GPU part *gpu*: nodes of 8, or racks of 72.

    Notes
    -----
    Racks are used in full where that comes out even, and with 16 of 18 trays where it does not but
    64 divides the job, as in the MLPerf v5.x entries on 256, 512 and 2,496 GB200.
    """
    if gpu not in RACK_TOPOLOGIES:
        used = min(NODE_GPUS, num_gpus)
    elif num_gpus < RACK_GPUS:
        used = num_gpus
    elif num_gpus % RACK_GPUS and num_gpus % RACK_GPUS_USED == 0:
        used = RACK_GPUS_USED
    else:
        used = RACK_GPUS
    return MachineSize(domains=-(-num_gpus // used), used_gpus=used)


def machine(gpu: str, num_gpus: int, *, nic_bytes_per_s: float) -> TopologySpec:
    """Return a shipped cluster of *gpu* with *num_gpus* GPUs, links behind the NICs included at the run's rate.

    Parameters
    ----------
    gpu
        Name of the GPU part.
    nic_bytes_per_s
        Wire rate of one GPU's NIC and direction [bytes/s]; the fabric behind it is non-blocking.

    Raises
    ------
    SpecError
        If a shipped file is not valid.
    """
    size = machine_size(gpu, num_gpus)
    rate = f"{nic_bytes_per_s:.0f} B/s"
    changes: dict[str, object] = {"node.nic.bandwidth": rate, "scale_out.link_bandwidth": rate}
    if gpu in RACK_TOPOLOGIES:
        changes["racks"] = size.domains
        if size.used_gpus < RACK_GPUS:
            changes["used_hosts"] = -(-size.used_gpus // TRAY_GPUS)
        return load_topology(RACK_TOPOLOGIES[gpu], changes)
    changes["nodes"] = size.domains
    spec = load_topology(HGX_TOPOLOGIES[gpu], changes)
    if gpu not in OTHER_NODES:
        return spec
    assert spec.node is not None
    node = load_part("node", OTHER_NODES[gpu], NodePart)
    return spec.model_copy(update={"node": node.model_copy(update={"nic": spec.node.nic})})
