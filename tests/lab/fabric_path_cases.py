# SPDX-License-Identifier: GPL-2.0
"""Cases of test_fabric: routes that change, and PFC."""

import time

import fabric_net as fn
from fabric_net import G, Net, Stats, control, frame, wire_ps
from tap import ok, same

COUNT = 400


def through(net, sports=COUNT):
    """Frames from 0 to 1, of so many flows: how many took s1, s2, how many came."""
    control("reset")
    net.hosts[1].received()
    net.hosts[0].send(*(frame(0, 1, 100, i, sport=i) for i in range(sports)))
    time.sleep(0.01)
    stats = Stats()
    return (stats.ports["s0", "s1"]["tx_pkts"], stats.ports["s0", "s2"]["tx_pkts"], len(net.hosts[1].received())), stats


def reroute(module):
    """Two ways: s0 s1 s3 and s0 s2 s3."""
    with Net(module, ["txq_pkts=4096"] * 2, [""] * 4,
             [f"h0 s0 {G}", f"s0 s1 {G}", f"s1 s3 {G}", f"s0 s2 {G}", f"s2 s3 {G}", f"s3 h1 {G}"]) as net:
        net.hosts[1].listen()
        before, _ = through(net)
        ok("both ways are used, all arrive", min(before[:2]) > COUNT / 4 and before[2] == COUNT, before)
        control("fault link=2 avoid=1")
        same("a link to be avoided carries as before", through(net)[0], before)
        same("  until routes are computed", control("routes"), 0)
        same("  then all take the other way, nothing is lost", through(net)[0], (0, COUNT, COUNT))
        control("fault link=2")
        control("routes")
        same("  and back, each flow its own way", through(net)[0], before)

        control("fault link=1 down=1")
        now, stats = through(net)
        same("a link that went loses its part, as long as routes know nothing", (now[2], stats.sum("ports", "lost"), stats.balance()),
             (COUNT - before[0], before[0], 0))
        control("routes")
        same("  then nothing", through(net)[0], (0, COUNT, COUNT))
        control("fault link=3 down=1")
        control("routes")
        now, stats = through(net)
        same("no way at all: no route, and counted", (now, stats.sum("switches", "no_route"), stats.balance()), ((0, 0, 0), COUNT, 0))
        for link in (1, 3):
            control(f"fault link={link} down=0")
        control("routes")
        same("  and all is as it was", through(net)[0], before)


def sources(net, *hosts, length=1514):
    control("reset")
    for src in hosts:
        net.hosts[src].send(*(frame(src, 0, length, i) for i in range(600)))
    time.sleep(0.02)
    stats = Stats()
    return stats, [(one.src, one.number) for one in net.hosts[0].received()]


def pfc(module):
    """Two of 100 Gb/s into one of 10, through a switch that stops them, or drops."""
    links = [f"h0 s0 {10 * G}"] + [f"h{i} s0 {100 * G} prop_ns=1000" for i in (1, 2)]
    xoff, xon = 60_000, 30_000
    with Net(module, ["txq_pkts=2048"] * 3, ["buffer_bytes=200000 shared=1"], links) as net:
        net.hosts[0].listen()
        stats, got = sources(net, 1, 2)
        ok("without PFC the buffer overflows", stats.sum("ports", "drops") > 100 and stats.sum("ports", "pauses") == 0, stats.ports)
    with Net(module, ["txq_pkts=2048"] * 3, [f"buffer_bytes=200000 shared=1 pfc_xoff_bytes={xoff} pfc_xon_bytes={xon}"], links) as net:
        net.hosts[0].listen()
        stats, got = sources(net, 1, 2)
        same("with PFC all arrive, in order", [[n for src, n in got if src == one] for one in (1, 2)], [list(range(600))] * 2)
        same("  none is dropped, and none unaccounted for", (stats.sum("ports", "drops"), stats.balance(), stats.fabric["in_flight"]), (0, 0, 0))
        ports = [stats.ports[f"h{i}", "s0"] for i in (1, 2)]
        # A round: what waits falls from xoff to xon at half the slow rate, then the sender has its turn.
        rounds = (600 * 1514 - xoff) / (xoff - xon)
        ok("  each sender is stopped again and again", all(rounds / 3 < one["pauses"] < rounds for one in ports), rounds, ports)
        # While it is stopped it sends nothing: of the whole time, but for what its own frames take.
        whole = 1200 * wire_ps(1514, 10 * G) / 1000
        ok("  for most of the time", all(0.6 * whole < one["paused_ns"] < whole for one in ports), whole, ports)
        # Until a sender hears: two ways of 1 us, a frame begun at each end, and the pause itself.
        heard = (2 * 1000 + 2 * wire_ps(1514, 100 * G) / 1000 + 7) / 8 * 100
        most = stats.switches[0]["used_max_bytes"]
        ok("  and what waits is bounded by when it hears", 2 * xoff < most <= 2 * (xoff + heard + 1514), most, heard)
        same("  nobody else is", [one["pauses"] for (a, _), one in stats.ports.items() if a == "s0"], [0] * 3)

        net.hosts[1].send(*(frame(1, 0, 1514, i) for i in range(600)))
        while not Stats().ports["h1", "s0"]["pauses"]:
            time.sleep(1e-6)
        control("fault link=1 down=1")
        control("fault link=1 down=0")
        time.sleep(1.5)
        ok("a link that went and came is not stopped for ever",
           " 0% packet loss" in net.hosts[1].run("ping", "-qc2", "-W5", fn.address(0)))
        net.hosts[2].send(*(frame(2, 0, 1514, i) for i in range(600)))
        while not Stats().ports["h2", "s0"]["pauses"]:
            time.sleep(1e-6)  # and the module goes with senders stopped

    # XOFF is 100 us under way, and so is what the sender still sent: all that it had.
    with Net(module, ["", ""], [f"buffer_bytes=1000000 shared=1 pfc_xoff_bytes={xoff} pfc_xon_bytes={xon}"],
             [f"h0 s0 {G}", f"h1 s0 {100 * G} prop_ns=100000"]) as net:
        net.hosts[1].send(*(frame(1, 0, 1514, i) for i in range(45)))
        time.sleep(150e-6)
        control("fault link=1 down=1")
        control("fault link=1 down=0")
        time.sleep(1.5)
        ok("nor is one whose sender was being told to stop",
           " 0% packet loss" in net.hosts[1].run("ping", "-qc2", "-W5", fn.address(0)), Stats().ports)
        same("  of which it never heard", Stats().ports["h1", "s0"]["pauses"], 0)

    # h1 and h2 send over one link between switches: to h0, which is slow, and to h3, which is not.
    with Net(module, ["txq_pkts=4096"] * 4, [f"buffer_bytes=1000000 shared=1 pfc_xoff_bytes={xoff} pfc_xon_bytes={xon}"] * 2,
             [f"h0 s1 {G}", f"h1 s0 {100 * G}", f"h2 s0 {100 * G}", f"h3 s1 {100 * G}", f"s0 s1 {100 * G}"]) as net:
        done = {}
        for name, tos in (("its class waits for the slow one's queue", 0), ("another class does not", 5 << 5)):
            net.hosts[3].listen()
            control("reset")
            net.hosts[1].send(*(frame(1, 0, 1514, i) for i in range(600)))
            time.sleep(1e-3)
            net.hosts[2].send(*(frame(2, 3, 1514, i, tos=tos) for i in range(50)))
            time.sleep(100e-6)
            done[name] = len(net.hosts[3].received())
            stats = Stats()
            ok("the pause spreads to the switch before, and to who sends", stats.ports["s0", "s1"]["pauses"] > 0
               and stats.ports["h1", "s0"]["pauses"] > 0, stats.ports)
            time.sleep(0.05)
            same(f"  a victim: {name}", (done[name] == 50, len(net.hosts[3].received()) + done[name]), (bool(tos), 50))
        same("  nothing is lost", (Stats().balance(), Stats().sum("ports", "drops")), (0, 0))


CASES = (reroute, pfc)
