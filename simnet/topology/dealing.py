"""The two counting rules of a fat tree: how cables are dealt from one tier to the switches of the next.

Every printed size of the reference fabrics follows from them, also where it is not the minimum by
port count (10 spines for two units of DGX A100, 16 for three of H100, 18 for four of B300 XDR).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Deal:
    """How each lower switch spreads its up-links: *per_pair* cables to each of *num_upper* switches."""

    per_pair: int
    num_upper: int

    @property
    def up_links(self) -> int:
        """Return the up-links of one full lower switch."""
        return self.per_pair * self.num_upper


def deal_whole(*, num_lower: int, up_links: int, up_links_max: int, ports: int, upward: int) -> Deal | None:
    """Return the deal that needs the fewest upper switches with the same whole number of cables for every pair.

    Parameters
    ----------
    num_lower
        Lower switches, each joined to every upper one.
    up_links, up_links_max
        Fewest and most up-links of a lower switch; a tapered one rounds up inside this range.
    ports
        Ports of an upper switch.
    upward
        Cables that the upper switches together send on, to the tier above.

    Returns
    -------
    Deal or None
        ``None`` if no number of upper switches has the ports.

    Notes
    -----
    With *k* cables per pair, *k* must divide the up-links, and ``k * num_lower`` plus the share of
    *upward* must fit into *ports*. Among the up-links allowed the fewest switches win, then the
    fewest cables.
    """
    best: Deal | None = None
    for links in range(up_links, up_links_max + 1):
        for per_pair in range(min(links, ports // num_lower), 0, -1):
            if links % per_pair:
                continue
            num_upper = links // per_pair
            if per_pair * num_lower + -(-upward // num_upper) <= ports:
                if best is None or num_upper < best.num_upper:
                    best = Deal(per_pair=per_pair, num_upper=num_upper)
                break
    return best


def deal_round_robin(groups: Sequence[int], *, ports: int, upward: int = 0) -> int | None:
    """Return the fewest switches among which every group can deal its cables one after another.

    Parameters
    ----------
    groups
        Cables of each group. Cable *n* of a group goes to switch ``n % count``, so shares differ by
        one cable at most.
    ports
        Ports of one switch.
    upward
        Cables that the switches together send on.

    Returns
    -------
    int or None
        ``None`` if there are more groups than ports, so that no switch can reach them all.
    """
    most = max(groups, default=0)
    count = max(1, -(-(sum(groups) + upward) // ports))
    while count <= most:
        if sum(-(-cables // count) for cables in groups) + -(-upward // count) <= ports:
            return count
        count += 1
    if len(groups) + -(-upward // max(most, 1)) <= ports:
        return most
    return None
