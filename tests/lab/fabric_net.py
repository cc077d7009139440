# SPDX-License-Identifier: GPL-2.0
"""What the fabric's tests and benchmark stand on, inside the guest: networks of labfab,
frames sent and received on packet sockets, and a model of how long they take.

CPU work takes no virtual time: all that is sent without a sleep is sent at one instant."""

import ctypes
import errno
import fcntl
import os
import socket
import struct
import subprocess
import time

import guest
from guest import CLONE_NEWNET, FABRIC, check, libc, read

SO_TIMESTAMPING = 37
TX_HARDWARE, TX_SOFTWARE, RX_HARDWARE, RX_SOFTWARE, SOFTWARE, RAW_HARDWARE = 1, 2, 4, 8, 16, 64
OPT_PKTINFO, SCM_TIMESTAMPING_PKTINFO = 1 << 13, 58
SIOCSHWTSTAMP, SIOCGHWTSTAMP, SIOCOUTQ = 0x89B0, 0x89B1, 0x5411
SOL_PACKET, PACKET_QDISC_BYPASS, SO_RCVBUFFORCE, SO_SNDBUFFORCE = 263, 20, 33, 32
ETH_P_IP = 0x0800
G = 10**9
OVERHEAD = 24  # preamble, check sequence, gap


def command(*argv):
    """Its output; errors are part of it."""
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_REALTIME)


def control(line):
    """0, or the errno."""
    fd = os.open(FABRIC + "control", os.O_WRONLY)
    try:
        os.write(fd, line.encode())
    except OSError as error:
        return error.errno
    finally:
        os.close(fd)
    return 0


def load_module(module):
    if result := command("/sbin/insmod", module):
        raise guest.Failure(result)


def unload_module():
    return command("/sbin/rmmod", "labfab")


def address(number):
    return socket.inet_ntoa(struct.pack(">I", 0x0A000001 + number))


def frame(src, dst, length, number=0, ttl=64, tos=0, sport=1000):
    """An IPv4 frame. Its IP checksum is wrong: stacks drop it silently, packet sockets don't."""
    ip = struct.pack(">BBHHHBBHII", 0x45, tos, length - 14, 0, 0, ttl, 17, 0xBAD, 0x0A000001 + src, 0x0A000001 + dst)
    udp = struct.pack(">HHHHI", sport, 9, length - 34, 0, number)
    return (bytes(12) + struct.pack(">H", ETH_P_IP) + ip + udp).ljust(length, b"\0")[:length]


def frame6(src, dst, length, label):
    """An IPv6 frame of one flow, but for its flow label."""
    ip = struct.pack(">IHBBIIIIIIII", 6 << 28 | label, length - 54, 17, 64, 0xFD000000, 0, 0, src + 1, 0xFD000000, 0, 0, dst + 1)
    return (bytes(12) + struct.pack(">H", 0x86DD) + ip + struct.pack(">HHHH", 1000, 9, length - 54, 0)).ljust(length, b"\0")


class Received:
    def __init__(self, data, stamps):
        self.length, self.tos, self.ttl = len(data), data[15], data[22]
        self.src = struct.unpack(">I", data[26:30])[0] - 0x0A000001
        self.number = struct.unpack(">I", data[42:46])[0] if len(data) >= 46 else None
        self.software_ns, self.hardware_ns = stamps


def stamps_of(ancillary):
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPING:
            words = struct.unpack("6q", data[:48])
            return words[0] * 10**9 + words[1], words[4] * 10**9 + words[5]
    return 0, 0


def stamping(sock, flags):
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, flags)


def hwtstamp(sock, request, tx=0, rx=0):
    """What the NIC then has (flags, tx_type, rx_filter), or the errno."""
    config = ctypes.create_string_buffer(struct.pack("iii", 0, tx, rx))
    try:
        fcntl.ioctl(sock, request, struct.pack("16sQ16x", b"eth0", ctypes.addressof(config)))
    except OSError as error:
        return error.errno
    return struct.unpack("iii", config.raw[:12])


class Host:
    """A namespace with a NIC, entered only to make sockets."""

    def __init__(self, number, home):
        self.number, self.home = number, home
        self.tx = self.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self.tx.bind(("eth0", 0))
        self.tx.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
        self.tx.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 30)
        self.rx = None

    def enter(self):
        with open(f"/run/netns/h{self.number}", "rb") as ns:
            check(libc.setns(ns.fileno(), CLONE_NEWNET), "setns")

    def leave(self):
        check(libc.setns(self.home, CLONE_NEWNET), "setns")

    def socket(self, *kind):
        self.enter()
        try:
            return socket.socket(*kind)
        finally:
            self.leave()

    def run(self, *argv):
        return command("ip", "netns", "exec", f"h{self.number}", *argv)

    def listen(self):
        """From now on arrivals are kept, with stamps of hardware and software."""
        hwtstamp(self.tx, SIOCSHWTSTAMP, tx=1, rx=1)
        self.rx = self.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.rx.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 30)
        stamping(self.rx, RX_HARDWARE | RAW_HARDWARE | RX_SOFTWARE | SOFTWARE)
        self.rx.bind(("eth0", ETH_P_IP))
        self.rx.setblocking(False)

    def send(self, *frames):
        """How many the NIC took."""
        for i, one in enumerate(frames):
            try:
                self.tx.send(one)
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                return i
        return len(frames)

    def departs(self, one):
        """Sends a frame; its stamp of hardware (a process's own clock goes on as it reads it)."""
        hwtstamp(self.tx, SIOCSHWTSTAMP, tx=1, rx=1)
        stamping(self.tx, TX_HARDWARE | RAW_HARDWARE)
        self.send(one)
        stamp = stamps_of(self.tx.recvmsg(65536, 512, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)[1])[1]
        stamping(self.tx, 0)
        return stamp

    def received(self):
        result = []
        while True:
            try:
                data, ancillary, _, _ = self.rx.recvmsg(65536, 256)
            except OSError as error:
                if error.errno != errno.ENETDOWN:  # said once
                    return result
                continue
            result.append(Received(data, stamps_of(ancillary)))

    def ethtool(self, option):
        lines = (line.partition(":") for line in self.run("ethtool", option, "eth0").splitlines())
        return {key.strip(): value.strip() for key, _, value in lines}


class Net:
    """hosts: their arguments; switches: theirs, from 0 on; links: "h0 s0 RATE [prop_ns=..]"."""

    def __init__(self, module, hosts, switches=(), links=(), start=True):
        self.module = module
        self.home = os.open("/proc/self/ns/net", os.O_RDONLY)
        load_module(module)
        self.hosts = []
        for number, args in enumerate(hosts):
            guest.make_host({"id": number, "args": args}, {"net.ipv4.icmp_ratelimit": 0}, [])
            check(libc.setns(self.home, CLONE_NEWNET), "setns")
        for number, args in enumerate(switches):
            guest.write(FABRIC + "control", f"switch id={number} {args}")
        for link in links:
            a, b, rate, *more = link.split()
            guest.write(FABRIC + "control", f"link a={a} b={b} rate_bps={rate} {' '.join(more)}")
        self.hosts = [Host(number, self.home) for number in range(len(hosts))]
        if start:
            self.start()

    def start(self):
        guest.write(FABRIC + "control", "start")
        time.sleep(0.5)  # the stack takes notice of carriers, and IPv6 is done with its solicitations
        while any("NO-CARRIER" in host.run("ip", "link", "show", "eth0") for host in self.hosts):
            time.sleep(0.1)
        guest.write(FABRIC + "control", "reset")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for host in self.hosts:
            for sock in filter(None, (host.tx, host.rx)):
                sock.close()
        result = unload_module()
        for number in range(len(self.hosts)):
            command("ip", "netns", "del", f"h{number}")
        os.close(self.home)
        if result:
            raise guest.Failure(result)


def fields(line):
    return {k: int(v) if v.isdigit() else v for k, _, v in (part.partition("=") for part in line.split())}


class Stats:
    """One reading of the fabric's statistics."""

    def __init__(self):
        self.hosts, self.switches, self.ports, self.fabric = {}, {}, {}, {}
        for line in read(FABRIC + "stats").decode().splitlines():
            one = fields(line)
            if line.startswith("port="):
                self.ports[one["port"], one["to"]] = one
            elif line.startswith("host="):
                self.hosts[one["host"]] = one
            elif line.startswith("switch="):
                self.switches[one["switch"]] = one
            else:
                self.fabric = one

    def sum(self, part, *keys):
        return sum(one[key] for one in getattr(self, part).values() for key in keys)

    def balance(self):
        """What was sent and is neither there, nor lost, nor under way."""
        return (self.sum("hosts", "tx_pkts") - self.sum("hosts", "rx_pkts", "rx_missed", "rx_crc_errors")
                - self.sum("ports", "drops", "lost", "rx_crc_errors") - self.sum("switches", "ttl_expired", "no_route")
                - self.fabric["in_flight"])


# --- The model, in picoseconds --------------------------------------------------------------

def wire_ps(length, rate_bps):
    """A frame on the wire, with the fabric's 16 bits of fraction."""
    return (max(length, 60) + OVERHEAD) * ((8 * 10**12 << 16) // rate_bps) >> 16


def path_ps(length, links):
    """From the first bit's departure to the last one's arrival; links: (rate_bps, ns until the next port)."""
    return sum(wire_ps(length, rate) + 1000 * max(ns, 1) for rate, ns in links)


def first_bit_ns(sent_ns, length, links):
    """The stamp of a NIC behind these links: when the first bit came in."""
    return (1000 * sent_ns + path_ps(length, links) - wire_ps(length, links[-1][0])) // 1000


class Port:
    """A switch's port and its buffer: what is dropped, what is marked, what departs when."""

    def __init__(self, rate_bps, room, ecn_bytes=0):
        self.rate_bps, self.room, self.ecn_bytes = rate_bps, room, ecn_bytes
        self.queue, self.free_ps, self.backlog = [], 0, 0
        self.departed, self.dropped, self.marked = [], [], []

    def run_until(self, now_ps):
        while self.queue and self.free_ps <= now_ps:
            self.depart(*self.queue.pop(0), self.free_ps)

    def depart(self, number, length, at_ps):
        self.backlog -= length
        self.free_ps = at_ps + wire_ps(length, self.rate_bps)
        self.departed.append((number, self.free_ps))

    def arrive(self, number, length, now_ps):
        self.run_until(now_ps)
        if not self.queue and self.free_ps <= now_ps:
            self.backlog += length
            self.depart(number, length, now_ps)
        elif length > self.room(self):
            self.dropped.append(number)
        else:
            self.backlog += length
            self.queue.append((number, length))
            if self.ecn_bytes and self.backlog > self.ecn_bytes:
                self.marked.append(number)

    def finish(self):
        self.run_until(1 << 80)
