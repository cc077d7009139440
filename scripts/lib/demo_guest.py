#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The measurements of `make demo`; runs as root inside a guest, prints progress, and
leaves them in $VM_OUT/measured.json. What they look like is demo_report.py's business.

    s1 (sender) ---.                 100 Mbit/s, 200 KB buffer,
                    r (router) ====== ECN marks above 20 KB ====> rx (receiver)
    s2 (sender) ---'

Part 1: each congestion control in turn, interleaved and repeated: 4 iperf3 streams from
each sender; meanwhile s1 pings rx through the same queue every 4 ms: what anybody else
on that link feels. Part 2: Swift alone, once with that link as the bottleneck and once
with a receiving host that is slow to process packets (slow_firewall.py), while
`swiftctl flows` tells where the delay is. With --swiftd, s1 then also runs swiftd; the
host is given some time to look at it, with the link as the bottleneck.

Of Swift's parameters none is set, but for the echo, which is what `swiftctl enable --echo`
switches on. The guest's clock counts the instructions of its one CPU (scripts/vm --icount):
it is a host of 1 ns an instruction, however busy the machine is that emulates it.
"""
import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time

RATE_MBIT = 100
BUFFER_BYTES = 200_000
MARK_BYTES = 20_000
MTU = 4096
STREAMS_PER_SENDER = 4
SENDERS = ("s1", "s2")
PACKET_US = 600  # that a slow host looks at each, unless told otherwise
SWIFT = {"echo": 1}


def say(text):
    print(text, flush=True)


def run(*argv, **kwargs):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs)
    if done.returncode:
        sys.exit(f"demo: {' '.join(argv)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def at(netns, *argv):
    return ("ip", "netns", "exec", netns) + argv


def build_topology(wire):
    run("modprobe", "-a", "veth", "sch_tbf", "sch_red", "sch_ingress", "cls_bpf", "nf_tables", "nft_queue", "nfnetlink_queue",
        "tcp_dctcp", "tcp_bbr", "tcp_diag")
    for netns in ("r", "rx", *SENDERS):
        run("ip", "netns", "add", netns)
        run("ip", "-n", netns, "link", "set", "lo", "up")
    run(*at("r", "sysctl", "-qw", "net.ipv4.ip_forward=1"))
    for i, netns in enumerate((*SENDERS, "rx")):
        run("ip", "-n", netns, "link", "add", "eth0", "mtu", str(MTU), "type", "veth",
            "peer", "name", "to-" + netns, "mtu", str(MTU), "netns", "r")
        for where, dev, addr in ((netns, "eth0", f"10.0.{i}.2/24"), ("r", "to-" + netns, f"10.0.{i}.1/24")):
            run("ip", "-n", where, "addr", "add", addr, "dev", dev)
            run("ip", "-n", where, "link", "set", dev, "up")
            # Packets as on a wire: a 64 KB burst at once would hide the queue.
            run(*at(where, "ethtool", "-K", dev, "gso", "off", "tso", "off", "gro", "off"))
        run("ip", "-n", netns, "route", "add", "default", "via", f"10.0.{i}.1")
        run(*at("r", "tc", "qdisc", "add", "dev", "to-" + netns, "clsact"))
        run(*at("r", "tc", "filter", "add", "dev", "to-" + netns, "ingress", "bpf", "direct-action",
                "object-file", wire, "section", "tc"))
    for netns in (*SENDERS, "rx"):
        run(*at(netns, "sysctl", "-qw", *(f"net.ipv4.tcp_swift.{k}={v}" for k, v in SWIFT.items())))


RECEIVER = "10.0.2.2"


def swiftd_start(program, port, ccs):
    """In s1, reachable from the host (scripts/vm --forward)."""
    address = os.environ["VM_ADDRESS"]
    run("ip", "link", "set", "eth0", "netns", "s1", "name", "host")
    run("ip", "-n", "s1", "addr", "add", address + "/24", "dev", "host")
    run("ip", "-n", "s1", "link", "set", "host", "up")
    process = subprocess.Popen(at("s1", program, f"--http.listen={address}:{port}", "--http.allow_anonymous=true",
                                  "--collect.ccs=" + ccs, "--collect.netns=own",
                                  "--collect.prefixes=" + RECEIVER + "/24"),
                               stderr=subprocess.DEVNULL)
    while not run(*at("s1", "ss", "-Hltn", f"sport = :{port}")):
        if process.poll() is not None:
            sys.exit(f"demo: swiftd ended with exit status {process.returncode}")
        time.sleep(0.05)
    return process


def look_run(seconds):
    """Swift's flows over the slow link, until the host has looked."""
    look, looked = (os.path.join(os.environ["VM_OUT"], name) for name in ("look", "looked"))
    streams = Streams("swift", seconds, 1)
    time.sleep(8)  # something to look at
    with open(look, "w", encoding="ascii"):
        pass
    end = time.monotonic() + seconds - 6
    while not os.path.exists(looked) and time.monotonic() < end:
        time.sleep(0.2)
    streams.cut()


def bottleneck_on():
    run(*at("r", "tc", "qdisc", "add", "dev", "to-rx", "root", "handle", "1:", "tbf", "rate",
            f"{RATE_MBIT}mbit", "burst", "16kb", "limit", str(BUFFER_BYTES)))
    # A DCTCP switch: above MARK_BYTES mark who understands, drop others only when full.
    run(*at("r", "tc", "qdisc", "add", "dev", "to-rx", "parent", "1:1", "handle", "10:", "red",
            "limit", str(BUFFER_BYTES), "min", str(MARK_BYTES), "max", str(MARK_BYTES + 1),
            "avpkt", "1500", "burst", "21", "probability", "1", "bandwidth", f"{RATE_MBIT}mbit",
            "ecn", "nodrop"))


def bottleneck_off():
    run(*at("r", "tc", "qdisc", "del", "dev", "to-rx", "root"))


def bottleneck_counts():
    for qdisc in json.loads(run(*at("r", "tc", "-s", "-j", "qdisc", "show", "dev", "to-rx"))):
        if qdisc["kind"] == "tbf":
            return qdisc["packets"], qdisc["drops"]
    sys.exit("demo: the bottleneck is gone")


def slow_host_start(packet_us):
    run(*at("rx", "nft", "add table inet slow; add chain inet slow in { type filter hook input priority 0; }; "
            "add rule inet slow in tcp dport 5201-5202 queue num 0"))
    process = subprocess.Popen(at("rx", sys.executable, os.path.join(os.path.dirname(__file__), "slow_firewall.py"),
                                  str(packet_us)))
    while not run(*at("rx", "cat", "/proc/net/netfilter/nfnetlink_queue")):
        if process.poll() is not None:
            sys.exit(f"demo: slow_firewall.py ended with exit status {process.returncode}")
        time.sleep(0.05)
    return process


def jain(shares):
    return sum(shares) ** 2 / (len(shares) * sum(x * x for x in shares)) if any(shares) else 0.0


class Streams:
    """iperf3 from every sender to a server of its own, all with one congestion control."""

    def __init__(self, cc, seconds, warmup):
        # By sysctl, on both ends, as an operator would. iperf3's -C chooses only after the
        # handshake, when Swift cannot negotiate its echo any more, nor DCTCP ECN.
        for netns in (*SENDERS, "rx"):
            run(*at(netns, "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={cc}"))
        ports = {netns: str(5201 + i) for i, netns in enumerate(SENDERS)}
        self.servers = [subprocess.Popen(at("rx", "iperf3", "-s", "-1", "-p", port),
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for port in ports.values()]
        while run(*at("rx", "ss", "-Hltn")).count(":52") < len(ports):
            time.sleep(0.05)
        self.clients = [subprocess.Popen(
            at(netns, "iperf3", "-c", RECEIVER, "-p", port, "-P", str(STREAMS_PER_SENDER),
               "-t", str(seconds), "-O", str(warmup), "-J", "-i", "0"),
            stdout=subprocess.PIPE, text=True) for netns, port in ports.items()]

    def end(self):
        results = [json.loads(client.communicate(timeout=120)[0]) for client in self.clients]
        for server in self.servers:
            server.wait(timeout=30)
        for result in results:
            if "error" in result:
                sys.exit(f"demo: iperf3: {result['error']}")
        return [result["end"] for result in results]

    def cut(self):
        for process in (*self.clients, *self.servers):
            process.terminate()
        for process in (*self.clients, *self.servers):
            process.communicate(timeout=30)
        # What they had not sent yet would be the next run's.
        end = time.monotonic() + 20
        while time.monotonic() < end and any(run(*at(netns, "ss", "-Htn", "dst", RECEIVER)) for netns in SENDERS):
            time.sleep(0.1)


def ping_start(seconds):
    return subprocess.Popen(at("s1", "ping", "-n", "-i", "0.004", "-w", str(seconds), RECEIVER),
                            stdout=subprocess.PIPE, text=True)


def ping_end(process):
    out, _ = process.communicate(timeout=120)
    return [round(float(ms) * 1e6) for ms in re.findall(r"time=([0-9.]+) ms", out)]


def one_run(cc, seconds, warmup):
    sent0, dropped0 = bottleneck_counts()
    streams = Streams(cc, seconds, warmup)
    time.sleep(warmup + 0.3)
    rtt_ns = ping_end(ping_start(seconds - 1))
    ends = streams.end()
    sent1, dropped1 = bottleneck_counts()
    offered = sent1 - sent0 + dropped1 - dropped0
    rates = [stream["receiver"]["bits_per_second"] for end in ends for stream in end["streams"]]
    return {
        "cc": cc,
        "goodput_bps": sum(rates),
        "jain": jain(rates),
        "rates_bps": rates,
        "retransmits": sum(end["sum_sent"]["retransmits"] for end in ends),
        "loss_ratio": (dropped1 - dropped0) / offered if offered else 0.0,
        "rtt_samples_ns": rtt_ns,
    }


def swift_flows(swiftctl, netns):
    out = subprocess.run([swiftctl, "flows", "--json", "--netns", netns], stdout=subprocess.PIPE,
                         text=True, check=False).stdout
    # iperf3's control connections carry little; of the streams even one that is held at a
    # fraction of a packet sends more than five. A flow that is just closing has no Swift
    # record any more.
    return [f for f in json.loads(out)["flows"] if f["bytes_acked"] > 5 * MTU and "fabric_ns" in f]


def split_run(swiftctl, seconds):
    started = time.monotonic()
    streams = Streams("swift", seconds, 1)
    samples = []
    while time.monotonic() < started + seconds + 1:
        time.sleep(0.5)
        for netns in SENDERS:
            for flow in swift_flows(swiftctl, netns):
                samples.append({
                    "t_s": round(time.monotonic() - started, 3),
                    "flow": f"{netns}:{flow['local_port']}",
                    **{key: flow[key] for key in ("fabric_ns", "endpoint_ns", "target_ns", "fcwnd", "ecwnd")},
                })
    goodput_bps = sum(s["receiver"]["bits_per_second"] for end in streams.end() for s in end["streams"])
    samples = [s for s in samples if s["t_s"] > 1.5]
    if not samples:
        sys.exit("demo: swiftctl saw no Swift flow while they ran")
    return {"goodput_bps": goodput_bps, "samples": samples}


def show_split(name, result):
    by_flow = {}
    for sample in result["samples"]:
        by_flow.setdefault(sample["flow"], []).append(sample)
    say(f"\n{name} ({result['goodput_bps'] / 1e6:.0f} Mbit/s)")
    say(f"  {'flow':<10} {'fabric us':>10} {'host us':>10} {'window pkts':>12}   limited by")
    for flow, samples in sorted(by_flow.items()):
        fabric, host, fcwnd, ecwnd = (statistics.median(s[k] for s in samples)
                                      for k in ("fabric_ns", "endpoint_ns", "fcwnd", "ecwnd"))
        say(f"  {flow:<10} {fabric / 1000:>10.0f} {host / 1000:>10.0f} {min(fcwnd, ecwnd):>12.2f}   "
            f"{'fabric' if fcwnd <= ecwnd else 'host'}")


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--module", required=True)
    args.add_argument("--swiftctl", required=True)
    args.add_argument("--wire", required=True, help="tests/vm/wire.bpf.c, compiled")
    args.add_argument("--swiftd", help="run it, too")
    args.add_argument("--port", type=int, help="where the host finds it")
    args.add_argument("--ccs", default="swift,cubic,dctcp,bbr")
    args.add_argument("--repeats", type=int, default=3)
    args.add_argument("--seconds", type=int, default=4)
    args.add_argument("--packet-us", type=int, default=PACKET_US, help="that a slow host looks at each (default %(default)s)")
    args = args.parse_args()
    ccs = args.ccs.split(",")

    run("insmod", args.module)
    build_topology(args.wire)
    # What the first namespace allows, the others may choose.
    run("sysctl", "-qw", "net.ipv4.tcp_allowed_congestion_control=reno " + " ".join(ccs))
    warm = ping_end(ping_start(1))
    say(f"unloaded round trip: median {statistics.median(warm) / 1000:.0f} us")

    bottleneck_on()
    runs = []
    total = args.repeats * len(ccs)
    for repeat in range(args.repeats):
        # Rotate, so that no one is always first or always behind the same other.
        for cc in ccs[repeat % len(ccs):] + ccs[:repeat % len(ccs)]:
            result = one_run(cc, args.seconds, 1)
            runs.append({"repeat": repeat, **result})
            rtt = statistics.median(result["rtt_samples_ns"]) / 1000 if result["rtt_samples_ns"] else 0
            say(f"  run {len(runs):>2} of {total}: {cc:<6} {result['goodput_bps'] / 1e6:>6.1f} Mbit/s, "
                f"median RTT {rtt:>6.0f} us, {result['retransmits']} retransmits")

    splits = {}
    say("\nSwift's view of the same link: where is the delay?")
    if args.swiftd:
        swiftd = swiftd_start(args.swiftd, args.port, args.ccs)
        say(f"swiftd shows all of this, live: http://127.0.0.1:{args.port}/")
    splits["fabric"] = split_run(args.swiftctl, args.seconds)
    show_split("the link is the bottleneck", splits["fabric"])
    if args.swiftd:
        look_run(40)
    bottleneck_off()
    slow_host = slow_host_start(args.packet_us)
    splits["host"] = split_run(args.swiftctl, args.seconds)
    slow_host.terminate()
    slow_host.wait()
    show_split("the receiving host is the bottleneck", splits["host"])

    if args.swiftd:
        swiftd.terminate()
        if swiftd.wait(timeout=30):
            sys.exit(f"demo: swiftd ended with exit status {swiftd.returncode}")
    measured = {
        "kernel": platform.release(),
        "unloaded_rtt_ns": round(statistics.median(warm)),
        "parameters": {
            "rate_bps": RATE_MBIT * 1_000_000, "buffer_bytes": BUFFER_BYTES, "mark_bytes": MARK_BYTES,
            "mtu_bytes": MTU, "streams": STREAMS_PER_SENDER * len(SENDERS), "seconds": args.seconds,
            "warmup_seconds": 1, "slow_host_us_per_packet": args.packet_us, "swift": SWIFT,
        },
        "runs": runs,
        "splits": splits,
    }
    with open(os.path.join(os.environ["VM_OUT"], "measured.json"), "w", encoding="ascii") as out:
        json.dump(measured, out)


if __name__ == "__main__":
    main()
