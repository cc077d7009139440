# SPDX-License-Identifier: GPL-2.0
"""What has to do with flows in stress_guest.py: connections of user space, what an application may
ask of them, listeners, and labload's flows."""

import contextlib
import errno
import select
import socket
import struct

from guest import LOAD, libc, monotonic_ns
from stress_kernel import LAWS, TCP_CONGESTION, enter, write

TCP_CC_INFO, TCP_NOTSENT_LOWAT, TCP_USER_TIMEOUT, TCP_FASTOPEN = 26, 25, 18, 23
SO_MAX_PACING_RATE, SO_TIMESTAMPING = 47, 37


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


class Sockets:
    """Of Stress: it opens them."""

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
        start = monotonic_ns() + 1000000
        write(LOAD + "control", "measure start_ns=1000000 stop_ns=20000000 sample_ns=1000000")
        write(LOAD + "control", f"go at_ns={start}")
        self.count["loads"] += 1
        self.count["flows"] += self.plan["kernel_flows"]
