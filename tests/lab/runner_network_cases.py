# SPDX-License-Identifier: GPL-2.0
"""Cases of test_runner: topologies; how long a message takes in one that is empty, and what
slowdown is; the flows that loads become."""

import struct

from lab import experiment, load, measure, topology
from runner_common import build, loads_of, mistake, near, run_of, same, says


# --- Topologies --------------------------------------------------------------------------

def star__has_a_link_each_and_a_receiver_of_its_own_rate():
    t = build(kind="star", hosts=4, rate_bps=10**10, receiver_rate_bps=2 * 10**10, prop_ns=500)
    same(t.link_lines()[0], "a=h0 b=s0 rate_bps=20000000000 prop_ns=500")
    same([len(t.links), t.switches, t.rack], [4, 1, [0] * 4])
    same(t.path(1, 0), ((10**10, 500), (2 * 10**10, 500)))


def star__switch_latency_counts_where_a_switch_is_entered():
    t = build(kind="star", hosts=2, prop_ns=100, switch={"latency_ns": 300})
    same([ns for _, ns in t.path(0, 1)], [400, 100])


def star__has_links_of_different_lengths():
    t = build(kind="star", hosts=4, rate_bps=10**10, props_ns=[10, 20])
    same([link.prop_ns for link in t.links], [10, 20, 20, 20])
    says(mistake(lambda: build(kind="star", props_ns=[-1])), "topology.props_ns=-1", "0 to")
    says(mistake(lambda: build(kind="star", props_ns=[1], prop_ns=1)), "topology.prop_ns=1", "none beside props_ns")


def dumbbell__crosses_all_switches():
    t = build(kind="dumbbell", left=2, right=3, switches=4, core_rate_bps=10**9)
    same([t.hosts, t.switches, len(t.links)], [5, 4, 5 + 3])
    same([rate for rate, _ in t.path(0, 4)][1:-1], [10**9] * 3)
    same(len(t.path(0, 1)), 2)


def leafspine__of_sird():
    t = build(kind="leafspine", tors=9, hosts_per_tor=16, spines=4, rate_bps=10**11, core_rate_bps=4 * 10**11)
    same([t.hosts, t.switches, len(t.links), t.tors], [144, 13, 144 + 36, list(range(9))])
    same(len(t.path(0, 15)), 2)
    same([rate for rate, _ in t.path(0, 16)], [10**11, 4 * 10**11, 4 * 10**11, 10**11])


def fattree__of_12_has_432_hosts():
    t = build(kind="fattree", k=12)
    same([t.hosts, t.switches, len(t.links)], [432, 180, 432 * 3])
    same([len(t.path(0, h)) for h in (5, 6, 36)], [2, 4, 6])


def fattree__all_ports_are_used():
    t = build(kind="fattree", k=4)
    ports = [end for link in t.links for end in (link.a, link.b) if end[0] == "s"]
    same({ports.count(f"s{i}") for i in range(t.switches)}, {4})


def topology__refuses():
    says(mistake(lambda: build(kind="star", hosts=1)), "topology.hosts=1", "2 to 1024")
    says(mistake(lambda: build(kind="ring")), "topology.kind=ring", "star")
    says(mistake(lambda: build(kind="star", host={"rx_pkt": 1})), "topology.host.rx_pkt", "rx_pkt_ns")
    says(mistake(lambda: build(kind="fattree", k=5)), "topology.k=5", "even")
    says(mistake(lambda: build(kind="leafspine", tors=200, hosts_per_tor=10)), "2000 hosts", "1024")


def sird__rtts_are_the_papers():
    """5.5 us in a rack, 7.5 us between racks, for a full packet and its ACK."""
    case = experiment.cases(experiment.read("sird"))[0]
    t = topology.build(case.spec["topology"])

    def rtt(src, dst):
        return (measure.ideal_ns(1448, t.path(src, dst), 1500) + measure.ideal_ns(1, t.path(dst, src), 1500)) / 1000

    near(rtt(0, 1), 5.5, 0.03)
    near(rtt(0, 16), 7.5, 0.03)


# --- Slowdown ----------------------------------------------------------------------------

def simulate(size, path, mtu):
    """Store and forward, frame by frame: what ideal_ns() has in closed form."""
    mss = mtu - measure.HEADERS_BYTES
    frames = [mss] * ((size - 1) // mss) + [(size - 1) % mss + 1]
    at = [0.0] * len(frames)
    for rate, ns in path:
        free = 0.0
        for i, payload in enumerate(frames):
            free = max(free, at[i]) + measure.wire_bytes(payload) * 8e9 / rate
            at[i] = free + ns
    return at[-1]


def ideal_ns__of_one_packet():
    same(measure.ideal_ns(100, ((10**9, 50), (10**9, 50)), 1500), 2 * (190 * 8 + 50))


def ideal_ns__of_a_byte_is_a_smallest_frame():
    same(measure.ideal_ns(1, ((10**9, 0),), 1500), (52 + 14 + 1 + 24) * 8)


def ideal_ns__is_what_a_simulation_says():
    paths = (((10**10, 500),) * 2, ((10**11, 1000), (4 * 10**11, 300), (4 * 10**11, 300), (10**11, 1000)),
             ((4 * 10**10, 10), (10**10, 20)), ((10**9, 1), (10**11, 1), (5 * 10**9, 1)))
    for path in paths:
        for size in (1, 1447, 1448, 1449, 2 * 1448, 65536, 1000001):
            near(measure.ideal_ns(size, path, 1500), simulate(size, path, 1500))


def size_group__bounds():
    same("".join(measure.size_group(s, 1448, 100000) for s in (1, 1447, 1448, 99999, 100000, 799999, 800000)), "AABBCCD")


def slowdown__leaves_out_and_counts():
    raw = {"topology": {"kind": "star", "hosts": 3, "mtu": 1500, "rate_bps": 10**9, "prop_ns": 1000},
           "load": {"a": {"kind": "poisson", "size": 1000}, "b": {"kind": "poisson", "size": 1000}},
           "measure": {"exclude": ["b"]}, "time": {"warmup_ms": 1, "measure_ms": 1}}
    run = run_of(raw)
    group_a, group_b = (next(i for i, flow in enumerate(run.flows) if flow.group == group) for group in (0, 1))
    ideal = measure.ideal_ns(1000, run.topology.path(0, 1), 1500)
    records = [(group_a, 1000, 1_000_000, 1_000_000 + round(2 * ideal)), (group_a, 1000, 1_000_000, 1_000_000 + round(4 * ideal)),
               (group_a, 1000, 0, 900_000), (group_b, 1000, 1_000_000, 1_900_000), (group_a, 1000, 1_000_000, 0)]
    found, unfinished = measure.slowdown(b"".join(struct.pack("=IIQQQ", *r, 0) for r in records), run.flows, run)
    same([found["all"]["count"], unfinished, sorted(found)], [2, 1, ["A", "all"]])
    near(found["all"]["p99"], 4, 1e-3)


# --- Loads ---------------------------------------------------------------------------------

def incast__all_others_to_one():
    flows, lines = loads_of({"x": {"kind": "incast", "flows": 2}}, build(kind="star", hosts=4))
    same(sorted((f.src, f.dst) for f in flows), [(1, 0), (1, 0), (2, 0), (2, 0), (3, 0), (3, 0)])
    first = flows[0]
    same(lines[0], f"flow group=0 src={first.src} dst=0 mode=stream cc=swift start_ns={first.start_ns}")


def incast__of_messages_spread_and_stopped():
    flows, lines = loads_of({"x": {"kind": "incast", "size": 64, "depth": 3, "spread_us": 100, "stop_ms": 5}},
                            build(kind="star", hosts=3))
    assert flows[0].start_ns != flows[1].start_ns and all(0 <= f.start_ns < 100_000 for f in flows)
    says(lines[0], "mode=rpc", "size=64 resp=64 depth=3", "stop_ns=5000000")


def again__starts_each_flow_so_often():
    t = build(kind="star", hosts=3)
    flows, lines = loads_of({"x": {"kind": "incast", "size": 64, "once": 1, "start_ms": 2, "every_ms": 5}}, t)
    assert all(f.stop_ns == f.start_ns + 1 and f.start_ns >= 2 * 10**6 for f in flows)
    says(lines[0], f"start_ns={flows[0].start_ns} stop_ns={flows[0].stop_ns} every_ns=5000000")
    _, lines = loads_of({"x": {"kind": "incast", "stop_ms": 1, "every_ms": 2}}, t)
    says(lines[0], "mode=stream", "stop_ns=1000000 every_ns=2000000")


def again__refuses():
    def says_of(*words, **given):
        says(mistake(load.resolve, "x", {"kind": "incast", **given}), *words)
    says_of("load.x.once=1", "a size", once=1)
    says_of("load.x.once=1", "no stop_ms", once=1, size=64, stop_ms=1)
    says_of("load.x.every_ms=5", "once or stop_ms", every_ms=5)
    says_of("load.x.every_ms=5", "more than it is on for", start_ms=1, stop_ms=7, every_ms=5)
    says_of("load.x.every_ms=5", "open=at-start", stop_ms=1, every_ms=5, open="at-start")


def incast__is_of_the_seed():
    t, spec = build(kind="star", hosts=9), {"x": {"kind": "incast", "spread_us": 50, "receiver": -1}}
    same(loads_of(spec, t, 1), loads_of(spec, t, 1))
    assert loads_of(spec, t, 1) != loads_of(spec, t, 2)


def poisson__rate_is_of_the_hosts_lines():
    flows, lines = loads_of({"x": {"kind": "poisson", "size": 1000, "load": 0.5}}, build(kind="star", hosts=4, rate_bps=8 * 10**9))
    same(len(flows), 12)
    # 4 hosts x 1 GB/s x 0.5 / 1000 bytes = 2e6 messages a second
    same(lines[-1], "poisson group=0 rate_mps=2000000000 cdf=1000:1000000 pool=1 seed=1000")


def poisson__of_other_racks_with_few_peers_is_even():
    for tors, hosts, peers in ((3, 2, 2), (25, 20, 8), (3, 4, 7)):
        t = build(kind="leafspine", tors=tors, hosts_per_tor=hosts)
        flows, _ = loads_of({"x": {"kind": "poisson", "size": 100_000, "pattern": "remote", "peers": peers}}, t)
        same(len({(f.src, f.dst) for f in flows}), t.hosts * peers)
        assert all(t.rack[f.src] != t.rack[f.dst] for f in flows)
        same({[f.dst for f in flows].count(h) for h in range(t.hosts)}, {peers})


def workloads__have_their_means():
    for name, mean in (("wka", 3122), ("wkb", 134854), ("wkc", 2509861), ("websearch", 1711250)):
        near(load.mean_size(load.read_cdf("x", name)), mean, 1e-3)


def join_leave__one_at_a_time():
    flows, _ = loads_of({"x": {"kind": "join-leave", "senders": 3, "step_ms": 1}}, build(kind="star", hosts=4))
    same(sorted((f.start_ns, f.stop_ns) for f in flows), [(i * 10**6, (3 + i) * 10**6) for i in range(3)])


def bursts__are_single_messages():
    t = build(kind="star", hosts=8, rate_bps=8 * 10**9)
    flows, _ = loads_of({"x": {"kind": "bursts", "senders": 5, "size": 1000, "load": 0.1}}, t, until_ns=100_000)
    # 5000 bytes each 5000 / 0.8e9 s
    same(sorted(f.start_ns for f in flows)[::5], list(range(6250, 100_000, 6250)))
    assert all(f.stop_ns == f.start_ns + 1 and f.src != f.dst for f in flows)


def load__refuses():
    t = build(kind="star", hosts=3)
    says(mistake(loads_of, {"x": {"kind": "incast", "senders": 7}}, t), "load.x.senders=7", "at most 2")
    says(mistake(loads_of, {"x": {"kind": "poisson", "size": 1, "peers": 9}}, t), "load.x.peers=9", "at most 2")
    says(mistake(loads_of, {"x": {"kind": "poisson", "cdf": "wkz"}}, t), "load.x.cdf=wkz", "websearch, wka, wkb, wkc")
    says(mistake(loads_of, {"x": {"kind": "pairs", "from": [5], "to": [0]}}, t), "host 5", "0 to 2")
    says(mistake(loads_of, {"x": {"kind": "incst"}}, t), "load.x.kind=incst", "incast")
    says(mistake(loads_of, {"x": {"kind": "pairs", "from": [1, 2], "to": [0, 2]}}, t),
         "load.x.to=2: expected hosts that are not in from")
    says(mistake(loads_of, {"x": {"kind": "pairs", "from": [True], "to": [0]}}, t),
         "load.x.from: expected a list of hosts")
    for stop_ms in (1, 5, 5.01):
        says(mistake(loads_of, {"x": {"kind": "incast", "start_ms": 5, "stop_ms": stop_ms}}, t),
             f"load.x.stop_ms={stop_ms}: expected more than 5.01, start_ms and spread_us")
    says(mistake(loads_of, {"x": {"kind": "poisson", "size": 1 << 30, "load": 0.001}}, t),
         "load.x.load=0.001: 0.017 messages a second; expected 0.1 to 1e+09")
    says(mistake(loads_of, {"x": {"kind": "incast", "flows": 30000}}, t), "60000 flows", "at most 45000")
