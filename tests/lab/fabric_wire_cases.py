# SPDX-License-Identifier: GPL-2.0
"""Cases of test_fabric: when frames arrive and what their stamps are, to the nanosecond; TSO's segments at line rate."""

import collections
import socket
import struct
import time

import fabric_net as fn
from fabric_net import G, Net, Stats, first_bit_ns, frame, path_ps, wire_ps
from tap import nearly, ok, same


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


CASES = (timing, tso)
