# SPDX-License-Identifier: GPL-2.0
"""Cases of test_fabric: hosts that cost (cores, interrupts, GRO, what work takes)."""

import random
import socket
import time

import fabric_net as fn
from fabric_net import G, Net, Stats, control, frame, now_ns, path_ps, wire_ps
from tap import near, nearly, ok, same

RATE = 100 * G
LINK = f"h0 h1 {RATE} prop_ns=10"
# Software's stamp of a frame alone, after its arrival: the interrupt, the way to the softirq, driver and GRO.
COST = {"cores": 1, "rx_usecs": 20, "irq_ns": 1000, "rx_pkt_ns": 200, "seg_ns": 500, "ack_ns": 300}


def args(**changes):
    return " ".join(f"{key}={value}" for key, value in (COST | changes).items())


def arrivals_ns(lengths):
    """From the first bit's departure to each last one's arrival, when all are sent at once."""
    at_ps, result = 10_000, []
    for length in lengths:
        at_ps += wire_ps(length, RATE)
        result.append(at_ps / 1000)
    return result


def interrupts(module):
    """Who waits how long for the interrupt, and for the frames before it."""
    for gro in (0, 1):
        with Net(module, ["", args(gro=gro, rx_frames=4)], [], [LINK]) as net:
            net.hosts[1].listen()
            # Frames; when the interrupt is, from the first one's departure; when a frame is stamped, after it and the way.
            for count, why in ((1, "rx_usecs after the first frame"), (3, "though others come"), (4, "or at once with rx_frames"),
                               (6, "and what comes until the core begins is of the same poll")):
                lengths = [1514] * count
                sent_ns = net.hosts[0].departs(frame(0, 1, 1514, 0))
                net.hosts[0].send(*(frame(0, 1, 1514, i) for i in range(1, count)))
                time.sleep(0.001)
                came = arrivals_ns(lengths)
                interrupt = came[3] if count >= 4 else came[0] + 20_000
                done = interrupt + 1000 + 200 * count
                got = [(one.software_ns - sent_ns, one.number) for one in net.hosts[1].received()]
                ok(f"gro={gro}: {count} frames: the interrupt is {why}",
                   [number for _, number in got] == list(range(count)) and all(abs(at - done) <= 3 for at, _ in got), got, done)
            stats = Stats().hosts[1]
            same("  four interrupts, a segment a frame that cannot be merged, time for each",
                 (stats["irqs"], stats["segments"], stats["service_ns"]), (4, 14, 14 * (200 + 500)))


def connect(net, port=5000):
    """(client on 0, connection on 1)"""
    server = net.hosts[1].socket(socket.AF_INET, socket.SOCK_STREAM)
    server.bind(("", port))
    server.listen()
    client = net.hosts[0].socket(socket.AF_INET, socket.SOCK_STREAM)
    client.connect((fn.address(1), port))
    connection = server.accept()[0]
    server.close()
    time.sleep(0.01)
    return client, connection


def merging(module):
    """GRO is the kernel's: segments of a flow in a poll become one, with the first one's stamps."""
    size, data = 20 * 1448, random.Random(1).randbytes(20 * 1448)
    for gro in (1, 0):
        with Net(module, ["", args(gro=gro)], [], [LINK]) as net:
            net.hosts[0].run("ip", "route", "replace", "10.0.0.0/8", "dev", "eth0", "initcwnd", "60")
            net.hosts[1].listen()
            client, connection = connect(net)
            client.setsockopt(socket.SOL_SOCKET, fn.SO_SNDBUFFORCE, 1 << 20)
            net.hosts[1].received()
            control("reset")
            client.send(data)
            time.sleep(0.001)
            got, stats = net.hosts[1].received(), Stats()
            same(f"gro={gro}: what was sent is received", connection.recv(1 << 20, socket.MSG_DONTWAIT), data)
            one = stats.hosts[1]
            if gro:
                same("  20 frames are one segment, that one ACK answers", (one["rx_pkts"], one["segments"], one["tx_pkts"], len(got)),
                     (20, 1, 1, 1))
                came = arrivals_ns([1514] * 20)
                ok("  its length is of all; the NIC's stamp is of the first frame, software's of the merged",
                   got[0].length == size + 66 and abs(got[0].software_ns - got[0].hardware_ns
                                                      - (20_000 + 1000 + 200 * 20 + wire_ps(1514, RATE) / 1000)) <= 3,
                   got[0].length, got[0].software_ns - got[0].hardware_ns, came)
                same("  and it costs its frames, a segment and an ACK", one["service_ns"], 20 * 200 + 500 + 300)
            else:
                ok("  20 segments, each or each second with an ACK", (one["rx_pkts"], one["segments"]) == (20, 20) and 9 <= one["tx_pkts"] <= 20, one)
                same("  and they cost as much", one["service_ns"], 20 * (200 + 500) + one["tx_pkts"] * 300)
            net.hosts[1].run("ethtool", "-K", "eth0", "gro", "off" if gro else "on")
            control("reset")
            client.send(data)
            time.sleep(0.001)
            ok("  ethtool -K turns it", (Stats().hosts[1]["segments"] == 20) == bool(gro), Stats().hosts[1])
            client.close(), connection.close()


def sending(module):
    """What a host sends at one moment leaves one by one, when its core has been called, and has done the work."""
    with Net(module, [args(timer_ns=1500), ""], [], [LINK]) as net:
        net.hosts[1].listen()
        control("reset")
        at_ns = now_ns()
        net.hosts[0].send(*(frame(0, 1, 64, i) for i in range(10)))
        time.sleep(0.001)
        got = net.hosts[1].received()
        same("10 frames leave in order", [one.number for one in got], list(range(10)))
        first = 1000 + 1500 + 500 + path_ps(64, [(RATE, 10)]) // 1000
        near("  the first when its core has woken, and for a call and a segment", got[0].software_ns - at_ns, first, 200)
        gaps = {b.software_ns - a.software_ns for a, b in zip(got, got[1:])}
        same("  the others a segment's time apart", gaps, {500})
        same("  that is the time that counts", Stats().hosts[0]["service_ns"], 10 * 500 + 1500)
    for cores, least, most in ((1, 1, 1), (8, 4, 8)):
        with Net(module, [args(cores=cores), ""], [], [LINK]) as net:
            net.hosts[1].listen()
            net.hosts[0].send(*(frame(0, 1, 64, i, sport=i) for i in range(64)))
            time.sleep(0.001)
            got = net.hosts[1].received()
            took = (got[-1].software_ns - got[0].software_ns) / 500 + 1
            ok(f"{cores} core{'s' * (cores > 1)}: 64 flows take the time of 64 segments over {least} to {most} of them",
               len(got) == 64 and 64 / most <= took <= 64 / least, took)


def late(module):
    """Softirqs, timers and noise: how late, how often."""
    def delays(host_args, count=400, gap_s=50e-6):
        with Net(module, ["", args(cores=1, rx_usecs=0, **host_args)], [], [LINK]) as net:
            net.hosts[1].listen()
            for i in range(count):
                net.hosts[0].send(frame(0, 1, 64, i))
                time.sleep(gap_s)
            time.sleep(0.01)
            first = wire_ps(64, RATE) // 1000 + 10 + 1000 + 200
            return [one.software_ns - one.hardware_ns - first for one in net.hosts[1].received()], Stats().hosts[1]

    waits, _ = delays({"rx_wake_ns": 10_000})
    ok("an idle core's softirq begins within irq_ns and rx_wake_ns", len(waits) == 400 and -2 <= min(waits) < 500
       and 9_500 < max(waits) <= 10_000, min(waits), max(waits))
    near("  after half of rx_wake_ns on average", sum(waits) / len(waits), 5_000, 500)

    waits, stats = delays({"noise_ns": 200_000, "noise_every_ns": 1_000_000}, count=4000)
    struck = [ns for ns in waits if ns > 10]
    near("noise: as often as its bursts are long", len(struck) / len(waits), 200 / 1200, 0.03)
    ok("  until the burst is over and those before it are done", 190_000 < max(waits) <= 203_000 and stats["noise_ns"] > 100 * 200_000,
       max(waits), stats)
    same("  frames wait, none is lost", len(waits), 4000)
    waits, _ = delays({"noise_ns": 200_000, "noise_every_ns": 35_000_000}, count=4000, gap_s=1e-3)
    near("  and as rarely as a model says", sum(ns > 10 for ns in waits) / len(waits), 200 / 35_200, 0.004)

    with Net(module, [args(timer_slack_ns=50_000), ""], [], [LINK]) as net:
        net.hosts[1].listen()
        waits = []
        for i in range(300):
            at_ns = now_ns()
            net.hosts[0].send(frame(0, 1, 64, i))
            time.sleep(100e-6)
            waits.append(net.hosts[1].received()[0].software_ns - at_ns - 1500 - 24)
        ok("timers of an idle core are late by up to their slack", -200 < min(waits) < 2_000 and 47_000 < max(waits) < 50_300,
           min(waits), max(waits))


def overrun(module):
    """A core that cannot: its ring misses frames, and nothing is unaccounted for, at any moment."""
    with Net(module, ["txq_pkts=4096", "txq_pkts=4096", args(cores=2, rx_pkt_ns=1500, ring_pkts=64, seg_ns=3000)],
             ["buffer_bytes=100000000"], [f"h{i} s0 {RATE}" for i in range(3)]) as net:
        for src in (0, 1):
            net.hosts[src].send(*(frame(src, 2, 600, i, sport=i) for i in range(1000)))
        balances = set()
        for _ in range(100):
            balances.add(Stats().balance())
            time.sleep(3e-6)
        time.sleep(0.1)
        last = Stats()
        same("no frame is unaccounted for, at 100 instants of an overrun and at its end",
             (balances, last.balance(), last.fabric["in_flight"]), ({0}, 0, 0))
        one = last.hosts[2]
        ok("  the rings miss what they cannot hold", one["ring_max_pkts"] == 64 and 500 < one["rx_missed"] < 1990
           and one["rx_missed"] + one["rx_pkts"] == 2000, one)
        for src in (0, 1):
            net.hosts[src].send(*(frame(src, 2, 600, i, sport=i) for i in range(200)))
        while not Stats().hosts[2]["rx_pkts"] > one["rx_pkts"]:
            time.sleep(1e-6)
        net.hosts[2].run("ip", "link", "set", "eth0", "down")
        time.sleep(0.01)
        last = Stats()
        same("a NIC that goes down with work begun: as much", (last.balance(), last.fabric["in_flight"]), (0, 0))
        net.hosts[2].run("ip", "link", "set", "eth0", "up")
        time.sleep(1)
        ok("  and works when it is up again", " 0% packet loss" in net.hosts[0].run("ping", "-qc2", "-W5", fn.address(2)))
        net.hosts[0].send(*(frame(0, 2, 600, i, sport=i) for i in range(200)))
        time.sleep(30e-6)  # what is on its way when the module goes must go, too


def alike(module):
    """The same seed, the same bits; another, others."""
    def stamps(seed):
        with Net(module, ["", args(cores=4, rx_wake_ns=5_000, noise_ns=50_000, noise_every_ns=200_000) + f" seed={seed}"], [],
                 [LINK]) as net:
            net.hosts[1].listen()
            sent_ns = net.hosts[0].departs(frame(0, 1, 64, 0))
            net.hosts[0].send(*(frame(0, 1, 300, i, sport=i) for i in range(1, 400)))
            time.sleep(0.01)
            return [(one.software_ns - sent_ns, one.number) for one in net.hosts[1].received()]

    one = stamps(1)
    nearly("the same seed: the same order and delays", stamps(1), one)
    ok("another: others", stamps(2) != one)


CASES = (interrupts, merging, sending, late, overrun, alike)
