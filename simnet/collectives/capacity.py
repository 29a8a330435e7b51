"""Payload rates of links."""

from __future__ import annotations

import numpy as np

from simnet.collectives.fabric_like import FabricLike, Float64
from simnet.spec.collectives import CollectiveConstants

_NVLINK = 0
_GPU_NIC = 1
_NUM_CLASSES = 6


def usable_capacity(fabric: FabricLike, constants: CollectiveConstants) -> Float64:
    """Return the payload rate of each resource [bytes/s], ``(num_resources,)``.

    The wire rate times the payload fraction of its class of link, for the GPU generation.
    """
    efficiency = np.full(_NUM_CLASSES, constants.gpu.link_efficiency.network.si)
    efficiency[_NVLINK] = constants.gpu.link_efficiency.nvlink.si
    efficiency[_GPU_NIC] = constants.gpu.link_efficiency.gpu_nic.si
    usable: Float64 = fabric.capacity_bytes_per_s * efficiency[fabric.link_class]
    return usable
