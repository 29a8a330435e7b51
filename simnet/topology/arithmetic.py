"""Routes of built fabrics by arithmetic on coordinates: no search, whatever the size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from simnet.topology.cables import Picks, choose_cables, hashed_picks, static_picks
from simnet.topology.climb import Climb, climb, components
from simnet.topology.fabric import Routes
from simnet.topology.links import Nodes
from simnet.topology.live import dead_pairs, has_live_path
from simnet.topology.paths import Path, no_path, woven
from simnet.topology.resources import Resources
from simnet.topology.wiring import GPU_NIC, NIC_LEAF, NVLINK, Floats, Ids, Ints, Wiring

_MAX_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class ArithmeticRouter:
    """Routes over a fabric as it was wired, with whatever bandwidth its links have now."""

    wiring: Wiring
    resources: Resources
    capacity: Floats
    dead: Ints
    """Rows of the switch cables without bandwidth in the direction up, then (plus the number of rows) down."""
    routing: str
    seed: int

    @cached_property
    def _reach(self) -> tuple[Ints, Ints]:
        """Return for each GPU what its leaf can reach, inside its module and anywhere, as numbers; -1 for nothing."""
        wiring = self.wiring
        leaf = wiring.nic_leaf[0][wiring.gpu_nic].astype(np.int64)
        if not len(wiring.leaf_top):
            return leaf, leaf
        inside, anywhere = wiring.leaf_top, components(wiring)
        return (
            np.where(leaf >= 0, inside[np.maximum(leaf, 0)], -1),
            np.where(leaf >= 0, anywhere[np.maximum(leaf, 0)], -1),
        )

    def name(self, resource: int) -> str:
        """Return the name of a resource."""
        return self.resources.name(resource)

    def routes(self, src: Ints, dst: Ints, flow_id: Ints, relay: str) -> Routes:
        """Return the routes of all flows; see :meth:`simnet.topology.Fabric.routes`."""
        domain = self.wiring.gpu_domain
        is_far = domain[src] != domain[dst]
        if not is_far.any():
            routes = self._inside(src, dst)
        elif is_far.all():
            routes = self._outside(src, dst, flow_id, relay)
        else:
            near, far = np.flatnonzero(~is_far), np.flatnonzero(is_far)
            outside = self._outside(src[far], dst[far], flow_id[far], relay)
            routes = woven(((near, self._inside(src[near], dst[near])), (far, outside)), len(src))
        self._check(routes, src, dst)
        return routes

    def _inside(self, src: Ints, dst: Ints) -> Routes:
        """Return the routes of flows that stay in their domain."""
        path = Path(num_flows=len(src))
        moves = src != dst
        self._nvlink(path, src, dst, moves)
        path.src_port[moves] = src[moves] + self.resources.base(NVLINK, 0)
        path.dst_port[moves] = dst[moves] + self.resources.base(NVLINK, 1)
        return path.routes(self.resources)

    def _nvlink(self, path: Path, src: Ints, dst: Ints, mask: npt.NDArray[np.bool_]) -> None:
        path.add(np.where(mask, src + self.resources.base(NVLINK, 0), -1))
        path.add(np.where(mask, dst + self.resources.base(NVLINK, 1), -1))
        latency = self.wiring.nvlink_latency
        path.latency += np.where(mask, (latency[src] + latency[dst]) / 2, 0.0)
        path.num_nvlink += mask

    def _outside(self, src: Ints, dst: Ints, flow_id: Ints, relay: str) -> Routes:
        """Return the routes of flows that leave their domain."""
        wiring, resources = self.wiring, self.resources
        path = Path(num_flows=len(src))
        sender = self._relay(src, dst, relay)
        is_relayed = sender != src
        if is_relayed.any():
            self._nvlink(path, src, sender, is_relayed)
        nics = wiring.gpu_nic[sender], wiring.gpu_nic[dst]
        path.add(sender + resources.base(GPU_NIC, 0))
        shares = self._plane_columns(path, (sender, dst, flow_id), nics)
        path.add(dst + resources.base(GPU_NIC, 1))
        path.latency += wiring.gpu_nic_latency[sender] + wiring.gpu_nic_latency[dst]
        path.latency += wiring.nic_up_latency[nics[0]] + wiring.nic_down_latency[nics[1]]
        if shares == 1:
            path.src_port[:] = nics[0] + resources.base(NIC_LEAF, 0)
            path.dst_port[:] = nics[1] + resources.base(NIC_LEAF, 1)
        else:
            path.src_port[:] = sender + resources.base(GPU_NIC, 0)
            path.dst_port[:] = dst + resources.base(GPU_NIC, 1)
        return path.routes(resources)

    def _plane_columns(self, path: Path, flows: tuple[Ints, Ints, Ints], nics: tuple[Ids, Ids]) -> int:
        """Add the columns of every plane, weighed by what the plane can carry; return the number of planes."""
        wiring, planes = self.wiring, []
        for plane in range(wiring.num_planes):
            leaves = tuple(wiring.nic_leaf[plane, nic].astype(np.int64) for nic in nics)
            self._require((leaves[0] >= 0) & (leaves[1] >= 0), flows[0], flows[1])
            way = climb(wiring, leaves[0], leaves[1])
            self._require(way.is_reached, flows[0], flows[1])
            columns: list[Ints] = [
                nics[0].astype(np.int64) + self.resources.base(NIC_LEAF, 0) + plane * wiring.num_nics
            ]
            columns += self._tier_columns(way, leaves, flows, nics[1])
            columns += [nics[1].astype(np.int64) + self.resources.base(NIC_LEAF, 1) + plane * wiring.num_nics]
            planes.append((leaves, way, columns))
        for (_, way, columns), weight in zip(planes, self._weights(planes, flows), strict=True):
            for column in columns:
                path.add(np.where(weight > 0, column, -1), weight)
            for leg in way.legs:
                tier = wiring.tiers[leg.tier]
                latency = tier.up_latency if leg.is_up else tier.down_latency
                added = np.where(leg.element >= 0, latency[np.maximum(leg.element, 0)], 0.0)
                path.latency += added * weight
        path.num_switches[:] = planes[0][1].num_switches
        return len(planes)

    def _weights(
        self, planes: list[tuple[tuple[Ints, ...], Climb, list[Ints]]], flows: tuple[Ints, Ints, Ints]
    ) -> list[Floats]:  # fmt: skip
        """Return the share of each plane in each flow."""
        if len(planes) == 1 and not self._has_dead:
            return [np.ones(len(flows[0]))]
        rates = np.array([self._narrowest(columns) for _, _, columns in planes])
        for index, (leaves, way, _) in enumerate(planes):
            rates[index] *= self._is_live(leaves, way)
        total = rates.sum(axis=0)
        self._require(total > 0, flows[0], flows[1])
        return list(rates / total)

    @cached_property
    def _has_dead(self) -> bool:
        """Whether anything at all carries nothing."""
        return bool(len(self.dead) or (self.capacity <= 0).any())

    def _narrowest(self, columns: list[Ints]) -> Floats:
        rates = [np.where(column >= 0, self.capacity[np.maximum(column, 0)], np.inf) for column in columns]
        return np.asarray(np.min(rates, axis=0), dtype=np.float64)

    def _tier_columns(
        self, way: Climb, leaves: tuple[Ints, ...], flows: tuple[Ints, Ints, Ints], target_nic: Ids
    ) -> list[Ints]:  # fmt: skip
        """Return the resource of each leg, -1 where it is not crossed."""
        if self.resources.is_bundled:
            bundle = self.resources.bundle
            return [
                np.where(leg.element >= 0, bundle[leg.tier][leg.element] + self._base(leg.tier, leg.is_up), -1)
                for leg in way.legs
            ]
        if self.routing == "ecmp":
            picks = hashed_picks(*flows, self.seed)
        else:
            position = self.wiring.nic_position[target_nic]
            picks = static_picks(
                self.wiring, way, leaves[1], position, has_offset=self.routing != "static-no-offset"
            )  # fmt: skip
        return self._live_cables(way, picks)

    def _cable_columns(self, way: Climb, picks: Picks) -> tuple[list[Ints], npt.NDArray[np.bool_]]:
        """Return the resource of each leg, and which flows the picks leave without a live way."""
        columns = []
        cables, has_way = choose_cables(self.wiring, way, picks)
        for leg, cable in zip(way.legs, cables, strict=True):
            first = self.wiring.tiers[leg.tier].first_cable[np.maximum(leg.element, 0)]
            columns.append(np.where(cable >= 0, first + cable + self._base(leg.tier, leg.is_up), -1))
        if columns and len(self.dead):
            has_way &= self._narrowest(columns) > 0
        return columns, ~has_way

    def _live_cables(self, way: Climb, picks: Picks) -> list[Ints]:
        """Return the resource of each leg; flows on dead cables move to the next, as a subnet manager arranges."""
        columns, is_stuck = self._cable_columns(way, picks)
        most = max((int(tier.cables.max(initial=0)) for tier in self.wiring.tiers), default=0)
        shift = np.zeros(len(way.meeting), dtype=np.int64)
        for _ in range(most):
            if not is_stuck.any():
                break
            shift += is_stuck
            columns, is_stuck = self._cable_columns(way, replace(picks, turn=picks.turn + shift))
        return columns

    def _base(self, tier: int, is_up: bool) -> int:
        return self.resources.tier_base(tier, 0 if is_up else 1)

    def _relay(self, src: Ints, dst: Ints, relay: str) -> Ints:
        """Return the GPU whose NIC sends: the source, or its neighbour on the rail of the target."""
        wiring = self.wiring
        if relay == "never":
            return src
        inside, anywhere = self._reach
        is_near = wiring.gpu_module[src] == wiring.gpu_module[dst]
        target = np.where(is_near, inside[dst], anywhere[dst])
        sender = src.copy()
        is_open = (inside[src] >= 0) & (target >= 0)
        if relay == "auto":
            is_open &= np.where(is_near, inside[src], anywhere[src]) != target
        per_host = max(plan.node.gpus // plan.node.hosts for plan in wiring.plans)
        host = wiring.gpu_host_first[src].astype(np.int64)
        for step in range(per_host):
            if not is_open.any():
                break
            other = np.minimum(host + step, wiring.num_gpus - 1)
            fits = is_open & (wiring.gpu_host_first[other] == host)
            fits &= np.where(is_near, inside[other], anywhere[other]) == target
            fits &= (wiring.gpu_rail[other] == wiring.gpu_rail[dst]) | (relay == "auto")
            sender = np.where(fits & (wiring.gpu_rail[src] != wiring.gpu_rail[other]), other, sender)
            is_open &= ~fits
        return sender

    def _is_live(self, leaves: tuple[Ints, ...], way: Climb) -> npt.NDArray[np.bool_]:
        """Return whether switches still join two leaves where two or more of their bundles have dead cables."""
        live = np.ones(len(way.meeting), dtype=bool)
        if not len(self.dead):
            return live
        num_dead = np.zeros(len(live), dtype=np.int64)
        flags = dead_pairs(self.wiring, self.dead)
        for leg in way.legs:
            touched = flags[leg.tier]
            num_dead += np.where(leg.element >= 0, touched[np.maximum(leg.element, 0)], False)
        asked = np.flatnonzero(num_dead > 0)
        if len(asked):
            ends = np.stack([leaves[0][asked], leaves[1][asked]], axis=1)
            unique, inverse = np.unique(ends, axis=0, return_inverse=True)
            found = np.array([has_live_path(self.wiring, self.dead, int(a), int(b)) for a, b in unique])
            live[asked] = found[inverse.ravel()]
        return live

    def _check(self, routes: Routes, src: Ints, dst: Ints) -> None:
        if not self._has_dead:
            return
        is_dead = self.capacity[routes.resource] <= 0
        if is_dead.any():
            flow = np.repeat(np.arange(len(src)), np.diff(routes.indptr))[is_dead]
            has_path = np.ones(len(src), dtype=bool)
            has_path[flow] = False
            self._require(has_path, src, dst)

    def _require(self, has_path: npt.NDArray[np.bool_], src: Ints, dst: Ints) -> None:
        if has_path.all():
            return
        nodes = Nodes(wiring=self.wiring)
        lost = np.flatnonzero(~has_path)
        raise no_path(
            [(nodes.name(int(src[flow])), nodes.name(int(dst[flow]))) for flow in lost[:_MAX_SHOWN]], len(lost)
        )
