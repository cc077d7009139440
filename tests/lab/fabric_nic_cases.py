# SPDX-License-Identifier: GPL-2.0
"""Cases of test_fabric: a host's NIC: when it wakes, its ring and queue, its clock and stamps;
and that hosts send nothing of their own (hosts whose work takes time: fabric_host_cases.py)."""

import contextlib
import ctypes
import errno
import itertools
import os
import random
import re
import socket
import struct
import time

import fabric_net as fn
import guest
from fabric_net import (ETH_P_IP, G, Net, Stats, control, first_bit_ns, frame, hwtstamp, now_ns, stamping, stamps_of,
                        wire_ps)
from tap import near, nearly, ok, same


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


def wakes_of_seeds(module):
    """When a host wakes is another with each seed, and nothing of its number."""
    links, limit_ns = [f"h{i} s0 {100 * G} prop_ns=10" for i in range(17)], 1_000_000
    waits = {}
    for seed in range(1, 6):
        with Net(module, ["", *[f"rx_wake_ns={limit_ns} rx_stage=ring seed={seed}"] * 16], [""], links) as net:
            for host in net.hosts[1:]:
                host.listen()
            net.hosts[0].send(*(frame(0, i, 64) for i in range(1, 17)))
            time.sleep(2 * limit_ns / 1e9)
            waits[seed] = [one.software_ns - one.hardware_ns for host in net.hosts[1:] for one in host.received()]
    same("each host woke once", [len(one) for one in waits.values()], [16] * 5)
    alike = {(a, b): sum(abs(x - y) < 100 for x, y in zip(waits[a], waits[b]))
             for a, b in itertools.combinations(waits, 2)}
    ok("  with another seed at another time", max(alike.values()) < 3, alike)
    ordered = [sum(x < y for x, y in zip(one, one[1:])) for one in waits.values()]
    ok("  in an order that is not that of their numbers", all(2 < up < 13 for up in ordered), ordered)


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


CASES = (service, wake, wakes_of_seeds, queues, phc, napi, quiet)
