#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""What an ACK costs in the kernel: the part of tests/bench/run that runs as root in a
guest whose clock counts instructions (scripts/vm --icount), and leaves its figures in
$VM_OUT/guest.json. How they are printed is run's business; what they mean is below.

Without --icount, times are times and "instructions" below are nanoseconds: of the emulator,
or of this machine under VM_ACCEL=kvm. Then only --beside-bpf is of use.

    h1 (sender) ---- r1 (router: 300 Mbit/s, 0.5 ms, ECN marks) ---- h2 (receiver)

The clock stands for instructions: 1 ns is one instruction, and idle time, which the
kernel accounts for, is taken off. There is one CPU, so a figure of the "stack" is all
that the guest executed: sender, router, receiver, system calls, this program.

stack: a transfer of a fixed size over an established connection, from the first write
until the receiver has closed, divided by the segments the sender received (tcp_info).
TSO is off, so data goes out in single segments.

inside: function_graph on the operations that TCP calls in the congestion control, and
nothing else (so that what they call pays no tracer), in a transfer of its own. The
tracer's own share of a duration is measured on null_lseek (two stores), and taken off.
Both ends run the congestion control, and calls at either end count.

beside BPF: the module's functions, as above, and the programs of bpf_swift by the kernel's
own account (bpf_stats_enabled), hook by hook. Both are means: of a program no more is known,
and what interrupts add is in proportion to the time spent. Taken off: the tracer's share
of the former, and of the latter the account's, measured on a program that does nothing.
TCP reaches struct_ops programs by a trampoline: a row of its own, by what a call of that
program costs without the account. How netfilter, tracepoints and cgroups get to either's
hooks is in the stack's figure only. Of some transfers in turns, the least disturbed one.
"""
import argparse
import ctypes
import json
import os
import re
import socket
import statistics
import struct
import subprocess
import sys
import time

MB = 1_000_000
TRACING = "/sys/kernel/tracing/"
CLONE_NEWNET = 0x40000000
PORT = 5300
# An emulated machine is slow, and so are its targets: they must be in reach, so that
# the window goes both ways.
SWIFT = ("target_policy=static", "base_target_ns=1500000", "endpoint_target_ns=4000000",
         "fs_range_ns=500000", "max_rtt_ns=1000000000")
# All operations that TCP may call for an ACK; the first is the one that each ACK takes.
OPERATIONS = {
    "swift": ("swift_cong_control", "swift_in_ack_event", "swift_min_tso_segs", "swift_set_state",
              "swift_ssthresh"),
    "cubic": ("cubictcp_cong_avoid", "cubictcp_acked", "cubictcp_cwnd_event", "cubictcp_state",
              "cubictcp_recalc_ssthresh"),
    "bbr": ("bbr_main", "bbr_cwnd_event", "bbr_set_state", "bbr_ssthresh"),
    "dctcp": ("dctcp_update_alpha", "tcp_reno_cong_avoid", "dctcp_cwnd_event", "dctcp_state",
              "dctcp_ssthresh"),
}
# What Swift does for an ACK elsewhere: the echo on packets out and in. (Its tracepoint
# probe is left out: the tracer cannot be relied on to hook what a tracepoint calls.)
HOOKS = ("swift_hook_in", "swift_hook_out")
PROBES = ("swift_probe", "swift_probe_old")
libc = ctypes.CDLL(None, use_errno=True)


def run(*argv):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"bench: {' '.join(argv)}: {done.stdout.strip()}")
    return done.stdout


def at(netns, *argv):
    return run("ip", "netns", "exec", netns, *argv)


def enter(netns):
    with open(f"/run/netns/{netns}") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET):
            sys.exit(f"bench: cannot enter {netns}: {os.strerror(ctypes.get_errno())}")


def build_topology(wire):
    run("modprobe", "-a", "veth", "sch_htb", "sch_fq_codel", "sch_netem", "sch_ingress", "cls_bpf",
        "tcp_bbr", "tcp_dctcp")
    for netns in ("h1", "r1", "h2"):
        run("ip", "netns", "add", netns)
        run("ip", "-n", netns, "link", "set", "lo", "up")
    at("r1", "sysctl", "-qw", "net.ipv4.ip_forward=1")
    for i, host in enumerate(("h1", "h2")):
        run("ip", "-n", host, "link", "add", "eth0", "type", "veth", "peer", "name", host, "netns", "r1")
        for netns, dev, last in ((host, "eth0", 2), ("r1", host, 1)):
            run("ip", "-n", netns, "addr", "add", f"10.0.{i}.{last}/24", "dev", dev)
            run("ip", "-n", netns, "link", "set", dev, "gso_max_segs", "1", "up")
        run("ip", "-n", host, "route", "add", "default", "via", f"10.0.{i}.1")
        run("tc", "-n", "r1", "qdisc", "add", "dev", host, "clsact")
        run("tc", "-n", "r1", "filter", "add", "dev", host, "ingress", "bpf", "direct-action",
            "object-file", wire, "section", "tc")
    for argv in ("root handle 1: htb default 1", "parent 1:1 fq_codel limit 100 ce_threshold 500us"):
        run("tc", "-n", "r1", "qdisc", "add", "dev", "h2", *argv.split())
        if argv.startswith("root"):
            run("tc", "-n", "r1", "class", "add", "dev", "h2", "parent", "1:", "classid", "1:1",
                "htb", "rate", "300mbit", "quantum", "1514")
    run("tc", "-n", "r1", "qdisc", "add", "dev", "h1", "root", "netem", "delay", "500us", "limit", "1000")


def idle_ns():
    with open("/proc/timer_list") as file:
        return int(re.search(r"\.idle_sleeptime\s*:\s*(\d+)", file.read()).group(1))


def sink(listener):
    peer, _ = listener.accept()
    buffer = bytearray(1 << 18)
    while peer.recv_into(buffer):
        pass
    os._exit(0)


def transfer(cc, size, window=0):
    """One transfer h1 -> h2: instructions and segments received, of the stack. A window
    is the receiver's: small enough, it leaves nothing to congestion control."""
    enter("h2")
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
    if window:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    listener.bind(("10.0.1.2", PORT))
    listener.listen()
    child = os.fork()
    if not child:
        sink(listener)
    enter("h1")
    sock = socket.socket()
    sock.settimeout(60)  # a transfer that stalls is a failure, not a wait
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
    sock.connect(("10.0.1.2", PORT))
    listener.close()
    data = bytes(1 << 16)

    idle = idle_ns()
    start = time.monotonic_ns()
    try:
        for _ in range(size // len(data)):
            sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        sock.recv(1)
    except TimeoutError:
        sys.exit(f"bench: a transfer with {cc} stalled\n" + at("h1", "ss", "-tin") + at("h2", "ss", "-tin"))
    spent = time.monotonic_ns() - start
    idle = idle_ns() - idle

    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 200)
    sock.close()
    os.waitpid(child, 0)
    return {"instructions": spent - idle, "acks": struct.unpack_from("I", info, 140)[0],
            "elapsed_ns": spent, "segments": struct.unpack_from("I", info, 156)[0],
            "retransmits": struct.unpack_from("I", info, 100)[0]}


def stack(cc, size, repeats, window=0):
    """Of the middle one of some transfers, and how far apart they are."""
    return digest([transfer(cc, size, window) for _ in range(repeats)])


def digest(runs):
    result = {"runs": runs}
    for what, count in (("per_ack", "acks"), ("per_segment", "segments")):
        each = [r["instructions"] / r[count] for r in runs]
        result[what] = {"median": statistics.median(each), "lowest": min(each), "highest": max(each)}
    return result


def trace_set(name, value):
    with open(TRACING + name, "w") as file:
        file.write(str(value))


def traced(functions, action):
    """The durations of these functions, by name, while action runs; and its result."""
    with open(TRACING + "available_filter_functions") as file:
        known = {line.split()[0] for line in file}
    functions = [f for f in functions if f in known]
    trace_set("tracing_on", 0)
    trace_set("set_ftrace_filter", "\n".join(functions) + "\n")
    trace_set("current_tracer", "function_graph")
    trace_set("trace", "")
    trace_set("tracing_on", 1)
    result = action()
    trace_set("tracing_on", 0)
    durations = {name: [] for name in functions}
    with open(TRACING + "trace") as file:
        for line in file:
            found = re.search(r"([\d.]+) us\s+\|\s+(\w+)(?: \[\w+\])?\(\);", line)
            if found and found.group(2) in durations:
                durations[found.group(2)].append(round(float(found.group(1)) * 1000))
    trace_set("current_tracer", "nop")
    return durations, result


def seek():
    with open("/dev/null", "rb", buffering=0) as file:
        number, lseek = file.fileno(), os.lseek
        start = time.monotonic_ns()
        for _ in range(3000):
            lseek(number, 0, 0)
        return (time.monotonic_ns() - start) / 3000


def summary(values):
    values = sorted(values)
    kept = values[:max(1, len(values) * 95 // 100)]  # the link's timers interrupt a few
    return {"n": len(values), "median": statistics.median(values), "mean": statistics.mean(kept),
            "p10": values[len(values) // 10], "p90": values[len(values) * 9 // 10]}


def inside(cc, size, tracer):
    durations, result = traced(OPERATIONS[cc] + HOOKS, lambda: transfer(cc, size))
    parts, median, mean, hooks = {}, 0, 0, 0
    for name, values in durations.items():
        if not values:
            continue
        part = summary(values)
        for key in ("median", "mean", "p10", "p90"):
            part[key] -= tracer
        part["per_ack"] = part["n"] / result["acks"]
        parts[name] = part
        if name in HOOKS:
            hooks += part["median"] * part["per_ack"]
            continue
        median += part["median"] * part["per_ack"]
        mean += part["mean"] * part["per_ack"]
    if OPERATIONS[cc][0] not in parts:
        sys.exit(f"bench: {cc}: {OPERATIONS[cc][0]} was not traced")
    return {"main": OPERATIONS[cc][0], "median": median, "mean": mean, "hooks": hooks, "operations": parts, "transfer": result}


class Loader:
    """The tests' loader of BPF programs, which lie in a cgroup that this program joins."""
    CGROUP = "/sys/fs/cgroup/bench"

    def __init__(self, loader, obj, *settings):
        os.makedirs(self.CGROUP, exist_ok=True)
        with open(self.CGROUP + "/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))
        self.process = subprocess.Popen((loader, "-c", self.CGROUP, obj) + settings, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.answer("ready")

    def answer(self, last):
        lines = []
        for line in self.process.stdout:
            if line.strip() == last:
                return lines
            lines.append(line.split())
            if line.startswith("error"):
                break
        sys.exit(f"bench: loader: {lines}")

    def costs(self):
        """By program: its type, calls, and what they took."""
        self.process.stdin.write("costs\n")
        self.process.stdin.flush()
        return {words[1]: (words[2], int(words[3]), int(words[4])) for words in self.answer("done") if words[0] == "cost"}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def bpf_stats(on):
    with open("/proc/sys/kernel/bpf_stats_enabled", "w") as file:
        file.write(str(int(on)))


def empty_program(loader, obj):
    """What the account of a program shows if it does nothing, and what a call of it costs."""
    seek()
    bare = min(seek() for _ in range(5))
    nothing = Loader(loader, obj)
    call = min(seek() for _ in range(5)) - bare
    bpf_stats(True)
    account = []
    for _ in range(5):
        before = nothing.costs()["nothing"]
        seek()
        after = nothing.costs()["nothing"]
        account.append((after[2] - before[2]) / (after[1] - before[1]))
    bpf_stats(False)
    nothing.close()
    return {"account": min(account), "call": call}


def hook_rows(calls, result):
    """calls: (number, sum) by name; what an ACK costs by hook, and in all."""
    rows = {name: {"calls": n / result["acks"], "each": total / n, "per_ack": total / result["acks"]}
            for name, (n, total) in calls.items() if n}
    return {"hooks": rows, "per_ack": sum(row["per_ack"] for row in rows.values()), "transfer": result}


def module_hooks(size, tracer):
    durations, result = traced(OPERATIONS["swift"] + HOOKS + PROBES, lambda: transfer("swift", size))
    return hook_rows({name: (len(values), sum(values) - len(values) * tracer)
                      for name, values in durations.items()}, result)


def program_hooks(programs, size, empty):
    before = programs.costs()
    bpf_stats(True)
    result = transfer("bpf_swift", size)
    bpf_stats(False)
    calls, trampolines = {}, 0
    for name, (kind, n, total) in programs.costs().items():
        n, total = n - before[name][1], total - before[name][2]
        calls[name] = (n, total - n * empty["account"])
        trampolines += n if kind == "struct_ops" else 0
    return hook_rows(calls | {"trampolines": (trampolines, trampolines * empty["call"])}, result)


def beside_bpf(args, size, set_swift):
    tracer = summary(traced(("null_lseek",), seek)[0]["null_lseek"])["median"]
    empty = empty_program(args.loader, args.nothing)
    # With time to spare: where the one CPU is busy throughout, packets meet in other batches.
    run("tc", "-n", "r1", "class", "change", "dev", "h2", "parent", "1:", "classid", "1:1", "htb", "rate", "100mbit",
        "quantum", "1514")
    for netns in ("h1", "h2"):  # as the module does by itself
        for route in at(netns, "ip", "route", "show").splitlines():
            run("ip", "-n", netns, "route", "change", *route.split(), "quickack", "1")
    stacks, hooks = {"swift": [], "bpf_swift": []}, {"swift": [], "bpf_swift": []}
    for _ in range(args.repeats):
        run("insmod", args.module)
        set_swift(*SWIFT, "echo=1")
        stacks["swift"].append(transfer("swift", size))
        hooks["swift"].append(module_hooks(size, tracer))
        run("rmmod", "tcp_swift")
        programs = Loader(args.loader, args.bpf, "target_policy=0", *SWIFT[1:])
        stacks["bpf_swift"].append(transfer("bpf_swift", size))
        hooks["bpf_swift"].append(program_hooks(programs, size, empty))
        programs.close()
    result = {cc: min(each, key=lambda r: r["per_ack"]) | {"stack": digest(stacks[cc]), "runs": [r["per_ack"] for r in each]}
              for cc, each in hooks.items()}
    programs = {name: row for name, row in result["bpf_swift"]["hooks"].items() if name != "trampolines"}
    everywhere = sum(row["per_ack"] + row["calls"] * empty["call"] for row in programs.values())
    return result | {"empty": empty, "tracer": tracer, "ratio_trampolines_everywhere": everywhere / result["swift"]["per_ack"],
                     "ratio": result["bpf_swift"]["per_ack"] / result["swift"]["per_ack"],
                     "stack_ratio": result["bpf_swift"]["stack"]["per_ack"]["median"] / result["swift"]["stack"]["per_ack"]["median"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--module", required=True)
    parser.add_argument("--wire", required=True)
    parser.add_argument("--bpf", required=True, help="bpf_swift.bpf.o")
    parser.add_argument("--nothing", required=True, help="nothing.bpf.o")
    parser.add_argument("--loader", required=True)
    parser.add_argument("--beside-bpf", metavar="NAME", help="nothing but this, into NAME.json")
    parser.add_argument("--megabytes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    size, repeats = args.megabytes * MB, args.repeats

    build_topology(args.wire)
    trace_set("buffer_size_kb", 8192)
    trace_set("max_graph_depth", 1)
    transfer("cubic", size)  # addresses resolved, caches of the emulator filled
    began = time.monotonic()

    def say(text):
        print(f"guest: {text}", flush=True)

    def set_swift(*settings):
        for netns in ("h1", "h2"):
            at(netns, "sysctl", "-qw", *("net.ipv4.tcp_swift." + setting for setting in settings))

    def save(name, figures):
        with open(f"{os.environ['VM_OUT']}/{name}.json", "w") as file:
            json.dump(figures, file)

    if args.beside_bpf:
        save(args.beside_bpf, beside_bpf(args, size, set_swift))
        return

    # A small window keeps the queue short, so nothing is lost and the packets are alike.
    # In turns, so that what drifts drifts for all.
    others = {"unloaded": [], "loaded": [], "echo": []}

    def bystander(state):
        others[state].append(transfer("cubic", size, 32768))

    for _ in range(args.rounds):
        bystander("unloaded")
        run("insmod", args.module)
        bystander("loaded")
        set_swift("echo=1")
        bystander("echo")
        set_swift("echo=0")
        run("rmmod", "tcp_swift")
    say("bystanders measured")

    tracer = summary(traced(("null_lseek",), seek)[0]["null_lseek"])
    ccs = {}
    run("insmod", args.module)
    set_swift(*SWIFT, "echo=1")
    for cc in OPERATIONS:
        if cc != "swift" and os.path.exists("/sys/module/tcp_swift"):
            set_swift("echo=0")
            ccs["swift, echo=0"] = {"stack": stack("swift", size, repeats)}
            run("rmmod", "tcp_swift")
        ccs[cc] = {"stack": stack(cc, size, repeats), "inside": inside(cc, size, tracer["median"])}
    say(f"all measured, {time.monotonic() - began:.1f} s of the guest's clock")

    save("guest", {"kernel": os.uname().release, "megabytes": args.megabytes, "tracer": tracer,
                   "congestion_controls": ccs, "bystander": {state: digest(runs) for state, runs in others.items()}})


main()
