"""SimGrid on the same links and flows: ``python simgrid_peer.py < network.json`` prints finish times and seconds.

For an interpreter that has SimGrid (Debian: python3-simgrid); nothing of simnet is imported here.
"""

from __future__ import annotations

import json
import sys
import time

SETTINGS = ("network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0", "network/bandwidth-factor:1",
            "network/latency-factor:1", "network/weight-S:0", "surf/precision:1e-12")  # fmt: skip


def main():
    from simgrid import Actor, Comm, Engine, LinkInRoute, NetZone

    case = json.load(sys.stdin)
    engine = Engine(["peer", "--log=root.thres:error", *(f"--cfg={setting}" for setting in SETTINGS)])
    zone = NetZone.create_full_zone("all")
    links = [zone.create_link(f"l{number}", rate).seal() for number, rate in enumerate(case["capacity"])]
    ends, finish_s = [], [0.0] * len(case["routes"])
    for number, route in enumerate(case["routes"]):
        pair = [zone.create_host(f"{end}{number}", 1e9).seal() for end in "ab"]
        over = [LinkInRoute(links[link]) for link in route]
        zone.add_route(pair[0].netpoint, pair[1].netpoint, None, None, over, False)
        ends.append(pair)
    zone.seal()

    def move(number, source, target):
        Comm.sendto_async(source, target, int(case["size_bytes"])).wait()
        finish_s[number] = Engine.clock

    for number, (source, target) in enumerate(ends):
        Actor.create(f"f{number}", source, move, number, source, target)
    begin = time.process_time()
    engine.run()
    json.dump({"seconds": time.process_time() - begin, "finish_s": finish_s}, sys.stdout)


if __name__ == "__main__":
    main()
