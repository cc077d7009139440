# SPDX-License-Identifier: GPL-2.0
"""The cases of test_tune, run inside the guest: host 1 sends to host 0."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import guest
from clock_cases import MS, S, until
from guest import LOAD, monotonic_ns, read, write
from lab import measure
from tap import ok, same
import clock_cases

FLOWS = 16
TUNE = ["tune", "--interval", "0.02", "--learn", "0.1", "--min-us", "5", "--max-us", "1000", "--json"]
WINDOW_NS = 200 * MS
PACKET_NS = 1538 * 8 / 5  # at 5 Gb/s: RTTs come in steps of this, 7 % of what they are here


def sysctl(name, value=None):
    name = f"net.ipv4.tcp_swift.{name}"
    argv = ["sysctl", "-nw", f"{name}={value}"] if value is not None else ["sysctl", "-n", name]
    return subprocess.run(guest.Clocks.inside(1, *argv), check=True, capture_output=True, text=True).stdout.strip()


class Load(clock_cases.Load):
    """Flows that always have something to send."""

    def __init__(self, mode="stream"):
        super().__init__()
        for _ in range(FLOWS):
            write(LOAD + "control", f"flow group=0 src=1 dst=0 mode={mode}")

    def measure(self, ns=WINDOW_NS):
        """(goodput, p99 RTT)"""
        start_ns = monotonic_ns() - self.go_ns + MS
        write(LOAD + "control", f"measure start_ns={start_ns} stop_ns={start_ns + ns}")
        read(LOAD + "wait")
        flows, groups = (measure.parse_lines(read(LOAD + name)) for name in ("flows", "groups"))
        return sum(flow["rx_bytes"] for flow in flows) * 8 * S / ns, measure.times(groups, "rtt")["p99"]


def at(load, target_ns):
    sysctl("base_target_ns", target_ns)
    time.sleep(0.05)
    return load.measure()


def best_static(load):
    """The smallest target whose throughput is within 1 % of the most."""
    points = {us: at(load, us * 1000) for us in (20, 25, 30, 35, 40, 45, 50, 55, 60, 70, 80, 100, 150, 200, 400)}
    most = max(goodput for goodput, _ in points.values())
    best = min(us for us, (goodput, _) in points.items() if goodput >= 0.99 * most)
    for us, (goodput, p99) in points.items():
        print(f"# {us:4} us: {goodput / 1e9:.3f} Gb/s, p99 {p99 / 1000:.1f} us{'  <' if us == best else ''}", flush=True)
    return best * 1000, *points[best]


def tune(*more):
    return subprocess.Popen(guest.Clocks.inside(1, guest.SWIFTCTL, *TUNE, *more), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def tuned(*more):
    """What it said, an event a line."""
    with tune(*more) as process:
        out, err = process.communicate()
    same("swiftctl tune ends well", (process.returncode, err), (0, ""))
    return [json.loads(line) for line in out.splitlines()]


def convergence():
    """From four times too high, and from half."""
    with Load() as load:
        best_ns, best_bps, best_p99_ns = best_static(load)
        for what, start_ns in (("four times too high", 4 * best_ns), ("half of what is best", best_ns // 2)):
            sysctl("base_target_ns", start_ns)
            began_ns = monotonic_ns()
            events = tuned("--apply")
            kinds = [event["event"] for event in events]
            for event in events:
                print(f"# {event['event']}: {event.get('from_ns', '')} -> {event.get('to_ns', '')} {event['reason']}", flush=True)
            time.sleep(0.05)
            goodput, p99 = load.measure()
            print(f"# from {start_ns} to {sysctl('base_target_ns')} ns in {(monotonic_ns() - began_ns) / S:.1f} s: "
                  f"{goodput / 1e9:.3f} Gb/s, p99 {p99 / 1000:.1f} us; best static {best_ns} ns: {best_bps / 1e9:.3f} Gb/s, "
                  f"p99 {best_p99_ns / 1000:.1f} us", flush=True)
            ok(f"from {what} it comes within 10 %, or a packet, of the best static target's p99", p99 <= 1.1 * best_p99_ns + PACKET_NS, p99, best_p99_ns)
            ok("  at no less than 98 % of its throughput", goodput >= 0.98 * best_bps, goodput, best_bps)
            same("  and says that it has settled", kinds[-1], "settled")
            ok("  every change has its reason", all(event["reason"] for event in events))
            same("undo puts back what was there", undo(), (0, str(start_ns)))


def undo():
    done = subprocess.run(guest.Clocks.inside(1, guest.SWIFTCTL, "tune", "--undo"), capture_output=True, text=True, check=False)
    return done.returncode, sysctl("base_target_ns")


def default_policy():
    """As hosts come: a target that each flow learns for itself."""
    with Load():
        sysctl("target_policy", "base_rtt_plus")
        sysctl("base_target_ns", 50_000)
        events = tuned()
        same("without --apply it proposes, and changes nothing",
             (events[0]["event"], len(events), sysctl("target_policy"), sysctl("base_target_ns")),
             ("proposal", 1, "base_rtt_plus", "50000"))
        ok("  out of the paths' length", 5_000 <= events[0]["proposed_base_target_ns"] <= 100_000, events)
        tuned("--apply")
        same("with --apply the target is static from then on", sysctl("target_policy"), "static")
        subprocess.run(guest.Clocks.inside(1, guest.SWIFTCTL, "tune", "--undo"), check=True, stdout=subprocess.DEVNULL)
        same("  until it is undone", (sysctl("target_policy"), sysctl("base_target_ns")), ("base_rtt_plus", "50000"))
        sysctl("target_policy", "static")


def endings():
    """Stopped, killed, two at once."""
    with Load():
        sysctl("base_target_ns", 300_000)
        process = tune("--apply")
        ok("a step is tried", until(lambda: sysctl("base_target_ns") != "300000"), sysctl("base_target_ns"))
        second = subprocess.run(guest.Clocks.inside(1, guest.SWIFTCTL, *TUNE, "--apply"), capture_output=True, text=True, check=False)
        ok("a second tuning is refused", second.returncode == 1 and "another swiftctl" in second.stderr, second)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate()
        kept = [json.loads(line)["to_ns"] for line in out.splitlines() if json.loads(line)["event"] == "accepted"] or [300_000]
        same("stopped, it leaves what was accepted last", (process.returncode, sysctl("base_target_ns"), err), (0, str(kept[-1]), ""))

        sysctl("base_target_ns", 300_000)
        process = tune("--apply")
        until(lambda: sysctl("base_target_ns") != "300000")
        process.kill()
        process.communicate()
        ok("killed, it leaves what it tried", sysctl("base_target_ns") != "300000")
        with tune("--apply", "--duration", "0.02") as process:
            out, err = process.communicate()
        ok("  which the next one puts right", "was killed" in err, err)
        same("  and what was there at first is still known", undo(), (0, "300000"))


def idle():
    """Nothing is learnt from flows that have nothing to send."""
    sysctl("base_target_ns", 300_000)
    with Load("rpc size=1000 depth=1"):
        with tune("--apply", "--duration", "1") as process:
            out, err = process.communicate()
        same("with idle flows it waits", (process.returncode, sysctl("base_target_ns")), (0, "300000"))
        ok("  and says so", "waiting" in err, out, err)
    with tune() as process:
        out, err = process.communicate()
    ok("without flows there is nothing to learn from", process.returncode == 1 and "nothing to learn from" in err, out, err)


CASES = (convergence, default_policy, endings, idle)

if __name__ == "__main__":
    Path("/run/tcp_swift").mkdir(exist_ok=True)
    sys.exit(clock_cases.main(sys.argv[1:], CASES))
