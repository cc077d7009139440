# SPDX-License-Identifier: GPL-2.0
"""The congestion controls and their tunables, read from where they are defined, so that
a range is written down once."""

import functools
import re

from . import Mistake, TOP, fields

# Where a law comes from: ours (built here), the kernel's (a module of the lab's kernel), built in.
SOURCES = {"swift": "ours", "timely": "ours", "gcn": "ours", "fast": "ours", "theta-powertcp": "ours", "dctcp": "kernel",
           "bbr": "kernel", "cubic": "built in", "reno": "built in"}
# Where the tunables of ours are, but for Swift's.
HEADERS = {"timely": "kmod/core/timely.h", "gcn": "kmod/core/gcn.h", "fast": "kmod/core/fast.h",
           "theta-powertcp": "tests/lab/laws/theta_powertcp.h"}
ECN = ("dctcp", "gcn")
TCP_INIT_CWND = 10  # the kernel's


def header(path):
    """With what goes over several lines on one."""
    return (TOP / path).read_text(encoding="utf-8").replace("\\\n", " ")


def rows(source):
    """The X(name, default, minimum, maximum, "meaning") rows of a header."""
    found = re.findall(r'\bX\((\w+), (\d+), (\d+), (\d+),\s*"([^"]*)"\)', source)
    return {key: fields.whole(int(default), int(lo), int(hi), doc) for key, default, lo, hi, doc in found}


def shell_sysctls():
    """Those that are not the law's: from the table of Documentation/sysctl.md, name, default, from, to."""
    result = {}
    for line in (TOP / "Documentation/sysctl.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and re.fullmatch(r"`\w+`", cells[0]) and cells[2]:
            name, default, lo, hi, doc = cells[0].strip("`"), *cells[1:]
            result[name] = fields.whole(int(default), int(lo), int(hi), doc)
    return result


def target_policy(source):
    """A choice by name: its values are an enumeration's."""
    choices = re.findall(r"^\tSWIFT_TARGET_(\w+),", source, re.MULTILINE)
    default, doc = re.search(r'\bX\(target_policy, SWIFT_TARGET_(\w+), \d+, \d+,\s*"([^"]*)"\)', source).groups()
    return fields.text(default.lower(), doc, tuple(name.lower() for name in choices))


def swift_sysctls():
    law = header("kmod/core/swift_params.h")
    result = shell_sysctls() | rows(law) | rows(header("kmod/core/sird.h")) | {"target_policy": target_policy(law)}
    # The lab's hosts always tell their receivers' delay: without it there is no split.
    return result | {"echo": result["echo"]._replace(default=1)}


@functools.cache
def tunables(law):
    if law == "swift":
        return swift_sysctls()
    if law in HEADERS:
        return rows(header(HEADERS[law]))
    if law == "dctcp":
        return {"shift_g": fields.whole(4, 0, 10, "weight of a new mark ratio, 2^-shift_g"),
                "alpha_on_init": fields.whole(1024, 0, 1024, "first estimate of alpha, 1/1024")}
    return {}


COMMON = {"initcwnd": fields.whole(0, 0, 65535, "initial window of the hosts' routes, packets; 0 = the law's own"),
          "quickack": fields.whole(0, 0, 1, "1 = the hosts' routes delay no ACKs")}


# What the modules of the others would refuse: key, not below, not above.
ORDERED = (("t_high_ns", "t_low_ns", None), ("max_rate_mbps", "min_rate_mbps", None),
           ("init_rate_mbps", "min_rate_mbps", "max_rate_mbps"), ("host_mbps", "min_rate_mbps", None))


def check_order(name, values):
    for key, low, high in ORDERED:
        if key in values and (values[key] < values[low] or high and values[key] > values[high]):
            raise Mistake(f"laws.{name}.{key}={values[key]}: expected at least {low}={values[low]}"
                          + (f" and at most {high}={values[high]}" if high else ""))


def check_windows(name, known, values):
    """What the module would refuse: defaults count."""
    value = {key: values.get(key, field.default) for key, field in known.items()}
    least = 2 * value["fs_min_cwnd_milli"]
    if value["fs_max_cwnd_milli"] < least:
        raise Mistake(f"laws.{name}.fs_max_cwnd_milli={value['fs_max_cwnd_milli']}: expected at least {least}, "
                      "twice fs_min_cwnd_milli")
    most = value["max_cwnd"] * 1_000_000
    if value["min_cwnd_micro"] > most:
        raise Mistake(f"laws.{name}.min_cwnd_micro={value['min_cwnd_micro']}: expected at most {most}, max_cwnd")


def resolve(name, given):
    """The law called `name` in an experiment: {"law": base, its given tunables, ...}."""
    base = given.get("law", name)
    fields.check(f"laws.{name}.law" if "law" in given else "cc", fields.text(None, "", tuple(SOURCES)), base)
    rest = {key: value for key, value in given.items() if key != "law"}
    filled = fields.fill(f"laws.{name}", tunables(base) | COMMON, rest)
    check_order(name, filled)
    if base == "swift":
        check_windows(name, tunables(base), filled)
    kept = {key: filled[key] for key in rest if key not in COMMON} | {key: filled[key] for key in COMMON}
    if base == "swift":
        kept.setdefault("echo", 1)
    return {"law": base} | kept


def in_topology(law, t):
    """With what an operator of theta-PowerTCP says of the network, if the experiment does not: the NICs' rate, and the
    longest base RTT (section 4 of its paper)."""
    if law["law"] != "theta-powertcp":
        return law
    return {"host_mbps": t.spec["rate_bps"] // 1_000_000, "base_rtt_ns": t.base_rtt_ns()} | law


def initial_window(law):
    """Packets of a new connection: a route's goes before Swift's own, and that before TCP's."""
    return law["initcwnd"] or law.get("init_cwnd") or (tunables("swift")["init_cwnd"].default if law["law"] == "swift"
                                                       else TCP_INIT_CWND)


def sysctls(law):
    """Of each host."""
    values = {"net.ipv4.tcp_congestion_control": law["law"]}
    if law["law"] in ECN:
        values["net.ipv4.tcp_ecn"] = 1
    if law["law"] == "swift":
        # In the order of the table, but for the bounds, which must never contradict each other.
        values |= {f"net.ipv4.tcp_swift.{key}": law[key] for key in sorted(tunables("swift").keys() & law.keys(),
                                                                          key=lambda k: ("max" not in k, k))}
    return values


def module(law, folder, kernel):
    """How to load it: "path name=value...", or None."""
    base, given = law["law"], {k: v for k, v in law.items() if k in tunables(law["law"])}
    if SOURCES[base] == "built in":
        return None
    if base == "swift":
        return f"{folder}/tcp_swift.ko"
    if SOURCES[base] == "ours":
        return " ".join([f"{folder}/{base.replace('-', '_')}.ko", *(f"{k}={v}" for k, v in given.items())])
    return " ".join([f"{kernel}/net/ipv4/tcp_{base}.ko", *(f"{base}_{k}={v}" for k, v in given.items())])
