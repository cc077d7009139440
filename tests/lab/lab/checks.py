# SPDX-License-Identifier: GPL-2.0
"""Was the lab, not the law, the limit? Each run answers; a wrong answer fails it."""

import json
import re

from . import faults, measure

# Counters of TCP and the stack that move only when the host, not the network, is short of something.
NEVER = ("TCPMemoryPressures", "TCPRcvQDrop", "PruneCalled", "RcvPruned", "OfoPruned", "TCPBacklogDrop", "ListenDrops",
         "ListenOverflows", "TCPReqQFullDrop", "TCPReqQFullDoCookies", "TCPAbortOnMemory", "TCPZeroWindowDrop",
         "TCPWqueueTooBig", "TCPAbortFailed", "SoftnetDropped")
SPLATS = re.compile(r"WARNING|\bBUG\b|Oops|Kernel panic|Call Trace|allocation failure|[Oo]ut of memory|KASAN:|UBSAN:|"
                    r"INFO: |suspected memory leak")


def moved(counters):
    return " ".join(f"{name}={counters[name]}" for name in NEVER if counters.get(name))


def splats(dmesg):
    found = [line for line in dmesg.decode(errors="replace").splitlines() if SPLATS.search(line)]
    return found[0].strip() if found else ""


def fates(fabric):
    """Of the frames that NICs sent: what became of them."""
    hosts, ports = fabric["hosts"], fabric["ports"]
    return {"received": measure.total(hosts, "rx_pkts"), "missed": measure.total(hosts, "rx_missed"),
            "crc": measure.total(hosts + ports, "rx_crc_errors"), "drops": measure.total(ports, "drops"),
            "lost": measure.total(ports, "lost"),
            "unrouted": measure.total(fabric["switches"], "ttl_expired", "no_route"),
            "in flight": fabric["fabric"]["in_flight"]}


def unbalanced(fabric, since=None):
    """Frames that NICs sent against what became of them; `since`: the same counters, read before. All that
    was in flight then has one of the fates now."""
    sent = measure.total(fabric["hosts"], "tx_pkts")
    ends = fates(fabric)
    if since:
        sent -= measure.total(since["hosts"], "tx_pkts")
        ends = {fate: ends[fate] - count for fate, count in fates(since).items()}
    if sent == sum(ends.values()):
        return ""
    return f"sent {sent} frames, but " + ", ".join(f"{k} {v}" for k, v in ends.items())


def unconnected(flows, asked):
    """Those that were asked for: what a pool opens at the window's end may still be on its way."""
    flows = flows[:asked]
    lost = sum(not flow["connected"] for flow in flows)
    return f"{lost} of {len(flows)} flows are not connected" if lost else ""


def grows(run):
    return any(one.get("pool", 0) > one.get("flows", 1) for one in run.case.spec["load"].values())


def miscounted(count, run):
    asked = len(run.flows)
    return "" if count == asked or count > asked and grows(run) else f"{count} of {asked}"


def late(files, run):
    """A window that did not open, close, or start to count when it should have measures something else."""
    begin, end = measure.window(run)
    told, = measure.parse_lines(files["wait"])
    late_ns = max(told["late_ns"], int(files["reset_late"]))
    return f"{late_ns} ns late, of {end - begin}" if late_ns * 100 > end - begin else ""


def checks(files, run):
    """[{check, ok, detail}]"""
    fabric, start = measure.parse_fabric(files["fabric"]), measure.parse_fabric(files["fabric_start"])
    flows = measure.parse_lines(files["flows"])
    # Before, there is IPv6's multicast, which switches do not route.
    # And what a fault has taken the last route from: lost, as by the fault itself.
    routes = 0 if faults.any_of(run.case.spec["fault"]) else measure.total(fabric["switches"], "no_route", "ttl_expired")
    told = {
        "hosts had room": moved(json.loads(files["counters"])),
        "the window was in time": late(files, run),
        "the kernel log is clean": splats(files["dmesg"]),
        "no frame is unaccounted for, before the measurement": unbalanced(start),
        "no frame is unaccounted for, in the measurement": unbalanced(
            fabric, measure.parse_fabric(files["fabric_reset"])),
        "all frames had a route": f"{routes} had none" if routes else "",
        "all flows are connected": unconnected(flows, len(run.flows)),
        "as many flows as asked for": miscounted(len(flows), run),
    }
    return [{"check": what, "ok": not detail} | ({"detail": detail} if detail else {}) for what, detail in told.items()]


def complaint(found):
    """One line of what failed, or nothing."""
    wrong = [f"{one['check']}: {one['detail']}" for one in found if not one["ok"]]
    return "the lab, not the law, was the limit: " + "; ".join(wrong) if wrong else ""
