# SPDX-License-Identifier: GPL-2.0
"""How all goes away again in stress_guest.py: waiting for it, and finding what remains (flows in the
gauges, sockets, namespaces, modules, leaked memory)."""

import contextlib
import errno
import os
import subprocess
import time

from guest import FABRIC, LOAD, libc
from stress_kernel import PLAIN_TCP_MEM, TRACING, enter, read, remove, this_ns, unshare, write

OURS = ("tcp_swift", "timely", "gcn", "fast", "labload")
SLABS = ("net_namespace", "TCP", "TCPv6", "request_sock_TCP", "request_sock_TCPv6", "tw_sock_TCP", "tw_sock_TCPv6")


def module_refs():
    return {line.split()[0]: int(line.split()[2]) for line in read("/proc/modules").splitlines()}


class End:
    """Of Stress: close_all(), then leave()."""

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
