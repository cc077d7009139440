# SPDX-License-Identifier: GPL-2.0
"""The cases of test_fabric, run inside the guest. Each gets the path of labfab.ko."""

import collections
import contextlib
import ctypes
import errno
import os
import random
import re
import signal
import socket
import struct
import sys
import time
import traceback

import fabric_host_cases
import fabric_path_cases
import fabric_net as fn
import guest
from fabric_net import (ETH_P_IP, Net, Port, Stats, command, control, frame, frame6, hwtstamp, now_ns, path_ps, stamping,
                        stamps_of, wire_ps)
from lab import topology
from tap import near, nearly, ok, plan, same

G = 10**9
LEAKS = "/sys/kernel/debug/kmemleak"  # of a kernel for debugging


# --- Time ---------------------------------------------------------------------------------

def first_bit_ns(sent_ns, length, links):
    """The stamp of a NIC behind these links: when the first bit came in."""
    return (1000 * sent_ns + path_ps(length, links) - wire_ps(length, links[-1][0])) // 1000


def timing(module):
    chains = {
        "one hop": [(10 * G, 1000)],
        "one hop at 1 Mb/s": [(1000000, 5)],
        "one hop at 1.6 Tb/s without propagation": [(1600 * G, 0)],
        "three hops, three rates": [(100 * G, 500), (40 * G, 1234), (25 * G, 77)],
        "six hops at 7 Gb/s": [(7 * G, 3)] * 6,
    }
    for name, links in chains.items():
        switches = len(links) - 1
        latency_ns = 300
        parts = ["h0", *(f"s{i}" for i in range(switches)), "h1"]
        lines = [f"{a} {b} {rate} prop_ns={ns}" for a, b, (rate, ns) in zip(parts, parts[1:], links)]
        model = [(rate, max(ns, 1) + latency_ns * (i < switches)) for i, (rate, ns) in enumerate(links)]
        with Net(module, ["mtu=9000 phc=1"] * 2, [f"latency_ns={latency_ns}"] * switches, lines) as net:
            a, b = net.hosts
            b.listen()
            got, want = [], []
            for length in (42, 59, 60, 61, 577, 1514, 9014):
                sent_ns = a.departs(frame(0, 1, length))
                time.sleep(0.2)
                got += [(one.software_ns - sent_ns, one.hardware_ns - sent_ns, one.length) for one in b.received()]
                want.append((-(-path_ps(length, model) // 1000), first_bit_ns(0, length, model), length))
            nearly(f"{name}: stamps of hardware and software are exact to the nanosecond", got, want)
    with Net(module, ["", ""], ["", ""], [f"h0 s0 {100 * G}", f"s0 s1 {40 * G}", f"s1 h1 {100 * G}"]) as net:
        a, b = net.hosts
        b.listen()
        a.send(*(frame(0, 1, 1514, i) for i in range(100)))
        time.sleep(0.01)
        spacing = wire_ps(1514, 40 * G)
        stamps = [one.hardware_ns for one in b.received()]
        ok("100 frames queue at the slowest link and leave it back to back", len(stamps) == 100 and all(
            abs((stamp - stamps[0]) * 1000 - i * spacing) < 1000 for i, stamp in enumerate(stamps)), stamps)
        received = collections.Counter()
        for family, where in ((socket.AF_INET, fn.address(1)), (socket.AF_INET6, "fd00::2")):
            sink = b.socket(family, socket.SOCK_DGRAM)
            sink.bind(("", 7))
            sink.settimeout(5)
            level, option = ((socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT) if family == socket.AF_INET6
                             else (socket.IPPROTO_IP, 12))  # IP_RECVTTL
            sink.setsockopt(level, option, 1)
            source = a.socket(family, socket.SOCK_DGRAM)
            source.sendto(b"x", (where, 7))
            received[family] = struct.unpack("i", sink.recvmsg(10, 100)[1][0][2])[0]
            sink.close(), source.close()
        same("IPv4 and IPv6 cross two switches, TTL less two, checksum valid",
             received, {socket.AF_INET: 62, socket.AF_INET6: 62})


def tso(module):
    rate = 100 * G
    with Net(module, ["", ""], [""], [f"h0 s0 {rate}", f"s0 h1 {rate}"]) as net:
        a, b = net.hosts
        a.run("ip", "route", "replace", "10.0.0.0/8", "dev", "eth0", "initcwnd", "60")
        b.listen()
        server = b.socket(socket.AF_INET, socket.SOCK_STREAM)
        server.bind(("", 5000))
        server.listen()
        client = a.socket(socket.AF_INET, socket.SOCK_STREAM)
        client.connect((fn.address(1), 5000))
        time.sleep(0.01)
        b.received()
        before = Stats().hosts[0]["tso_pkts"]
        client.setsockopt(socket.SOL_SOCKET, fn.SO_SNDBUFFORCE, 1 << 20)
        client.send(bytes(20 * 1448))
        time.sleep(0.001)
        frames = [one for one in b.received() if one.length == 1514]
        offsets = [one.hardware_ns - frames[0].hardware_ns for one in frames]
        ok("20 segments sent at once arrive at line rate exactly", len(frames) == 20 and all(
            abs(1000 * at - i * wire_ps(1514, rate)) < 1000 for i, at in enumerate(offsets)), offsets)
        same("the stack hands them over in one", Stats().hosts[0]["tso_pkts"] - before, 1)
        connection = server.accept()[0]
        same("and they are what was sent", len(connection.recv(1 << 20, socket.MSG_DONTWAIT)), 20 * 1448)
        for one in (server, client, connection):
            one.close()


# --- Buffers ------------------------------------------------------------------------------

def conservation(module):
    hosts = ["rx_pkt_ns=1500 ring_pkts=16 txq_pkts=4096"] + ["txq_pkts=4096"] * 3
    with Net(module, hosts, ["buffer_bytes=60000"] * 2,
             [f"h0 s0 {10 * G}", f"h1 s1 {10 * G}", f"h2 s1 {10 * G}", f"h3 s1 {10 * G}",
              f"s0 s1 {25 * G} prop_ns=3000"]) as net:
        control("fault link=4 loss_ppm=50000 corrupt_ppm=50000 reorder_ppm=100000 reorder_ns=5000")
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
        counts = {key: last.sum(part, key) for part, key in (
            ("ports", "drops"), ("ports", "lost"), ("hosts", "rx_crc_errors"), ("hosts", "rx_missed"), ("hosts", "rx_pkts"),
            ("switches", "ttl_expired"), ("switches", "no_route"), ("ports", "reordered"))}
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


# --- Faults -------------------------------------------------------------------------------

def lost_numbers(net, src, dst, count=2000):
    net.hosts[src].send(*(frame(src, dst, 64, i) for i in range(count)))
    time.sleep(0.01)
    return sorted(set(range(count)) - {one.number for one in net.hosts[dst].received()})


def faults(module):
    pair = [f"h0 s0 {10 * G}", f"s0 h1 {10 * G} prop_ns=1000"]
    lost = {}
    for seed in (1, 1, 2):
        with Net(module, [f"txq_pkts=32768 seed={seed}"] * 2, [f"seed={seed}"], pair) as net:
            for host in net.hosts:
                host.listen()
            control("fault link=0 loss_ppm=20000")
            got = lost_numbers(net, 0, 1), lost_numbers(net, 1, 0)
            same(f"loss: the same with the same seed ({seed})", lost.setdefault(seed, got), got)
    a, b, c = set(lost[1][0]), set(lost[1][1]), set(lost[2][0])
    ok("loss: another on the way back, and with another seed", max(len(a & b), len(a & c)) < 10, lost)

    count = 20000
    with Net(module, ["txq_pkts=32768"] * 2, [""], pair) as net:
        for ppm in (10000, 250000):
            sigma = (count * ppm / 1e6 * (1 - ppm / 1e6)) ** 0.5
            for key, part, name in (("loss_ppm", "ports", "lost"), ("corrupt_ppm", "hosts", "rx_crc_errors")):
                control(f"fault link=1 {key}={ppm}")
                control("reset")
                net.hosts[0].send(*[frame(0, 1, 64)] * count)
                time.sleep(0.05)
                near(f"{name}: {ppm} ppm of {count} frames, within 5 sigma", Stats().sum(part, name), count * ppm // 10**6,
                     round(5 * sigma))
        control("fault link=1 loss_ppm=1000000")
        control("reset")
        net.hosts[0].send(*[frame(0, 1, 64)] * 100)
        time.sleep(0.05)
        same("1000000 ppm are all", Stats().sum("ports", "lost"), 100)

        net.hosts[1].listen()
        control("fault link=1 reorder_ppm=100000 reorder_ns=5000")
        control("reset")
        sent_ns = net.hosts[0].departs(frame(0, 1, 1514, 0))
        net.hosts[0].send(*(frame(0, 1, 1514, i) for i in range(1, 500)))
        time.sleep(0.01)
        arrived = net.hosts[1].received()
        links = [(10 * G, 1), (10 * G, 1000)]
        late = [one.hardware_ns - (1000 * sent_ns + one.number * wire_ps(1514, 10 * G) + path_ps(1514, links)
                                   - wire_ps(1514, 10 * G)) // 1000 for one in arrived]
        same("reordering: some are late by what was said, none by anything else", set(late), {0, 5000})
        same("  they are counted, and overtaken", (Stats().sum("ports", "reordered"), late.count(5000) > 20,
             [one.number for one in arrived] != sorted(one.number for one in arrived)), (late.count(5000), True, True))

    with Net(module, ["txq_pkts=32768", ""], [""], [f"h0 s0 {1000000}", f"s0 h1 {10 * G}"]) as net:
        source = net.hosts[0].socket(socket.AF_INET, socket.SOCK_DGRAM)
        for loss in (0, 1000000):
            control(f"fault link=0 loss_ppm={loss}")
            source.sendto(bytes(1472), (fn.address(1), 9))
            time.sleep(0.0122)  # of 12.304 ms
            early = struct.unpack("i", fn.fcntl.ioctl(source, fn.SIOCOUTQ, bytes(4)))[0] > 0
            time.sleep(0.0002)
            late = struct.unpack("i", fn.fcntl.ioctl(source, fn.SIOCOUTQ, bytes(4)))[0]
            same(f"the sender has its frame back at its end, with {loss} ppm lost", (early, late), (True, 0))
        source.close()


def carrier(module):
    def has_carrier(host):
        text = host.run("ip", "link", "show", "eth0")
        return ("NO-CARRIER" not in text) and "LOWER_UP" in text

    with Net(module, [""] * 2, [""], [f"h0 s0 {G} prop_ns=100000", f"s0 h1 {G} prop_ns=100000"], start=False) as net:
        same("no carrier before start", [has_carrier(host) for host in net.hosts], [False, False])
        control("fault link=1 down=1")
        guest.write(fn.FABRIC + "control", "start")
        time.sleep(1.5)
        same("start: carrier on the link that is up, none on the one that is down",
             [has_carrier(host) for host in net.hosts], [True, False])
        control("fault link=1 down=0")
        time.sleep(1.5)
        same("it comes up", has_carrier(net.hosts[1]), True)
        control("reset")
        net.hosts[1].listen()
        net.hosts[0].send(*(frame(0, 1, 1514, i) for i in range(10)))
        time.sleep(150e-6)  # the first is on the second wire, the rest before it
        control("fault link=1 down=1")
        time.sleep(1.5)
        numbers = [one.number for one in net.hosts[1].received()]
        ok("link down: what is on the wire arrives, the rest is lost",
           numbers == list(range(len(numbers))) and 0 < len(numbers) < 10 and Stats().sum("ports", "lost") == 10 - len(numbers),
           numbers, Stats().ports)
        same("  the NIC has no carrier, the other one does", [has_carrier(host) for host in net.hosts], [True, False])
        control("fault link=1 down=0")
        time.sleep(1.5)
        ok("link up: ping works", " 0% packet loss" in net.hosts[0].run("ping", "-qc2", "-W5", fn.address(1)))

        control("reset")
        net.hosts[1].received()
        net.hosts[1].run("ip", "link", "set", "eth0", "down")
        net.hosts[0].send(*[frame(0, 1, 100)] * 5)
        time.sleep(0.01)
        one = Stats().hosts[1]
        same("a NIC that is down receives nothing: missed", (one["rx_pkts"], one["rx_missed"]), (0, 5))
        net.hosts[1].run("ip", "link", "set", "eth0", "up")
        time.sleep(1)
        ok("  and works when it is up again", " 0% packet loss" in net.hosts[0].run("ping", "-qc2", "-W5", fn.address(1)))


# --- Hosts --------------------------------------------------------------------------------

def wake(module):
    """An idle host wakes within rx_wake_ns, and takes all that has come by then."""
    limit_ns = 10_000
    with Net(module, ["", f"rx_wake_ns={limit_ns} rx_stage=ring"], [], [f"h0 h1 {100 * G} prop_ns=10"]) as net:
        net.hosts[1].listen()
        waits, together = [], True
        for _ in range(200):
            net.hosts[0].send(frame(0, 1, 64, 0), frame(0, 1, 64, 1))
            time.sleep(20e-6)
            first, second = net.hosts[1].received()
            waits.append(first.software_ns - first.hardware_ns - 10)
            together &= second.software_ns == max(first.software_ns, second.hardware_ns + wire_ps(64, 100 * G) // 1000)
        ok("an idle host wakes within its time", 0 <= min(waits) < limit_ns / 20 and limit_ns * 0.95 < max(waits) <= limit_ns + 10)
        near("  after half of it on average", sum(waits) / len(waits), limit_ns / 2, limit_ns / 10)
        ok("  and takes all that came meanwhile", together)


def service(module):
    for stage in ("ring", "stack"):
        pkt_ns, kb_ns, ring = 700, 512, 8
        with Net(module, ["", f"rx_pkt_ns={pkt_ns} rx_kb_ns={kb_ns} ring_pkts={ring} rx_stage={stage}"], [],
                 [f"h0 h1 {100 * G} prop_ns=10"]) as net:
            net.hosts[1].listen()
            lengths = [1514, 64, 600] * 20
            frames = [frame(0, 1, length, i) for i, length in enumerate(lengths)]
            sent_ns = net.hosts[0].departs(frames[0])
            net.hosts[0].send(*frames[1:])
            # the model: arrivals, and who is still in the ring then
            want, served, at_ps, done_ps, waiting, missed = [], 0, 0, 0, [], 0
            for number, length in enumerate(lengths):
                at_ps += wire_ps(length, 100 * G)
                arrival_ps = at_ps + 10000
                waiting = [ps for ps in waiting if ps > arrival_ps]
                if len(waiting) >= ring:
                    missed += 1
                    continue
                for_ns = pkt_ns + ((length - 14) * kb_ns >> 10)
                served += for_ns
                done_ps = max(done_ps, arrival_ps) + 1000 * for_ns
                waiting.append(done_ps)
                want.append((-(-(done_ps if stage == "ring" else arrival_ps) // 1000),
                             (arrival_ps - wire_ps(length, 100 * G)) // 1000, number))
            time.sleep(0.001)
            got = [(one.software_ns - sent_ns, one.hardware_ns - sent_ns, one.number) for one in net.hosts[1].received()]
            nearly(f"service in the {stage}: who is served, and both stamps, to the nanosecond", got, want)
            one = Stats().hosts[1]
            same("  a full ring misses frames; time and length are counted",
                 (one["rx_missed"], one["service_ns"], one["ring_max_pkts"], missed > 5), (missed, served, ring, True))
            net.hosts[0].send(*(frame(0, 1, 64, i) for i in range(6)))
            time.sleep(50e-9)
            control("reset")
            while Stats().hosts[1]["ring_max_pkts"] < 5:
                time.sleep(20e-9)
            before = Stats().hosts[1]["rx_pkts"]
            net.hosts[1].run("ip", "link", "set", "eth0", "down")
            net.hosts[1].received()
            time.sleep(0.001)
            stats = Stats()
            same("  a NIC that goes down empties its ring", (stats.hosts[1]["rx_pkts"] + stats.hosts[1]["rx_missed"] >= 5,
                 stats.fabric["in_flight"], before < 6), (True, 0, True))


def queues(module):
    with Net(module, ["txq_pkts=64"] * 2, [], [f"h0 h1 {G}"]) as net:
        a, b = net.hosts
        b.listen()
        same("TX queue: stops at its length", a.send(*(frame(0, 1, 1514, i) for i in range(200))), 65)
        time.sleep((65 - 33) * 12.304e-6)
        same("  is stopped while half of it waits", a.send(frame(0, 1, 1514)), 0)
        time.sleep(3 * 12.304e-6)
        same("  and wakes below that", a.send(*(frame(0, 1, 1514, 65 + i) for i in range(20))), 20)
        time.sleep(0.01)
        same("  nothing is lost", [one.number for one in b.received()], list(range(85)))

        net.hosts[0].run("sh", "-c", "echo 9000 >/sys/class/net/eth0/queues/tx-0/byte_queue_limits/limit_max")
        hwtstamp(a.tx, fn.SIOCSHWTSTAMP, 1, 0)
        stamps = transmit(a, 1, fn.TX_HARDWARE | fn.RAW_HARDWARE)
        ok("a sender's stamp is not undone by the frame's arrival next door", len(stamps) == 1 and 0 <= stamps[0][1] <= 5, stamps)
        source = a.socket(socket.AF_INET, socket.SOCK_DGRAM)
        source.setsockopt(socket.SOL_SOCKET, fn.SO_SNDBUFFORCE, 1 << 24)
        for _ in range(500):
            source.sendto(bytes(1472), (fn.address(1), 9))
        backlogs = []
        for _ in range(50):
            backlogs.append(int(a.ethtool("-S")["tx_backlog_packets"]))
            time.sleep(50e-6)
        ok("BQL bounds what waits in the NIC", 1 <= max(backlogs) <= 7, backlogs)
        time.sleep(0.1)
        same("  and all of it leaves", (Stats().balance(), Stats().hosts[0]["tx_pkts"] >= 585), (0, True))
        same("  ethtool and ip know the same", a.ethtool("-S")["tx_backlog_packets"], "0")
        source.close()

        dropped = int(a.run("cat", "/sys/class/net/eth0/statistics/tx_dropped"))
        short = [bytes(12) + struct.pack(">H", kind) + bytes(n) for kind in (ETH_P_IP, 0x86DD) for n in (0, 1, 19)]
        sent = a.send(*short)
        rnd = random.Random(3)
        for _ in range(300):
            kind = rnd.choice((ETH_P_IP, 0x86DD, 0x8100, 0x0806, 5))
            sent += a.send(bytes(12) + struct.pack(">H", kind) + rnd.randbytes(rnd.randrange(40, 1400)))
            time.sleep(20e-6)
        same("frames without their headers are dropped", int(a.run("cat", "/sys/class/net/eth0/statistics/tx_dropped"))
             - dropped, 6)
        time.sleep(0.01)
        same("  garbage is carried", (sent, Stats().balance()), (306, 0))


def transmit(host, dst, flags):
    """The stamps (software, hardware) that a datagram's sender gets, as ns since it was sent."""
    source = host.socket(socket.AF_INET, socket.SOCK_DGRAM)
    stamping(source, flags)
    sent_ns = now_ns()
    source.sendto(bytes(1000), (fn.address(dst), 9))
    time.sleep(0.01)  # long after its arrival
    stamps = []
    while True:
        try:
            _, ancillary, _, _ = source.recvmsg(2000, 512, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
        except BlockingIOError:
            source.close()
            return [tuple(ns and ns - sent_ns for ns in stamps_of([item])) for item in stamps]
        stamps += [item for item in ancillary if item[1] == fn.SO_TIMESTAMPING]


class Timex(ctypes.Structure):
    _fields_ = [("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long), ("maxerror", ctypes.c_long),
                ("esterror", ctypes.c_long), ("status", ctypes.c_int), ("constant", ctypes.c_long),
                ("precision", ctypes.c_long), ("tolerance", ctypes.c_long), ("sec", ctypes.c_long), ("usec", ctypes.c_long),
                ("tick", ctypes.c_long), ("more", ctypes.c_long * 20)]


class Clock:
    def __init__(self, index):
        self.fd = os.open(f"/dev/ptp{index}", os.O_RDWR)
        self.id = (~self.fd << 3) | 3

    def read_ns(self):
        words = (ctypes.c_long * 2)()
        if guest.libc.clock_gettime(self.id, words):
            return -ctypes.get_errno()
        return words[0] * 10**9 + words[1]

    def adjust(self, **values):
        return guest.libc.clock_adjtime(self.id, ctypes.byref(Timex(**values)))


def phc(module):
    hosts = ["phc=1 phc_offset_ns=-123456789", "phc=1 phc_drift_ppb=-37000", "stamps=0", ""]
    with Net(module, hosts, [""], [f"h{i} s0 {10 * G}" for i in range(4)]) as net:
        said = [host.run("ethtool", "-T", "eth0") for host in net.hosts]
        indices = [re.search(r"PTP Hardware Clock: (\w+)", text)[1] for text in said]
        ok("ethtool -T: two clocks, two NICs without", indices[0].isdigit() and indices[1].isdigit()
           and indices[2:] == ["none", "none"], said)
        same("  and which NICs stamp", ["hardware-transmit" in text and "hardware-receive" in text for text in said],
             [True, True, False, True])
        one, two = Clock(indices[0]), Clock(indices[1])
        near("offset", one.read_ns() - now_ns(), -123456789, 1)
        before = now_ns(), two.read_ns()
        time.sleep(10)
        after = now_ns(), two.read_ns()
        host_ns = after[0] - before[0]
        near("drift: -37000 ppb over 10 s", after[1] - before[1] - host_ns, round(-37e-6 * host_ns), 2)
        control("phc id=0 step_ns=-5000000000")
        near("step", one.read_ns() - now_ns(), -5123456789, 1)
        one.adjust(modes=0x2100, sec=5, usec=0)
        near("adjtime", one.read_ns() - now_ns(), -123456789, 1)
        one.adjust(modes=2, freq=100 << 16)
        before = now_ns(), one.read_ns()
        time.sleep(10)
        after = now_ns(), one.read_ns()
        near("adjfine: +100 ppm over 10 s", after[1] - before[1] - (after[0] - before[0]),
             round(1e-4 * (after[0] - before[0])), 2)
        one.adjust(modes=2, freq=0)
        guest.libc.clock_settime(one.id, (ctypes.c_long * 2)(1000, 7))
        near("settime", one.read_ns(), 1000 * G + 7, 2)

        nics = [host.tx for host in net.hosts]
        same("SIOCGHWTSTAMP: nothing is stamped at first", hwtstamp(nics[0], fn.SIOCGHWTSTAMP), (0, 0, 0))
        same("SIOCSHWTSTAMP: any filter becomes all", hwtstamp(nics[0], fn.SIOCSHWTSTAMP, 1, 12), (0, 1, 1))
        same("  it stays", hwtstamp(nics[0], fn.SIOCGHWTSTAMP), (0, 1, 1))
        same("  one-step stamping is refused", hwtstamp(nics[0], fn.SIOCSHWTSTAMP, 2, 0), errno.ERANGE)
        same("  by a NIC without stamps all is", (hwtstamp(nics[2], fn.SIOCSHWTSTAMP, 0, 1),
             hwtstamp(nics[2], fn.SIOCGHWTSTAMP)), (errno.EOPNOTSUPP,) * 2)

        a, b = net.hosts[3], net.hosts[0]
        b.listen()
        ahead_ns = one.read_ns() - now_ns()
        sent_ns = a.departs(frame(3, 0, 1514))
        hwtstamp(nics[3], fn.SIOCSHWTSTAMP)
        time.sleep(0.01)
        near("stamps show the NIC's clock", b.received()[0].hardware_ns - ahead_ns - sent_ns,
             first_bit_ns(0, 1514, [(10 * G, 1), (10 * G, 1)]), 2)
        hwtstamp(nics[0], fn.SIOCSHWTSTAMP)
        a.send(frame(3, 0, 1514))
        time.sleep(0.01)
        same("  and none when off", b.received()[0].hardware_ns, 0)
        hwtstamp(nics[0], fn.SIOCSHWTSTAMP, 1, 1)

        hard, soft = fn.TX_HARDWARE | fn.RAW_HARDWARE, fn.TX_SOFTWARE | fn.SOFTWARE
        same("TX stamps: none of a NIC that was not told to", transmit(a, 0, hard), [])
        hwtstamp(nics[3], fn.SIOCSHWTSTAMP, 1, 0)
        stamps = transmit(a, 0, hard)
        ok("  of hardware, and not undone by the frame's arrival", len(stamps) == 1 and not stamps[0][0]
           and 0 <= stamps[0][1] <= 5, stamps)
        stamps = transmit(a, 0, soft)
        ok("  of software", len(stamps) == 1 and 0 <= stamps[0][0] <= 5 and not stamps[0][1], stamps)
        same("  of both: of hardware alone, unless both are wanted", (len(transmit(a, 0, hard | soft)),
             len(transmit(a, 0, hard | soft | 1 << 14))), (1, 2))
    same("a clock that is gone with its module says so", (one.read_ns(), two.read_ns()), (-errno.ENODEV, -errno.ENODEV))
    for clock in (one, two):
        os.close(clock.fd)


def arrivals(host):
    """Of each frame: its stamp of hardware, and the index of the NIC that its NAPI id leads to."""
    result = []
    while True:
        try:
            ancillary = host.rx.recvmsg(65536, 512)[1]
        except BlockingIOError:
            return result
        info = [struct.unpack("IIII", data)[0] for level, kind, data in ancillary
                if (level, kind) == (socket.SOL_SOCKET, fn.SCM_TIMESTAMPING_PKTINFO)]
        result.append((stamps_of(ancillary)[1], *info))


def napi(module):
    """Whose frame it is, and stamps that only the driver can tell."""
    hosts = ["", "netdev_stamps=1 phc=1 phc_offset_ns=7000000000", "stamps=0 netdev_stamps=1"]
    with Net(module, hosts, [""], [f"h{i} s0 {10 * G}" for i in range(3)]) as net:
        plain, late, none = net.hosts
        for host in net.hosts:
            host.listen()
            stamping(host.rx, fn.RX_HARDWARE | fn.RAW_HARDWARE | fn.OPT_PKTINFO)
        offset_ns = first_bit_ns(0, 1514, [(10 * G, 1), (10 * G, 1)])
        sent_ns = plain.departs(frame(0, 1, 1514))
        plain.send(frame(0, 2, 1514))
        time.sleep(0.01)
        got = arrivals(late)
        near("a stamp that the driver tells is the PHC's time", got[0][0] - sent_ns, 7 * G + offset_ns, 2)
        same("  a NIC without stamps has none of these either", arrivals(none), [(0,)])
        late.send(frame(1, 0, 1514))
        time.sleep(0.01)
        index = [int(host.run("cat", "/sys/class/net/eth0/ifindex")) for host in (plain, late)]
        same("a frame's NAPI id leads to its NIC", [got[0][1:], arrivals(plain)[0][1:]], [(index[1],), (index[0],)])
        late.run("ip", "link", "set", "eth0", "down")
        late.run("ip", "link", "set", "eth0", "up")
        time.sleep(0.5)
        with contextlib.suppress(OSError):
            late.rx.recv(1)  # the error that it was down
        arrivals(late)
        plain.send(frame(0, 1, 1514))
        time.sleep(0.01)
        same("  also when that was down", [(stamp > 0, *info) for stamp, *info in arrivals(late)], [(True, index[1])])


def quiet(module):
    """Hosts say nothing that nobody asked them to: what they send of their own finds no route."""
    with Net(module, [""] * 3, [""], [f"h{i} s0 {10 * G}" for i in range(3)]) as net:
        sink = net.hosts[1].socket(socket.AF_INET6, socket.SOCK_DGRAM)
        sink.bind(("", 7))
        sink.settimeout(5)
        source = net.hosts[0].socket(socket.AF_INET6, socket.SOCK_DGRAM)
        for _ in range(5):  # a neighbour that was talked to is not asked whether it is still there
            source.sendto(b"x", ("fd00::2", 7))
            sink.recv(10)
            time.sleep(20)
        time.sleep(300)
        stats = Stats()
        same("hosts are quiet: 400 s after the start they have sent 5 datagrams, and no more",
             (stats.sum("hosts", "tx_pkts"), stats.sum("hosts", "rx_pkts"), stats.sum("switches", "no_route")), (5, 5, 0))
        sink.close(), source.close()


# --- Control ------------------------------------------------------------------------------

def lines(module):
    early = [
        ("", errno.EINVAL), ("frobnicate id=1", errno.EINVAL), ("host", errno.EINVAL), ("host id=", errno.EINVAL),
        ("host id=x", errno.EINVAL), ("host id=-1", errno.EINVAL), ("host id=1024", errno.EINVAL), ("host id", errno.EINVAL),
        ("host id=5 color=3", errno.EINVAL), ("host id=5 mtu=100", errno.EINVAL), ("host id=5 mtu=9217", errno.EINVAL),
        ("host id=5 rx_stage=moon", errno.EINVAL), ("host id=5 phc_drift_ppb=1000001", errno.EINVAL),
        ("host id=5 phc_offset_ns=abc", errno.EINVAL), ("host id=5 txq_pkts=18446744073709551616", errno.EINVAL),
        ("host id=5 gro=1", errno.EINVAL), ("host id=5 cores=257", errno.EINVAL), ("host id=5 cores=1 gro=2", errno.EINVAL),
        ("host id=5 cores=1 rx_usecs=10001", errno.EINVAL), ("host id=5 cores=1 noise_ns=5", errno.EINVAL),
        ("host id=5 cores=1 noise_ns=5 noise_every_ns=999", errno.EINVAL), ("host id=5 cores=0 seg_ns=1", errno.EINVAL),
        ("host id=0", errno.EEXIST), ("switch id=0", errno.EEXIST), ("switch id=1024", errno.EINVAL),
        ("switch id=7 buffer_bytes=1", errno.EINVAL), ("switch id=7 buffer_bytes=4294967296", errno.EINVAL),
        ("switch id=7 pfc_xoff_bytes=4294967296", errno.EINVAL), ("switch id=7 pfc_xoff_bytes=10 pfc_xon_bytes=11", errno.EINVAL),
        ("fault link=0 avoid=2", errno.EINVAL),
        ("switch id=7 alpha_milli=0", errno.EINVAL), ("switch id=7 weights=1,2", errno.EINVAL),
        ("switch id=7 weights=1,2,3,4,5,6,7,8,9", errno.EINVAL), ("switch id=7 weights=1,2,3,4,5,6,7,1001", errno.EINVAL),
        ("switch id=7 weights=1,2,3,4,5,6,7,", errno.EINVAL), ("switch id=7 spray=2", errno.EINVAL),
        ("link a=h4 b=s0", errno.EINVAL), ("link a=h4 rate_bps=1000000000", errno.EINVAL),
        ("link b=h0 rate_bps=1000000000", errno.EINVAL), ("link a=h9 b=s0 rate_bps=1000000000", errno.ENOENT),
        ("link a=h4 b=s9 rate_bps=1000000000", errno.ENOENT), ("link a=h4 b=s4294967295 rate_bps=1000000000", errno.ENOENT),
        ("link a=x1 b=s0 rate_bps=1000000000", errno.EINVAL), ("link a=h b=s0 rate_bps=1000000000", errno.EINVAL),
        ("link a=h4 b=s0 rate_bps=999999", errno.EINVAL), ("link a=h4 b=s0 rate_bps=1600000000001", errno.EINVAL),
        ("link a=h4 b=s0 rate_bps=1000000000 prop_ns=1000000001", errno.EINVAL),
        ("link a=h4 b=h4 rate_bps=1000000000", errno.EINVAL), ("link a=s0 b=s0 rate_bps=1000000000", errno.EINVAL),
        ("link a=h0 b=s0 rate_bps=1000000000", errno.EEXIST), ("link a=s0 b=h0 rate_bps=1000000000", errno.EEXIST),
        ("fault link=99", errno.ENOENT), ("fault loss_ppm=1", errno.EINVAL), ("fault link=0 loss_ppm=1000001", errno.EINVAL),
        ("fault link=0 reorder_ns=-1", errno.EINVAL), ("phc id=77 step_ns=1", errno.ENOENT), ("phc id=0", errno.EINVAL),
        ("phc id=0 step_ns=9223372036854775807", errno.EINVAL), ("host id=5 " + "x" * 9000, errno.E2BIG),
        ("reset\nreset", errno.EINVAL), ("\0", errno.EINVAL), ("host id=5 \xff=1", errno.EINVAL)]
    late = [("start", errno.EBUSY), ("link a=h4 b=s0 rate_bps=1000000000", errno.EBUSY)]

    def wrong(known):
        results = [(line[:60], control(line), number) for line, number in known]
        return [(line, got, want) for line, got, want in results if got != want]

    def state():
        text = re.sub(r"(time_ns|events|hist|qmean_bytes|[rt]x_\w+|no_route|tso_pkts|hops)=\S*", "", guest.read(
            fn.FABRIC + "stats").decode())
        return text, [host.run("ip", "-br", "link") for host in net.hosts], command("ip", "-br", "link")

    with Net(module, [""] * 3 + ["", ""], [""], [f"h{i} s0 {10 * G}" for i in range(4)], start=False) as net:
        before = state()
        command("dmesg", "-n", "1")
        same(f"{len(early)} wrong lines are refused, each with its errno", wrong(early), [])
        same("  and change nothing", state(), before)
        net.hosts[4].enter()
        same("  nor does a second NIC in a namespace", control("host id=6"), errno.EEXIST)
        net.hosts[4].leave()
        same("  (whose number is free)", state(), before)
        guest.write(fn.FABRIC + "control", "start")
        time.sleep(1.5)
        before = state()
        same("after start, too", wrong(early + late), [])
        same("  and change nothing", state(), before)
        ok("  and all still works", " 0% packet loss" in net.hosts[0].run("ping", "-qc2", "-W5", fn.address(3)))
        log = command("dmesg")
        command("dmesg", "-n", "4")
        ok("the kernel's log names the key", all(text in log for text in (
            "labfab: mtu=100: expected 1280 to 9216", "labfab: color: unknown key", "labfab: rate_bps: missing")), log[-600:])


# --- Coming and going ---------------------------------------------------------------------

def child(work):
    """A process that goes on until it is ended."""
    pid = os.fork()
    if not pid:
        try:
            while True:
                work()
        finally:
            os._exit(0)
    return pid


def unload(module):
    with Net(module, [""] * 2, [""], [f"h0 s0 {G}", f"s0 h1 {G}"]) as net:
        same("unloads with nothing going on", net.hosts[0].send(frame(0, 1, 100)), 1)
    for rate in (1000000, 20000000, 10 * G):
        net = Net(module, ["txq_pkts=8192", "rx_pkt_ns=5000 rx_stage=ring", "phc=1", ""], ["", ""],
                  [f"h0 s0 {rate}", f"h1 s0 {rate}", f"h2 s1 {rate}", f"h3 s1 {rate}", f"s0 s1 {rate} prop_ns=10000000"])
        pairs, clients, sockets, children = ((0, 2), (3, 1), (2, 0)), [], [], []
        for src, dst in pairs:
            server = net.hosts[dst].socket(socket.AF_INET, socket.SOCK_STREAM)
            server.bind(("", 5000 + src))
            server.listen()
            client = net.hosts[src].socket(socket.AF_INET, socket.SOCK_STREAM)
            client.connect((fn.address(dst), 5000 + src))
            client.setblocking(False)
            clients.append(client)
            sockets += [server, client]
        for (src, dst), client in zip(pairs, clients):
            def work(host=net.hosts[src], src=src, dst=dst, client=client):
                try:
                    client.send(bytes(100000))
                except OSError:
                    pass
                try:
                    host.send(*(frame(src, dst, 1514, i) for i in range(3)))
                except OSError:
                    pass
                time.sleep(0.0003)
            children.append(child(work))
        time.sleep(0.2)
        busy = Stats().fabric["in_flight"]
        result = command("/sbin/rmmod", "labfab")
        time.sleep(0.2)
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        same(f"unloads under traffic with sockets open, {rate} b/s", (busy > 5, result), (True, ""))
        time.sleep(0.5)
        for sock in sockets + [host.tx for host in net.hosts]:
            sock.close()
        for number in range(4):
            command("ip", "netns", "del", f"h{number}")
        os.close(net.home)

    net = Net(module, ["", "rx_pkt_ns=20000", ""], [""], [f"h{i} s0 {10 * G}" for i in range(3)])
    net.hosts[1].tx.close()
    sender = child(lambda: (net.hosts[0].send(frame(0, 1, 1514), frame(0, 2, 1514)), time.sleep(0.0005)))
    time.sleep(0.01)
    command("ip", "netns", "del", "h1")
    time.sleep(2)
    known = command("ip", "-br", "link")
    same("a namespace that goes leaves its NIC to the first one", ("eth0" in known, Stats().balance()), (True, 0))
    control("reset")
    time.sleep(0.2)
    stats = Stats()
    ok("  the others go on, and it misses what it is sent", stats.hosts[2]["rx_pkts"] > 100 and stats.hosts[1]["rx_missed"] > 100
       and not stats.hosts[1]["rx_pkts"], stats.hosts)
    os.kill(sender, signal.SIGKILL)
    os.waitpid(sender, 0)
    net.hosts.pop(1)
    net.close()
    command("ip", "netns", "del", "h2")
    with Net(module, [""] * 2, [""], [f"h0 s0 {G}", f"s0 h1 {G}"]) as net:
        ok("and the module loads and works again", " 0% packet loss" in net.hosts[0].run("ping", "-qc2", "-W5", fn.address(1)))


CASES = (timing, tso, conservation, buffers, used, classes, routes, faults, carrier, service, wake, queues, phc, napi, quiet, lines, unload,
         *fabric_host_cases.CASES, *fabric_path_cases.CASES)


def main(module, names):
    fn.unload_module()
    for case in CASES:
        if names and case.__name__ not in names:
            continue
        print(f"# {case.__name__}", flush=True)
        try:
            case(module)
        except Exception:  # pylint: disable=broad-except # whatever it is, the rest shall run
            ok(f"{case.__name__} runs to its end", False, *traceback.format_exc().splitlines())
            fn.unload_module()
            for name in os.listdir("/run/netns"):
                command("ip", "netns", "del", name)
    if os.path.exists(LEAKS):
        fn.unload_module()
        time.sleep(10)  # of younger objects it thinks no evil
        for _ in range(2):
            guest.write(LEAKS, "scan")
        same("no memory is lost", guest.read(LEAKS).decode(), "")
    return plan()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
