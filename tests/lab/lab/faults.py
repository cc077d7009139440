# SPDX-License-Identifier: GPL-2.0
"""What goes wrong in the fabric while load runs: [[fault]] of an experiment, as lines for
labfab at their times. A link has at any time the worst of what the faults say of it."""

from . import Mistake, fields
from .fields import number, text, whole

TIME_MS = (0, 1_000_000)
FAULT = {
    "link": text(None, "its two ends, as s0-s1 or h3-s0; or all, hosts, core"),
    "at_ms": number(0, *TIME_MS, "from the load's start"),
    "for_ms": number(0, *TIME_MS, "how long; 0 = to the end"),
    "loss": number(0, 0, 1, "part of the frames that are lost"),
    "corrupt": number(0, 0, 1, "part that the NIC or switch behind it throws away"),
    "reorder": number(0, 0, 1, "part that arrives reorder_us late"),
    "reorder_us": number(10, 0, 1_000_000, ""),
    "down": whole(0, 0, 1, "it carries nothing"),
    "flap_ms": number(0, *TIME_MS, "down = 1: for half of each such time, up for the other; 0 = all the time"),
    "avoid": whole(0, 0, 1, "routes change, to go elsewhere; what is on it arrives"),
    "reroute_ms": number(-1, -1, 1_000_000, "down = 1: when routes go elsewhere, and come back, after it went or came; -1 = never"),
}
SETS = ("all", "hosts", "core")
EFFECTS = ("loss", "corrupt", "reorder", "down", "avoid")
EVENTS_MAX = 10_000


def resolve(given):
    """The list of [[fault]], checked and filled."""
    result = []
    for number_, one in enumerate(given):
        where = f"fault.{number_}"
        spec = fields.fill(where, FAULT, fields.check(where, fields.table(""), one))
        if "link" not in spec:
            raise Mistake(f"{where}.link: missing; expected two ends, as s0-s1, or one of {', '.join(SETS)}")
        if not any(spec[key] for key in EFFECTS):
            raise Mistake(f"{where}: expected one of {', '.join(EFFECTS)} above 0")
        for key in ("loss", "corrupt", "reorder"):
            if 0 < spec[key] < 1e-6:
                raise Mistake(f"{where}.{key}={spec[key]}: expected 0, or 0.000001 to 1")
        for key in ("flap_ms", "reroute_ms"):
            if key in one and not spec["down"]:
                raise Mistake(f"{where}.{key}={one[key]}: expected down=1")
        result.append(spec)
    return result


def links(where, spec, topology):
    """Numbers of the links that a fault is of."""
    names = ["-".join((link.a, link.b)) for link in topology.links]
    if spec["link"] == "all":
        return list(range(len(names)))
    if spec["link"] in SETS:
        return [i for i, name in enumerate(names) if name.startswith("h") == (spec["link"] == "hosts")]
    for name in (spec["link"], "-".join(reversed(spec["link"].split("-")))):
        if name in names:
            return [names.index(name)]
    shown = ", ".join(names if len(names) < 9 else [*names[:3], "..", *names[-3:]])
    raise Mistake(f"{where}.link={spec['link']}: expected one of {shown}; or one of {', '.join(SETS)}")


def ns(ms):
    return round(ms * 1_000_000)


def spans(spec, until_ns):
    """[(from, to)] in which it holds."""
    start = ns(spec["at_ms"])
    end = min(start + ns(spec["for_ms"]), until_ns) if spec["for_ms"] else until_ns
    if not spec["flap_ms"]:
        return [(start, end)]
    every = max(2, ns(spec["flap_ms"]))
    if (end - start) // every > EVENTS_MAX:
        raise Mistake(f"fault: flap_ms={spec['flap_ms']}: more than {EVENTS_MAX} times; expected a longer one")
    return [(at, min(at + every // 2, end)) for at in range(start, end, every)]


def state(active):
    """What labfab is told of a link; `active` faults are on it."""
    worst = {key: max((one[key] for one in active), default=0) for key in EFFECTS}
    late_us = max((one["reorder_us"] for one in active if one["reorder"]), default=0)
    told = {f"{key}_ppm": round(worst[key] * 1_000_000) for key in ("loss", "corrupt", "reorder")}
    told |= {"reorder_ns": round(late_us * 1000), "down": worst["down"], "avoid": worst["avoid"]}
    return " ".join(f"{key}={value}" for key, value in told.items() if value)


def events(faults, topology, until_ns):
    """[[ns from the load's start, line]], in order."""
    held = []  # (link, from, to, fault)
    routes = set()
    for number_, spec in enumerate(faults):
        own = links(f"fault.{number_}", spec, topology)
        for begin, end in spans(spec, until_ns):
            held += [(link, begin, end, spec) for link in own]
            delay = 0 if spec["avoid"] and not spec["down"] else ns(spec["reroute_ms"])
            if spec["avoid"] or spec["down"] and spec["reroute_ms"] >= 0:
                routes |= {begin + delay, end + delay}
    result, last = [], {}
    for at in sorted({time for _, begin, end, _ in held for time in (begin, end) if time < until_ns}):
        for link in sorted({link for link, *_ in held}):
            now = state([spec for other, begin, end, spec in held if other == link and begin <= at < end])
            if now != last.get(link, ""):
                result.append([at, f"fault link={link} {now}".strip()])
                last[link] = now
    result += [[at, "routes"] for at in sorted(routes) if at < until_ns]
    return sorted(result, key=lambda event: event[0])  # the link first, then its routes


def any_of(faults):
    """Whether frames may be without a route."""
    return any(one["down"] or one["avoid"] for one in faults)
