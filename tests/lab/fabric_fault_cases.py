# SPDX-License-Identifier: GPL-2.0
"""Cases of test_fabric: links that lose, corrupt and reorder, and that go down and come up."""

import socket
import struct
import time

import fabric_load
import fabric_net as fn
import guest
from fabric_net import G, Net, Stats, control, frame, path_ps, wire_ps
from guest import read
from lab import measure
from tap import near, ok, same


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
        control("fault link=1")
        control("fault link=0 corrupt_ppm=250000")
        control("reset")
        net.hosts[0].send(*[frame(0, 1, 64)] * count)
        time.sleep(0.05)
        stats = Stats()
        wrong = stats.sum("ports", "rx_crc_errors")
        near("corrupted before a switch: it throws them away, within 5 sigma", wrong, count // 4, round(5 * sigma))
        sent_on = stats.ports["s0", "h1"]["tx_pkts"]
        same("  and sends the others on", (sent_on, stats.hosts[1]["rx_pkts"], stats.balance()),
             (count - wrong, count - wrong, 0))
        control("fault link=0")
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


def fabric_now():
    return measure.parse_fabric(read(fn.FABRIC + "stats"))


def loss_ratio(module):
    """A link's loss is that of the data that was sent, however many ACKs there are."""
    acks = []
    for quickack in (0, 1):
        with Net(module, [""] * 2, [""], [f"h0 s0 {10 * G}", f"s0 h1 {10 * G}"]) as net:
            for host in net.hosts:
                host.run("ip", "route", "replace", "10.0.0.0/8", "dev", "eth0", "quickack", str(quickack))
            control("fault link=0 loss_ppm=10000")
            fabric_load.tcp(net)
            fabric = fabric_now()
            sigma = (0.01 * 0.99 / fabric["fabric"]["data_sent"]) ** 0.5
            near(f"1 % are lost, with quickack={quickack}, within 5 sigma", measure.loss_ratio(fabric), 0.01, 5 * sigma)
            acks.append(fabric["hosts"][1]["tx_pkts"])
            control("reset")
            same("  of nothing there is none", measure.loss_ratio(fabric_now()), None)
    ok("  the ACKs were more with it", acks[1] > 1.2 * acks[0], acks)


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


CASES = (faults, loss_ratio, carrier)
