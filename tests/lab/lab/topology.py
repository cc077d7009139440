# SPDX-License-Identifier: GPL-2.0
"""Topologies: from a few numbers to hosts, switches and links, and the way between two
hosts. Rates in bits/s, times in ns, sizes in bytes."""

import collections
import dataclasses
import functools

from . import Mistake, fields
from .fields import text, whole

RATE = (1_000_000, 1_600_000_000_000)
PROP = (0, 1_000_000_000)
HOSTS_MAX, SWITCHES_MAX, LINKS_MAX = 1024, 1024, 8192

HOST = {
    "txq_pkts": whole(None, 64, 65536, "NIC's TX queue"),
    "ring_pkts": whole(None, 1, 1 << 20, "NIC's RX ring"),
    "rx_pkt_ns": whole(None, 0, 1_000_000, "host's service time a packet"),
    "rx_kb_ns": whole(None, 0, 1_000_000, "host's service time per 1024 bytes"),
    "rx_wake_ns": whole(1000, 0, 1_000_000, "to wake for the first packet of some, at most"),
    "cores": whole(None, 0, 256, "with an RX queue each, that take time; 0 = hosts that cost nothing"),
    "gro": whole(None, 0, 1, "segments are merged, as the kernel does it"),
    "rx_usecs": whole(None, 0, 10_000, "to the interrupt, from the first frame that waits for it; as of ethtool -C"),
    "rx_frames": whole(None, 0, 65_536, "so many do not wait longer; 0 = they do"),
    "irq_ns": whole(None, 0, 1_000_000, "from an interrupt to a softirq on an idle core, at least; rx_wake_ns on top, at most"),
    "seg_ns": whole(None, 0, 1_000_000, "CPU time a segment, of whatever size, received or sent"),
    "ack_ns": whole(None, 0, 1_000_000, "CPU time a pure ACK, received or sent"),
    "timer_ns": whole(None, 0, 1_000_000, "CPU time of what sends without being answered: timers, calls, completions"),
    "timer_slack_ns": whole(None, 0, 1_000_000, "by which it is late on an idle core, at most"),
    "noise_ns": whole(None, 0, 1_000_000_000, "a burst in which a core does something else"),
    "noise_every_ns": whole(None, 0, 1_000_000_000, "from one to the next on average (uniform, 0 to twice that)"),
    "rx_stage": text(None, "where packets wait for the host", ("ring", "stack")),
    "stamps": whole(None, 0, 1, "hardware stamps"),
    "netdev_stamps": whole(None, 0, 1, "which the driver makes when it is asked"),
    "phc": whole(None, 0, 1, "a PTP clock"),
    "phc_offset_ns": whole(None, -(1 << 61), 1 << 61, "of the PTP clock"),
    "phc_drift_ppb": whole(None, -1_000_000, 1_000_000, "of the PTP clock"),
}
SWITCH = {
    "buffer_bytes": whole(8 << 20, 16384, (1 << 32) - 1, "a port's buffer, or with shared = 1 the switch's"),
    "shared": whole(0, 0, 1, "one buffer for all ports, by dynamic thresholds"),
    "alpha_milli": whole(None, 1, 1_000_000, "of the dynamic thresholds, 1/1000"),
    "ecn_bytes": whole(0, 0, (1 << 32) - 1, "queue above which packets are marked; 0 = none are"),
    "pfc_xoff_bytes": whole(None, 0, (1 << 32) - 1, "PFC: of a class and a port it came in through, more than this stops the "
                            "sender; 0 = never"),
    "pfc_xon_bytes": whole(None, 0, (1 << 32) - 1, "and no more than this lets it go on"),
    "latency_ns": whole(0, 0, 1_000_000, "from the last bit in to the first bit out"),
    "spray": whole(0, 0, 1, "spray packets over equal paths, instead of ECMP by flow"),
    "weights": text(None, "W0,...,W7 of the classes; 0 = strict priority"),
}
FRAME_BYTES = 14 + 24  # Ethernet's header; preamble, checksum and gap
ACK_BYTES = 66 + 24


def wait_ns(host):
    """How long a packet waits in a host that has nothing else to do, at most."""
    cost = sum(host.get(key) or 0 for key in ("rx_wake_ns", "irq_ns", "rx_pkt_ns", "seg_ns"))
    return cost + 1000 * (host.get("rx_usecs") or 0)


COMMON = {
    "kind": text("star", "shape", ("star", "dumbbell", "leafspine", "fattree")),
    "mtu": whole(4096, 1280, 9216, "of all hosts"),
    "rate_bps": whole(50_000_000_000, *RATE, "of the hosts' links"),
    "prop_ns": whole(1000, *PROP, "propagation on the hosts' links"),
    "props_ns": fields.listing([], "instead: on each host's link; the last is of all that follow, too"),
    "switch": fields.table("all switches"),
    "host": fields.table("all hosts"),
    "receiver": fields.table("host 0, on top of host"),
}
KINDS = {
    "star": {
        "hosts": whole(3, 2, HOSTS_MAX, "around one switch"),
        "receiver_rate_bps": whole(0, 0, RATE[1], "of host 0's link; 0 = rate_bps"),
    },
    "dumbbell": {
        "left": whole(2, 1, HOSTS_MAX, "hosts 0 to left - 1"),
        "right": whole(2, 1, HOSTS_MAX, "the rest"),
        "places": fields.listing([], "instead of both: the switch of each host"),
        "switches": whole(2, 2, 64, "in a row between them"),
        "core_rate_bps": whole(0, 0, RATE[1], "of the links between switches; 0 = rate_bps"),
        "core_prop_ns": whole(1000, *PROP, "propagation on the links between switches"),
    },
    "leafspine": {
        "tors": whole(2, 1, 256, "racks; host N is in rack N / hosts_per_tor"),
        "hosts_per_tor": whole(2, 1, HOSTS_MAX, "hosts a rack"),
        "spines": whole(1, 1, 256, "each linked to each rack"),
        "core_rate_bps": whole(0, 0, RATE[1], "of the links to the spines; 0 = rate_bps"),
        "core_prop_ns": whole(1000, *PROP, "propagation on the links to the spines"),
    },
    "fattree": {
        "k": whole(4, 2, 16, "ports a switch: k^3/4 hosts; even"),
        "core_prop_ns": whole(1000, *PROP, "propagation on the links between switches"),
    },
}

Link = collections.namedtuple("Link", "a b rate_bps prop_ns")


@dataclasses.dataclass
class Topology:
    """Hosts are 0, 1, ..; switches too. `rack` has each host's switch."""
    spec: dict
    hosts: int
    switches: int = 0
    links: list = dataclasses.field(default_factory=list)
    rack: list = dataclasses.field(default_factory=list)
    tors: list = dataclasses.field(default_factory=list)
    host_links: dict = dataclasses.field(default_factory=dict)

    def add_host_link(self, host, switch, rate_bps):
        props = self.spec["props_ns"] or [self.spec["prop_ns"]]
        self.host_links[host] = Link(f"h{host}", f"s{switch}", rate_bps, props[min(host, len(props) - 1)])
        self.links.append(self.host_links[host])
        self.rack.append(switch)

    def add_core_link(self, a, b):
        rate = self.spec.get("core_rate_bps") or self.spec["rate_bps"]
        self.links.append(Link(f"s{a}", f"s{b}", rate, self.spec["core_prop_ns"]))

    @functools.cached_property
    def neighbours(self):
        result = collections.defaultdict(list)
        for link in self.links:
            if link.a[0] == "s":
                result[int(link.a[1:])].append((int(link.b[1:]), link))
                result[int(link.b[1:])].append((int(link.a[1:]), link))
        return result

    @functools.lru_cache(maxsize=None)
    def core_path(self, a, b):
        """Links of one shortest way between two switches; all of these are alike here."""
        back, queue = {a: None}, collections.deque([a])
        while queue and b not in back:
            at = queue.popleft()
            for to, link in self.neighbours[at]:
                if to not in back:
                    back[to] = (at, link)
                    queue.append(to)
        path = []
        while back[b]:
            path.insert(0, back[b][1])
            b = back[b][0]
        return tuple(path)

    def path(self, src, dst):
        """[(rate_bps, ns until the last bit is ready to go on)], a link each."""
        latency = self.spec["switch"]["latency_ns"]
        links = [self.host_links[src], *self.core_path(self.rack[src], self.rack[dst]), self.host_links[dst]]
        # Whatever enters a switch waits for its latency: all links but the last end in one.
        return tuple((link.rate_bps, max(link.prop_ns, 1) + (latency if i < len(links) - 1 else 0))
                     for i, link in enumerate(links))

    __hash__ = object.__hash__

    def base_rtt_ns(self):
        """The longest way there and back with nothing queued: a full frame, its ACK, and both hosts as late as they are."""
        def way(path, frame_bytes):
            return sum(ns + frame_bytes * 8e9 / rate_bps for rate_bps, ns in path)

        # The two of each rack whose links are the longest.
        far = sorted(range(self.hosts), key=lambda host: -self.host_links[host].prop_ns)
        ends = [host for rack in set(self.rack) for host in [h for h in far if self.rack[h] == rack][:2]]
        hosts_ns = sum(wait_ns(one) for one in (self.spec["host"], self.spec["host"] | self.spec["receiver"]))
        return round(hosts_ns + max(way(self.path(a, b), self.spec["mtu"] + FRAME_BYTES) + way(self.path(b, a), ACK_BYTES)
                                    for a in ends for b in ends if a != b))

    # What the guest is told.

    def host_args(self, host, seed, more=None, last=None):
        """`more`: on top of what all have; what the experiment says of this one wins, but over `last`."""
        args = {"mtu": self.spec["mtu"]} | (more or {}) | self.spec["host"] | (self.spec["receiver"] if host == 0 else {})
        args |= last or {}
        return " ".join(f"{k}={v}" for k, v in (args | {"seed": seed}).items())

    def switch_lines(self, seed):
        args = " ".join(f"{k}={v}" for k, v in self.spec["switch"].items() if v != "")
        return [f"id={i} {args} seed={seed}" for i in range(self.switches)]

    def link_lines(self):
        return [f"a={link.a} b={link.b} rate_bps={link.rate_bps} prop_ns={link.prop_ns}" for link in self.links]


def build_star(spec):
    t = Topology(spec, spec["hosts"], 1, tors=[0])
    for host in range(t.hosts):
        t.add_host_link(host, 0, host == 0 and spec["receiver_rate_bps"] or spec["rate_bps"])
    return t


def build_dumbbell(spec):
    places = spec["places"] or [0] * spec["left"] + [spec["switches"] - 1] * spec["right"]
    t = Topology(spec, len(places), spec["switches"], tors=list(range(spec["switches"])))
    for host, place in enumerate(places):
        t.add_host_link(host, place, spec["rate_bps"])
    for switch in range(spec["switches"] - 1):
        t.add_core_link(switch, switch + 1)
    return t


def build_leafspine(spec):
    """Switches: the racks', then the spines."""
    tors = spec["tors"]
    t = Topology(spec, tors * spec["hosts_per_tor"], tors + spec["spines"], tors=list(range(tors)))
    for host in range(t.hosts):
        t.add_host_link(host, host // spec["hosts_per_tor"], spec["rate_bps"])
    for tor in range(tors):
        for spine in range(spec["spines"]):
            t.add_core_link(tor, tors + spine)
    return t


def build_fattree(spec):
    """Al-Fares et al., SIGCOMM 2008: k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 core
    switches. Switches: the edges pod by pod, the aggregations, the core."""
    k, half = spec["k"], spec["k"] // 2
    if k % 2:
        raise Mistake(f"topology.k={k}: expected an even number")
    edges = k * half
    t = Topology(spec, edges * half, 2 * edges + half * half, tors=list(range(edges)))
    for host in range(t.hosts):
        t.add_host_link(host, host // half, spec["rate_bps"])
    for pod in range(k):
        for i in range(half):
            for j in range(half):
                t.add_core_link(pod * half + i, edges + pod * half + j)
                t.add_core_link(edges + pod * half + i, 2 * edges + i * half + j)
    return t


def check_places(spec, given):
    if not spec.get("places"):
        return
    for key in ("left", "right"):
        if key in given:
            raise Mistake(f"topology.{key}={given[key]}: expected none beside places")
    for place in spec["places"]:
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < spec["switches"]:
            raise Mistake(f"topology.places={place}: expected switches, 0 to {spec['switches'] - 1}")
    if len(spec["places"]) < 2:
        raise Mistake("topology.places: expected 2 hosts or more")


def check_props(spec, given):
    if "props_ns" in given and "prop_ns" in given:
        raise Mistake(f"topology.prop_ns={given['prop_ns']}: expected none beside props_ns")
    fields.each("topology.props_ns", whole(None, *PROP, ""), spec["props_ns"])


def check_weights(text_):
    weights = text_.split(",")
    if len(weights) != 8 or not all(weight.isdecimal() and int(weight) <= 1000 for weight in weights):
        raise Mistake(f"topology.switch.weights={text_}: expected 8 numbers of 0 to 1000, as 1,1,1,1,1,1,1,1")


def resolve(given):
    """A [topology] table, checked and filled."""
    kind = fields.check("topology.kind", COMMON["kind"], given.get("kind", "star"))
    spec = fields.fill("topology", COMMON | KINDS[kind], given)
    check_places(spec, given)
    check_props(spec, given)
    for part, known in (("switch", SWITCH), ("host", HOST), ("receiver", HOST)):
        spec[part] = fields.fill(f"topology.{part}", known, spec[part])
    if spec["switch"].get("weights"):
        check_weights(spec["switch"]["weights"])
    xoff, xon = (spec["switch"].get(f"pfc_{what}_bytes", 0) for what in ("xoff", "xon"))
    if xon > xoff:
        raise Mistake(f"topology.switch.pfc_xon_bytes={xon}: expected 0 to {xoff}, pfc_xoff_bytes")
    return spec


def build(spec):
    t = {"star": build_star, "dumbbell": build_dumbbell, "leafspine": build_leafspine,
         "fattree": build_fattree}[spec["kind"]](spec)
    for what, number, limit in (("hosts", t.hosts, HOSTS_MAX), ("switches", t.switches, SWITCHES_MAX),
                                ("links", len(t.links), LINKS_MAX)):
        if number > limit:
            raise Mistake(f"topology: {number} {what}; expected at most {limit}")
    return t
