"""GPUs, NICs and NVLink of all modules as arrays, domain after domain."""

from __future__ import annotations

from typing import TypedDict, cast

import numpy as np

from simnet.topology.plan import ModulePlan
from simnet.topology.wiring import Floats, Ids, Ints, offsets


class Endpoints(TypedDict):
    """The fields of :class:`~simnet.topology.wiring.Wiring` that speak of domains, GPUs and NICs."""

    domain_module: Ids
    domain_index: Ids
    gpu_domain: Ids
    gpu_slot: Ids
    gpu_nic: Ids
    gpu_module: Ids
    gpu_rail: Ids
    gpu_host_first: Ids
    nvlink_first: Ints
    nvlink_bandwidth: Floats
    nvlink_latency: Floats
    gpu_nic_bandwidth: Floats
    gpu_nic_latency: Floats
    nic_domain: Ids
    nic_index: Ids
    nic_rail: Ids
    nic_leaf: Ids
    nic_position: Ints
    nic_bandwidth: Floats
    nic_up_latency: Floats
    nic_down_latency: Floats
    num_nvswitches: Ints


def endpoints(plans: tuple[ModulePlan, ...], leaf_first: Ints) -> Endpoints:
    """Return the arrays of all modules, one after the other."""
    parts = []
    domain = gpu = nic = 0
    for module, plan in enumerate(plans):
        part = _module(plan, module, domain, gpu, nic, int(leaf_first[module]))
        parts.append(part)
        domain += plan.num_domains
        gpu += len(part["gpu_domain"])
        nic += len(part["nic_domain"])
    planes = np.concatenate([np.diff(part["nvlink_first"]) for part in parts])
    tables = [cast("dict[str, Ints]", part) for part in parts]
    joined = {key: np.concatenate([table[key] for table in tables], axis=-1) for key in tables[0]}
    return cast("Endpoints", joined | {"nvlink_first": offsets(planes)})


def _module(plan: ModulePlan, module: int, domain0: int, gpu0: int, nic0: int, leaf0: int) -> Endpoints:
    node, used = plan.node, plan.used_gpus
    per_nic, per_host = node.gpus // node.nics, node.gpus // node.hosts
    used_nics = used // per_nic
    domains = np.repeat(np.arange(plan.num_domains, dtype=np.int32), used)
    slots = np.tile(np.arange(used, dtype=np.int32), plan.num_domains)
    nics = np.repeat(np.arange(plan.num_domains), used_nics)
    index = np.tile(np.arange(used_nics), plan.num_domains)
    leaf, position = _ports(plan, nics, index)
    planes = len(node.nvlink_links_per_switch)
    bandwidth = np.array(node.nvlink_links_per_switch) * node.gpu.nvlink_link_bandwidth
    num_gpus, num_nics = len(domains), len(nics)
    numbers = np.arange(num_gpus, dtype=np.int32)
    has_network = plan.scale_out is not None
    switch_s = plan.scale_out.switch.latency if plan.scale_out else 0.0
    cable_s = plan.scale_out.node_cable.delay_s if plan.scale_out else 0.0
    leaves = [np.where(leaf < 0, -1, leaf + leaf0 + plane * plan.num_leaves) for plane in range(plan.num_planes)]
    return Endpoints(
        domain_module=np.full(plan.num_domains, module, dtype=np.int32),
        domain_index=np.arange(plan.num_domains, dtype=np.int32),
        gpu_domain=domains + np.int32(domain0),
        gpu_slot=slots,
        gpu_nic=domains * np.int32(used_nics) + slots // np.int32(per_nic) + np.int32(nic0),
        gpu_module=np.full(num_gpus, module, dtype=np.int32),
        gpu_rail=((slots // per_nic) % node.rails).astype(np.int32),
        gpu_host_first=(numbers - slots % per_host + gpu0).astype(np.int32),
        nvlink_first=np.arange(num_gpus + 1, dtype=np.int64) * planes,
        nvlink_bandwidth=np.tile(bandwidth, num_gpus).astype(np.float64),
        nvlink_latency=np.full(num_gpus, node.nvlink_latency),
        gpu_nic_bandwidth=np.full(num_gpus, node.gpu_nic_bandwidth),
        gpu_nic_latency=np.full(num_gpus, node.nic.latency),
        nic_domain=(nics + domain0).astype(np.int32),
        nic_index=index.astype(np.int32),
        nic_rail=(index % node.rails).astype(np.int32),
        nic_leaf=np.array(leaves, dtype=np.int32),
        nic_position=position,
        nic_bandwidth=np.full(num_nics, plan.link_bandwidth if has_network else 0.0),
        nic_up_latency=np.full(num_nics, cable_s + switch_s),
        nic_down_latency=np.full(num_nics, cable_s),
        num_nvswitches=np.full(plan.num_domains, planes, dtype=np.int64),
    )


def _ports(plan: ModulePlan, domain: Ints, index: Ints) -> tuple[Ints, Ints]:
    """Return leaf (inside a plane) and port of each NIC: the rails of a unit fill their leaves in turn."""
    scale_out, node = plan.scale_out, plan.node
    if scale_out is None:
        return np.full(len(domain), -1), np.zeros(len(domain), dtype=np.int64)
    per_domain = node.nics // plan.leaf_rails
    unit, within = domain // scale_out.unit, domain % scale_out.unit
    rail = index % node.rails if plan.leaf_rails > 1 else np.zeros_like(index)
    order = within * per_domain + (index // node.rails if plan.leaf_rails > 1 else index)
    number = np.full((plan.num_units, plan.leaf_rails, int(plan.leaf_index.max()) + 1), -1, dtype=np.int64)
    number[plan.leaf_unit, plan.leaf_rail, plan.leaf_index] = np.arange(plan.num_leaves)
    return number[unit, rail, order // plan.leaf_down], order % plan.leaf_down
