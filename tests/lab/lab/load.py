# SPDX-License-Identifier: GPL-2.0
"""Load: from a few numbers to flows and messages, as lines for labload. What is drawn
at random depends on the seed and the load's name alone."""

import collections
import random

from . import Mistake, TOP, fields, laws
from .fields import listing, number, text, whole

WORKLOADS = TOP / "tests/lab/workloads"
FLOWS_MAX = 45000
SIZE_MAX = 1 << 30
TIMES_MS = (0, 10_000_000)
RATE_MPS = (100, 10**12)  # labload's

FLOW = {
    "sndbuf": whole(0, 0, 1 << 29, "socket's send buffer, bytes; 0 = as it is"),
    "notsent_bytes": whole(131_072, 1, 1 << 30, "TCP_NOTSENT_LOWAT: unsent bytes that TCP keeps"),
    "dscp": whole(-1, -1, 63, "QoS class; -1 = as it is"),
    "ipv6": whole(0, 0, 1, "over IPv6"),
    "law": text("", "a law other than the run's, of the kernel's name: no variant"),
}
CLOSED = FLOW | {
    "size": whole(0, 0, SIZE_MAX, "bytes a message; 0 = a stream that never ends"),
    "resp": whole(64, 1, SIZE_MAX, "bytes that answer a message"),
    "depth": whole(1, 1, 65536, "messages outstanding"),
    "flows": whole(1, 1, FLOWS_MAX, "connections of each pair"),
    "start_ms": number(0, *TIMES_MS, "when it starts"),
    "stop_ms": number(0, *TIMES_MS, "when it stops; 0 = never"),
    "once": whole(0, 0, 1, "1 = stops at once: no more messages than depth"),
    "every_ms": number(0, *TIMES_MS, "starts again so long after each start; 0 = does not"),
    "open": text("before", "when it connects: before the load, or at-start, into what is there", ("before", "at-start")),
    "spread_us": number(10, 0, 10_000_000, "flows start at random within this time"),
}
OPEN = FLOW | {
    "load": number(0.5, 0.0001, 1.5, "payload, as a part of all hosts' line rate"),
    "cdf": text("", "workload of tests/lab/workloads; or size"),
    "size": whole(0, 0, SIZE_MAX, "bytes a message"),
    "pattern": text("all", "receivers: all others, or other racks' hosts", ("all", "remote")),
    "peers": whole(0, 0, 1023, "receivers of each host, chosen at random, all as often; 0 = all of the pattern"),
    "flows": whole(1, 1, 100, "connections of each pair, made before"),
    "pool": whole(1, 1, 100, "of each pair, at most: more are opened when all are busy"),
}
KINDS = {
    "incast": CLOSED | {
        "receiver": whole(0, -1, 1023, "host; -1 = chosen at random"),
        "senders": whole(0, 0, 1023, "how many hosts; 0 = all others"),
    },
    "pairs": CLOSED | {
        "from": listing(None, "senders"),
        "to": listing(None, "receivers; each sender to each"),
    },
    "poisson": OPEN,
    "bursts": FLOW | {
        "senders": whole(30, 1, 1023, "of one burst, chosen at random"),
        "size": whole(500_000, 1, SIZE_MAX, "bytes of each, to one receiver chosen at random"),
        "load": number(0.035, 0.0001, 1, "payload, as a part of all hosts' line rate"),
    },
    "join-leave": FLOW | {
        "receiver": whole(0, 0, 1023, "host"),
        "senders": whole(4, 1, 100, "flows, one a host"),
        "step_ms": number(10, 0.001, 100_000, "one joins, or the oldest leaves, at each step"),
    },
}

Flow = collections.namedtuple("Flow", "group src dst mode size start_ns stop_ns every_ns", defaults=(0,))


def ns(ms):
    return round(ms * 1_000_000)


def resolve(name, given):
    kind = fields.check(f"load.{name}.kind", fields.text(None, "", tuple(KINDS)), given.get("kind", ""))
    rest = {k: v for k, v in given.items() if k != "kind"}
    spec = {"kind": kind} | fields.fill(f"load.{name}", KINDS[kind], rest)
    if spec["law"] and spec["law"] not in laws.SOURCES:
        raise Mistake(f"load.{name}.law={spec['law']}: expected one of {', '.join(laws.SOURCES)}")
    if kind == "poisson" and "pool" in given and spec["pool"] < spec["flows"]:
        raise Mistake(f"load.{name}.pool={spec['pool']}: expected at least flows={spec['flows']}")
    if kind == "poisson" and bool(spec["cdf"]) == bool(spec["size"]):
        raise Mistake(f"load.{name}: expected either cdf or size")
    if spec.get("cdf"):
        read_cdf(name, spec["cdf"])
    if spec.get("once") or spec.get("every_ms"):
        check_again(f"load.{name}", spec)
    if spec.get("stop_ms"):
        check_stop(f"load.{name}", spec)
    if kind == "pairs":
        check_pairs(f"load.{name}", spec)
    return spec


def check_stop(where, spec):
    latest_ms = spec["start_ms"] + spec["spread_us"] / 1000
    if spec["stop_ms"] <= latest_ms:
        raise Mistake(f"{where}.stop_ms={spec['stop_ms']}: expected more than {latest_ms:g}, start_ms and spread_us")


def check_pairs(where, spec):
    for key in ("from", "to"):
        if not all(isinstance(host, int) and not isinstance(host, bool) for host in spec.get(key) or [""]):
            raise Mistake(f"{where}.{key}: expected a list of hosts")
    for host in spec["from"]:
        if host in spec["to"]:
            raise Mistake(f"{where}.to={host}: expected hosts that are not in from")


def check_again(where, spec):
    if spec["once"] and (not spec["size"] or spec["stop_ms"]):
        raise Mistake(f"{where}.once=1: expected a size, and no stop_ms")
    if not spec["every_ms"]:
        return
    on_ms = 0 if spec["once"] else spec["stop_ms"] - spec["start_ms"]
    if on_ms < 0 or on_ms + spec["spread_us"] / 1000 >= spec["every_ms"] or not (spec["once"] or spec["stop_ms"]):
        raise Mistake(f"{where}.every_ms={spec['every_ms']}: expected once or stop_ms, and more than it is on for")
    if spec["open"] == "at-start":
        raise Mistake(f"{where}.every_ms={spec['every_ms']}: expected none with open=at-start")


# --- Sizes ---------------------------------------------------------------------------

def read_cdf(where, name):
    """[(size, probability)] of a workload."""
    path = WORKLOADS / f"{name}.cdf"
    if "/" in name or not path.exists():
        known = ", ".join(sorted(p.stem for p in WORKLOADS.glob("*.cdf")))
        raise Mistake(f"load.{where}.cdf={name}: expected one of {known}")
    rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return [(int(size), float(probability)) for size, probability in rows]


def mean_size(points):
    """Bytes, of a CDF that is linear between its points."""
    mean, last_size, last_p = 0, points[0][0], 0
    for size, p in points:
        mean += (p - last_p) * (size + last_size) / 2
        last_size, last_p = size, p
    return mean


def cdf_points(name, spec):
    return read_cdf(name, spec["cdf"]) if spec["cdf"] else [(spec["size"], 1.0)]


# --- Flows ---------------------------------------------------------------------------

def closed_flows(spec, group, pairs, rnd):
    mode = "rpc" if spec["size"] else "stream"
    result = []
    for src, dst in pairs:
        for _ in range(spec["flows"]):
            start = ns(spec["start_ms"]) + round(rnd.random() * spec["spread_us"] * 1000)
            stop = start + 1 if spec["once"] else ns(spec["stop_ms"])
            result.append(Flow(group, src, dst, mode, spec["size"], start, stop, ns(spec["every_ms"])))
    return result


def incast(name, spec, topology, group, rnd):
    receiver = rnd.randrange(topology.hosts) if spec["receiver"] < 0 else spec["receiver"]
    others = [h for h in range(topology.hosts) if h != receiver]
    if spec["senders"] > len(others):
        raise Mistake(f"load.{name}.senders={spec['senders']}: expected at most {len(others)}, the other hosts")
    senders = others[:spec["senders"] or None]
    # Sender by sender in turn, so that the first flows are not all of one host.
    once = spec | {"flows": 1}
    return [flow for _ in range(spec["flows"])
            for flow in closed_flows(once, group, [(h, receiver) for h in senders], rnd)]


def pairs(_name, spec, _topology, group, rnd):
    return closed_flows(spec, group, [(s, d) for s in spec["from"] for d in spec["to"]], rnd)


def give(src, left, sender_of, rnd):
    """A receiver for `src`, breadth first: one that is free, or whose sender takes another, and so on.
    `sender_of`: {receiver: sender} so far."""
    came_from, queue = {}, collections.deque([src])
    while queue:
        at = queue.popleft()
        options = sorted(left[at])
        for dst in rnd.sample(options, min(16, len(options))) + options:
            if dst in came_from:
                continue
            came_from[dst] = at
            if dst in sender_of:
                queue.append(sender_of[dst])
                continue
            while dst is not None:  # all on the way take the receiver they came to
                at = came_from[dst]
                before = next((d for d, s in sender_of.items() if s == at), None)
                sender_of[dst] = at
                if before is not None:
                    del sender_of[before]
                dst = before
            return True
    return False


def choose_peers(allowed, count, rnd):
    """`count` receivers for each host of those that are `allowed` ({host: set}), such that each host is
    chosen as often: one permutation after another. So that load is even, as if all talked to all."""
    left = {src: set(dsts) for src, dsts in allowed.items()}
    chosen = {src: [] for src in allowed}
    for _ in range(count):
        sender_of = {}
        for src in allowed:
            if not give(src, left, sender_of, rnd):
                raise Mistake(f"peers={count}: no choice is even; expected 0 for all")
        for dst, src in sender_of.items():
            left[src].remove(dst)
            chosen[src].append(dst)
    return {src: sorted(dsts) for src, dsts in chosen.items()}


def idle_flows(name, spec, topology, group, rnd):
    hosts = range(topology.hosts)
    allowed = {src: {dst for dst in hosts if dst != src and
                     (spec["pattern"] == "all" or topology.rack[dst] != topology.rack[src])} for src in hosts}
    fewest = min(map(len, allowed.values()))
    if spec["peers"] > fewest:
        raise Mistake(f"load.{name}.peers={spec['peers']}: expected at most {fewest}, the other hosts")
    chosen = choose_peers(allowed, spec["peers"], rnd) if 0 < spec["peers"] < fewest else \
        {src: sorted(dsts) for src, dsts in allowed.items()}
    return [Flow(group, src, dst, "idle", 0, 0, 0) for src in hosts for dst in chosen[src]
            for _ in range(spec["flows"])]


def bursts(name, spec, topology, group, rnd, until_ns):
    """One message a flow: a closed loop that is stopped when it has begun."""
    if spec["senders"] >= topology.hosts:
        raise Mistake(f"load.{name}.senders={spec['senders']}: expected less than the {topology.hosts} hosts")
    rate_Bps = spec["load"] * topology.hosts * topology.spec["rate_bps"] / 8
    every_ns = max(1, round(spec["senders"] * spec["size"] * 1e9 / rate_Bps))
    result = []
    for start in range(every_ns, until_ns, every_ns):
        receiver, *senders = rnd.sample(range(topology.hosts), spec["senders"] + 1)
        result += [Flow(group, src, receiver, "rpc", spec["size"], start, start + 1) for src in senders]
    return result


def join_leave(name, spec, topology, group):
    others = [h for h in range(topology.hosts) if h != spec["receiver"]]
    if spec["senders"] > len(others):
        raise Mistake(f"load.{name}.senders={spec['senders']}: expected at most {len(others)}, the other hosts")
    step, n = ns(spec["step_ms"]), spec["senders"]
    return [Flow(group, others[i], spec["receiver"], "stream", 0, i * step, (n + i) * step) for i in range(n)]


def phases(spec):
    """Of a join-leave: when each phase begins, the last's end, ns."""
    return [ns(spec["step_ms"]) * i for i in range(2 * spec["senders"])]


def expand_one(name, spec, topology, group, rnd, until_ns):
    if spec["kind"] == "incast":
        return incast(name, spec, topology, group, rnd)
    if spec["kind"] == "pairs":
        return pairs(name, spec, topology, group, rnd)
    if spec["kind"] == "bursts":
        return bursts(name, spec, topology, group, rnd, until_ns)
    if spec["kind"] == "join-leave":
        return join_leave(name, spec, topology, group)
    return idle_flows(name, spec, topology, group, rnd)


def flow_line(flow, spec, cc):
    words = [f"flow group={flow.group} src={flow.src} dst={flow.dst} mode={flow.mode} cc={cc}"]
    if flow.mode == "rpc":
        words.append(f"size={flow.size} resp={spec.get('resp', 64)} depth={spec.get('depth', 1)}")
    words += [f"{key}={value}" for key, value in (
        ("start_ns", flow.start_ns), ("stop_ns", flow.stop_ns), ("every_ns", flow.every_ns), ("sndbuf", spec["sndbuf"]),
        ("notsent", 0 if spec["notsent_bytes"] == FLOW["notsent_bytes"].default else spec["notsent_bytes"]),
        ("ipv6", spec["ipv6"])) if value]
    words += ["open=start"] if spec.get("open") == "at-start" else []
    return " ".join(words + ([f"dscp={spec['dscp']}"] if spec["dscp"] >= 0 else []))


def poisson_line(name, spec, topology, group, seed):
    points = cdf_points(name, spec)
    rate_Bps = spec["load"] * topology.hosts * topology.spec["rate_bps"] / 8
    rate_mps = round(rate_Bps / mean_size(points) * 1000)
    if not RATE_MPS[0] <= rate_mps <= RATE_MPS[1]:
        raise Mistake(f"load.{name}.load={spec['load']}: {rate_mps / 1000:g} messages a second; expected "
                      f"{RATE_MPS[0] / 1000:g} to {RATE_MPS[1] / 1000:g}")
    cdf = ",".join(f"{size}:{round(p * 1_000_000)}" for size, p in points)
    return f"poisson group={group} rate_mps={rate_mps} cdf={cdf} pool={spec['pool']} seed={seed * 1000 + group}"


def expand(loads, topology, cc, seed, until_ns):
    """(flows, lines for labload). Groups are numbered as the loads come."""
    flows, after = [], []
    for group, (name, spec) in enumerate(loads.items()):
        own = expand_one(name, spec, topology, group, random.Random(f"{seed}/{name}"), until_ns)
        if not own:
            raise Mistake(f"load.{name}: makes no flow")
        for flow in own:
            if not (0 <= flow.src < topology.hosts and 0 <= flow.dst < topology.hosts):
                bad = next(h for h in (flow.src, flow.dst) if not 0 <= h < topology.hosts)
                raise Mistake(f"load.{name}: host {bad}: expected 0 to {topology.hosts - 1}")
        flows += own
        if spec["kind"] == "poisson":
            after.append(poisson_line(name, spec, topology, group, seed))
    if len(flows) > FLOWS_MAX:
        raise Mistake(f"load: {len(flows)} flows; expected at most {FLOWS_MAX}")
    random.Random(f"{seed}/order").shuffle(flows)  # in which they connect
    specs = list(loads.values())
    return flows, [flow_line(flow, specs[flow.group], specs[flow.group]["law"] or cc) for flow in flows] + after
