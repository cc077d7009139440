# SPDX-License-Identifier: GPL-2.0
"""What happens now and again in the loop of stress_guest.py, at random: sysctls, faults, want of
memory, dumps and SOCK_DESTROY, reads of all statistics, lines that must be refused, NICs' clocks.
What sleeps or starts programs: stress_meddle.py."""

import contextlib
import signal
import socket
import struct

from clock import Netlink, Refused, attr, attrs
from guest import FABRIC, LOAD, monotonic_ns
from stress_kernel import PLAIN_TCP_MEM, SWIFT, TINY_TCP_MEM, TRACING, enter, read, remove, write

SOCK_DIAG_BY_FAMILY, SOCK_DESTROY, NETLINK_SOCK_DIAG = 20, 21, 4
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


class Events:
    """Of Stress: each method is one event."""

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
                "NIC_NS": monotonic_ns() + rng.choice((0, 0, 1000, -10**6, 10**12)) & (1 << 64) - 1,
                "HOST_NS": max(monotonic_ns() - rng.choice((0, 0, 10**6, -10**6, 10**10)), 0),
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
