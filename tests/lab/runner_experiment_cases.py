# SPDX-License-Identifier: GPL-2.0
"""Cases of test_runner: laws and their tunables, experiments' files, their cases, --set, --scale
and sets of parameters."""

import os
import pathlib
import tempfile
from unittest import mock

from lab import experiment, kernel, laws, params, results, text, uml
from runner_common import RAW, build, cases_of, entry, loads_of, mistake, near, same, says


def laws__know_their_tunables():
    says(mistake(laws.resolve, "swift", {"ai_mili": 3}), "laws.swift.ai_mili", "ai_milli")
    says(mistake(laws.resolve, "swift", {"beta_milli": 0}), "laws.swift.beta_milli=0", "1 to 1000")
    says(mistake(laws.resolve, "swift", {"target_policy": "no"}), "target_policy=no", "static, base_rtt, base_rtt_plus")
    says(mistake(laws.resolve, "timely", {"hai_n": 0}), "laws.timely.hai_n=0", "1 to 255")
    says(mistake(laws.resolve, "fast", {"alpha_mbps": 0}), "laws.fast.alpha_mbps=0", "1 to 10000")
    says(mistake(laws.resolve, "fast", {"init_rate_mbps": 20000}), "laws.fast.init_rate_mbps=20000", "max_rate_mbps=10000")
    says(mistake(laws.resolve, "theta-powertcp", {"gamma_milli": 0}), "laws.theta-powertcp.gamma_milli=0", "1 to 1000")
    says(mistake(laws.resolve, "timely", {"t_high_ns": 40000}), "laws.timely.t_high_ns=40000", "t_low_ns=50000")
    says(mistake(laws.resolve, "vegas", {}), "cc=vegas", "swift")


def laws__become_sysctls_and_modules():
    law = laws.resolve("v0", {"law": "swift", "split": 0})
    values = laws.sysctls(law)
    same([values["net.ipv4.tcp_swift.split"], values["net.ipv4.tcp_swift.echo"]], [0, 1])
    same(values["net.ipv4.tcp_congestion_control"], "swift")
    same(laws.module(laws.resolve("timely", {"hai_n": 2}), "M", "K"), "M/timely.ko hai_n=2")
    same(laws.module(laws.resolve("fast", {"alpha_mbps": 10}), "M", "K"), "M/fast.ko alpha_mbps=10")
    same(laws.module(laws.resolve("theta-powertcp", {"flows": 4}), "M", "K"), "M/theta_powertcp.ko flows=4")
    same(laws.module(laws.resolve("dctcp", {"shift_g": 3}), "M", "K"), "K/net/ipv4/tcp_dctcp.ko dctcp_shift_g=3")
    same(laws.module(laws.resolve("cubic", {}), "M", "K"), None)


def cases__are_all_combinations():
    found = cases_of()
    same([case.name for case in found], ["t20000-few", "t20000-many", "t30000-few", "t30000-many"])
    same([found[3].spec["laws"]["swift"]["base_target_ns"], found[3].spec["topology"]["hosts"]], [30000, 9])


def scale__shrinks_to_a_floor():
    spec = cases_of(scale=0.5)[0].spec
    same([spec["load"]["x"]["flows"], spec["time"]["measure_ms"], spec["time"]["warmup_ms"]], [50, 50, 10])
    same(cases_of(scale=0.01)[0].spec["load"]["x"]["flows"], 5)
    raw = {**RAW, "seeds": 7, "scale": {**RAW["scale"], "seeds": 2}}
    same([experiment.Experiment("test", raw, {}, scale).seeds for scale in (1.0, 0.5, 0.1)], [7, 4, 2])


def set__wins_and_is_not_scaled():
    spec = cases_of({"load.x.flows": 70, "topology.hosts": 4}, 0.5)[0].spec
    same([spec["load"]["x"]["flows"], spec["topology"]["hosts"]], [70, 4])


def measurements__last_until_each_flow_had_its_packets():
    def measured_ms(**more):
        raw = {"topology": {"kind": "star", "hosts": 11, "rate_bps": 1_000_000_000, "mtu": 1462},
               "load": {"x": {"kind": "incast", "flows": 3}}, "time": {"measure_ms": 2, **more}}
        return experiment.resolve_spec(raw)["time"]["measure_ms"]
    same([measured_ms(), measured_ms(measure_packets=5), measured_ms(measure_packets=5000)], [2, 2, 1800])
    pairs = {"topology": {"kind": "star"}, "load": {"x": {"kind": "pairs", "from": [1], "to": [0]}}, "time": {"measure_packets": 5}}
    says(mistake(lambda: experiment.resolve_spec(pairs)), "time.measure_packets=5", "incast")


def cases__that_are_only_run_whole():
    raw = RAW | {"vary": [{"key": "load.x.flows", "values": [2, 5000], "full": ["5000"]}]}
    same([[case.name for case in cases_of(scale=scale, raw=raw)] for scale in (1.0, 0.5)], [["2", "5000"], ["2"]])
    says(mistake(lambda: cases_of(raw=RAW | {"vary": [{"key": "load.x.flows", "values": [2], "full": ["3"]}]})), "vary.full=3", "2")


def expectations__of_a_pattern_are_of_each_case():
    raw = {"vary": [{"key": "load.x.flows", "values": [2, 5000], "full": ["5000"]}, {"key": "load.x.size", "values": [1]}],
           "expect": [{"what": "share", "of": "swift/*-1.jain", "over": "dctcp/*.jain", "min": 1, "smoke_min": 0.5},
                      {"what": "one", "of": "swift/2-1.jain", "min": 2}]}
    same(experiment.expand(raw), [
        {"what": "2-1: share", "of": "swift/2-1.jain", "over": "dctcp/2-1.jain", "min": 1, "smoke_min": 0.5},
        {"what": "5000-1: share", "of": "swift/5000-1.jain", "over": "dctcp/5000-1.jain", "min": 1},  # never small
        {"what": "one", "of": "swift/2-1.jain", "min": 2}])
    raw["expect"] = [{"what": "share", "of": "swift/*-3.jain"}]
    says(mistake(experiment.expand, raw), "expect.of=swift/*-3.jain", "2-1, 5000-1")


def open__at_start_connects_into_what_is_there():
    t = build(kind="star", hosts=3)
    for given, late in (({}, False), ({"open": "before"}, False), ({"open": "at-start", "start_ms": 5}, True)):
        for line in loads_of({"x": {"kind": "incast"} | given}, t)[1]:
            same("open=start" in line.split(), late)
    says(mistake(loads_of, {"x": {"kind": "incast", "open": "now"}}, t), "load.x.open=now", "one of before, at-start")


def case_names__have_no_dot():
    says(mistake(lambda: cases_of(raw=RAW | {"vary": [{"key": "load.x.flows", "values": [0.5]}]})), "vary", "0.5", "no dot")


def set__refuses():
    says(mistake(cases_of, {"topology.host": 3}), "topology.host=3", "a table")
    says(mistake(cases_of, {"load.y.flows": 3}), "load.y.flows=3", "no load y", "x")
    says(mistake(cases_of, {"time.warm_ms": 3}), "time.warm_ms", "warmup_ms")
    says(mistake(cases_of, {"title": 3}), "--set title")
    says(mistake(experiment.parse_settings, ["abc"]), "--set abc", "KEY=VALUE")


def set__refuses_what_is_no_table():
    for key in ("topology", "hosts", "load", "laws", "time", "measure", "sysctls"):
        for value in (3, []):
            says(mistake(cases_of, {key: value}), f"{key}={value}: expected a table")
    says(mistake(cases_of, {"fault": 3}), "fault=3: expected a list")
    says(mistake(cases_of, {"laws.x.law": [1]}), "laws.x.law=[1]: expected one of swift, ")
    says(mistake(cases_of, {"measure.exclude": [[1]]}), "measure.exclude=[1]: expected text")
    says(mistake(cases_of, {"fault": [[1]]}), "fault.0=[1]: expected a table")


def set__refuses_what_the_guest_would():
    for key, value, words in (("net.ipv4.tcp_ecn", [1], "a whole number or text"),
                              ("net.ipv4.tcp_ecn", True, "a whole number or text"), ("kernel.printk", 1, "a host's"),
                              ("tcp_ecn", 1, 'a host\'s, as "net.ipv4.tcp_ecn" = 2'),
                              ("net.ipv4.tcp_swift.ai_mili", 3, "did you mean net.ipv4.tcp_swift.ai_milli?"),
                              ("net.ipv4.tcp_swift.ai_milli", 0, "1 to 100000")):
        says(mistake(cases_of, {f"sysctls.{key}": value}), f"sysctls.{key}", words)
    wmem = "4096 16384 65536"
    same(cases_of({"sysctls.net.ipv4.tcp_wmem": wmem})[0].spec["sysctls"], {"net.ipv4.tcp_wmem": wmem})
    for weights in ("1,2", "1,1,1,1,1,1,1,1,1", "1,1,1,1,1,1,1,x", "1,1,1,1,1,1,1,1001", "1,1,1,1,1,1,1,"):
        says(mistake(cases_of, {"topology.switch.weights": weights}),
             f"topology.switch.weights={weights}: expected 8 numbers of 0 to 1000")
    cases_of({"topology.switch.weights": "0,1,2,3,4,5,6,1000"})


def marks__are_in_the_measurement():
    def said(marks, sample_us=1000):
        return mistake(cases_of, {"time.marks_ms": marks, "time.sample_us": sample_us})
    says(said(["a"]), "time.marks_ms=a: expected a number")
    for mark in (10.5, 110.5):  # warm-up 10 ms, measured for 100
        says(said([50, mark]), f"time.marks_ms={mark}: expected 11 to 110")
    says(said([50], sample_us=0), "time.marks_ms=50: expected time.sample_us above 0")
    same(cases_of({"time.marks_ms": [11, 110], "time.sample_us": 1000})[0].spec["time"]["marks_ms"], [11, 110])


def set__values_are_toml():
    same(experiment.parse_settings(["a=1", "b=[1, 2]", "c=text", "d=true", "e=1e9"]),
         {"a": 1, "b": [1, 2], "c": "text", "d": True, "e": 1e9})


FILE = """\
ccs = ["swift"]
[topology]
kind = "star"
[load.x]
kind = "incast"
"""


def of_file(content, scale=1.0):
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(experiment, "FILES", pathlib.Path(folder)):
        (pathlib.Path(folder) / "odd.toml").write_bytes(content if isinstance(content, bytes) else content.encode())
        return experiment.cases(experiment.read("odd", scale=scale))


AXIS = '[[vary]]\nkey = "load.x.flows"\nvalues = [3, 5]\n'
WRONG = (  # at the file's top, or at its end
    (b"title = \"\xff\"", "odd.toml: 'utf-8' codec"), ("title", "odd.toml: "),
    ("vary = [1]\n" + FILE, "vary=1: expected a table"), ("expect = [1]\n" + FILE, "expect=1: expected a table"),
    ("plot = [1]\n" + FILE, "plot=1: expected a table"), ("column = [1]\n" + FILE, "column=1: expected a table"),
    (FILE.replace('"swift"', '["swift"]'), "ccs=['swift']: expected text"),
    ("subject = [1]\n" + FILE, "subject=1: expected text"),
    (FILE + "[[vary]]\ncases.A = 3", "vary.cases.A=3: expected a table"),
    (FILE + "[[vary]]\nkey = 3", "vary.key=3: expected text"),
    (FILE + '[[vary]]\nkey = "load.x.flows"', "vary: expected either key and values, or cases, or factors"),
    (FILE + '[[vary]]\nfactors = ["a"]', "vary.factors=a: expected a number"),
    (FILE + AXIS + "full = [3]", "vary.full=3: expected text"),
    *((FILE + AXIS + f'name = "{name}"', f"vary.name={name}: expected a format")
      for name in ("{1}", "{x}", "{:zz}", "{", "{0.a}")),
    (FILE + '[scale]\n"load.x.flows" = "a"', "scale.load.x.flows=a: expected a number"),
    (FILE + '[scale]\n"load.x" = 1', "load.x={'kind': 'incast'}: expected a number"),
    (FILE + '[scale]\n"load.x.flow" = 1', "scale.load.x.flow=1: expected a key that is set here"),
    (FILE + '[load.y]\nkind = "pairs"\nfrom = [1]\nto = [0]\n[scale]\n"load.y.from" = 1',
     "load.y.from=[1]: expected a number"),
    (FILE + "[measure]\nexclude = [[1]]", "measure.exclude=[1]: expected text"),
    (FILE + '[laws.x]\nlaw = ["swift"]', "laws.x.law=['swift']: expected one of swift"),
    (FILE + "[sysctls]\nnet.ipv4.tcp_ecn = 1", "sysctls.net={'ipv4': {'tcp_ecn': 1}}: expected a host's"),
    (FILE + '[[plot]]\ny = "jain"\npaper = [1]', "plot.paper=1: expected a table"),
    (FILE + "[[vary]]\ncases.A = { 3 = 1 }", "3: unknown key"),
    (FILE + AXIS + 'name = "h"', "vary: case h: there are 2; expected a name of its own for each"),
    (FILE + "[[vary]]\ncases.a-b = {}\ncases.a = {}\n[[vary]]\ncases.c = {}\ncases.b-c = {}",
     "vary: case a-b-c: there are 2"),
)


def files__refuse():
    for content, words in WRONG:
        for scale in (1.0, 0.5):
            says(mistake(of_file, content, scale), words)
    same([case.name for case in of_file(FILE + AXIS)], ["3", "5"])


def expectations__of_what_is_not_there_are_refused():
    def said(**one):
        rows = "\n".join(f"{key} = {value!r}" for key, value in one.items())
        return mistake(of_file, f"{FILE}{AXIS}[[expect]]\nwhat = 'x'\n{rows}")
    says(said(of="swift/3.jian", min=1), "expect.of=swift/3.jian: no metric jian; did you mean jain?")
    says(said(of="swift/3.jain", over="swift/3.groups.y.jain"), "expect.over=swift/3.groups.y.jain: no metric",
         "did you mean groups.x.jain?")
    says(said(of="swift.jain", min=1), "expect.of=swift.jain: no case without a name; there are 3, 5")
    says(said(of="swift/4.jain", min=1), "expect.of=swift/4.jain: no case 4; there are 3, 5")
    says(said(of="swft/3.jain", min=1), "expect.of=swft/3.jain: no law swft; there are swift")
    says(said(of="swift/3.goodput_bps", unit="Gbit/s"), "expect.unit=Gbit/s: expected one of none, Gb/s")
    says(said(of="swift/3.jain", min=2, max=1), "expect.min=2: expected at most max=1")
    says(said(of="swift/3.jain", smoke_min=2, smoke_max=1), "expect.smoke_min=2: expected at most smoke_max=1")
    says(said(of="swift/3.jain", near=1, min=1), "expect.min=1: expected none beside near")
    says(said(of="swift/3.jain", within=1), "expect.within=1: expected near")


def experiments__are_all_sound():
    for name in experiment.ids():
        for scale in (1.0, 0.1):
            one = experiment.read(name, {}, scale)
            if one.raw.get("elsewhere"):
                continue
            found = experiment.cases(one)
            for case in found:
                for cc in one.ccs:
                    uml.prepare(case, cc, 1)


def smoke__bounds_are_of_what_is_run_small():
    for name in experiment.ids():
        one = experiment.read(name, scale=0.05)
        names = {case.name for case in experiment.cases(one)}
        for wanted in one.raw.get("expect", []):
            for of in filter(None, (wanted["of"], wanted.get("over"))) if {"smoke_min", "smoke_max"} & wanted.keys() else ():
                assert of.partition(".")[0].partition("/")[2] in names, f"{name}: {of}: not run at this scale"


def params__serve_all_experiments_of_a_testbed():
    for name in params.TESTBEDS:
        assert params.of_testbed(name).values, f"{name}.toml sets nothing"
    for name in experiment.ids():
        raw = experiment.read(name).raw
        if any(params.is_swift(raw, cc) for cc in raw.get("ccs", [])) and name not in OF_DEFAULTS:
            assert raw.get("testbed") in params.TESTBEDS, f"{name}: no testbed"


# Experiments about a Swift that nobody has tuned.
OF_DEFAULTS = ("defaults", "defaults-grid", "long-paths", "latecomer", "noise", "loss", "parking-lot", "pfc", "reroute", "link-failure",
               "rpc-incast", "websearch", "sustained", "idle-active", "rtt-mix", "coexist", "reverse", "onoff", "wan-mix", "hour", "sensitivity",
               "plb", "one-stream", "one-host")


def params__are_not_an_experiments_own():
    private = RAW | {"laws": {"swift": {"ai_milli": 100}, "v0": {"law": "swift", "split": 0}, "timely": {"hai_n": 2}}}
    says(mistake(experiment.check_file, private), "laws.swift.ai_milli", "subject", "tests/lab/params")
    said = ["laws.swift.ai_milli", "laws.v0.split", "laws.swift.base_target_ns"]
    experiment.check_file(private | {"subject": said})
    says(mistake(experiment.check_file, private | {"subject": said[:2]}), "laws.swift.base_target_ns")
    says(mistake(experiment.check_file, private | {"subject": [*said, "laws.swift.beta_milli"]}),
         "subject=laws.swift.beta_milli", "laws.swift.ai_milli, laws.v0.split")
    says(mistake(experiment.check_file, private | {"subject": [*said, "laws.timely.hai_n"]}), "subject=laws.timely.hai_n")
    says(mistake(experiment.check_file, RAW | {"testbed": "t9"}), "testbed=t9", "t1, t2, timely, sird")


def swift_of(name, asked=None, settings=None, law="swift"):
    """The tunables that a run has, but for those that all have."""
    spec = experiment.cases(experiment.read(name, settings, 1.0, asked))[0].spec
    return {k: v for k, v in experiment.resolve_law(spec, law).items() if k not in ("law", "echo", *laws.COMMON)}


def params__are_the_testbeds_and_the_subject():
    known = params.of_testbed("t1").values
    same(swift_of("fig20"), known)
    same(swift_of("table3", law="swift-floor1"), known | {"min_cwnd_micro": 1_000_000})
    same(swift_of("fig17"), known | {"base_target_ns": 15_000, "hop_target_ns": 0, "fs_range_ns": 0})


def defaults__leave_the_subject_alone():
    same(swift_of("fig20", params.DEFAULTS), {})
    same(swift_of("table3", params.DEFAULTS, law="swift-floor1"), {"min_cwnd_micro": 1_000_000})
    same(swift_of("fig17", params.DEFAULTS), {"base_target_ns": 15_000, "hop_target_ns": 0, "fs_range_ns": 0})
    same(swift_of("fig20", params.DEFAULTS, {"laws.swift.beta_milli": 500}), {"beta_milli": 500})
    same(swift_of("timely-t1", params.DEFAULTS, law="timely"), swift_of("timely-t1", law="timely"))


def params__of_a_file_are_of_all():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mine.toml")

        def told(content):
            pathlib.Path(path).write_text(content, encoding="utf-8")
            return mistake(params.read, path)

        says(told("ai_mili = 3"), f"--params {path}: ai_mili", "did you mean ai_milli?")
        says(told("ai_milli = 0"), f"--params {path}: ai_milli=0", "1 to 100000")
        says(told("ai_milli ="), f"--params {path}: ")
        says(told("fs_min_cwnd_milli = 200_000"), "fs_max_cwnd_milli=256000", "at least 400000")
        says(told("min_cwnd_micro = 5_000_000\nmax_cwnd = 4"), "min_cwnd_micro=5000000", "at most 4000000")
        says(mistake(params.read, path + "x"), f"--params {path}x: No such file")
        pathlib.Path(path).write_text("beta_milli = 300\nhop_target_ns = 7", encoding="utf-8")
        mine = params.read(path)
        for name, law in (("fig20", "swift"), ("sird", "swift"), ("fattree-hotspot", "swift-base")):
            assert swift_of(name, mine, law=law).items() >= mine.values.items(), name
        same(swift_of("fig22", mine, {"laws.swift.beta_milli": 400}), {"beta_milli": 400, "hop_target_ns": 7})
        same(swift_of("fig17", mine)["hop_target_ns"], 0)


def params__are_told_in_the_result():
    for asked, words in ((None, ("t1 (target_policy=static ", "subject laws.swift.hop_target_ns")),
                         (params.DEFAULTS, ("defaults (nothing is set)",)), (params.Set("x.toml", {"ai_milli": 3}), ("x.toml (ai_milli=3)",))):
        one = experiment.read("fig22", {}, 1.0, asked)
        found = results.assemble(one, experiment.cases(one), one.ccs, 1, [], "6.12", "abc")
        says(text.tunables_line(found), "Swift's tunables: ", *words)
        found["summary"] = results.summarise(results.by_law([entry(case="none", goodput_bps=1)]))
        says(text.experiment(found), text.tunables_line(found))


def fast__is_an_option_of_table_1():
    case = experiment.cases(experiment.read("timely-t1", {"laws.fast.alpha_mbps": 10}))[0]
    assert "MODULES/fast.ko alpha_mbps=10" in uml.prepare(case, "fast", 1).job["modules"]


def theta_powertcp__is_told_of_the_network_unless_the_experiment_says():
    """A full frame of 1538 bytes there, an ACK of 90 back, over 10 Gb/s twice, 4 us each way, 1 us in each host."""
    case = experiment.cases(experiment.read("latecomer"))[0]
    assert "MODULES/theta_powertcp.ko host_mbps=10000 base_rtt_ns=12605" in uml.prepare(case, "theta-powertcp", 1).job["modules"]
    told = {"laws.theta-powertcp.base_rtt_ns": 0, "laws.theta-powertcp.host_mbps": 5}
    case = experiment.cases(experiment.read("latecomer", told))[0]
    assert "MODULES/theta_powertcp.ko host_mbps=5 base_rtt_ns=0" in uml.prepare(case, "theta-powertcp", 1).job["modules"]


def base_rtt__is_of_the_longest_way_and_hosts_at_their_latest():
    def rtt_us(**given):
        return build(prop_ns=1000, rate_bps=10**12, mtu=1500, **given).base_rtt_ns() / 1000
    near(rtt_us(kind="star", hosts=9), 2 * (1 + 2), 0.01)
    near(rtt_us(kind="dumbbell", switches=4, core_prop_ns=10_000, host={"rx_wake_ns": 0}, receiver={"rx_wake_ns": 0}), 2 * (2 + 30), 0.01)
    near(rtt_us(kind="star", hosts=2, host={"rx_wake_ns": 0}, receiver={"rx_usecs": 8, "rx_wake_ns": 0}), 2 * 2 + 8, 0.01)


def modules__matter_to_the_runs_that_load_them():
    case = experiment.cases(experiment.read("latecomer"))[0]
    with tempfile.TemporaryDirectory() as temp:
        def keys(named, changed=None):
            folder = pathlib.Path(temp, named)
            folder.mkdir()
            for module in kernel.MODULES:
                (folder / module).write_text(f"{module} {module == changed and named}", encoding="ascii")
            machine = kernel.Kernel(temp if changed != "linux" else temp + "2", str(folder), "6.12")
            return {cc: uml.key(uml.prepare(case, cc, 1), machine) for cc in ("swift", "theta-powertcp", "timely", "cubic")}
        before = keys("0")
        for i, (changed, who) in enumerate({None: set(), "tcp_swift.ko": {"swift"}, "theta_powertcp.ko": {"theta-powertcp"},
                                            "timely.ko": {"timely"}, "fast.ko": set(), "labload.ko": set(before),
                                            "labfab.ko": set(before), "linux": set(before)}.items()):
            again = keys(str(i + 1), changed)
            assert {cc for cc, key in again.items() if key != before[cc]} == who, changed
