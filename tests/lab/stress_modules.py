# SPDX-License-Identifier: GPL-2.0
"""Modules that come and go in stress_guest.py, and allocations that fail in what they do with no
packet at hand. The loop stands still meanwhile, or has other laws' traffic alone."""

import contextlib
import os
import random
import time

from clock import Netlink, Refused
from guest import SYS_FINIT_MODULE, libc, monotonic_ns
from stress_kernel import SWIFT, enter, insert, read, remove, unshare, write


class Modules:
    """Of Stress: storm() and fail_allocations()."""

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
                teller.set(IFINDEX=1, NIC_NS=0, HOST_NS=monotonic_ns(), RATIO_Q32=1 << 32, ERROR_NS=0, VALID_MS=1000)
                teller.dump()
                teller.delete(1)
        self.failing(rng, told, 2)
        teller.close()
        enter(self.home)
        self.failing(rng, unshare, 60)
        enter(self.home)
