"""Reduction trees in the switches (SHARP): where they grow on the real cables, and how many there is room for.

A tree has one root; each of its cables carries every byte of an all-reduce once up, already summed,
and once down, whatever the number of GPUs below. Each cable is held by a tree of its own, as streaming aggregation
is; the switch parts say how many trees a port, a switch and a network hold at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from simnet.spec.parts import ReductionPart
from simnet.topology.ladder import Ladder, Rung


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionTree:
    """One tree, from the NICs of its GPUs to its root."""

    root: str
    """Name of the switch at which all bytes meet."""
    num_switches: int
    """Switches of the tree."""
    num_tiers: int
    """Switches on the way from a NIC to the root."""
    up: tuple[int, ...]
    """Resources of all its cables upwards."""
    down: tuple[int, ...]
    """The same downwards, in the same order."""
    below: tuple[int, ...]
    """GPUs below each of them."""
    bytes_per_s: float
    """Rate of its narrowest cable [bytes/s]."""
    latency_s: float
    """From the farthest GPU up to the root and down again [s]."""

    @property
    def resource(self) -> tuple[int, ...]:
        """Return the resources of all its cables, upwards and downwards."""
        return self.up + self.down


@dataclass(frozen=True, slots=True)
class NoTree:
    """Why a tree cannot grow."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """The reduction of a fabric's switches."""

    ladder: Ladder

    def book(self) -> TreeBook:
        """Return an empty book of the trees that communicators hold."""
        return TreeBook(ladder=self.ladder)


@dataclass(slots=True, kw_only=True)
class TreeBook:
    """Trees in use on one fabric; grows as communicators take trees."""

    ladder: Ladder
    _ports: Counter[tuple[int, int]] = field(default_factory=Counter)
    _switches: Counter[int] = field(default_factory=Counter)
    _num_trees: int = 0

    def plant(self, rails: Sequence[Sequence[int]]) -> tuple[ReductionTree, ...] | NoTree:
        """Return one tree for each rail of a communicator, all of them or why there is none.

        Parameters
        ----------
        rails
            For each NIC of a node, the GPUs that speak through it, one of each node.
        """
        kept = Counter(self._ports), Counter(self._switches), self._num_trees
        trees = []
        for gpus in rails:
            tree = self._grow(gpus)
            if isinstance(tree, NoTree):
                self._ports, self._switches, self._num_trees = kept
                return tree
            trees.append(tree)
        return tuple(trees)

    def _grow(self, gpus: Sequence[int]) -> ReductionTree | NoTree:
        ports: list[Rung] = []
        for gpu in gpus:
            port = self.ladder.port(gpu)
            if port is None or port.bytes_per_s <= 0:
                return NoTree(f"{self.ladder.gpu_name(gpu)} has no NIC with one live port")
            ports.append(port)
        leaves = sorted({port.upper for port in ports})
        grown = self._widest(leaves, ports)
        if grown is None:
            return self._refused(leaves, ports)
        root, parent = grown
        return self._held(ports, root, parent)

    def _widest(self, leaves: list[int], ports: list[Rung]) -> tuple[int, dict[int, Rung]] | None:
        """Return the root and each other switch's rung of the tree whose narrowest cable is widest."""
        if any(not self._is_free(port) for port in ports) or any(not self._has_room(leaf) for leaf in leaves):
            return None
        below = Counter(port.upper for port in ports)
        if any(below[leaf] > self._radix(leaf) for leaf in leaves):
            return None
        for rate in self._rates(leaves):
            for root, levels in self._roots(leaves, rate):
                parent = self._parents(leaves, root, levels, rate)
                if parent is not None:
                    return root, parent
        return None

    def _rates(self, leaves: list[int]) -> list[float]:
        """Return the rates of all cables above some leaves, the largest first."""
        rates = {0.0} if len(leaves) == 1 else set()
        level = set(leaves)
        while level and len(leaves) > 1:
            rungs = [rung for switch in level for rung in self.ladder.rungs(switch)]
            rates |= {rung.bytes_per_s for rung in rungs}
            level = {rung.upper for rung in rungs}
        return sorted(rates, reverse=True)

    def _roots(self, leaves: list[int], rate: float) -> Iterator[tuple[int, int]]:
        """Yield the nearest switches that all leaves reach, the least used first, and how many levels up they are."""
        reach = {leaf: {leaf} for leaf in leaves}
        levels = 0
        common = set.intersection(*reach.values())
        while not common:
            above = {switch: self._above(switch, rate) for switch in set.union(*reach.values())}
            reach = {leaf: set.union(*(above[switch] for switch in own)) for leaf, own in reach.items()}
            if not all(reach.values()):
                return
            levels += 1
            common = set.intersection(*reach.values())
        for root in sorted(common, key=lambda switch: (self._switches[switch], switch)):
            yield root, levels

    def _parents(self, leaves: list[int], root: int, num_levels: int, rate: float) -> dict[int, Rung] | None:
        """Return the cable from each switch of a tree to its parent, as few switches as the cables allow."""
        above: dict[int, set[int]] = {}
        levels = [set(leaves)]
        for _ in range(num_levels):
            above |= {switch: self._above(switch, rate) for switch in levels[-1]}
            levels.append(set.union(*(above[switch] for switch in levels[-1])))
        leads: list[set[int]] = [{root}]
        for level in reversed(levels[:-1]):
            leads.append({switch for switch in level if above[switch] & leads[-1]})
        found: dict[int, Rung] = {}
        here = set(leaves)
        for allowed in reversed(leads[:-1]):
            parents = self._adopted(here, above, allowed)
            if parents is None:
                return None
            found |= {switch: self._cable(switch, upper, rate) for switch, upper in parents.items()}
            here = set(parents.values())
        return found

    def _adopted(self, children: set[int], above: dict[int, set[int]], allowed: set[int]) -> dict[int, int] | None:
        """Return the parent of each switch of one level: whoever reaches most of those that have none yet."""
        found: dict[int, int] = {}
        left = set(children)
        while left:
            below: dict[int, list[int]] = {}
            for switch in sorted(left):
                for upper in above[switch] & allowed:
                    below.setdefault(upper, []).append(switch)
            if not below:
                return None
            best = max(below, key=lambda upper: (len(below[upper]), -self._switches[upper], -upper))
            adopted = below[best][: self._radix(best)]
            found |= dict.fromkeys(adopted, best)
            left -= set(adopted)
            allowed = allowed - {best}
        return found

    def _cable(self, switch: int, upper: int, rate: float) -> Rung:
        return min((rung for rung in self._free(switch, rate) if rung.upper == upper), key=lambda rung: rung.port)

    def _above(self, switch: int, rate: float) -> set[int]:
        return {rung.upper for rung in self._free(switch, rate)}

    def _free(self, switch: int, rate: float) -> list[Rung]:
        """Return the rungs of a switch that are as wide as *rate* and lead where there is room."""
        return [
            rung
            for rung in self.ladder.rungs(switch)
            if rung.bytes_per_s >= rate and self._is_free(rung) and self._has_room(rung.upper)
        ]

    def _limits(self, switch: int) -> ReductionPart | None:
        limits = self.ladder.part(switch).reduction
        return limits if limits is not None and limits.has_streaming else None

    def _radix(self, switch: int) -> int:
        limits = self._limits(switch)
        return limits.radix if limits else 0

    def _is_free(self, rung: Rung) -> bool:
        limits = self._limits(rung.upper)
        return limits is not None and self._ports[rung.port] < limits.trees_per_port

    def _has_room(self, switch: int) -> bool:
        limits = self._limits(switch)
        if limits is None or self._num_trees >= limits.trees_per_subnet:
            return False
        return limits.trees_per_switch is None or self._switches[switch] < limits.trees_per_switch

    def _held(self, ports: Sequence[Rung], root: int, parent: dict[int, Rung]) -> ReductionTree:
        """Return the tree of some rungs and enter it."""
        rungs = [*ports, *parent.values()]
        switches = {*parent, root}
        self._ports.update(rung.port for rung in rungs)
        self._switches.update(switches)
        self._num_trees += 1
        ways = [list(_way(port, parent)) for port in ports]
        below = Counter(rung.port for way in ways for rung in way)
        return ReductionTree(
            root=self.ladder.name(root),
            num_switches=len(switches),
            num_tiers=max(map(len, ways)),
            up=tuple(resource for rung in rungs for resource in rung.up),
            down=tuple(resource for rung in rungs for resource in reversed(rung.down)),
            below=tuple(below[rung.port] for rung in rungs for _ in rung.up),
            bytes_per_s=min(rung.bytes_per_s for rung in rungs),
            latency_s=max(sum(rung.up_s for rung in way) for way in ways)
            + max(sum(rung.down_s for rung in way) for way in ways),
        )

    def _refused(self, leaves: Collection[int], ports: Sequence[Rung]) -> NoTree:
        """Return why no tree grows: nothing joins the leaves, or what joins them is taken."""
        names = _listed([self.ladder.name(leaf) for leaf in leaves])
        unable = [leaf for leaf in leaves if self._limits(leaf) is None]
        if unable:
            return NoTree(f"{self.ladder.part(unable[0]).name} does not reduce streams")
        empty = TreeBook(ladder=self.ladder)
        if empty._widest(list(leaves), list(ports)) is None:
            return NoTree(f"no switch joins {names} with room for as many children")
        limits = self._limits(next(iter(leaves)))
        assert limits is not None  # told above
        part = self.ladder.part(next(iter(leaves))).name
        per_port = limits.trees_per_port
        if any(not self._is_free(port) for port in ports):
            return NoTree(
                f"its NICs already send into a reduction tree, and a port of {part} holds {per_port} at a time"
            )
        if self._num_trees >= limits.trees_per_subnet:
            return NoTree(f"the network holds {limits.trees_per_subnet} reduction trees at a time")
        held = f"{limits.trees_per_switch} in a switch" if limits.trees_per_switch else f"{per_port} on a port"
        return NoTree(f"no room for one more reduction tree: {part} holds {held} at a time")


def _way(port: Rung, parent: dict[int, Rung]) -> Iterator[Rung]:
    """Yield the rungs from a NIC to the root."""
    rung: Rung | None = port
    while rung is not None:
        yield rung
        rung = parent.get(rung.upper)


def _listed(names: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
