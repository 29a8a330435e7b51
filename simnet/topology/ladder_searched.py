"""The ladder of a graph whose structure was edited: cables as its edges say, upwards by kind of switch."""

from __future__ import annotations

from dataclasses import dataclass

from simnet.spec.parts import SwitchPart
from simnet.topology.ladder import Rung
from simnet.topology.search import KIND_RANK, SearchRouter


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedLadder:
    """Cables of a graph; every switch counts as the part that the topology names."""

    router: SearchRouter
    switch: SwitchPart

    def port(self, gpu: int) -> Rung | None:
        """Return the way from a GPU over its NIC to a leaf, nothing if it has none or several."""
        router = self.router
        node = router.gpus[gpu]
        found = [
            (nic, leaf)
            for nic in router.after[node]
            if router.kinds[nic] == "nic"
            for leaf in router.after[nic]
            if router.ways.is_switch(leaf) and leaf in router.before[nic] and nic in router.before[node]
        ]
        if len(found) != 1:
            return None
        ((nic, leaf),) = found
        up = router.after[node][nic], router.after[nic][leaf]
        down = router.after[leaf][nic], router.after[nic][node]
        return Rung(
            upper=leaf,
            port=(up[1], 0),
            up=up,
            down=down,
            bytes_per_s=min(float(router.capacity[edge]) for edge in (*up, *down)),
            up_s=sum(float(router.latency[edge]) for edge in up),
            down_s=sum(float(router.latency[edge]) for edge in down),
        )

    def rungs(self, switch: int) -> tuple[Rung, ...]:
        """Return the live cables from a switch to those of a higher kind."""
        router = self.router
        own = KIND_RANK.get(router.kinds[switch], KIND_RANK["leaf"])
        found = []
        for upper, up in router.after[switch].items():
            down = router.before[switch].get(upper)
            rank = KIND_RANK.get(router.kinds[upper], KIND_RANK["leaf"])
            if down is None or rank <= own or not router.ways.is_switch(upper):
                continue
            cables = int(router.cables[up])
            rate = min(float(router.capacity[up]), float(router.capacity[down])) / cables
            found += [
                Rung(
                    upper=upper,
                    port=(up, cable),
                    up=(up,),
                    down=(down,),
                    bytes_per_s=rate,
                    up_s=float(router.latency[up]),
                    down_s=float(router.latency[down]),
                )
                for cable in range(cables)
            ]
        return tuple(found)

    def part(self, switch: int) -> SwitchPart:
        """Return what a switch is."""
        del switch
        return self.switch

    def name(self, switch: int) -> str:
        """Return the name of a switch."""
        return self.router.names[switch]

    def gpu_name(self, gpu: int) -> str:
        """Return the name of a GPU."""
        return self.router.names[self.router.gpus[gpu]]
