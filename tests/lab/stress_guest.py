#!/usr/bin/python3 -B
# SPDX-License-Identifier: GPL-2.0
"""The guest's part of tests/lab/stress: stress_guest.py PLAN REPORT.

Runs once guest.py has built the plan's hosts and fabric. Everything happens in one loop
over virtual time: sockets of all kinds and ends, sysctls, faults, whatever else
meddles; a second thread does what takes long or sleeps (programs, modules, namespaces).
Then all of it has to go away again, and the report lists what did not:

    flows, sockets, writes...    how often what was done
    virtual_ns                   how long, on CLOCK_MONOTONIC
    complaints                   of what the kernel itself does not report
"""

import collections
import contextlib
import ctypes
import errno
import heapq
import json
import os
import random
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import guest
from clock import Netlink, Refused, attr, attrs

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
O_NONBLOCK = os.O_NONBLOCK
SYS_FINIT_MODULE, SYS_DELETE_MODULE = 313, 176
TCP_CONGESTION, TCP_CC_INFO, TCP_NOTSENT_LOWAT, TCP_USER_TIMEOUT, TCP_FASTOPEN = 13, 26, 25, 18, 23
SO_MAX_PACING_RATE, SO_TIMESTAMPING = 47, 37
SOCK_DIAG_BY_FAMILY, SOCK_DESTROY, NETLINK_SOCK_DIAG = 20, 21, 4
LAWS = ("swift", "swift", "swift", "cubic", "reno", "dctcp", "timely", "gcn", "fast")
OURS = ("tcp_swift", "timely", "gcn", "fast", "labload")
FABRIC, LOAD = "/sys/kernel/debug/labfab/", "/sys/kernel/debug/labload/"
SWIFT = "/proc/sys/net/ipv4/tcp_swift/"
TRACING = "/sys/kernel/debug/tracing/"
SLABS = ("net_namespace", "TCP", "TCPv6", "request_sock_TCP", "request_sock_TCPv6", "tw_sock_TCP", "tw_sock_TCPv6")
JUNK = ("", "-1", "-2147483649", "4294967295", "4294967296", "99999999999999999999", "abc", "0x10", "1 2", "1\n2", "\0",
        "static", "base_rtt", "base_rtt_plus", "base_rtt_plus ", "base_rtt_plusx", "9" * 5000, " ")

# Of each host, besides Swift's own.
HOST_SYSCTLS = {
    "net/ipv4/tcp_congestion_control": ("swift", "cubic", "reno", "dctcp", "timely", "gcn", "fast"),
    "net/ipv4/tcp_ecn": (0, 1, 2),
    "net/ipv4/tcp_sack": (0, 1, 1),
    "net/ipv4/tcp_dsack": (0, 1),
    "net/ipv4/tcp_timestamps": (0, 1, 1, 2),
    "net/ipv4/tcp_window_scaling": (0, 1, 1),
    "net/ipv4/tcp_syncookies": (0, 1, 2),
    "net/ipv4/tcp_max_syn_backlog": (1, 8, 128, 4096),
    "net/core/somaxconn": (1, 16, 4096),
    "net/ipv4/tcp_slow_start_after_idle": (0, 1),
    "net/ipv4/tcp_no_metrics_save": (0, 1),
    "net/ipv4/tcp_rmem": ("4096 4096 4096", "4096 131072 6291456", "4096 16384 65536"),
    "net/ipv4/tcp_wmem": ("4096 4096 4096", "4096 16384 4194304", "4096 65536 131072"),
    "net/ipv4/tcp_mtu_probing": (0, 1, 2),
    "net/ipv4/tcp_fastopen": (0, 3, 0x603),
    "net/ipv4/tcp_recovery": (0, 1, 3),
    "net/ipv4/tcp_early_retrans": (0, 3, 4),
    "net/ipv4/tcp_frto": (0, 2),
    "net/ipv4/tcp_retries2": (3, 15),
    "net/ipv4/tcp_orphan_retries": (0, 3),
    "net/ipv4/tcp_fin_timeout": (1, 60),
    "net/ipv4/tcp_tw_reuse": (0, 1, 2),
    "net/ipv4/tcp_autocorking": (0, 1),
    "net/ipv4/tcp_limit_output_bytes": (4096, 1048576),
    "net/ipv4/tcp_min_tso_segs": (1, 2, 16),
    "net/ipv4/tcp_min_snd_mss": (48, 536),
    "net/ipv4/tcp_thin_linear_timeouts": (0, 1),
    "net/ipv4/tcp_shrink_window": (0, 1),
    "net/ipv4/tcp_backlog_ack_defer": (0, 1),
    "net/ipv4/tcp_comp_sack_delay_ns": (0, 1000000),
    "net/ipv4/tcp_pacing_ss_ratio": (10, 200),
}
TINY_TCP_MEM, PLAIN_TCP_MEM = "50 80 120", "100000000 200000000 400000000"


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def write(path, text):
    """One write(2); False if it was refused."""
    try:
        fd = os.open(path, os.O_WRONLY)
    except OSError:
        return False
    try:
        os.write(fd, str(text).encode())
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def enter(fd):
    if libc.setns(fd, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def unshare():
    if libc.unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")


def this_ns():
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)


def insert(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        return 0 if libc.syscall(SYS_FINIT_MODULE, fd, b"", 0) == 0 else ctypes.get_errno()
    finally:
        os.close(fd)


def remove(name):
    return 0 if libc.syscall(SYS_DELETE_MODULE, name.encode(), O_NONBLOCK) == 0 else ctypes.get_errno()


def module_refs():
    return {line.split()[0]: int(line.split()[2]) for line in read("/proc/modules").splitlines()}


# --- Sockets -------------------------------------------------------------------------------

class Conn:
    """One end of a connection: what it still does, and when it ends."""

    def __init__(self, stress, sock, left, reads, host):
        self.stress, self.sock, self.left, self.reads, self.host = stress, sock, left, reads, host
        self.fd = sock.fileno()
        self.mask = (select.EPOLLOUT if left else 0) | (select.EPOLLIN if reads else 0)
        stress.conns[self.fd] = self
        stress.epoll.register(self.fd, self.mask)
        stress.at(stress.rng.expovariate(1 / stress.life_ns), self.end)
        if stress.rng.random() < 0.5:
            stress.at(stress.rng.expovariate(3 / stress.life_ns), self.poke)

    def want(self, mask):
        if mask != self.mask:
            self.mask = mask
            self.stress.epoll.modify(self.fd, mask)

    def ready(self, events):
        try:
            if events & select.EPOLLIN:
                if not self.sock.recv(1 << 16):
                    self.finished()
            if self.sock and events & select.EPOLLOUT:
                self.send()
            if self.sock and events & (select.EPOLLERR | select.EPOLLHUP):
                self.close()
        except BlockingIOError:
            pass
        except OSError:
            self.close()

    def send(self):
        rng = self.stress.rng
        flags = socket.MSG_OOB if rng.random() < 0.01 else socket.MSG_MORE if rng.random() < 0.1 else 0
        self.left -= self.sock.send(self.stress.data[:min(self.left, rng.choice((1, 100, 1448, 9000, 65536)))],
                                    flags | socket.MSG_NOSIGNAL)
        if self.left <= 0:
            self.finished()

    def finished(self):
        """All is sent, or the peer has closed."""
        how = self.stress.rng.randrange(8)
        if how == 0:
            self.close(reset=True)
        elif how == 1:
            self.sock.shutdown(socket.SHUT_WR)
            self.want(self.mask & ~select.EPOLLOUT)
            if self.mask & select.EPOLLIN and self.left > 0:
                self.close()
        elif how == 2:
            self.reconnect()
        elif how == 3:
            self.want(0)  # lingers, and reads no more
        else:
            self.close()

    def reconnect(self):
        """disconnect(2), as it were, and connect again."""
        if libc.connect(self.fd, struct.pack("16x"), 16):
            self.close()
            return
        self.left = self.stress.rng.choice((1, 1000, 100000))
        self.want(select.EPOLLOUT)
        try:
            self.sock.connect(self.stress.address(self.sock.family, self.stress.rng.choice(self.stress.hosts)))
        except BlockingIOError:
            pass

    def poke(self):
        """Whatever an application may ask of a live socket."""
        if not self.sock:
            return
        rng = self.stress.rng
        option = self.sock.setsockopt
        self.stress.count["pokes"] += 1
        menu = (
            lambda: option(socket.SOL_TCP, TCP_CONGESTION, rng.choice(LAWS).encode()),
            lambda: option(socket.SOL_TCP, TCP_CONGESTION, rng.choice(LAWS).encode()),
            lambda: option(socket.SOL_TCP, TCP_CONGESTION, rng.choice((b"swift-reno", b"", b"x" * 15, b"none"))),
            lambda: option(socket.SOL_SOCKET, SO_MAX_PACING_RATE, rng.choice((1000, 10**6, -1))),
            lambda: option(socket.SOL_TCP, socket.TCP_WINDOW_CLAMP, rng.choice((0, 1500, 65535, 1 << 20))),
            lambda: option(socket.SOL_TCP, socket.TCP_MAXSEG, rng.choice((88, 536, 1400, 8900))),
            lambda: option(socket.SOL_TCP, socket.TCP_CORK, rng.randrange(2)),
            lambda: option(socket.SOL_TCP, socket.TCP_NODELAY, rng.randrange(2)),
            lambda: option(socket.SOL_TCP, socket.TCP_QUICKACK, rng.randrange(2)),
            lambda: option(socket.SOL_TCP, TCP_USER_TIMEOUT, rng.choice((0, 1, 100))),
            lambda: option(socket.SOL_TCP, TCP_NOTSENT_LOWAT, rng.choice((1, 16384))),
            lambda: option(socket.SOL_SOCKET, socket.SO_SNDBUF, rng.choice((1, 10000, 1 << 20))),
            lambda: option(socket.SOL_SOCKET, socket.SO_RCVBUF, rng.choice((1, 10000, 1 << 20))),
            lambda: option(socket.SOL_SOCKET, SO_TIMESTAMPING, rng.randrange(128)),
            lambda: option(socket.SOL_IP, socket.IP_TOS, rng.randrange(256)),
            lambda: self.sock.getsockopt(socket.SOL_TCP, TCP_CC_INFO, 64),
            lambda: self.sock.getsockopt(socket.SOL_TCP, socket.TCP_INFO, 256),
            lambda: self.sock.getsockopt(socket.SOL_TCP, TCP_CONGESTION, 16),
            lambda: self.sock.recv(1 << 20),
            lambda: self.sock.shutdown(rng.randrange(3)),
            lambda: self.close(reset=True),
            self.reconnect,
        )
        try:
            rng.choice(menu)()
        except OSError:
            pass
        if self.sock and rng.random() < 0.7:
            self.stress.at(rng.expovariate(3 / self.stress.life_ns), self.poke)

    def end(self):
        if self.sock:
            self.close(reset=self.stress.rng.random() < 0.3)

    def close(self, reset=False):
        if not self.sock:
            return
        self.stress.epoll.unregister(self.fd)
        del self.stress.conns[self.fd]
        if reset:
            with contextlib.suppress(OSError):
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()
        self.sock = None


class Listener:
    def __init__(self, stress, host, family, port):
        self.stress, self.host, self.where = stress, host, (host, family, port)
        self.sock = stress.socket(host, family)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        rng = stress.rng
        if rng.random() < 0.6:
            with contextlib.suppress(OSError):
                self.sock.setsockopt(socket.SOL_TCP, TCP_CONGESTION, rng.choice(LAWS).encode())
        if rng.random() < 0.2:
            self.sock.setsockopt(socket.SOL_TCP, socket.TCP_DEFER_ACCEPT, 2)
        if rng.random() < 0.3:
            self.sock.setsockopt(socket.SOL_TCP, TCP_FASTOPEN, 16)
        if rng.random() < 0.2:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        self.sock.bind(("", port))
        self.sock.listen(rng.choice((0, 4, 128, 4096)))
        self.fd = self.sock.fileno()
        stress.conns[self.fd] = self
        stress.epoll.register(self.fd, select.EPOLLIN)

    def ready(self, _events):
        rng = self.stress.rng
        for _ in range(64):
            try:
                sock, _ = self.sock.accept()
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.EINVAL:  # SOCK_DESTROY was here
                    self.end()
                    self.stress.at(1e6, lambda: self.stress.listen_on(*self.where))
                    return
                continue
            sock.setblocking(False)
            self.stress.count["accepted"] += 1
            if rng.random() < 0.1:
                sock.close()
                continue
            Conn(self.stress, sock, rng.choice((0, 0, 0, 100, 200000)), rng.random() < 0.8, self.host)

    def end(self):
        self.stress.epoll.unregister(self.fd)
        del self.stress.conns[self.fd]
        self.sock.close()

    close = end


# --- The loop --------------------------------------------------------------------------------

class Stress:
    def __init__(self, plan):
        self.plan = plan
        self.rng = random.Random(plan["seed"])
        self.hosts = plan["hosts"]
        self.count = collections.Counter()
        self.complaints = []
        self.conns, self.queue, self.ticket = {}, [], 0
        self.epoll = select.epoll()
        self.data = bytes(65536)
        self.life_ns = plan["life_ns"]
        self.home = this_ns()
        self.ns = {h: os.open(f"/run/netns/h{h}", os.O_RDONLY) for h in self.hosts}
        self.pace = 1
        self.clocks, self.tellers = guest.Clocks({"clocks": plan["clocks"]}), []
        self.quiet = threading.Event()  # the second thread is to end

    def complain(self, text):
        print(f"stress: {text}", flush=True)
        self.complaints.append(text)

    def at(self, delay_ns, run):
        self.ticket += 1
        heapq.heappush(self.queue, (now_ns() + max(int(delay_ns), 1), self.ticket, run))

    def every(self, mean_ns, run):
        """Until the loop is over, at random."""
        def again():
            run()
            self.at(self.rng.expovariate(1 / mean_ns) * self.pace, again)
        self.at(self.rng.expovariate(1 / mean_ns), again)

    def loop(self, for_ns):
        end_ns, rounds = now_ns() + for_ns, 0
        while (now := now_ns()) < end_ns:
            while self.queue and self.queue[0][0] <= now:
                heapq.heappop(self.queue)[2]()
            until = min(self.queue[0][0] if self.queue else end_ns, end_ns)
            found = self.epoll.poll(max(until - now_ns(), 0) / 1e9, 256)
            for fd, events in found:
                if fd in self.conns:
                    self.conns[fd].ready(events)
            rounds = rounds + 1 if now_ns() == now else 0
            if rounds > 100000:  # work takes no virtual time: this would never end
                raise RuntimeError(f"nothing moves: {[(fd, events, self.conns.get(fd)) for fd, events in found[:5]]}")

    def socket(self, host, family):
        enter(self.ns[host])
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        finally:
            enter(self.home)
        sock.setblocking(False)
        return sock

    def address(self, family, host):
        port = self.rng.choice((7000, 7001, 7002, 7003 + (self.rng.random() < 0.05)))
        if family == socket.AF_INET:
            return (f"10.0.{host + 1 >> 8}.{host + 1 & 255}", port)
        if self.rng.random() < 0.3:
            return (f"::ffff:10.0.{host + 1 >> 8}.{host + 1 & 255}", port)
        return (f"fd00::{host + 1:x}", port)

    def listen(self):
        for host in self.hosts:
            for port, family in ((7000, socket.AF_INET), (7001, socket.AF_INET6), (7002, socket.AF_INET6),
                                 (7003, socket.AF_INET)):
                self.listen_on(host, family, port)

    def listen_on(self, *where):
        with contextlib.suppress(OSError):
            Listener(self, *where)

    # --- What happens, now and again

    def new_flow(self):
        rng = self.rng
        if len(self.conns) > self.plan["sockets_max"]:
            return
        src, dst = rng.sample(self.hosts, 2)
        family = rng.choice((socket.AF_INET, socket.AF_INET6))
        sock = self.socket(src, family)
        self.count["flows"] += 1
        try:
            if rng.random() < 0.7:
                sock.setsockopt(socket.SOL_TCP, TCP_CONGESTION, rng.choice(LAWS).encode())
            if rng.random() < 0.2:
                sock.setsockopt(socket.SOL_TCP, socket.TCP_MAXSEG, rng.choice((88, 536, 1460)))
            if rng.random() < 0.2:
                sock.setsockopt(socket.SOL_TCP, socket.TCP_SYNCNT, 1)
            if rng.random() < 0.1:
                sock.setsockopt(socket.SOL_IP, socket.IP_TOS, rng.randrange(256))
        except OSError:
            pass
        left = rng.choice((1, 1, 100, 1000, 10000, 10000, 100000, self.plan["long_bytes"]))
        try:
            if rng.random() < 0.1:
                left -= sock.sendto(self.data[:min(left, 1000)], socket.MSG_FASTOPEN | socket.MSG_NOSIGNAL,
                                    self.address(family, dst))
            else:
                sock.connect(self.address(family, dst))
        except BlockingIOError:
            pass
        except OSError:
            sock.close()
            return
        conn = Conn(self, sock, max(left, 0), rng.random() < 0.5, src)
        if rng.random() < 0.1:
            conn.close(reset=rng.random() < 0.5)
        elif rng.random() < 0.1:  # between SYN and SYN-ACK
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_TCP, TCP_CONGESTION, rng.choice(LAWS).encode())

    def new_sysctl(self):
        """Of one host: a value of its range, or junk."""
        rng = self.rng
        self.count["sysctls"] += 1
        enter(self.ns[rng.choice(self.hosts)])
        try:
            if rng.random() < 0.25:
                name = rng.choice(list(HOST_SYSCTLS))
                write("/proc/sys/" + name, rng.choice(HOST_SYSCTLS[name]))
                return
            name, (lo, hi) = rng.choice(list(self.plan["tunables"].items()))
            kind = rng.random()
            if kind < 0.15:
                value = rng.choice(JUNK)
            elif lo is None:
                value = rng.choice(("static", "base_rtt", "base_rtt_plus"))
            elif kind < 0.4:
                value = rng.choice((lo, hi, lo - 1, hi + 1))
            elif kind < 0.6 and name == "max_rtt_ns":
                value = hi
            else:
                value = int(lo + (hi - lo) * rng.random() ** 6)
            if not write(SWIFT + name, value):
                self.count["refused"] += 1
            if rng.random() < 0.1:
                with open(SWIFT + name, "rb", buffering=0) as file:
                    file.seek(rng.choice((0, 0, 1, 100)))
                    file.read(rng.choice((1, 3, 100)))
        finally:
            enter(self.home)

    def new_fault(self):
        rng = self.rng
        self.count["faults"] += 1
        line = f"fault link={rng.randrange(self.plan['links'])}"
        kind = rng.randrange(6)
        if kind == 0:
            line += f" loss_ppm={rng.choice((100, 10000, 100000, 500000))}"
        elif kind == 1:
            line += f" corrupt_ppm={rng.choice((100, 10000, 200000))}"
        elif kind == 2:
            line += f" reorder_ppm={rng.choice((1000, 100000, 500000))} reorder_ns={rng.choice((1000, 100000, 5000000))}"
        elif kind == 3:
            line += " down=1"
            self.at(rng.expovariate(1 / 20e6), lambda line=line: write(FABRIC + "control", line.replace("down=1", "down=0")))
        if not write(FABRIC + "control", line):
            self.complain(f"labfab refused: {line}")

    def memory(self):
        """Little memory for TCP, for a while; and allocations in interrupts that fail."""
        if self.plan["tiny_mem"]:
            self.count["memory"] += 1
            write("/proc/sys/net/ipv4/tcp_mem", TINY_TCP_MEM)
            self.at(5e6, lambda: write("/proc/sys/net/ipv4/tcp_mem", PLAIN_TCP_MEM))
        if self.plan["failslab"]:
            self.count["failslab"] += 1
            write("/sys/kernel/debug/failslab/ignore-gfp-wait", "Y")
            write("/sys/kernel/debug/failslab/probability", self.rng.choice((1, 10)))
            self.at(10e6, lambda: write("/sys/kernel/debug/failslab/probability", 0))

    def dump(self):
        """What `ss -i` asks for, of one host; now and then a socket is destroyed by it."""
        rng = self.rng
        self.count["dumps"] += 1
        enter(self.ns[rng.choice(self.hosts)])
        try:
            for family in (socket.AF_INET, socket.AF_INET6):
                self.dump_family(family)
            read("/proc/thread-self/net/tcp_swift")
            if rng.random() < 0.2:
                read("/proc/thread-self/net/" + rng.choice(("tcp", "tcp6", "netstat", "sockstat")))
        finally:
            enter(self.home)

    def dump_family(self, family):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as diag:
            diag.settimeout(5)
            body = struct.pack("=BBBxI48x", family, socket.IPPROTO_TCP, 0xFF, 0xFFFFFFFF)
            diag.send(struct.pack("=IHHII", 16 + len(body), SOCK_DIAG_BY_FAMILY, 0x301, 1, 0) + body)
            while True:
                answer, offset = diag.recv(1 << 18), 0
                while offset < len(answer):
                    size, kind = struct.unpack_from("=IH", answer, offset)
                    if kind in (2, 3):
                        return
                    self.count["diag"] += 1
                    if self.rng.random() < 0.002:
                        self.destroy(answer[offset + 16:offset + 16 + 72])
                    offset += size + 3 & ~3

    def destroy(self, message):
        """SOCK_DESTROY of what a dump showed."""
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as diag:
            body = struct.pack("=BBBxI", message[0], socket.IPPROTO_TCP, 0, 0xFFFFFFFF) + message[4:52]
            diag.send(struct.pack("=IHHII", 16 + len(body), SOCK_DESTROY, 1, 1, 0) + body)
            self.count["destroyed"] += 1

    def read_stats(self):
        for path in (FABRIC + "stats", LOAD + "flows", LOAD + "groups"):
            with contextlib.suppress(OSError):
                read(path)
        if self.rng.random() < 0.3:
            write(FABRIC + "control", "reset")
        if self.rng.random() < 0.3:
            write(FABRIC + "control", f"phc id={self.rng.choice(self.hosts)} step_ns={self.rng.randrange(-10**12, 10**12)}")

    def junk_lines(self):
        """What labfab and labload must refuse."""
        rng = self.rng
        path = rng.choice((FABRIC, LOAD)) + "control"
        line = rng.choice((rng.choice(JUNK), "host id=1", "host id=1024", "link a=h0 b=h1 rate_bps=1000000000", "start", "switch id=0",
                           "switch id=7 weights=1,2", "fault link=99999", "fault link=0 loss_ppm=-1", "phc id=0", "flow",
                           "flow group=0 src=0 dst=0 mode=rpc", "flow group=300 src=0 dst=1 mode=rpc",
                           "flow group=0 src=0 dst=999 mode=idle", "go at_ns=1", "measure start_ns=5 stop_ns=1",
                           "poisson group=3 rate_mps=1000 cdf=5:5", "poisson group=0 rate_mps=1000 cdf=5,5:5:5,,"))
        if write(path, line) and line:
            self.complain(f"{path} took: {line!r}")

    def trace(self):
        on = self.rng.randrange(2)
        write(TRACING + "events/tcp_swift/enable", on)
        write(TRACING + "events/tcp/enable", self.rng.randrange(2))
        self.count["traces"] += 1
        if on and self.rng.random() < 0.3:
            with open(TRACING + "trace", "rb") as file:
                file.read(1 << 16)
            write(TRACING + "trace", "")

    def unload(self):
        """With a socket that runs it: it must not go."""
        for name in self.rng.sample(("tcp_swift", "labfab"), 2):
            error = remove(name)
            if not error:
                self.complain(f"{name}: removed while it was used")
            self.count["unloads refused"] += 1

    # --- NICs' clocks

    def clock(self):
        """Of a host that `swiftctl clock run` feeds: it is stepped, the feeder dies, comes back."""
        rng = self.rng
        host = rng.choice(self.plan["clocks"])
        feeder = self.clocks.running[host]
        if feeder.poll() is not None:
            self.clocks.start(host)
            self.count["feeders started"] += 1
        elif rng.random() < 0.3:
            feeder.send_signal(rng.choice((signal.SIGKILL, signal.SIGTERM)))
            self.count["feeders ended"] += 1
        else:
            step_ns = rng.choice((-1, 1)) * rng.choice((1000, 50000, 10**7, 10**9, 10**14))
            write(FABRIC + "control", f"phc id={host} step_ns={step_ns}")
            self.count["clock steps"] += 1

    def line(self, rng):
        """Of a NIC's clock: true to some degree, or nonsense."""
        return {"IFINDEX": rng.choice((1, 99)) if rng.random() < 0.1 else socket.if_nametoindex("eth0"),
                "NIC_NS": now_ns() + rng.choice((0, 0, 1000, -10**6, 10**12)) & (1 << 64) - 1,
                "HOST_NS": max(now_ns() - rng.choice((0, 0, 10**6, -10**6, 10**10)), 0),
                "RATIO_Q32": (1 << 32) + rng.choice((0, 100000, -100000, 1 << 25, 1 << 31)),
                "ERROR_NS": rng.choice((0, 100, 10**6, 1 << 31)),
                "VALID_MS": rng.choice((1, 1, 1, 20, 1000, 60000, 0, 1 << 31))}

    def tell(self):
        """Somebody else tells of clocks, whether there are any or not, and asks."""
        rng = self.rng
        self.count["lines told"] += 1
        enter(self.ns[rng.choice(self.hosts)])
        try:
            with contextlib.suppress(OSError, Refused):  # who has an owner, or is wrong
                if len(self.tellers) < 5:
                    self.tellers.append(Netlink())
                    return
                teller = self.tellers.pop(rng.randrange(5)) if rng.random() < 0.1 else rng.choice(self.tellers)
                what, values = rng.random(), self.line(rng)
                if what < 0.2:
                    teller.dump()
                elif what < 0.3:
                    teller.delete(values["IFINDEX"])
                elif what < 0.4:
                    teller.get(values["IFINDEX"])
                elif what < 0.5:
                    teller.request(rng.randrange(6), attrs(values)[:rng.randrange(80)] + attr(rng.randrange(20), bytes(rng.randrange(9))))
                else:
                    teller.set(**values)
        finally:
            enter(self.home)

    # --- The kernel's own load

    def kernel_load(self, laws):
        rng = self.rng
        groups = 4
        for _ in range(self.plan["kernel_flows"]):
            src, dst = rng.sample(self.hosts, 2)
            group = rng.randrange(groups)
            line = (f"flow group={group} src={src} dst={dst} mode={('idle', 'stream', 'rpc', 'rpc')[group]} ipv6={rng.randrange(2)}"
                    f" cc={rng.choice(laws)} size={rng.choice((1, 100, 10000, 300000))} depth={rng.choice((1, 8))}"
                    f" dscp={rng.choice((-1, -1, 8, 46))}" + (f" sndbuf={rng.choice((1, 20000))}" if rng.random() < 0.2 else ""))
            if not write(LOAD + "control", line):
                self.complain(f"labload refused: {line}")
        write(LOAD + "control", "poisson group=0 rate_mps=2000000 cdf=100:500000,100000:1000000")
        if not write(LOAD + "control", "connect"):
            self.count["loads not connected"] += 1
            return
        start = now_ns() + 1000000
        write(LOAD + "control", "measure start_ns=1000000 stop_ns=20000000 sample_ns=1000000")
        write(LOAD + "control", f"go at_ns={start}")
        self.count["loads"] += 1
        self.count["flows"] += self.plan["kernel_flows"]

    # --- The second thread: what sleeps

    def run(self, *argv):
        done = subprocess.run(argv, capture_output=True, check=False)
        return done.returncode == 0

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

    # --- Going away

    def gauges(self):
        """Sockets on Swift, and on what its guard put them, in all hosts."""
        total = 0
        for fd in (self.home, *self.ns.values()):
            enter(fd)
            for line in read("/proc/thread-self/net/tcp_swift").splitlines():
                name, value = line.split()
                if name in ("flows", "guarded_flows"):
                    if int(value) >= 1 << 31:
                        self.complain(f"/proc/net/tcp_swift: {line}")
                    total += int(value)
        enter(self.home)
        return total

    def count_swift(self):
        """What the module did, so that it shows if it did nothing."""
        for fd in self.ns.values():
            enter(fd)
            for line in read("/proc/thread-self/net/tcp_swift").splitlines():
                name, value = line.split()
                self.count["swift " + name] += int(value)
        enter(self.home)

    def settle(self, what, ready, seconds=3000):
        """Virtual ones, of which those without load cost nothing: a flow that paces at 0.001 packet takes its time."""
        end = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > end:
                self.complain(f"{what}: not after {seconds} s")
                self.look()
                return False
            if time.monotonic() < end - seconds + 1:
                time.sleep(0.1)
            else:
                write(LOAD + "control", "stop")
                time.sleep(10)
        return True

    def look(self):
        """What might be in the way, for the console."""
        print(read("/proc/modules"), read("/proc/mounts"), os.listdir("/proc/self/fd"), flush=True)
        print([(name, self.slab(name)) for name in SLABS], flush=True)
        home = this_ns()
        for host, fd in self.ns.items():
            with contextlib.suppress(OSError):
                enter(fd)
                print(f"h{host}", read("/proc/thread-self/net/sockstat"), flush=True)
                subprocess.run(("ss", "-tanoie"), check=False)
        enter(home)
        os.close(home)

    def each_host(self, path, values):
        """Written, one for all or one each; what was there."""
        before = []
        for host, fd in self.ns.items():
            enter(fd)
            before.append(read(path).strip())
            write(path, values if isinstance(values, str) else values[host])
        enter(self.home)
        return before

    def close_all(self):
        self.queue.clear()
        write("/proc/sys/net/ipv4/tcp_mem", PLAIN_TCP_MEM)
        write("/sys/kernel/debug/failslab/probability", 0)
        self.clocks.__exit__()
        for teller in self.tellers:
            teller.close()
        for conn in list(self.conns.values()):
            conn.end()
        write(LOAD + "control", "stop")
        if self.rng.random() < 0.7:
            for link in range(self.plan["links"]):
                write(FABRIC + "control", f"fault link={link}")
        self.each_host("/proc/sys/net/ipv4/tcp_congestion_control", "cubic")
        for fd in self.ns.values():
            enter(fd)
            self.run("ip", "route", "replace", "10.0.0.0/8", "dev", "eth0")
        enter(self.home)
        write(TRACING + "events/tcp_swift/enable", 0)
        write(TRACING + "events/tcp/enable", 0)

    def storm(self):
        """Modules come and go under traffic of others, and with sockets of their own in between."""
        rng = random.Random(self.plan["seed"] + 2)
        paths = self.plan["modules"]
        for _ in range(self.plan["storms"]):
            name = rng.choice(("tcp_swift", "tcp_swift", "tcp_swift", "timely", "gcn", "fast"))
            if not self.settle(f"rmmod {name}", lambda name=name: not remove(name), 300):
                return
            law = name.removeprefix("tcp_")
            if rng.random() < 0.3:
                time.sleep(rng.random() * 0.002)
            if insert(paths[name]):
                self.complain(f"insmod {name}: failed")
                return
            self.count["storms"] += 1
            if name == "tcp_swift":
                for fd in self.ns.values():
                    if rng.random() < 0.5:
                        enter(fd)
                        write(SWIFT + "echo", 1)
            if rng.random() < 0.5:
                unshare()
                self.loopback_flows(rng, (law,))
            enter(self.home)

    def failing(self, rng, run, stride):
        """`run`, with the nth of its allocations failing, until it has less than n; whatever it leaves must be whole."""
        fd, n, met = os.open("/proc/thread-self/fail-nth", os.O_RDWR), 0, True
        try:
            while met:
                n += rng.randrange(1, 2 * stride)
                os.pwrite(fd, str(n).encode(), 0)
                try:
                    run()
                except (OSError, MemoryError):
                    pass
                met = int(os.pread(fd, 16, 0).strip(b"\n\0") or 0) == 0
                os.pwrite(fd, b"0", 0)
                self.count["failed allocations"] += met
        finally:
            os.close(fd)

    def fail_allocations(self):
        """Of what the modules do with no packet at hand."""
        for name in ("failslab", "fail_page_alloc"):
            write(f"/sys/kernel/debug/{name}/verbose", 0)
            write(f"/sys/kernel/debug/{name}/ignore-gfp-wait", "N")
        rng = random.Random(self.plan["seed"] + 3)
        name = self.plan["fail_module"]
        if not self.settle(f"rmmod {name}", lambda: not remove(name), 300):
            return
        file, loaded = os.open(self.plan["modules"][name], os.O_RDONLY), []

        def load():
            if libc.syscall(SYS_FINIT_MODULE, file, b"", 0) == 0:
                loaded.append(name)
                remove(name)
        self.failing(rng, load, 10)
        os.close(file)
        if not loaded or insert(self.plan["modules"][name]):
            self.complain(f"insmod {name}: failed after failed allocations")

        enter(self.ns[self.hosts[0]])
        for name, values in (("echo", (0, 1)), ("ai_milli", (500, 1000)), ("target_policy", ("static", "base_rtt")), ("dscp", (1, 2))):
            self.failing(rng, lambda name=name, values=values: (write(SWIFT + name, values[0]), write(SWIFT + name, values[1])), 2)
        self.failing(rng, lambda: read("/proc/thread-self/net/tcp_swift"), 2)
        teller = Netlink()

        def told():
            with contextlib.suppress(Refused):
                teller.set(IFINDEX=1, NIC_NS=0, HOST_NS=now_ns(), RATIO_Q32=1 << 32, ERROR_NS=0, VALID_MS=1000)
                teller.dump()
                teller.delete(1)
        self.failing(rng, told, 2)
        teller.close()
        enter(self.home)
        self.failing(rng, unshare, 60)
        enter(self.home)

    def leaks(self):
        if not os.path.exists("/sys/kernel/debug/kmemleak"):
            return
        for _ in range(2):
            time.sleep(6)
            write("/sys/kernel/debug/kmemleak", "scan")
        found = read("/sys/kernel/debug/kmemleak")
        if found:
            print(found, flush=True)
            self.complain(f"kmemleak: {found.count('unreferenced object')} objects")

    def slab(self, name):
        """Objects in use; those that KASAN keeps back are let go first."""
        write(f"/sys/kernel/slab/{name}/shrink", 1)
        for line in read("/proc/slabinfo").splitlines():
            if line.split()[0] == name:
                return int(line.split()[1])
        return 0

    def namespaces_gone(self):
        """The kernel frees those that went last when the next one goes."""
        if self.slab("net_namespace") <= 1:
            return True
        unshare()
        enter(self.home)
        return False

    def leave(self):
        """All goes: in either order, namespaces with what is in flight, then modules, or the reverse."""
        namespaces_first = self.rng.random() < 0.5
        for name in OURS:
            self.settle(f"rmmod {name}", lambda name=name: not remove(name), 600)
        if not namespaces_first:
            self.settle("rmmod labfab", lambda: not remove("labfab"), 600)
        for host, fd in self.ns.items():
            os.close(fd)
            libc.umount(f"/run/netns/h{host}".encode())
        self.settle("namespaces", self.namespaces_gone, 600)
        if namespaces_first:
            nics = sum(os.path.exists(f"/sys/class/net/{name}/device") or name.startswith(("eth", "dev"))
                       for name in os.listdir("/sys/class/net"))
            if nics != len(self.hosts):
                self.complain(f"{nics} NICs of {len(self.hosts)} are back")
            self.settle("rmmod labfab", lambda: not remove("labfab"), 600)
        for name in ("tcp_dctcp", "sch_netem", "veth"):
            self.settle(f"rmmod {name}", lambda name=name: remove(name) in (0, errno.ENOENT), 600)
        if module_refs():
            self.complain(f"modules are left: {module_refs()}")
        for name in SLABS[1:]:
            self.settle(f"slab {name}", lambda name=name: not self.slab(name), 300)
        self.leaks()

    # --- The whole

    def play(self):
        plan, began = self.plan, now_ns()
        say = lambda what: print(f"stress: {(now_ns() - began) / 1e9:.3f} s: {what}: {dict(self.count)}", flush=True)
        defaults = self.each_host("/proc/sys/net/ipv4/tcp_congestion_control", "cubic")
        for host in plan["clocks"]:
            self.clocks.start(host)
        if plan["idle_storm"]:
            self.storm()
        if os.path.exists("/proc/thread-self/fail-nth"):
            self.fail_allocations()
        self.each_host("/proc/sys/net/ipv4/tcp_congestion_control", defaults)
        for host in plan["clocks"]:
            self.clocks.wait(host)
        say("begins")
        self.listen()
        self.kernel_load(("swift", "swift", "cubic", "dctcp", "timely", "gcn", "fast"))
        enter(self.ns[self.hosts[0]])
        pin = socket.socket()
        enter(self.home)
        pin.setsockopt(socket.SOL_TCP, TCP_CONGESTION, b"swift")
        say("connected")

        self.every(plan["flow_ns"], self.new_flow)
        self.every(plan["sysctl_ns"], self.new_sysctl)
        if plan["fault_ns"]:
            self.every(plan["fault_ns"], self.new_fault)
        self.every(plan["clock_ns"], self.clock)
        self.every(plan["clock_ns"] / 4, self.tell)
        often = plan["heavy_ns"] / 30
        for what in (self.memory, self.dump, self.dump, self.read_stats, self.junk_lines, self.trace, self.unload):
            self.every(often, what)
        meddler = threading.Thread(target=self.meddle, daemon=True)
        meddler.start()
        self.loop(plan["heavy_ns"])
        say("heavy")
        write(LOAD + "control", "stop")
        self.pace = plan["light_ns"] / plan["heavy_ns"]  # as much again, but with time for timeouts
        self.loop(plan["light_ns"])
        say("light")
        self.quiet.set()
        while meddler.is_alive():
            self.loop(10e6)
        self.close_all()
        pin.close()
        self.settle("flows", lambda: not self.gauges())
        self.count_swift()
        say("closed")

        if plan["busy_storm"]:
            plan["kernel_flows"] = min(plan["kernel_flows"], 50)
            self.kernel_load(("cubic", "reno", "dctcp"))
            storm = threading.Thread(target=self.storm, daemon=True)
            storm.start()
            while storm.is_alive():
                self.loop(1e6)
            write(LOAD + "control", "stop")
            self.settle("flows", lambda: not self.gauges())
        say("stormed")
        self.leaks()
        self.epoll.close()
        self.leave()
        say("left")
        time.sleep(200)  # for what looks in minutes
        self.count["virtual_ns"] = now_ns() - began
        return {"complaints": self.complaints, **self.count}


def main(plan, report):
    write("/proc/sys/kernel/printk", "5")
    resource.setrlimit(resource.RLIMIT_NOFILE, (65536, 65536))
    with open(plan, encoding="utf-8") as file:
        plan = json.load(file)
    result = Stress(plan).play()
    with open(report, "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
