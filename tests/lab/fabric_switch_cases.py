# SPDX-License-Identifier: GPL-2.0
"""Cases of test_fabric: what a switch does with a frame: buffers, ECN, classes, and the way
it takes (routes that change, and PFC: fabric_path_cases.py). Wherever it ends, it is counted."""

import collections
import os
import random
import socket
import time

import fabric_net as fn
from fabric_net import G, Net, Port, Stats, control, frame, frame6, wire_ps
from lab import topology
from tap import near, ok, same


# --- Buffers ------------------------------------------------------------------------------

def conservation(module):
    hosts = ["rx_pkt_ns=1500 ring_pkts=16 txq_pkts=4096"] + ["txq_pkts=4096"] * 3
    with Net(module, hosts, ["buffer_bytes=60000"] * 2,
             [f"h0 s0 {10 * G}", f"h1 s1 {10 * G}", f"h2 s1 {10 * G}", f"h3 s1 {10 * G}",
              f"s0 s1 {25 * G} prop_ns=3000"]) as net:
        control("fault link=4 loss_ppm=50000 corrupt_ppm=50000 reorder_ppm=100000 reorder_ns=5000")
        control("fault link=0 corrupt_ppm=50000")
        control("fault link=2 loss_ppm=100000")
        rnd = random.Random(1)
        for src in (1, 2, 3):
            net.hosts[src].send(*(frame(src, rnd.choice((0, 0, 0, 0, 0, 9)), rnd.choice((64, 300, 1514)),
                                        ttl=rnd.choice((1, 2, 9, 9, 9, 9, 9))) for _ in range(600)))
        readings = []
        for _ in range(100):
            readings.append(Stats())
            time.sleep(3e-6)
        time.sleep(0.1)
        last = Stats()
        same("no frame is unaccounted for, at 100 instants of an overload", {one.balance() for one in readings}, {0})
        ok("of these many with frames under way", sum(one.fabric["in_flight"] > 0 for one in readings) > 50)
        same("nor at its end", (last.balance(), last.fabric["in_flight"], last.sum("ports", "qlen_bytes"),
                                last.sum("switches", "used_bytes")), (0, 0, 0, 0))
        counts = {(part, key): last.sum(part, key) for part, key in (
            ("ports", "drops"), ("ports", "lost"), ("ports", "rx_crc_errors"), ("hosts", "rx_crc_errors"),
            ("hosts", "rx_missed"), ("hosts", "rx_pkts"), ("switches", "ttl_expired"), ("switches", "no_route"),
            ("ports", "reordered"))}
        ok("and each cause has its frames", all(counts.values()), counts)
        hist_ns = [sum(int(part.split(":")[1]) for part in one["hist"].split(",")) == one["time_ns"]
                   for one in last.ports.values()]
        ok("the occupancy histograms cover all the time", all(hist_ns), hist_ns)


def overload(net, flows, ports, lengths=(1514,), tos=(0,), latest_ns=1000000):
    """Each flow (src, dst) sends at once and at 100 Gb/s what ports[dst] has to model; the arrivals by destination."""
    rnd = random.Random(2)
    arrivals, sent = [], 0
    for src, dst in flows:
        at_ps, frames = 0, []
        for _ in range(300):
            length, one_tos = rnd.choice(lengths), tos[sent % len(tos)]
            at_ps += wire_ps(length, 100 * G)
            arrivals.append((at_ps + (src * 1000 + 1) * 1000, sent, length, dst, one_tos))
            frames.append(frame(src, dst, length, sent, tos=one_tos))
            sent += 1
        net.hosts[src].send(*frames)
    kind = {}
    for at_ps, number, length, dst, one_tos in sorted(arrivals):
        kind[number] = one_tos
        for port in ports.values():
            port.run_until(at_ps)
        ports[dst].arrive(number, length, at_ps)
    for port in ports.values():
        port.finish()
    time.sleep(latest_ns / 1e9)
    return {dst: net.hosts[dst].received() for dst in ports}, kind


def buffers(module):
    links = [f"h0 s0 {9_700_000_000} prop_ns=1"] + [f"h{i} s0 {100 * G} prop_ns={i * 1000 + 1}" for i in (1, 2, 3)] + [
        f"h4 s0 {5_300_000_000} prop_ns=1"]
    sizes = (64, 333, 1000, 1514)

    def compare(name, got, ports):
        want = {dst: [number for number, _ in port.departed] for dst, port in ports.items()}
        same(name, {dst: [one.number for one in frames] for dst, frames in got.items()}, want)
        dropped = sum(len(port.dropped) for port in ports.values())
        same("  the drops are counted, and there are some", (Stats().sum("ports", "drops"), dropped > 20), (dropped, True))

    with Net(module, ["txq_pkts=2048"] * 5, ["buffer_bytes=50000"], links) as net:
        net.hosts[0].listen()
        room = lambda port: 50000 - port.backlog
        ports = {0: Port(9_700_000_000, room)}
        got, _ = overload(net, [(1, 0), (2, 0), (3, 0)], ports, sizes)
        compare("static buffer: dropped is what has no room, of 900 frames each", got, ports)
        port = Stats().ports["s0", "h0"]
        ok("  it is used to the last frame", 50000 - 1514 <= port["qmax_bytes"] <= 50000, port["qmax_bytes"])

    for alpha in (500, 4000):
        with Net(module, ["txq_pkts=2048"] * 5, [f"buffer_bytes=200000 shared=1 alpha_milli={alpha}"], links) as net:
            for dst in (0, 4):
                net.hosts[dst].listen()
            room = lambda port: ((200000 - sum(p.backlog for p in ports.values())) * alpha) // 1000 - port.backlog \
                if sum(p.backlog for p in ports.values()) + 1514 <= 200000 else -1
            ports = {0: Port(9_700_000_000, room), 4: Port(5_300_000_000, room)}
            got, _ = overload(net, [(1, 0), (2, 4), (3, 0)], ports)
            compare(f"shared buffer, alpha {alpha / 1000}: dropped is what passes the dynamic threshold", got, ports)

    with Net(module, ["txq_pkts=2048"] * 5, ["buffer_bytes=16777216 ecn_bytes=30000"], links) as net:
        net.hosts[0].listen()
        ports = {0: Port(9_700_000_000, lambda port: 1 << 30, 30000)}
        got, kind = overload(net, [(1, 0), (2, 0)], ports, sizes, (2, 0, 1))
        want = [number for number in ports[0].marked if kind[number]]
        same("ECN: marked is what passes the threshold and can be", sorted(one.number for one in got[0] if one.tos == 3), sorted(want))
        same("  the marks are counted, and there are some", (Stats().sum("ports", "marks"), len(want) > 100), (len(want), True))
        same("  nobody else's bits are touched", [one.tos for one in got[0] if one.tos != 3],
             [kind[one.number] for one in got[0] if one.tos != 3])


def used(module):
    """A switch's longest queues are those of one moment: not the sum of what its ports had at different ones."""
    links = [f"h0 s0 {G}", f"h1 s0 {G}", f"h2 s0 {100 * G}", f"h3 s0 {100 * G}"]
    with Net(module, ["txq_pkts=2048"] * 4, [""], links) as net:
        def maxima():
            stats = Stats()
            return [stats.ports["s0", f"h{i}"]["qmax_bytes"] for i in (0, 1)] + [stats.switches[0]["used_max_bytes"]]

        net.hosts[2].send(*(frame(2, 0, 1514) for _ in range(200)))
        time.sleep(0.01)
        net.hosts[3].send(*(frame(3, 1, 1514) for _ in range(100)))
        time.sleep(0.01)
        first, second, both = maxima()
        ok("used_max_bytes: one port after the other is the longer of the two", both == first > second > 50 * 1514,
           first, second, both)
        control("reset")
        same("  reset: nothing", maxima(), [0, 0, 0])
        net.hosts[2].send(*(frame(2, 0, 1514) for _ in range(200)))
        net.hosts[3].send(*(frame(3, 1, 1514) for _ in range(200)))
        time.sleep(0.01)
        first, second, both = maxima()
        ok("  both at once are nearly their sum", max(first, second) < both <= first + second and
           both > 0.95 * (first + second), first, second, both)


def classes(module):
    links = [f"h0 s0 {10 * G}"] + [f"h{i} s0 {100 * G}" for i in (1, 2, 3)]
    with Net(module, ["txq_pkts=8192"] * 4, ["buffer_bytes=100000000"], links) as net:
        net.hosts[0].listen()
        for src, class_ in ((1, 2), (2, 7), (3, 0)):
            net.hosts[src].send(*(frame(src, 0, 1514, i, tos=class_ << 5) for i in range(50)))
        time.sleep(0.01)
        got = [one.src for one in net.hosts[0].received()]
        ok("strict priority: the highest class first, the lowest last",
           got[3:50] == [2] * 47 and got[53:97] == [1] * 44 and got[103:] == [3] * 47, got)

    shares = {1: (1, 1514, 500), 2: (2, 300, 4000), 3: (5, 1000, 3000)}
    with Net(module, ["txq_pkts=8192"] * 4, ["buffer_bytes=100000000 weights=0,1,2,5,0,0,0,0"], links) as net:
        net.hosts[0].listen()
        for src, (_, length, count) in shares.items():
            net.hosts[src].send(*(frame(src, 0, length, i, tos=src << 5) for i in range(count)))
        net.hosts[1].send(*(frame(1, 0, 100, i, tos=7 << 5) for i in range(20)))
        time.sleep(0.05)
        got = net.hosts[0].received()
        same("all that was queued arrives", len(got), 7520)
        served, left = collections.Counter(), {src: count for src, (_, _, count) in shares.items()}
        for one in got:
            if one.tos >> 5 == 7:
                continue
            served[one.src] += one.length
            left[one.src] -= 1
            if not left[one.src]:
                break
        total = sum(served.values())
        for src, (weight, _, _) in shares.items():
            near(f"  weight {weight} of 8 gets its share of bytes", round(served[src] / total, 4), weight / 8, round(0.02 * weight / 8, 4))
        place = [i for i, one in enumerate(got) if one.tos >> 5 == 7]
        ok("  and a strict class overtakes all of them", len(place) == 20 and place[-1] < 7000, place)


# --- Routes -------------------------------------------------------------------------------

def routes(module):
    with Net(module, [""] * 2, [""] * 3, [f"h0 s0 {G}", f"s0 s1 {G}", f"s1 s2 {G}", f"s2 h1 {G}"]) as net:
        net.hosts[1].listen()
        net.hosts[0].send(*(frame(0, 1, 100, ttl, ttl=ttl) for ttl in (1, 2, 3, 4, 255)))
        time.sleep(0.01)
        same("TTL is one less a switch", [one.ttl for one in net.hosts[1].received()], [1, 252])
        same("and its end is counted where it is met",
             [one["ttl_expired"] for _, one in sorted(Stats().switches.items())], [1, 1, 1])

    count, paths = 1000, 4
    spread = 5 * (count * (1 / paths) * (1 - 1 / paths)) ** 0.5

    def used(net):
        stats = Stats()
        return [stats.ports["s0", f"s{2 + i}"]["tx_pkts"] for i in range(paths)]

    for spray in (0, 1):
        links = [f"h0 s0 {G}", f"h1 s1 {G}"] + [f"s{tor} s{2 + spine} {G}" for tor in (0, 1) for spine in range(paths)]
        with Net(module, ["txq_pkts=8192"] * 2, [f"spray={spray}"] * (2 + paths), links) as net:
            net.hosts[0].send(*(frame(0, 1, 100, sport=7777) for i in range(count)))
            time.sleep(0.1)
            if spray:
                ok("spraying: the packets of one flow take all paths alike (5 sigma of 1000)",
                   all(abs(n - count / paths) < spread for n in used(net)), used(net))
            else:
                same("ECMP: one flow stays on one path", sorted(used(net)), [0, 0, 0, count])
                control("reset")
                net.hosts[0].send(*(frame(0, 1, 100, sport=i) for i in range(count)))
                time.sleep(0.1)
                ok("ECMP: flows spread over equal paths (5 sigma of 1000)",
                   all(abs(n - count / paths) < spread for n in used(net)), used(net))
                control("reset")
                net.hosts[0].send(*(frame6(0, 1, 100, 7777) for i in range(count)))
                time.sleep(0.1)
                same("ECMP: over IPv6 a flow label stays on one path", sorted(used(net)), [0, 0, 0, count])
                control("reset")
                net.hosts[0].send(*(frame6(0, 1, 100, i) for i in range(count)))
                time.sleep(0.1)
                ok("ECMP: and flow labels spread a flow over equal paths (5 sigma of 1000)",
                   all(abs(n - count / paths) < spread for n in used(net)), used(net))
                control("reset")
                source = net.hosts[0].socket(socket.AF_INET, socket.SOCK_DGRAM)
                source.setsockopt(socket.IPPROTO_IP, 10, 0)  # IP_MTU_DISCOVER: may be cut
                for i in range(20):
                    source.sendto(os.urandom(8000), (fn.address(1), 9))
                time.sleep(0.1)
                source.close()
                same("ECMP: the fragments of a flow stay together", sorted(used(net)), [0, 0, 0, 120])
            same("  and all arrive", Stats().balance(), 0)

    for given in ({"kind": "leafspine", "tors": 3, "hosts_per_tor": 2, "spines": 2}, {"kind": "fattree", "k": 4}):
        t = topology.build(topology.resolve(given))
        links = [f"{link.a} {link.b} {link.rate_bps} prop_ns={link.prop_ns}" for link in t.links]
        with Net(module, [t.host_args(i, 1) for i in range(t.hosts)], [line.split(" ", 1)[1] for line in t.switch_lines(1)],
                 links) as net:
            for host in net.hosts:
                host.listen()
            for src, host in enumerate(net.hosts):
                host.send(*(frame(src, dst, 100, dst) for dst in range(t.hosts) if dst != src))
            time.sleep(0.01)
            got = {(one.src, dst): 64 - one.ttl for dst, host in enumerate(net.hosts) for one in host.received()}
            want = {(src, dst): len(t.path(src, dst)) - 1 for src in range(t.hosts) for dst in range(t.hosts) if src != dst}
            same(f"{given['kind']}: all {len(want)} pairs, each on a shortest path", got, want)


def tiers(module):
    """Which of its ways a switch chooses says nothing of what the one before chose; with the seed at which, of those
    below 60000, it said most when the hash was one of the flow's xor the salt."""
    count, ways = 4000, range(4)
    links = [f"h0 s0 {G}", f"h1 s9 {G}", *(f"s0 s{1 + i} {G}" for i in ways), *(f"s{5 + i} s9 {G}" for i in ways),
             *(f"s{1 + i} s{5 + k} {G}" for i in ways for k in ways)]
    with Net(module, ["txq_pkts=8192"] * 2, ["seed=32918"] * 10, links) as net:
        net.hosts[0].send(*(frame(0, 1, 100, sport=i) for i in range(count)))
        time.sleep(0.1)
        ports = Stats().ports
        got = {i: [ports[f"s{1 + i}", f"s{5 + k}"]["tx_pkts"] for k in ways] for i in ways}
        even = all(abs(n - sum(row) / 4) < 5 * (sum(row) * 0.25 * 0.75) ** 0.5 for row in got.values() for n in row)
        ok("ECMP: of two tiers each is even for what comes from each way of the other (5 sigma)", even, got)
        same("  and all arrive", sum(map(sum, got.values())), count)


CASES = (conservation, buffers, used, classes, routes, tiers)
