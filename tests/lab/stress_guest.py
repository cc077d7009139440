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

Here are the loop and the order of a round; what is done lies by topic beside it:

    stress_sockets.py    flows: connections, listeners, labload's
    stress_events.py     what happens now and again in the loop
    stress_meddle.py     the second thread
    stress_modules.py    modules that come and go, allocations that fail
    stress_end.py        closing, and what must not remain
    stress_kernel.py     files, namespaces and modules, for all of them
"""

import collections
import heapq
import json
import os
import random
import resource
import select
import socket
import subprocess
import sys
import threading
import time

import guest
from guest import LOAD, monotonic_ns
from stress_end import End
from stress_events import Events
from stress_kernel import TCP_CONGESTION, enter, read, this_ns, write
from stress_meddle import Meddler
from stress_modules import Modules
from stress_sockets import Sockets


class Stress(Sockets, Events, Meddler, Modules, End):
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
        heapq.heappush(self.queue, (monotonic_ns() + max(int(delay_ns), 1), self.ticket, run))

    def every(self, mean_ns, run):
        """Until the loop is over, at random."""
        def again():
            run()
            self.at(self.rng.expovariate(1 / mean_ns) * self.pace, again)
        self.at(self.rng.expovariate(1 / mean_ns), again)

    def loop(self, for_ns):
        end_ns, rounds = monotonic_ns() + for_ns, 0
        while (now := monotonic_ns()) < end_ns:
            while self.queue and self.queue[0][0] <= now:
                heapq.heappop(self.queue)[2]()
            until = min(self.queue[0][0] if self.queue else end_ns, end_ns)
            found = self.epoll.poll(max(until - monotonic_ns(), 0) / 1e9, 256)
            for fd, events in found:
                if fd in self.conns:
                    self.conns[fd].ready(events)
            rounds = rounds + 1 if monotonic_ns() == now else 0
            if rounds > 100000:  # work takes no virtual time: this would never end
                raise RuntimeError(f"nothing moves: {[(fd, events, self.conns.get(fd)) for fd, events in found[:5]]}")

    def run(self, *argv):
        done = subprocess.run(argv, capture_output=True, check=False)
        return done.returncode == 0

    def each_host(self, path, values):
        """Written, one for all or one each; what was there."""
        before = []
        for host, fd in self.ns.items():
            enter(fd)
            before.append(read(path).strip())
            write(path, values if isinstance(values, str) else values[host])
        enter(self.home)
        return before

    def play(self):
        plan, began = self.plan, monotonic_ns()
        say = lambda what: print(f"stress: {(monotonic_ns() - began) / 1e9:.3f} s: {what}: {dict(self.count)}", flush=True)
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
        self.count["virtual_ns"] = monotonic_ns() - began
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
