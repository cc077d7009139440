# SPDX-License-Identifier: GPL-2.0
"""What a fabric would deliver of the messages that arrive, if a law shared its links max-min
fairly at each moment, at no delay and without loss: a fluid, in steps. What a law reaches of
it is the law's; what it lacks to the links' rate is the load's."""

import collections
import heapq

WIRE_OVERHEAD_BYTES = 24  # preamble, frame check sequence, gap
ETHERNET_BYTES = 14
HEADERS_BYTES = 52  # IPv4, TCP, its timestamps
FRAME_MIN_BYTES = 60
STEP_NS, STEPS_MAX = 10_000, 500


def wire_bytes(payload):
    return max(payload + HEADERS_BYTES + ETHERNET_BYTES, FRAME_MIN_BYTES) + WIRE_OVERHEAD_BYTES


def message_wire_bytes(size, mss):
    """Of all its frames."""
    full, rest = divmod(size - 1, mss)
    return full * wire_bytes(mss) + wire_bytes(rest + 1)


def max_min(wanted, links_of, room):
    """{pair: what it gets} of {pair: what it wants}; links_of: {pair: its links}; room: {link: what it carries}.
    Rises for all alike; whoever has what it wants, or meets a full link, stays."""
    left, users = dict(room), collections.defaultdict(set)
    for pair in wanted:
        for link in links_of[pair]:
            users[link].add(pair)
    given, small = {}, sorted(wanted, key=lambda pair: (wanted[pair], pair))
    full = [(left[link] / len(pairs), link) for link, pairs in users.items()]
    heapq.heapify(full)
    at = 0

    def settle(pair, amount):
        given[pair] = amount
        for link in links_of[pair]:
            users[link].discard(pair)
            left[link] -= amount

    while len(given) < len(wanted):
        while small[at] in given:
            at += 1
        # A link's share only grows while others settle below it: what the heap has is never too much.
        share, link = full[0]
        now = max(0.0, left[link]) / len(users[link]) if users[link] else None
        if now is None:
            heapq.heappop(full)
        elif now > share * (1 + 1e-12):
            heapq.heapreplace(full, (now, link))
        elif wanted[small[at]] <= now:
            settle(small[at], wanted[small[at]])
        else:
            for pair in sorted(users[link]):
                settle(pair, now)
    return given


def links(topology, src, dst):
    """Of two hosts. Between racks all equal paths are one: a fabric that spreads perfectly."""
    a, b = topology.rack[src], topology.rack[dst]
    own = (("from", src), ("to", dst))
    if topology.spec["kind"] == "dumbbell":  # switches in a row: one way, link by link
        step = 1 if a < b else -1
        return (*own, *(("core", at, at + step) for at in range(a, b, step)))
    return own if a == b else (*own, ("up", a), ("down", b))


def rooms(topology):
    """{link: bytes/s}"""
    result = {}
    for host, link in topology.host_links.items():
        result["from", host] = result["to", host] = link.rate_bps / 8
    for rack in set(topology.rack):
        result["up", rack] = result["down", rack] = sum(link.rate_bps for _, link in topology.neighbours[rack]) / 8
    for switch, neighbours in topology.neighbours.items():
        for other, link in neighbours:
            result["core", switch, other] = link.rate_bps / 8
    return result


def goodput_bps(messages, topology, begin_ns, end_ns):
    """Payload that is delivered from begin_ns to end_ns, of messages [(arrived_ns, src, dst, bytes)] from 0 on."""
    mss = topology.spec["mtu"] - HEADERS_BYTES
    step_ns = max(STEP_NS, -(-end_ns // STEPS_MAX))
    rate = rooms(topology)
    wire, payload = collections.Counter(), collections.Counter()  # of each pair, not yet delivered
    links_of, delivered, at = {}, 0.0, 0
    messages = sorted(messages)
    for start in range(0, end_ns, step_ns):
        stop = min(start + step_ns, end_ns)
        while at < len(messages) and messages[at][0] < stop:
            _, src, dst, size = messages[at]
            wire[src, dst] += message_wire_bytes(size, mss)
            payload[src, dst] += size
            links_of.setdefault((src, dst), links(topology, src, dst))
            at += 1
        given = max_min(wire, links_of, {link: bps * (stop - start) / 1e9 for link, bps in rate.items()}) if wire else {}
        part = min(1, max(0, stop - begin_ns) / (stop - start))  # of the step that is in the window
        for pair, amount in given.items():
            carried = payload[pair] * min(1.0, amount / wire[pair])
            delivered += carried * part
            if amount >= wire[pair]:
                del wire[pair], payload[pair]
            else:
                wire[pair] -= amount
                payload[pair] -= carried
    return delivered * 8e9 / (end_ns - begin_ns)
