#!/usr/bin/python3 -B
# SPDX-License-Identifier: GPL-2.0
"""The lab's guest, from its first process on: builds what a job file describes, runs
the load (or a command), and leaves what was measured in the job's directory.

Runs as init of the lab's kernel: guest.py JOBDIR, where JOBDIR/job.json has

    modules       paths, in order
    sysctls       {name: value} of the whole kernel and of each host
    hosts         [{"id": N, "args": "key=value ...", "sysctls": {name: value}}]
    switches      ["id=N key=value ..."]
    links         ["a=hN b=sN ..."]
    clocks        hosts whose NICs' clocks JOBDIR/swiftctl tells the module of
    truth         if there: what labload knows of it is read, too
    load          lines for labload, but for connect, go and measure
    first_port    of each host's connections
    go_ns         when the load starts, CLOCK_MONOTONIC
    measure       line for labload without its verb; with its numbers again as
    start_ns      of the measurement, from go
    faults        [[at_ns from go, "fabric line"]]
    host_commands [command], each run in each host's namespace
    command       argv, instead of a load; runs with the hosts' names in /run/netns

Of the machine's file system JOBDIR alone can be written, as /mnt; /run is the guest's own. A job that
went wrong leaves the reason in JOBDIR/error; one that ended well has JOBDIR/done.
"""

import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
RB_POWER_OFF = 0x4321FEDC
MS_BIND = 4096
PR_SET_TIMERSLACK = 29
SYS_FINIT_MODULE = 313  # of x86-64
SYSLOG_ACTION_READ_ALL, SYSLOG_ACTION_SIZE_BUFFER = 3, 10
SIOCSIFADDR, SIOCSIFNETMASK, SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCGIFINDEX = 0x8916, 0x891C, 0x8913, 0x8914, 0x8933
IFF_UP, IFF_NOARP, IFF_RUNNING = 1, 128, 64


class Failure(Exception):
    """What stopped the job, in one line."""


def check(result, what):
    if result < 0:
        raise Failure(f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(kind, source, target, options="", flags=0):
    os.makedirs(target, exist_ok=True) if kind else None
    check(libc.mount(source.encode(), target.encode(), kind and kind.encode(), flags, options.encode()),
          f"mount {target}")


def write(path, text):
    """One write(2): files of the kernel take a line at a time."""
    try:
        fd = os.open(path, os.O_WRONLY)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)
    except OSError as error:
        raise Failure(f"{path}: {text}: {error.strerror}") from None


def read(path):
    """By read(2) alone: open() asks whether it is a terminal, and an error takes virtual time."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return b"".join(iter(lambda: os.read(fd, 1 << 20), b""))
    finally:
        os.close(fd)


# Of a NIC that is yet to come: no solicitations, of which a host sends some for minutes, and no address that
# asks who else has it. A switch routes to hosts alone, and what no host asked for would be a loss nobody meant.
QUIET = {f"net.ipv6.conf.default.{name}": value for name, value in (
    ("router_solicitations", 0), ("accept_ra", 0), ("accept_dad", 0), ("dad_transmits", 0), ("addr_gen_mode", 1))}
FABRIC, LOAD = "/sys/kernel/debug/labfab/", "/sys/kernel/debug/labload/"
SWIFTCTL, CLOCK_KNOWN_NS = "/mnt/swiftctl", 2 * 10**9


def set_sysctls(values):
    for name, value in values.items():
        write("/proc/sys/" + name.replace(".", "/"), str(value))


def device_up(name, address, mask):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        ifname = name.encode()

        def inet(request, address):
            fcntl.ioctl(s, request, struct.pack("16sHH4s8x", ifname, socket.AF_INET, 0, socket.inet_aton(address)))

        if address:
            inet(SIOCSIFADDR, address)
            inet(SIOCSIFNETMASK, mask)
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sH14x", ifname, IFF_UP | IFF_RUNNING | (IFF_NOARP if address else 0)))
        index = struct.unpack("16si12x", fcntl.ioctl(s, SIOCGIFINDEX, struct.pack("16s16x", ifname)))[1]
    return index


def is_running(name):
    """The carrier is up and the kernel has taken notice."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        flags = fcntl.ioctl(s, SIOCGIFFLAGS, struct.pack("16s16x", name.encode()))
    return struct.unpack("16sH14x", flags)[1] & IFF_RUNNING


def add_ipv6(index, number):
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s:
        address = struct.pack(">IIII", 0xFD000000, 0, 0, number + 1)
        fcntl.ioctl(s, SIOCSIFADDR, struct.pack("16sIi", address, 64, index))


def make_host(host, sysctls, commands):
    """A namespace with a NIC, found by `ip netns` under the name hN."""
    number = host["id"]
    check(libc.unshare(CLONE_NEWNET), "unshare")
    path = f"/run/netns/h{number}"
    os.close(os.open(path, os.O_CREAT))
    mount(None, "/proc/self/ns/net", path, flags=MS_BIND)
    set_sysctls(QUIET)
    write(FABRIC + "control", f"host id={number} {host.get('args', '')}")
    set_sysctls({**sysctls, **host.get("sysctls", {})})
    address = 0x0A000001 + number
    device_up("lo", None, None)
    index = device_up("eth0", socket.inet_ntoa(struct.pack(">I", address)), "255.0.0.0")
    add_ipv6(index, number)
    for command in commands:
        result = subprocess.run(command.split(), capture_output=True, text=True, check=False)
        if result.returncode:
            raise Failure(f"h{number}: {command}: {result.stderr.strip()}")


def insert(path, *parameters):
    """As insmod does. A program less to start: here, starting one takes longer than most of what it does."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from None
    check(libc.syscall(SYS_FINIT_MODULE, fd, " ".join(parameters).encode(), 0), f"{path}: could not insert module")
    os.close(fd)


def kernel_log():
    """As dmesg has it."""
    write("/sys/module/printk/parameters/time", "Y")
    log = ctypes.create_string_buffer(max(libc.klogctl(SYSLOG_ACTION_SIZE_BUFFER, None, 0), 1))
    length = libc.klogctl(SYSLOG_ACTION_READ_ALL, log, len(log))
    return b"".join(line.partition(b">")[2] if line.startswith(b"<") else line
                    for line in log.raw[:max(length, 0)].splitlines(keepends=True))


def build(job):
    write("/proc/sys/kernel/printk", "4")
    for module in job["modules"]:
        insert(*module.split())
    os.makedirs("/run/netns", exist_ok=True)
    set_sysctls(job.get("sysctls", {}))
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    for host in job["hosts"]:
        make_host(host, job.get("host_sysctls", {}), job.get("host_commands", []))
    check(libc.setns(home, CLONE_NEWNET), "setns")
    for switch in job.get("switches", []):
        write(FABRIC + "control", "switch " + switch)
    for link in job["links"]:
        write(FABRIC + "control", "link " + link)
    write(FABRIC + "control", "start")
    for host in job["hosts"]:
        with open(f"/run/netns/h{host['id']}", "rb") as ns:
            check(libc.setns(ns.fileno(), CLONE_NEWNET), "setns")
        while not is_running("eth0"):
            time.sleep(0.001)
    check(libc.setns(home, CLONE_NEWNET), "setns")
    os.close(home)


class Clocks:
    """`swiftctl clock run` of each host, for its NIC; from when all their lines are known to the end."""

    def __init__(self, job):
        self.job, self.running = job, {}

    def __enter__(self):
        try:
            for host in self.job.get("clocks", []):
                self.start(host)
            for host in self.running:
                self.wait(host)
        except Failure:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait()

    @staticmethod
    def inside(host, *argv):
        """As `ip` has it, with the host's own /sys."""
        return ["ip", "netns", "exec", f"h{host}", *argv]

    def start(self, host):
        with open(f"/run/clock-h{host}", "wb") as said:
            self.running[host] = subprocess.Popen(self.inside(host, SWIFTCTL, "clock", "run", "--iface", "eth0"),
                                                  stdin=subprocess.DEVNULL, stdout=said, stderr=said)

    def wait(self, host):
        until_ns = monotonic_ns() + CLOCK_KNOWN_NS
        while not self.is_known(host):
            said = read(f"/run/clock-h{host}").decode(errors="replace").strip()
            if self.running[host].poll() is not None:
                raise Failure(f"h{host}: swiftctl clock run ended: {said}")
            if monotonic_ns() > until_ns:
                raise Failure(f"h{host}: no line of eth0's clock in {CLOCK_KNOWN_NS} ns: {said}")
            time.sleep(0.1)

    def is_known(self, host):
        shown = subprocess.run(self.inside(host, SWIFTCTL, "clock", "show", "--json"), stdin=subprocess.DEVNULL,
                               capture_output=True, check=False)
        try:
            return any(nic["iface"] == "eth0" and nic["line"] and nic["line"]["valid_ms"] > 0
                       for nic in json.loads(shown.stdout)["nics"])
        except (ValueError, KeyError, TypeError):
            return False


def monotonic_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def sleep_until(at_ns):
    delay_ns = at_ns - monotonic_ns()
    if delay_ns > 0:
        time.sleep(delay_ns / 1e9)


def tell_progress(job, out):
    """How much of the virtual time is over, now and then. Always, so that runs are alike."""
    end_ns = int(job["measure"].split("stop_ns=")[1].split()[0])
    fd = os.open(f"{out}/progress", os.O_WRONLY | os.O_CREAT, 0o644)
    for percent in range(0, 100, 2):
        sleep_until(job["go_ns"] + end_ns * percent // 100)
        os.pwrite(fd, f"{percent / 100:.2f}".encode(), 0)


def run_load(job, out):
    """What `wait` said; what the fabric had counted when the measurement started, and how late that was read.
    Whatever else takes time waits until it is over: while this process runs, the hosts do not."""
    for line in job["load"]:
        write(LOAD + "control", line)
    write(LOAD + "control", f"connect port={job['first_port']}")
    if monotonic_ns() >= job["go_ns"]:
        raise Failure(f"go_ns={job['go_ns']}: connections took until {monotonic_ns()}")
    write(LOAD + "control", "measure " + job["measure"])
    write(LOAD + "control", f"go at_ns={job['go_ns']}")
    threading.Thread(target=tell_progress, args=(job, out), daemon=True).start()
    start = {}
    events = sorted([[at, FABRIC, line] for at, line in job.get("faults", [])] + [[job["start_ns"], FABRIC, "reset"]])
    for at_ns, where, line in events:
        sleep_until(job["go_ns"] + at_ns)
        if line == "reset":
            start["fabric_start"] = read(FABRIC + "stats")
        write(where + "control", line)
        if line == "reset":
            start["reset_late"] = str(monotonic_ns() - job["go_ns"] - at_ns).encode()
            start["fabric_reset"] = read(FABRIC + "stats")
    return read(LOAD + "wait"), start


def counters(job):
    """What tells whether the lab was the limit, of all hosts together."""
    total = {}
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    for host in job["hosts"]:
        with open(f"/run/netns/h{host['id']}", "rb") as ns:
            check(libc.setns(ns.fileno(), CLONE_NEWNET), "setns")
        for name in ("snmp", "netstat", "tcp_swift"):
            try:
                lines = read(f"/proc/net/{name}").decode().splitlines()
            except OSError:
                continue
            if name == "tcp_swift":
                pairs = [line.split() for line in lines]
            else:
                pairs = [pair for keys, values in zip(lines[::2], lines[1::2])
                         for pair in zip(keys.split()[1:], values.split()[1:])]
            for key, value in pairs:
                key = key if name != "tcp_swift" else "swift_" + key
                total[key] = total.get(key, 0) + int(value)
    check(libc.setns(home, CLONE_NEWNET), "setns")
    total["SoftnetDropped"] = sum(int(line.split()[1], 16) for line in read("/proc/net/softnet_stat").decode().splitlines())
    return total


def since(before, after):
    return {key: after[key] - before.get(key, 0) for key in after}


def run(job, out):
    build(job)
    with Clocks(job):
        if "command" in job:
            status = subprocess.run(job["command"], check=False).returncode
            with open(f"{out}/status", "w", encoding="utf-8") as file:
                file.write(str(status))
        else:
            measure(job, out)


def measure(job, out):
    before = counters(job)
    wait, start = run_load(job, out)
    fabric = read(FABRIC + "stats")
    after = counters(job)
    files = {"wait": wait, "fabric": fabric, **start, "counters": json.dumps(since(before, after)).encode()}
    for name in ("flows", "groups", "messages", "samples", *(["truth"] if "truth" in job else [])):
        files[name] = read(LOAD + name)
    write(LOAD + "control", "stop")
    for name, content in files.items():
        with open(f"{out}/{name}", "wb") as file:
            file.write(content)


def main(out):
    out = os.path.realpath(out)  # while /proc is still the machine's own
    mount("proc", "proc", "/proc")
    mount("sysfs", "sysfs", "/sys")
    mount("debugfs", "debugfs", "/sys/kernel/debug")
    mount("devtmpfs", "devtmpfs", "/dev")
    mount("tmpfs", "tmpfs", "/run")
    mount("tmpfs", "tmpfs", "/var/lib")  # where swiftctl remembers
    mount("hostfs", "none", "/mnt", out)
    libc.prctl(PR_SET_TIMERSLACK, 1)  # or sleeps are 50 us late
    os.environ.update(PATH="/usr/sbin:/usr/bin:/sbin:/bin", HOME="/run", TMPDIR="/run")
    try:
        run(json.loads(read("/mnt/job.json")), "/mnt")
        end = "done"
    except Failure as failure:
        end, why = "error", str(failure)
    with open("/mnt/dmesg", "wb") as file:
        file.write(kernel_log())
    with open(f"/mnt/{end}", "w", encoding="utf-8") as file:
        file.write("" if end == "done" else why)
    libc.reboot(RB_POWER_OFF)


if __name__ == "__main__":
    main(sys.argv[1])
