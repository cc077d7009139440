# SPDX-License-Identifier: GPL-2.0
"""From a guest's files to metrics. Rates in bits/s, times in ns, sizes in bytes, windows in
packets; ratios are of one. What cannot be told is None.

goodput_bps    what receivers' applications read, of all flows
loss_ratio     frames lost in the fabric or missed by a NIC, of those sent; pure ACKs are neither
jain           of a load's flows that are on all the time, by what their receivers read; of all, if one load alone is
               closed: others differ in what they ask for, in their law, or in when they are on
share_ratio    of the same flows, the least over the most
queue_bytes    of the port with the longest mean queue: mean, p99 (of time); max: of any port
switch_bytes   max: of any switch, what all its ports held at one moment
uplinks        imbalance: of a rack's links to the spines, the most that one carried less the least, over their
               mean; the mean over racks (Qureshi et al., SIGCOMM 2022)
ideal          what the links would have delivered of the messages that arrived, whatever the law
               (ideal.py), and goodput_bps as a part of it; where all loads are open
pauses         PFC's: how often any port was stopped; of the one stopped longest, for what part of the time
host           of hosts that cost: the busiest one's CPU time, as a part of its cores'; frames a segment, of all
fct_ratio      of a load whose messages begin together (once): their completion times over what the receiver's
               link needs for all of them
slowdown       a message's completion time over the least possible, by size; of loads that do not
               wait for their own messages
truth          of Swift's samples: how far each delay is off (error_ns; error_ratio: of what is true),
               and the part that is within 200 ns and 1 % of it; hardware_ratio: stamped by NICs at
               both ends
"""

import functools
import itertools
import json
import re
import struct

from . import ideal, load
from .ideal import HEADERS_BYTES, wire_bytes

NEVER = 1 << 64
OPEN_LOADS = ("poisson", "bursts")
SERIES_POINTS, SERIES_FLOWS, CDF_POINTS = 200, 50, 120
TIMES = "{rtt_ns,fct_ns}.{avg,p1,p50,p99,p999,max,count}"
METRICS = (
    "{goodput_bps,goodput_host_bps,loss_ratio,start_loss_ratio,jain,share_ratio,unfinished}", TIMES,
    "slowdown.{A,B,C,D,all}.{p50,p99,count}", "queue_bytes.{max,mean,p99}", "switch_bytes.max", "uplinks.imbalance",
    "pauses.{count,longest_ratio}", "host.{cpu_ratio,segment_frames,interrupts_hz}",
    "ideal.{goodput_bps,goodput_host_bps,ratio}", "law.{fabric_ns,endpoint_ns,target_ns}.{p1,p50,p99}",
    "law.endpoint_limited", "windows.{fcwnd,ecwnd}.{p1,p50,p99}", "phases.min",
    "counters.{retrans,rtos,messages,drops,start_drops,marks,rx_missed,events,hops,idle_flows,opened,met_busy}",
    "truth.samples", "truth.{hardware_ratio,none_ratio}.{local,remote}",
    "truth.{local,remote,endpoint,rtt,fabric}.{count,within_ratio}",
    "truth.{local,remote,endpoint,rtt,fabric}.error_ns.{avg,p50,p99,max}",
    "truth.{local,remote,endpoint,rtt,fabric}.error_ratio.{p50,p99}",
)
LOAD_METRICS = ("{goodput_bps,jain,share_ratio}", TIMES, "fct_ratio.{p50,p99,p999,max}")


def known(loads, marks_ms):
    """All that metrics() may tell of a run with these."""
    patterns = [*METRICS, *(f"groups.{load_}.{one}" for load_ in loads for one in LOAD_METRICS),
                *(f"flow_rate_bps.{mark_name(mark)}" for mark in marks_ms)]
    parts = (re.split(r"{(.*?)}", pattern) for pattern in patterns)
    choices = ([part.split(",") if i % 2 else [part] for i, part in enumerate(one)] for one in parts)
    return {"".join(words) for one in choices for words in itertools.product(*one)}


# --- Parsing --------------------------------------------------------------------------

def parse_line(line):
    """{key: int or text}; a leading word without = is left out."""
    result = {}
    for word in line.split():
        key, equals, value = word.partition("=")
        if equals:
            result[key] = int(value) if value.lstrip("-").isdigit() else value
    return result


def parse_lines(data):
    return [parse_line(line) for line in data.decode().splitlines() if line]


def parse_hist(text):
    """[(low, count)] in order."""
    pairs = (point.split(":") for point in str(text).split(",") if point)
    return sorted((int(low), int(count)) for low, count in pairs)


def parse_fabric(data):
    result = {"ports": [], "hosts": [], "switches": [], "fabric": {}}
    for line in data.decode().splitlines():
        fields = parse_line(line)
        if "port" in fields:
            fields["port"] = fields["port"].split(".")[0]
            result["ports"].append(fields)
        elif "host" in fields:
            result["hosts"].append(fields)
        elif "switch" in fields:
            result["switches"].append(fields)
        else:
            result["fabric"] = fields
    return result


# --- Statistics --------------------------------------------------------------------------

def rounded(value):
    """Six digits: what is compared between machines must not end in their last bits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return value


def jain(values):
    squares = sum(v * v for v in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else None


def percentile(sorted_values, percent):
    """The least that more than so many percent of all do not exceed, as of a histogram."""
    if not sorted_values:
        return None
    return sorted_values[min(len(sorted_values) - 1, int(percent / 100 * len(sorted_values)))]


def middle(low, steps=128):
    """Of a log-linear step that begins at `low`: `steps` an octave, 1 wide below 2 * steps."""
    width = 1 if low < 2 * steps else 1 << (low.bit_length() - steps.bit_length())
    return low + (width - 1) // 2


def hist_percentile(hist, percent, steps=128):
    total = sum(count for _, count in hist)
    seen = 0
    for low, count in hist:
        seen += count
        if seen * 100 > percent * total:
            return middle(low, steps)
    return None


def merge(hists):
    result = {}
    for hist in hists:
        for low, count in hist:
            result[low] = result.get(low, 0) + count
    return sorted(result.items())


def times(groups, kind):
    """avg, percentiles, max, count of the groups' `rtt` or `fct`."""
    count = sum(g[f"{kind}_count"] for g in groups)
    if not count:
        return None
    hist = merge(parse_hist(g[f"{kind}_hist"]) for g in groups)
    return {"avg": sum(g[f"{kind}_sum_ns"] for g in groups) / count, "p1": hist_percentile(hist, 1),
            "p50": hist_percentile(hist, 50), "p99": hist_percentile(hist, 99), "p999": hist_percentile(hist, 99.9),
            "max": max(g[f"{kind}_max_ns"] for g in groups), "count": count}


def tail(groups, kind):
    """[(ns, part that took longer)], thinned: what a plot of the distribution needs."""
    hist = merge(parse_hist(g[f"{kind}_hist"]) for g in groups)
    total, seen, points = sum(count for _, count in hist), 0, []
    for low, count in hist:
        points.append([middle(low), 1 - seen / total])
        seen += count
    step = max(1, len(points) // CDF_POINTS)
    return points[:-5:step] + points[-5:]


def spread(values):
    values = sorted(values)
    return {"p1": percentile(values, 1), "p50": percentile(values, 50), "p99": percentile(values, 99)}


# --- Slowdown -------------------------------------------------------------------------------

def ideal_ns(size, path, mtu):
    """The least time from a message's first bit sent to its last received, alone in the fabric:
    `path` = [(rate_bps, ns)] a link, each switch storing a frame before it forwards it.

    The message is n - 1 full frames and a last one of the rest. With t_i a full frame's time on
    link i, the k-th full frame has left link i at

        t_1 + .. + t_i + (k - 1) max(t_1, .., t_i)

    because the slowest link so far spaces the frames. The last frame starts on a link when it
    is there and the one before it has left. Propagation and latency are added: they delay all
    frames alike."""
    mss = mtu - HEADERS_BYTES
    full, rest = divmod(size - 1, mss)  # full frames; rest + 1 bytes in the last
    before_sum = before_max = last = 0.0
    for rate_bps, _ in path:
        t_full = wire_bytes(mss) * 8e9 / rate_bps
        before_sum += t_full
        before_max = max(before_max, t_full)
        free = before_sum + (full - 1) * before_max if full else 0.0
        last = max(last, free) + wire_bytes(rest + 1) * 8e9 / rate_bps
    return last + sum(ns for _, ns in path)


def size_group(size, mss, bdp):
    return "A" if size < mss else "B" if size < bdp else "C" if size < 8 * bdp else "D"


def alone_ns(run, flow, size):
    """The least time of a message, and of its answer if it is a request."""
    mtu = run.case.spec["topology"]["mtu"]
    there = cached_ideal_ns(size, run.topology.path(flow.src, flow.dst), mtu)
    if flow.mode != "rpc":
        return there
    resp = list(run.case.spec["load"].values())[flow.group].get("resp", 64)
    return there + cached_ideal_ns(resp, run.topology.path(flow.dst, flow.src), mtu)


cached_ideal_ns = functools.lru_cache(maxsize=200_000)(ideal_ns)


def slowdown(messages, flows, run):
    """By group of sizes (A < packet <= B < BDP <= C < 8 BDP <= D) and of all: p50, p99, count. And how many
    were not done by the window's end: these are left out, so time.drain_ms has to be long enough for few.
    Counts messages that began in the window, but for its last drain_ms."""
    spec = run.case.spec
    mtu, bdp = spec["topology"]["mtu"], spec["measure"]["bdp_bytes"]
    excluded = {i for i, (name, one) in enumerate(spec["load"].items())
                if name in spec["measure"]["exclude"] or one["kind"] not in OPEN_LOADS}
    start, end = window(run)
    last = end - load.ns(spec["time"]["drain_ms"])
    found, unfinished = {}, 0
    for number, size, began, done, _ in struct.iter_unpack("=IIQQQ", messages):
        flow = flows[number]
        if flow.group in excluded or not start <= began < last:
            continue
        if not done or done > end:
            unfinished += 1
            continue
        value = (done - began) / alone_ns(run, flow, size)
        found.setdefault(size_group(size, mtu - HEADERS_BYTES, bdp), []).append(value)
        found.setdefault("all", []).append(value)
    result = {}
    for group, values in sorted(found.items()):
        values.sort()
        result[group] = {"p50": percentile(values, 50), "p99": percentile(values, 99), "count": len(values)}
    return result or None, unfinished


# --- Queues and losses ------------------------------------------------------------------------

def switch_ports(fabric, run):
    tors = {f"s{n}" for n in run.topology.tors}
    return [p for p in fabric["ports"] if p["port"].startswith("s") and
            (run.case.spec["measure"]["ports"] == "all" or p["port"] in tors)]


def queues(ports):
    longest = max(ports, key=lambda p: (p["qmean_bytes"], p["qmax_bytes"]))
    return {"max": max(p["qmax_bytes"] for p in ports), "mean": longest["qmean_bytes"],
            "p99": hist_percentile(parse_hist(longest["hist"]), 99, 8) or 0,
            "port": f"{longest['port']} to {longest['to']}"}


def switch_max(fabric, ports):
    """Of the switches that have these ports."""
    switches = {p["port"] for p in ports}
    told = [s["used_max_bytes"] for s in fabric["switches"] if "used_max_bytes" in s and f"s{s['switch']}" in switches]
    if told:
        return max(told)
    sums = {}
    for port in ports:
        sums[port["port"]] = sums.get(port["port"], 0) + port["qmax_bytes"]
    return max(sums.values())


def uplinks(fabric, run):
    """None where racks have less than two."""
    if run.case.spec["topology"]["kind"] not in ("leafspine", "fattree"):
        return None
    found = []
    for tor in run.topology.tors:
        sent = [p["tx_bytes"] for p in fabric["ports"] if p["port"] == f"s{tor}" and p["to"].startswith("s")]
        if len(sent) > 1 and sum(sent):
            found.append((max(sent) - min(sent)) * len(sent) / sum(sent))
    return {"imbalance": sum(found) / len(found)} if found else None


def total(rows, *keys):
    return sum(row.get(key, 0) for row in rows for key in keys)


def loss_ratio(fabric):
    """Without pure ACKs: how many of them a law's receivers send would be in it."""
    sent = fabric["fabric"]["data_sent"]
    return fabric["fabric"]["data_lost"] / sent if sent else None


# --- Over time ----------------------------------------------------------------------------------

def window(run):
    return load.ns(run.case.spec["time"]["warmup_ms"]), run.case.duration_ns


class Samples:
    """Records of labload's `samples`, by flow."""

    def __init__(self, data):
        self.times, self.rx, self.fcwnd, self.ecwnd = [], {}, [], []
        last = None
        for time_ns, flow, cwnd, received, fcwnd, ecwnd in struct.iter_unpack("=QIIQII", data):
            if time_ns != last:
                self.times.append(time_ns)
                last = time_ns
            self.rx.setdefault(flow, []).append(received)
            if cwnd:  # none of a connection that is not open yet
                self.fcwnd.append((fcwnd or cwnd) / 65536)
                self.ecwnd.append(ecwnd / 65536)

    def index(self, time_ns):
        """The last sample that is not after."""
        return max((i for i, t in enumerate(self.times) if t <= time_ns), default=0)

    def rate_bps(self, flow, start_ns, stop_ns):
        a, b = self.index(start_ns), self.index(stop_ns)
        if b <= a:
            return 0.0
        return (self.rx[flow][b] - self.rx[flow][a]) * 8e9 / (self.times[b] - self.times[a])

    def series(self, flows):
        """Rates over time of the whole and of some flows, for a plot."""
        step = max(1, len(self.times) // SERIES_POINTS)
        at = list(range(0, len(self.times), step))
        chosen = [n for n in sorted(self.rx)][::max(1, len(flows) // SERIES_FLOWS)][:SERIES_FLOWS]

        def rates(rx):
            return [round((rx[b] - rx[a]) * 8e9 / (self.times[b] - self.times[a])) for a, b in zip(at, at[1:])]

        sums = [sum(column) for column in zip(*self.rx.values())]
        return {"time_ms": [self.times[i] / 1e6 for i in at[1:]], "total_bps": rates(sums),
                "flows": {str(n): rates(self.rx[n]) for n in chosen}}


def active(flow, start_ns, stop_ns):
    return flow.start_ns <= start_ns and (not flow.stop_ns or flow.stop_ns >= stop_ns)


def phase_fairness(samples, run):
    """Jain's index in the second half of each phase of two flows or more that is measured, of a join-leave."""
    for spec in run.case.spec["load"].values():
        if spec["kind"] != "join-leave":
            continue
        step, found = load.ns(spec["step_ms"]), []
        for begin in load.phases(spec):
            half, end = begin + step // 2, begin + step
            rates = [samples.rate_bps(n, half, end) for n, f in enumerate(run.flows) if active(f, begin, end)]
            if len(rates) > 1 and half >= window(run)[0] and end <= run.case.duration_ns:
                found.append(jain(rates))
        found = [index for index in found if index is not None]  # of nothing there is none
        return {"min": min(found), "all": found} if found else None
    return None


def mark_name(mark):
    return f"at_{mark:g}ms".replace(".", "_")


def rates_at_marks(samples, run):
    """The mean rate of the flows that are on from then to the end, in 5 ms (or less) before each mark."""
    result = {}
    on = [n for n, f in enumerate(run.flows) if not f.stop_ns or f.stop_ns >= run.case.duration_ns]
    for mark in run.case.spec["time"]["marks_ms"] if on else []:
        at = load.ns(mark)
        width = min(5_000_000, at)
        result[mark_name(mark)] = sum(samples.rate_bps(n, at - width, at) for n in on) / len(on)
    return result or None


# --- All of it ------------------------------------------------------------------------------------

def breakdown(flows):
    """What the law itself told at the end of the window: delays and windows over flows."""
    told = [f for f in flows if f["fcwnd_q16"]]
    if not told:
        return None
    return {"fabric_ns": spread([f["fabric_ns"] for f in told]),
            "endpoint_ns": spread([f["endpoint_ns"] for f in told]),
            "target_ns": spread([f["target_ns"] for f in told]),
            "endpoint_limited": sum(f["ecwnd_q16"] < f["fcwnd_q16"] for f in told) / len(told)}


def errors(part):
    if not part["count"]:
        return None
    ns, ppm = parse_hist(part["ns_hist"]), parse_hist(part["ppm_hist"])
    return {"count": part["count"], "within_ratio": part["within"] / part["count"],
            "error_ns": {"avg": part["sum_ns"] / part["count"], "p50": hist_percentile(ns, 50),
                         "p99": hist_percentile(ns, 99), "max": part["max_ns"]},
            "error_ratio": {"p50": ratio(hist_percentile(ppm, 50)), "p99": ratio(hist_percentile(ppm, 99))}}


def ratio(ppm):
    return None if ppm is None else ppm / 1e6


def truth(data):
    """Of labload's `truth`."""
    first, *parts = parse_lines(data)
    if not first["samples"]:
        return None
    told = {part["part"]: errors(part) for part in parts}
    return {"samples": first["samples"],
            "hardware_ratio": {end: first[f"{end}_hardware"] / (first["samples"] - first[f"{end}_none"] or 1)
                               for end in ("local", "remote")},
            "none_ratio": {end: first[f"{end}_none"] / first["samples"] for end in ("local", "remote")}
            } | {name: part for name, part in told.items() if part}


def pauses(fabric, run):
    """None of switches without PFC."""
    if not run.case.spec["topology"]["switch"].get("pfc_xoff_bytes"):
        return None
    return {"count": total(fabric["ports"], "pauses"),
            "longest_ratio": max(port["paused_ns"] / port["time_ns"] for port in fabric["ports"])}


def host_costs(fabric, seconds):
    """Of hosts with cores; None if there are none."""
    hosts = [host for host in fabric["hosts"] if host.get("cores")]
    if not hosts:
        return None
    segments = total(hosts, "segments")
    return {"cpu_ratio": max(host["service_ns"] / host["cores"] for host in hosts) / (seconds * 1e9),
            "segment_frames": total(hosts, "rx_pkts") / segments if segments else None,
            "interrupts_hz": max(host["irqs"] for host in hosts) / seconds}


def together_ns(run, number):
    """The least time in which all messages of a load are done that begin at once: the last of the receiver that
    has the most."""
    spec, flows = run.case.spec, [flow for flow in run.flows if flow.group == number]
    mss = spec["topology"]["mtu"] - HEADERS_BYTES
    depth = list(spec["load"].values())[number]["depth"]
    wire = {}
    for flow in flows:
        wire[flow.dst] = wire.get(flow.dst, 0) + depth * ideal.message_wire_bytes(flow.size, mss)

    def last_ns(flow):
        others = wire[flow.dst] - ideal.message_wire_bytes(flow.size, mss)
        return alone_ns(run, flow, flow.size) + others * 8e9 / run.topology.host_links[flow.dst].rate_bps
    return max(map(last_ns, flows))


def over(figures, least):
    return figures and {key: figures[key] / least for key in ("p50", "p99", "p999", "max")}


def steady(rows, run, group=None):
    """Bytes of the flows, of one load or all, that are on all the time."""
    return [r["rx_bytes"] for r, f in zip(rows, run.flows)
            if f.mode != "idle" and active(f, *window(run)) and group in (None, f.group)]


def fairness(values):
    return {"jain": jain(values) if len(values) > 1 else None,
            "share_ratio": min(values) / max(values) if len(values) > 1 and max(values) else None}


def closed_fairness(groups, run):
    """Of the one load that is closed."""
    closed = [name for name, one in run.case.spec["load"].items() if one["kind"] not in OPEN_LOADS]
    return {key: groups[closed[0]][key] for key in ("jain", "share_ratio")} if len(closed) == 1 else {}


def group_metrics(rows, groups, seconds, run):
    result = {}
    for number, name in enumerate(run.case.spec["load"]):
        own = [g for g in groups if g["group"] == number]
        result[name] = {"goodput_bps": sum(r["rx_bytes"] for r in rows if r["group"] == number) * 8 / seconds,
                        "rtt_ns": times(own, "rtt"), "fct_ns": times(own, "fct"), **fairness(steady(rows, run, number))}
        if run.case.spec["load"][name].get("once"):
            result[name]["fct_ratio"] = over(result[name]["fct_ns"], together_ns(run, number))
    return result


def opened(rows, run):
    """The flows that were asked for, and those that pools have opened besides."""
    return run.flows + [load.Flow(row["group"], row["src"], row["dst"], "idle", 0, 0, 0) for row in rows[len(run.flows):]]


def pooled(messages, flows, run):
    """Connections that pools opened, and messages that met a busy one; None without any pool."""
    open_groups = {i for i, one in enumerate(run.case.spec["load"].values()) if one["kind"] == "poisson"}
    if not open_groups:
        return {}
    busy_until, met = {}, 0
    for number, _, began, done, _ in struct.iter_unpack("=IIQQQ", messages):
        if flows[number].group in open_groups:
            met += began < busy_until.get(number, 0)
            busy_until[number] = max(done or NEVER, busy_until.get(number, 0))
    return {"opened": len(flows) - len(run.flows), "met_busy": met}


def against_ideal(messages, flows, run, goodput_bps):
    if any(one["kind"] not in OPEN_LOADS for one in run.case.spec["load"].values()):
        return None
    arrived = [(began, flows[number].src, flows[number].dst, size)
               for number, size, began, _, _ in struct.iter_unpack("=IIQQQ", messages)]
    best_bps = ideal.goodput_bps(arrived, run.topology, *window(run))
    if not best_bps:
        return None
    return {"goodput_bps": best_bps, "goodput_host_bps": best_bps / run.topology.hosts, "ratio": goodput_bps / best_bps}


def metrics(files, run):
    """One run's figures."""
    rows, groups = parse_lines(files["flows"]), parse_lines(files["groups"])
    fabric, start = parse_fabric(files["fabric"]), parse_fabric(files["fabric_start"])
    begin, end = window(run)
    seconds = (end - begin) / 1e9
    ports = switch_ports(fabric, run)
    rates = steady(rows, run)
    by_load = group_metrics(rows, groups, seconds, run)
    flows = opened(rows, run)
    slow, unfinished = slowdown(files["messages"], flows, run)
    goodput_bps = sum(r["rx_bytes"] for r in rows) * 8 / seconds
    result = {
        "n": len(rows),
        "goodput_bps": goodput_bps,
        "goodput_host_bps": goodput_bps / run.topology.hosts,
        "ideal": against_ideal(files["messages"], flows, run, goodput_bps),
        "rtt_ns": times(groups, "rtt"),
        "loss_ratio": loss_ratio(fabric),
        "start_loss_ratio": loss_ratio(start),
        **closed_fairness(by_load, run),
        "fct_ns": times(groups, "fct"),
        "slowdown": slow,
        "unfinished": unfinished,
        "queue_bytes": queues(ports),
        "switch_bytes": {"max": switch_max(fabric, ports)},
        "uplinks": uplinks(fabric, run),
        "law": breakdown(rows),
        "pauses": pauses(fabric, run),
        "host": host_costs(fabric, seconds),
        "groups": by_load,
        "counters": {"retrans": total(rows, "retrans"), "rtos": total(rows, "rtos"),
                     "messages": total(rows, "messages"), "drops": total(fabric["ports"], "drops"),
                     "start_drops": total(start["ports"], "drops"), "marks": total(fabric["ports"], "marks"),
                     "rx_missed": total(fabric["hosts"], "rx_missed"), "events": fabric["fabric"]["events"],
                     "hops": fabric["fabric"]["hops"], "idle_flows": sum(not r["rx_bytes"] for r in rows),
                     **pooled(files["messages"], flows, run)},
        "plot": {"rtt_tail": tail(groups, "rtt")},
    }
    if files.get("truth"):
        result["truth"] = truth(files["truth"])
    if len(rates) > 3:
        result["plot"]["flow_bps"] = [round(v * 8 / seconds) for v in thinned(sorted(rates))]
    if files["samples"]:
        samples = Samples(files["samples"])
        result["windows"] = {"fcwnd": spread(samples.fcwnd), "ecwnd": spread(samples.ecwnd)}
        result["phases"] = phase_fairness(samples, run)
        result["flow_rate_bps"] = rates_at_marks(samples, run)
        result["plot"]["series"] = samples.series(run.flows)
    return rounded({k: v for k, v in result.items() if v is not None})


def thinned(values):
    return values[::max(1, len(values) // SERIES_POINTS)]
