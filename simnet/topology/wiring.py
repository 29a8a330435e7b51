"""The whole cluster as arrays: GPUs with their coordinates, and the cables of every tier by index arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from simnet.topology.plan import ModulePlan

Ints = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

LINK_CLASSES = ("nvlink", "gpu_nic", "nic_leaf", "leaf_spine", "spine_core", "join")
"""Classes of links, inner ones first; arrays hold the index."""
NVLINK, GPU_NIC, NIC_LEAF, LEAF_SPINE, SPINE_CORE, JOIN = range(len(LINK_CLASSES))


@dataclass(frozen=True, kw_only=True)
class Tier:
    """Cables between two tiers of switches, dealt round robin.

    An *element* (a leaf, a group of spines, a set of cores) owns the lower switches
    ``lower_first … + lower_count`` and deals its cables over the upper switches
    ``upper_first … + upper_count``: cable *n* joins lower switch ``n % lower_count`` to upper switch
    ``n % upper_count``. All cables of an element between the same two switches are one *pair*, and
    pair *q* holds the cables ``n % period == q``, with *period* the least common multiple.
    """

    link_class: int
    lower_first: Ints
    lower_count: Ints
    upper_first: Ints
    upper_count: Ints
    cables: Ints
    block: Ints
    """Set of upper switches; elements of one block meet there, -1 where there are none."""
    bandwidth: Floats
    """Of one cable and direction [bytes/s]."""
    up_latency: Floats
    down_latency: Floats
    """Propagation and the receiving switch [s]."""

    @property
    def num_elements(self) -> int:
        """Return the number of elements."""
        return len(self.cables)

    @cached_property
    def period(self) -> Ints:
        """Return the cables after which the dealing repeats, ``(num_elements,)``."""
        return np.lcm(np.maximum(self.lower_count, 1), np.maximum(self.upper_count, 1))

    @cached_property
    def first_pair(self) -> Ints:
        """Return where the pairs of each element start, ``(num_elements + 1,)``."""
        return offsets(np.minimum(self.cables, self.period))

    @cached_property
    def first_cable(self) -> Ints:
        """Return where the cables of each element start, ``(num_elements + 1,)``."""
        return offsets(self.cables)

    @property
    def num_pairs(self) -> int:
        """Return the number of pairs."""
        return int(self.first_pair[-1])

    @cached_property
    def pair_element(self) -> Ints:
        """Return the element of each pair, ``(num_pairs,)``."""
        return np.repeat(np.arange(self.num_elements), np.diff(self.first_pair))

    @cached_property
    def multiplicity(self) -> Ints:
        """Return the cables of each pair, ``(num_pairs,)``."""
        element = self.pair_element
        within = np.arange(self.num_pairs) - self.first_pair[element]
        return -(-(self.cables[element] - within) // self.period[element])

    def ends(self) -> tuple[Ints, Ints]:
        """Return lower and upper switch of each pair."""
        element = self.pair_element
        within = np.arange(self.num_pairs) - self.first_pair[element]
        lower = self.lower_first[element] + within % np.maximum(self.lower_count[element], 1)
        upper = self.upper_first[element] + within % np.maximum(self.upper_count[element], 1)
        return lower, upper

    def pair_of_cable(self, element: Ints, cable: Ints) -> Ints:
        """Return the pair that holds *cable* (counted within its element)."""
        return self.first_pair[element] + cable % self.period[element]


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """A cluster before any edit. Switches have one numbering: leaves, spines, cores, then joins."""

    plans: tuple[ModulePlan, ...]
    is_modular: bool
    domain_module: Ids
    domain_index: Ids
    """Number of the domain inside its module."""
    gpu_domain: Ids
    gpu_slot: Ids
    gpu_nic: Ids
    gpu_module: Ids
    gpu_rail: Ids
    gpu_host_first: Ids
    """First GPU of the same host."""
    nvlink_first: Ints
    """Where the NVLink planes of each GPU start, ``(num_gpus + 1,)``."""
    nvlink_bandwidth: Floats
    """Per GPU and plane, in the order of ``nvlink_first``."""
    nvlink_latency: Floats
    gpu_nic_bandwidth: Floats
    gpu_nic_latency: Floats
    nic_domain: Ids
    nic_index: Ids
    """Number of the NIC inside its domain."""
    nic_rail: Ids
    nic_leaf: Ids
    """Leaf of each plane's port, ``(num_planes, num_nics)``; -1 for none."""
    nic_position: Ints
    """Place of the NIC's port on its leaf."""
    nic_bandwidth: Floats
    """One port and direction."""
    nic_up_latency: Floats
    nic_down_latency: Floats
    num_nvswitches: Ints
    """Per domain."""
    switch_first: dict[str, Ints]
    """For each kind (leaf, spine, core) the first switch of each module, then the end; for join both ends."""
    leaf_rail: Ids
    leaf_group: Ints
    leaf_start: Ints
    """Place of the leaf's first port among those of its group."""
    leaf_top_start: Ints
    """The same among those of its top element."""
    leaf_top: Ints
    group_core_set: Ints
    top_module: Ints
    leaf_spine: Tier
    spine_core: Tier
    join: Tier
    pairs: Tier
    """Links between two top elements: lower is the first, upper the second; ``block`` is the second element."""
    pair_first_top: Ints

    @property
    def num_gpus(self) -> int:
        """Return the number of ranks."""
        return len(self.gpu_domain)

    @property
    def num_nics(self) -> int:
        """Return the number of NICs that serve ranks."""
        return len(self.nic_domain)

    @property
    def num_planes(self) -> int:
        """Return the number of planes of the scale-out network."""
        return len(self.nic_leaf)

    @property
    def num_switches(self) -> int:
        """Return leaves, spines, cores and joins together."""
        return int(self.switch_first["join"][-1])

    @property
    def tiers(self) -> tuple[Tier, Tier, Tier, Tier]:
        """Return the tiers of switch cables in the order in which links are numbered."""
        return self.leaf_spine, self.spine_core, self.join, self.pairs


def offsets(counts: npt.NDArray[np.integer]) -> Ints:
    """Return the start of each run and the total, ``(len(counts) + 1,)``."""
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
