# SPDX-License-Identifier: GPL-2.0
"""Experiments: tests/lab/experiments/ID.toml, what it may hold, its cases, and what
--set and --scale change. README.md beside the files explains the format.

Order: the file, then a case's values, then --scale, then --set; the last one wins. What Swift
has none of by then comes from the testbed's set of tunables (params.py)."""

import collections
import copy
import dataclasses
import difflib
import fnmatch
import functools
import itertools
import re
import tomllib

from . import Mistake, TOP, clocks, faults, fields, hosts, ideal, laws, load, measure, params, topology
from .fields import listing, number, table, text, whole
from .text import UNITS

FILES = TOP / "tests/lab/experiments"
SWIFT = "net.ipv4.tcp_swift."

FIELDS = {
    "title": text("", "one line"),
    "source": text("", "paper, figure or table"),
    "question": text("", "what is asked, one sentence"),
    "notes": text("", "where and why the set-up differs from the paper's"),
    "elsewhere": text("", "the command that runs it instead of the lab"),
    "ccs": listing([], "laws that are run"),
    "testbed": text(None, "whose set of Swift's tunables; none = nothing is set", params.TESTBEDS),
    "subject": listing([], "tunables of Swift that this experiment is about, and sets itself"),
    "seeds": whole(1, 1, 1000, "runs of each law and case"),
    "topology": table("see topology.py"),
    "hosts": table("see HOSTS"),
    "load": table("by name, see load.py"),
    "laws": table("by name, see laws.py"),
    "time": table("see TIME"),
    "measure": table("see MEASURE"),
    "sysctls": table("of each host, on top of the lab's"),
    "fault": listing([], "see faults.py"),
    "vary": listing([], "axes; each combination of their values is a case"),
    "scale": table("keys that --scale multiplies, and the least they become"),
    "expect": listing([], "see EXPECT"),
    "column": listing([], "see COLUMN"),
    "plot": listing([], "see PLOT"),
}
HOSTS = clocks.HOSTS | hosts.HOSTS | {
    "qdisc": text("fq", "queueing discipline of the hosts, whatever the law", ("fq", "pfifo_fast")),
}
TIME = {
    "warmup_ms": number(10, 0, 10_000_000, "from the load's start to the measurement's"),
    "measure_ms": number(10, 0.01, 1_000_000, "how long is measured"),
    "measure_packets": whole(0, 0, 10_000, "and until each flow's equal share of a star's incast is so many full packets"),
    "drain_ms": number(0, 0, 1_000_000, "messages that begin this late in the measurement have no slowdown"),
    "sample_us": number(0, 0, 1_000_000, "interval of each flow's samples; 0 = none"),
    "marks_ms": listing([], "from the load's start: when the mean rate of the flows is told"),
}
MEASURE = {
    "ports": text("all", "switch ports whose queues count", ("all", "tors")),
    "bdp_bytes": whole(100_000, 1, 1 << 30, "bounds of slowdown's groups of sizes: a packet, 1 and 8 BDP"),
    "exclude": listing([], "loads left out of slowdown"),
    "mem_mb": whole(0, 0, 1 << 20, "of the guest; 0 = estimated"),
    "truth": whole(0, 0, 1, "also how far off the law's delays are"),
}
AXIS = {
    "key": text(None, "what varies"), "values": listing(None, "its values"),
    "name": text("{}", "a case's name: a format of Python's for the value"),
    "cases": table("or: name = { key = value, ... }"),
    "factors": listing([], "or: each tunable of Swift times each of these, and nothing set"),
    "full": listing([], "names of those that are only run whole, at a scale of 1"),
}
EXPECT = {
    "what": text(None, "of which figure"), "of": text(None, "LAW[/CASE].METRIC; a * in CASE: one expectation for each that it fits"),
    "over": text("", "divided by"),
    "paper": number(None, -1e18, 1e18, "the paper's figure"),
    "unit": text("", "that figures are shown in", ("", *UNITS)),
    "min": number(None, -1e18, 1e18, ""), "max": number(None, -1e18, 1e18, ""),
    "near": number(None, -1e18, 1e18, ""), "within": number(0.1, 0, 10, "of near, relative"),
    "smoke_min": number(None, -1e18, 1e18, "at a scale below 1"), "smoke_max": number(None, -1e18, 1e18, ""),
}
COLUMN = {
    "heading": text(None, "of the table, before the usual ones"), "metric": text(None, "as in the result"),
    "unit": text("", "that figures are shown in", ("", *UNITS)), "digits": whole(2, 0, 6, "behind the point"),
}
PLOT = {
    "title": text("", ""), "x": text("", "an axis's key, or its name"), "y": text(None, "metric"),
    "xlabel": text("", ""), "ylabel": text("", ""), "x_unit": number(1, 0, 1e18, "divides x"),
    "y_unit": number(1, 0, 1e18, "divides y"), "logx": fields.flag(False, ""), "logy": fields.flag(False, ""),
    "paper": listing([], "its own points: [{ label, points = [[x, y], ...] }]"),
}


@dataclasses.dataclass
class Case:
    """What is run with a law and a seed: everything resolved."""
    name: str
    values: dict  # what this case sets
    spec: dict

    @property
    def duration_ns(self):
        return load.ns(self.spec["time"]["warmup_ms"] + self.spec["time"]["measure_ms"])


@dataclasses.dataclass
class Experiment:
    id: str
    raw: dict
    settings: dict  # of --set
    scale: float
    asked: params.Set = None  # of --defaults or --params

    @property
    def ccs(self):
        return self.raw.get("ccs", [])

    @functools.cached_property
    def tunables(self):
        """What Swift is given, all but the subject."""
        return self.asked or params.of_testbed(self.raw.get("testbed"))

    @property
    def seeds(self):
        spec = {"seeds": self.raw.get("seeds", 1)}
        if self.scale < 1:
            scaled(spec, self.raw.get("scale", {}), self.scale, {})
        return spec["seeds"]


# --- Values by dotted keys -------------------------------------------------------------

def parse_value(text_value):
    """As in TOML; what is not TOML is a text."""
    try:
        return tomllib.loads(f"x = {text_value}")["x"]
    except tomllib.TOMLDecodeError:
        return text_value


def parse_settings(pairs):
    result = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise Mistake(f"--set {pair}: expected KEY=VALUE, as in topology.hosts=9")
        result[key.strip()] = parse_value(value)
    return result


def split_key(key):
    """sysctls.net.ipv4.x names one sysctl: only the first dot counts."""
    return key.split(".", 1) if key.startswith("sysctls.") else key.split(".")


def assign(spec, key, value):
    *folders, last = split_key(key)
    at = spec
    for depth, folder in enumerate(folders):
        if depth == 1 and folders[0] == "load" and folder not in at and last != "kind":
            raise Mistake(f"{key}={value}: no load {folder}; there is {', '.join(at) or 'none'}")
        at = item(at, folder, key) if isinstance(at, list) else at.setdefault(folder, [] if folder == "fault" else {})
        if not isinstance(at, (dict, list)):
            raise Mistake(f"{key}={value}: {folder} is not a table")
    if isinstance(at, list):
        raise Mistake(f"{key}={value}: expected {key}.KEY")
    at[last] = value


def item(rows, number_, key):
    """fault.0 is the first [[fault]]."""
    if not rows:
        raise Mistake(f"{key}: the experiment has no [[fault]]")
    if not number_.isdigit() or int(number_) >= len(rows):
        raise Mistake(f"{key}: there is no {number_}; expected 0 to {len(rows) - 1}")
    return rows[int(number_)]


def look_up(spec, key):
    at = spec
    for part in split_key(key):
        if isinstance(at, list):
            at = item(at, part, key)
            continue
        if not isinstance(at, dict) or part not in at:
            return None
        at = at[part]
    return at


# --- Checking ----------------------------------------------------------------------------

def equal_share_ms(spec):
    """How long time.measure_packets of each flow take, all at the same rate."""
    packets, topology_, loads = spec["time"]["measure_packets"], spec["topology"], list(spec["load"].values())
    if not packets:
        return 0
    if topology_["kind"] != "star" or [one["kind"] for one in loads] != ["incast"]:
        raise Mistake(f"time.measure_packets={packets}: expected a star with one load, an incast; else 0")
    flows = (loads[0]["senders"] or topology_["hosts"] - 1) * loads[0]["flows"]
    packet_bits = 8 * ideal.wire_bytes(topology_["mtu"] - ideal.HEADERS_BYTES)
    return 1000 * packets * flows * packet_bits / (topology_["receiver_rate_bps"] or topology_["rate_bps"])


def check_marks(time):
    """Each has a sample before it, and the measurement around."""
    first_ms = time["warmup_ms"] + time["sample_us"] / 1000
    last_ms = time["warmup_ms"] + time["measure_ms"]
    for mark in fields.each("time.marks_ms", number(None, 0, 20_000_000, ""), time["marks_ms"]):
        if not time["sample_us"]:
            raise Mistake(f"time.marks_ms={mark}: expected time.sample_us above 0")
        if not first_ms <= mark <= last_ms:
            raise Mistake(f"time.marks_ms={mark}: expected {first_ms:g} to {last_ms:g}, in the measurement")


def check_sysctls(values):
    """What can be told of them before there is a kernel: its other names are the guest's to refuse."""
    for name, value in values.items():
        where = f"sysctls.{name}"
        if not re.fullmatch(r"net(\.[\w-]+){2,}", name):
            raise Mistake(f"{where}={value}: expected a host's, as \"net.ipv4.tcp_ecn\" = 2")
        if not isinstance(value, (int, str)) or isinstance(value, bool):
            raise Mistake(f"{where}={value}: expected a whole number or text")
        if name.startswith(SWIFT):
            fields.fill("sysctls", {SWIFT + key: field for key, field in laws.tunables("swift").items()}, {name: value})


def resolve_spec(raw):
    """All of an experiment's parameters, checked, with defaults."""
    asked = fields.fill("hosts", HOSTS, raw.get("hosts", {}))
    spec = {
        "topology": topology.resolve(hosts.apply(raw.get("topology", {}), asked["model"])),
        "hosts": asked,
        "load": {name: load.resolve(name, fields.check(f"load.{name}", table(""), one))
                 for name, one in raw.get("load", {}).items()},
        "laws": {name: laws.resolve(name, fields.check(f"laws.{name}", table(""), one))
                 for name, one in raw.get("laws", {}).items()},
        "time": fields.fill("time", TIME, raw.get("time", {})),
        "measure": fields.fill("measure", MEASURE, raw.get("measure", {})),
        "sysctls": raw.get("sysctls", {}),
        "fault": faults.resolve(raw.get("fault", [])),
    }
    fields.each("measure.exclude", text(None, ""), spec["measure"]["exclude"])
    spec["time"]["measure_ms"] = max(spec["time"]["measure_ms"], equal_share_ms(spec))
    if spec["time"]["drain_ms"] >= spec["time"]["measure_ms"]:
        raise Mistake(f"time.drain_ms={spec['time']['drain_ms']}: expected less than measure_ms={spec['time']['measure_ms']}")
    for name in spec["measure"]["exclude"]:
        if name not in spec["load"]:
            raise Mistake(f"measure.exclude={name}: no such load")
    for name, one in spec["load"].items():
        if spec["time"]["sample_us"] and one.get("pool", 0) > one.get("flows", 1):
            raise Mistake(f"load.{name}.pool={one['pool']}: expected flows={one['flows']}, where time.sample_us samples them")
    check_marks(spec["time"])
    check_sysctls(spec["sysctls"])
    hosts.check(spec)
    clocks.check(spec)
    return spec


def case_name(pattern, value):
    try:
        return pattern.format(value)
    except (ValueError, LookupError, AttributeError, TypeError):
        raise Mistake(f"vary.name={pattern}: expected a format of Python's for {value}, as {{}} or {{:g}}") from None


def axis_values(axis, whole_=True):
    """[(name, {key: value})] of one axis."""
    axis = fields.fill("vary", AXIS, axis)
    forms = ({"key", "values"}, {"cases"}, {"factors"})
    if {key for key in set.union(*forms) if axis.get(key)} not in forms:
        raise Mistake("vary: expected either key and values, or cases, or factors")
    fields.each("vary.full", text(None, ""), axis["full"])
    if axis["factors"]:
        result = params.times(fields.each("vary.factors", number(None, 0.001, 1000, ""), axis["factors"]), whole_)
    elif "key" in axis:
        result = [(case_name(axis["name"], value), {axis["key"]: value}) for value in axis["values"]]
    else:
        result = list(axis["cases"].items())
        for name, setting in result:
            fields.check(f"vary.cases.{name}", table(""), setting)
    for name, _ in result:
        if "." in name:
            raise Mistake(f"vary: case {name}: expected a name with no dot; axis.name formats a value")
    names = [name for name, _ in result]
    for name in axis["full"]:
        if name not in names:
            raise Mistake(f"vary.full={name}: expected some of {', '.join(names)}")
    return [(name, setting) for name, setting in result if whole_ or name not in axis["full"]]


def scaled(spec, floors, factor, keep):
    """Multiplies what may shrink, down to its floor; keys of --set stay."""
    for key, floor in floors.items():
        value = look_up(spec, key)
        if value and key not in keep:
            small = max(floor, value * factor)
            assign(spec, key, min(value, max(1, round(small)) if isinstance(value, int) else small))


def settings_of(raw):
    """What each value of an axis sets."""
    return [setting for axis in raw.get("vary", []) for _, setting in axis_values(axis)]


def check_scale(raw):
    """What may shrink is a number, in the file or in a case."""
    settings = settings_of(raw)
    for key, floor in raw.get("scale", {}).items():
        fields.check(f"scale.{key}", number(None, 0, 1e18, ""), floor)
        values = [look_up(raw, key), *(setting.get(key) for setting in settings)]
        for value in values:
            if value is not None:
                fields.check(f"scale.{key}: {key}", number(None, -1e18, 1e18, ""), value)
        if values.count(None) == len(values):
            raise Mistake(f"scale.{key}={floor}: expected a key that is set here")


def check_file(raw):
    fields.fill("", FIELDS, raw)
    for key in ("ccs", "subject"):
        fields.each(key, text(None, ""), raw.get(key, []))
    for kind, known in (("expect", EXPECT), ("column", COLUMN), ("plot", PLOT)):
        for one in raw.get(kind, []):
            fields.fill(kind, known, one)
    for one in raw.get("expect", []):
        if not {"what", "of"} <= one.keys():
            raise Mistake("expect: what and of are needed")
    for one in raw.get("plot", []):
        fields.each("plot.paper", table(""), one.get("paper", []))
    for one in raw.get("column", []):
        if not {"heading", "metric"} <= one.keys():
            raise Mistake("column: heading and metric are needed")
    check_scale(raw)
    params.check_subject(raw)


def case_names(raw, whole_=True):
    axes = (axis_values(axis, whole_) for axis in raw.get("vary", []))
    names = ["-".join(name for name, _ in combination) for combination in itertools.product(*axes)]
    for name, count in collections.Counter(names).items():
        if count > 1:
            raise Mistake(f"vary: case {name}: there are {count}; expected a name of its own for each")
    return names


def check_bounds(one):
    for low, high in (("min", "max"), ("smoke_min", "smoke_max")):
        if low in one and high in one and one[low] > one[high]:
            raise Mistake(f"expect.{low}={one[low]}: expected at most {high}={one[high]}")
    for key in ("min", "max"):
        if key in one and "near" in one:
            raise Mistake(f"expect.{key}={one[key]}: expected none beside near")
    if "within" in one and "near" not in one:
        raise Mistake(f"expect.within={one['within']}: expected near")


def check_expected(raw):
    """That there is what is expected, so that a slip of the pen does not turn it off."""
    names, settings = case_names(raw), settings_of(raw)
    loads = {*raw.get("load", {}), *(key.split(".")[1] for one in settings for key in one if key.startswith("load."))}
    lists = [raw.get("time", {}).get("marks_ms"), *(one.get("time.marks_ms") for one in settings)]
    marks = [mark for one in lists if isinstance(one, list) for mark in one if isinstance(mark, (int, float))]
    known = measure.known(loads, marks)
    for one in raw["expect"]:
        check_bounds(one)
        for key in ("of", "over"):
            if not one.get(key):
                continue
            where, (run, _, metric) = f"expect.{key}={one[key]}", one[key].partition(".")
            law, _, case = run.partition("/")
            if law not in raw.get("ccs", []):
                raise Mistake(f"{where}: no law {law}; there are {', '.join(raw.get('ccs', []))}")
            if case not in names:
                raise Mistake(f"{where}: no case {case or 'without a name'}; there are {', '.join(names)}")
            if metric not in known:
                near = difflib.get_close_matches(metric, sorted(known), 1)
                raise Mistake(f"{where}: no metric {metric}; " + (f"did you mean {near[0]}? " if near else "")
                              + "all are in tests/lab/experiments/README.md")


def expand(raw):
    """An expectation for each case that the pattern in `of` fits; a * in `over` is the same case. Those that
    are only run whole have no bounds at other scales."""
    always = set(case_names(raw, False))
    result = []
    for one in raw.get("expect", []):
        law, _, rest = one["of"].partition("/")
        pattern, _, metric = rest.partition(".")
        if "*" not in pattern:
            result.append(one)
            continue
        fitting = fnmatch.filter(case_names(raw), pattern)
        if not fitting:
            raise Mistake(f"expect.of={one['of']}: no case fits; there are {', '.join(case_names(raw))}")
        for name in fitting:
            here = one if name in always else {key: one[key] for key in one if not key.startswith("smoke_")}
            result.append({**here, "what": f"{name}: {one['what']}", "of": f"{law}/{name}.{metric}",
                           "over": one.get("over", "").replace("*", name)})
    return result


def cases(experiment):
    """Each case, checked. Every error is raised here, before anything starts."""
    result = []
    axes = [axis_values(axis, experiment.scale == 1) for axis in experiment.raw.get("vary", [])]
    for combination in itertools.product(*axes):
        raw = copy.deepcopy(experiment.raw)
        values = {key: value for _, setting in combination for key, value in setting.items()}
        for key, value in values.items():
            assign(raw, key, value)
        if experiment.scale < 1:
            scaled(raw, raw.get("scale", {}), experiment.scale, experiment.settings)
        for key, value in experiment.settings.items():
            if split_key(key)[0] not in ("topology", "hosts", "load", "laws", "time", "measure", "sysctls", "fault"):
                raise Mistake(f"--set {key}: expected a key of topology, hosts, load, laws, time, measure, sysctls or fault")
            assign(raw, key, value)
        fields.fill("", FIELDS, raw)
        params.apply(raw, experiment.tunables)
        result.append(Case("-".join(name for name, _ in combination), values, resolve_spec(raw)))
    return result


def resolve_law(spec, name):
    """The law a run uses, though the file may say nothing of it."""
    return spec["laws"].get(name) or laws.resolve(name, {})


# --- Files --------------------------------------------------------------------------------

def ids():
    return sorted(path.stem for path in FILES.glob("*.toml"))


def read(name, settings=None, scale=1.0, asked=None):
    if name not in ids():
        raise fields.unknown("experiment ", name, ids(), "there is no such experiment; {}there are {}")
    path = FILES / f"{name}.toml"
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        check_file(raw)
        raw["expect"] = expand(raw)
        check_expected(raw)
        return Experiment(name, raw, settings or {}, scale, asked)
    except ValueError as error:  # no TOML, or no text
        raise Mistake(f"{path.name}: {error}") from None
    except Mistake as mistake:
        raise Mistake(f"{path.name}: {mistake}") from None
