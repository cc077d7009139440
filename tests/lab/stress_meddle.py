# SPDX-License-Identifier: GPL-2.0
"""The second thread of stress_guest.py: what sleeps or runs programs. Namespaces with flows over
their loopback or a veth pair, qdiscs, NICs and routes, ss."""

import contextlib
import os
import random
import socket
import struct
import time

from stress_kernel import LAWS, SWIFT, TCP_CONGESTION, enter, this_ns, unshare, write


class Meddler:
    """Of Stress: the thread runs meddle()."""

    def meddle(self):
        rng = random.Random(self.plan["seed"] + 1)
        menu = (self.meddle_namespace, self.meddle_namespace, self.meddle_qdisc, self.meddle_nic, self.meddle_ss,
                self.meddle_veth)
        try:
            while not self.quiet.is_set():
                rng.choice(menu)(rng)
                enter(self.home)
                self.count["meddled"] += 1
                time.sleep(rng.expovariate(1 / self.plan["meddle_s"]) * self.pace)
        except Exception as error:  # noqa: BLE001 (any is a mistake of this program)
            self.complain(f"meddling: {error!r}")

    def meddle_namespace(self, rng):
        """A namespace with flows over its loopback, that goes away with what is left of them."""
        unshare()
        self.loopback_flows(rng)

    def loopback_flows(self, rng, laws=LAWS):
        write(SWIFT + "echo", rng.randrange(2))
        self.run("ip", "link", "set", "lo", "up", "mtu", rng.choice(("1500", "65536", "300")))
        socks = []
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", 80)) as server:
            for _ in range(rng.randrange(1, 8)):
                one = socket.socket()
                socks.append(one)
                one.settimeout(1)
                one.setsockopt(socket.SOL_TCP, TCP_CONGESTION, rng.choice(laws).encode())
                one.connect(("127.0.0.1", 80))
                socks.append(server.accept()[0])
                socks[-1].settimeout(0.1)
                one.setblocking(False)
                for _ in range(rng.randrange(4)):
                    with contextlib.suppress(BlockingIOError):
                        one.send(self.data[:rng.choice((1, 1000, 65536))])
                    if rng.random() < 0.5:
                        write(SWIFT + "echo", rng.randrange(2))
                    with contextlib.suppress(OSError):
                        socks[-1].recv(1 << 16)
        rng.shuffle(socks)
        for one in socks:
            if rng.random() < 0.5:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.close()

    def meddle_veth(self, rng):
        """Frames that are larger than the wire's, through a lossy qdisc, and the pair goes in mid-flow."""
        unshare()
        first = this_ns()
        unshare()
        try:
            self.run("ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1", "netns", f"/proc/{os.getpid()}/fd/{first}")
            self.run("ip", "addr", "add", "192.168.0.1/24", "dev", "v0")
            self.run("ip", "link", "set", "v0", "up")
            write(SWIFT + "echo", 1)
            server = socket.create_server(("", 80))
            enter(first)
            self.run("ip", "addr", "add", "192.168.0.2/24", "dev", "v1")
            self.run("ip", "link", "set", "v1", "up")
            self.run("tc", "qdisc", "add", "dev", "v1", "root", "netem", "delay", "100us", "50us", "loss", "1%", "duplicate", "1%",
                     "corrupt", "1%", "reorder", "5%")
            write(SWIFT + "echo", 1)
            socks = []
            for _ in range(4):
                one = socket.socket()
                one.settimeout(0.02)
                socks.append(one)
                with contextlib.suppress(OSError):
                    one.setsockopt(socket.SOL_TCP, TCP_CONGESTION, b"swift")
                    one.connect(("192.168.0.1", 80))
            server.settimeout(0.01)
            with contextlib.suppress(OSError):
                for _ in range(4):
                    socks.append(server.accept()[0])
                    socks[-1].settimeout(0.001)
            for _ in range(10):
                for one in socks:
                    with contextlib.suppress(OSError):
                        one.send(self.data)
                    with contextlib.suppress(OSError):
                        one.recv(1 << 18)
            self.run("ip", "link", "del", "v1")
            for one in (*socks, server):
                one.close()
        finally:
            os.close(first)

    def meddle_qdisc(self, rng):
        enter(self.ns[rng.choice(self.hosts)])
        self.run("tc", "qdisc", "replace", "dev", "eth0", "root", *rng.choice((
            ("fq",), ("fq", "flow_limit", "10"), ("fq", "maxrate", "50mbit"), ("pfifo", "limit", "5"), ("pfifo_fast",),
            ("netem", "delay", "50us", "20us", "reorder", "5%", "loss", "0.5%", "limit", "100"),
            ("netem", "delay", "8ms"), ("netem", "duplicate", "2%", "corrupt", "1%"))))

    def meddle_nic(self, rng):
        enter(self.ns[rng.choice(self.hosts)])
        how = rng.randrange(5)
        if how == 0:
            self.run("ip", "link", "set", "eth0", "down")
            time.sleep(rng.choice((0, 0.001, 0.01)))
            self.run("ip", "link", "set", "eth0", "up")
            self.run("ip", "-6", "addr", "add", f"fd00::{rng.randrange(30) + 1:x}/64", "dev", "eth0")
        elif how == 1:
            self.run("ip", "link", "set", "eth0", "mtu", rng.choice(("1280", "1500", "4000", "9000")))
        elif how == 2:
            self.run("ethtool", "-K", "eth0", rng.choice(("tso", "sg", "gro", "gso", "tx")), rng.choice(("on", "off")))
        elif how == 3:
            self.run("ip", "route", "replace", "10.0.0.0/8", "dev", "eth0", *rng.choice((
                ("initcwnd", "40"), ("congctl", "swift"), ("congctl", "lock", "cubic"), ("rto_min", "5ms"), ("initrwnd", "2"),
                ("mtu", "lock", "800"), ())))
        else:
            self.run("ip", "tcp_metrics", "flush")

    def meddle_ss(self, rng):
        enter(self.ns[rng.choice(self.hosts)])
        if not self.run("ss", "-tinemoa"):
            self.complain("ss failed")
