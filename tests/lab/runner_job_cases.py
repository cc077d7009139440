# SPDX-License-Identifier: GPL-2.0
"""Cases of test_runner: what a run's guest is told: clocks, hosts and what they cost, faults, paths."""

import pathlib
import tempfile
from unittest import mock

from lab import clocks, experiment, faults, fields, hosts, laws, load, measure, results, text, topology, uml
from runner_common import RAW, build, cases_of, entry, mistake, run_of, same, says


# --- Clocks and hosts ------------------------------------------------------------------

CLOCKED = {"topology": {"kind": "star", "hosts": 5}, "load": {"x": {"kind": "incast"}}, "hosts": {"stamps": "hardware"}}


def args_of(run, host):
    return dict(word.split("=") for word in run.job["hosts"][host]["args"].split())


def clocks__are_of_the_seed_and_within_their_bounds():
    one, again, other = (run_of(CLOCKED, seed=seed) for seed in (1, 1, 2))
    same([one.job["hosts"], one.job["clocks"]], [again.job["hosts"], [0, 1, 2, 3, 4]])
    for key, most in (("phc_offset_ns", 10 * 10**9), ("phc_drift_ppb", 50_000)):
        values = [int(args_of(run, host)[key]) for run in (one, other) for host in range(5)]
        same([len(set(values)), max(map(abs, values)) <= most, min(values) < 0 < max(values)], [10, True, True])
    same(args_of(one, 0)["phc"], "1")


def clocks__are_none_with_software():
    run = run_of(CLOCKED | {"hosts": {}, "measure": {"truth": 1}})
    same(["clocks" in run.job, "phc" in args_of(run, 0)], [False, False])
    same([run.job["modules"][0], run.job["truth"]], ["MODULES/labfab.ko truth=1", 1])
    same(run.job["go_ns"] < run_of(CLOCKED).job["go_ns"], True)


def clocks__of_a_host_are_its_own():
    given = CLOCKED | {"topology": {"kind": "star", "hosts": 5, "receiver": {"phc_offset_ns": 7}}}
    same([args_of(run_of(given), host)["phc_offset_ns"] == "7" for host in (0, 1)], [True, False])


def clocks__refuse():
    for key, value, wanted in (("stamps", "nic", "one of software, hardware"), ("clock_offset_s", -1, "0 to 100000000"),
                               ("clock_drift_ppm", 1001, "0 to 1000"), ("clock_drift", 1, "clock_drift_ppm")):
        says(mistake(cases_of, {f"hosts.{key}": value}), f"hosts.{key}", wanted)
    for part, key in (("host", "stamps"), ("receiver", "phc")):
        says(mistake(cases_of, {"hosts.stamps": "hardware", f"topology.{part}.{key}": 0}), f"topology.{part}.{key}=0",
             "expected 1", "hosts.stamps=hardware")
    says(mistake(cases_of, {"measure.truth": 2}), "measure.truth=2", "0 to 1")
    built, clocks.SWIFTCTL = clocks.SWIFTCTL, clocks.TOP / "out/no/swiftctl"
    try:
        says(mistake(clocks.check_built), "hosts.stamps=hardware", "out/no/swiftctl", "make tools")
    finally:
        clocks.SWIFTCTL = built


def job__is_the_same_for_the_same_seed():
    raw = {k: v for k, v in RAW.items() if k != "vary"}
    same(run_of(raw).job, run_of(raw).job)
    assert run_of(raw, seed=2).job != run_of(raw).job


def job__of_another_seed_differs_in_a_star():
    raw = {k: v for k, v in RAW.items() if k != "vary"}
    one, other = run_of(raw), run_of(raw, seed=2)
    for what, of in (("starts", lambda run: sorted(flow.start_ns for flow in run.flows)),
                     ("order", lambda run: [flow.src for flow in run.flows]), ("ports", lambda run: run.job["first_port"]),
                     ("wake-ups", lambda run: args_of(run, 0)["seed"])):
        assert of(one) != of(other), what
    same([args_of(one, 0)["rx_wake_ns"], max(flow.start_ns for flow in one.flows) < 10_000], ["1000", True])
    assert uml.FIRST_PORTS[1] + load.FLOWS_MAX < 1 << 16


def laws__of_loads_are_told_to_the_hosts():
    def job(cc, law, **laws_):
        loads = {"x": {"kind": "incast"}, "y": {"kind": "incast", "law": law}}
        return run_of({"topology": {"kind": "star", "hosts": 3}, "load": loads, "laws": laws_}, cc).job

    told = job("cubic", "swift", swift={"ai_milli": 7})
    wanted = {"tcp_congestion_control": "cubic", "tcp_swift.ai_milli": 7, "tcp_swift.echo": 1}
    same({key: told["host_sysctls"].get(f"net.ipv4.{key}") for key in wanted}, wanted)
    same(sorted(line.split()[5] for line in told["load"]), ["cc=cubic"] * 2 + ["cc=swift"] * 2)
    same(job("swift", "dctcp")["host_sysctls"]["net.ipv4.tcp_ecn"], 1)
    says(job("cubic", "timely", timely={"hai_n": 2})["modules"][-1], "timely.ko hai_n=2")
    same(job("v0", "swift", v0={"law": "swift"})["modules"][1:], ["MODULES/tcp_swift.ko"])
    says(mistake(job, "cubic", "v0"), "load.y.law=v0", "one of swift, ")
    says(mistake(lambda: job("v0", "swift", v0={"law": "swift", "split": 0})),
         "load.y.law=swift: its split is not set; expected 0", "of v0")
    says(mistake(lambda: job("v0", "timely", v0={"law": "timely", "hai_n": 3})),
         "load.y.law=timely: its hai_n is not set; expected 3")
    says(mistake(lambda: job("swift", "dctcp", dctcp={"quickack": 1})),
         "load.y.law=dctcp: its quickack is 1; expected 0", "of swift")


def hosts__are_alike_for_all_laws():
    raw = {"topology": {"kind": "star", "hosts": 3}, "load": {"x": {"kind": "incast"}}}
    for cc in ("swift", "dctcp", "timely"):
        same(run_of(raw, cc).job["sysctls"]["net.core.default_qdisc"], "fq")
        same(run_of(raw | {"hosts": {"qdisc": "pfifo_fast"}}, cc).job["sysctls"]["net.core.default_qdisc"], "pfifo_fast")
    says(mistake(cases_of, {"hosts.qdisc": "red"}), "hosts.qdisc=red", "one of fq, pfifo_fast")
    says(mistake(cases_of, {"laws.dctcp.qdisc": "fq"}), "laws.dctcp.qdisc")


def hosts__that_cost_are_a_model_and_what_the_experiment_says():
    raw = {"topology": {"kind": "star", "hosts": 9, "host": {"seg_ns": 7}, "receiver": {"ack_ns": 5}}, "load": {"x": {"kind": "incast"}}}
    assert "cores" not in args_of(run_of({**raw, "topology": {"kind": "star", "hosts": 9}}), 1)
    run = run_of(raw | {"hosts": {"model": "real"}})
    real = hosts.values("real")
    told = [args_of(run, i) for i in range(9)]
    same({key: told[1][key] for key in real.keys() - {"seg_ns", "noise_ns"}},
         {key: str(real[key]) for key in real.keys() - {"seg_ns", "noise_ns"}})
    same([one["seg_ns"] for one in told], ["7"] * 9)
    same([one["ack_ns"] for one in told], ["5"] + [str(real["ack_ns"])] * 8)
    same(sorted(one["noise_ns"] for one in told), ["0"] * 7 + [str(real["noise_ns"])] * 2)  # an eighth of 9, and no less
    noisy = {tuple(args_of(run_of(raw | {"hosts": {"model": "real"}}, seed=seed), i)["noise_ns"] for i in range(9)) for seed in range(1, 9)}
    assert len(noisy) > 1
    same({one["noise_ns"] for one in [args_of(run_of(raw | {"hosts": {"model": "real", "noisy": 0}}), i) for i in range(9)]}, {"0"})


def hosts__models_are_files_whose_keys_are_known():
    same(hosts.MODELS, ("ideal", "real"))
    for model in hosts.MODELS:
        fields.fill("", topology.HOST, hosts.values(model))
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(hosts, "FILES", pathlib.Path(folder)):
        for content, words in (("core = 1", ("core: unknown key", "did you mean cores?")), ("cores = 1000", ("cores=1000", "0 to 256")),
                               ("cores =", ("odd.toml",))):
            (pathlib.Path(folder) / "odd.toml").write_text(content)
            says(mistake(hosts.values.__wrapped__, "odd"), "odd.toml", *words)


def hosts__that_cost_refuse():
    says(mistake(cases_of, {"hosts.model": "rael"}), "hosts.model=rael", "one of ideal, real")
    says(mistake(cases_of, {"hosts.noisy": 2}), "hosts.noisy=2", "0 to 1")
    for key in hosts.NEED_CORES:
        says(mistake(cases_of, {f"topology.host.{key}": 1}), f"topology.host.{key}=1", "topology.host.cores", "hosts.model")
    says(mistake(cases_of, {"topology.receiver.gro": 1}), "topology.receiver.gro=1", "topology.receiver.cores")
    says(mistake(cases_of, {"topology.host.cores": 1, "topology.host.noise_ns": 5}), "topology.host.noise_every_ns=0", "1000 or more")
    says(mistake(cases_of, {"topology.host.cores": 257}), "topology.host.cores=257", "0 to 256")
    same(cases_of({"topology.host.cores": 1, "topology.host.gro": 0})[0].spec["topology"]["host"]["gro"], 0)


def hosts__cost_is_told():
    lines = b"host=0 rx_pkts=30 service_ns=500 cores=2 irqs=4 segments=10\nhost=1 rx_pkts=10 service_ns=100 cores=2 irqs=10 segments=10\n"
    same(measure.host_costs(measure.parse_fabric(lines), 1e-6), {"cpu_ratio": 0.25, "segment_frames": 2.0, "interrupts_hz": 10 / 1e-6})
    same(measure.host_costs(measure.parse_fabric(b"host=0 rx_pkts=30 service_ns=500\n"), 1), None)


# --- Faults and paths ----------------------------------------------------------------------

def fault_events(*given, until_ms=100, **shape):
    return faults.events(faults.resolve(list(given)), build(**(shape or {"kind": "dumbbell", "switches": 3})), until_ms * 1_000_000)


def faults__are_lines_at_their_times():
    ms = 1_000_000
    same(fault_events({"link": "s0-s1", "at_ms": 10, "for_ms": 5, "loss": 0.001, "reorder": 0.5, "reorder_us": 3}),
         [[10 * ms, "fault link=4 loss_ppm=1000 reorder_ppm=500000 reorder_ns=3000"], [15 * ms, "fault link=4"]])
    same(fault_events({"link": "s1-s0", "corrupt": 1}), [[0, "fault link=4 corrupt_ppm=1000000"]])
    same([line for _, line in fault_events({"link": "hosts", "loss": 1})], [f"fault link={i} loss_ppm=1000000" for i in range(4)])
    same([line.split()[1] for _, line in fault_events({"link": "core", "loss": 1})], ["link=4", "link=5"])
    same(len(fault_events({"link": "all", "loss": 1})), 6)


def faults__of_one_link_are_the_worst_of_each():
    ms = 1_000_000
    same(fault_events({"link": "s0-s1", "loss": 0.1, "for_ms": 20}, {"link": "core", "at_ms": 10, "for_ms": 20, "loss": 0.2, "down": 1}),
         [[0, "fault link=4 loss_ppm=100000"], [10 * ms, "fault link=4 loss_ppm=200000 down=1"], [10 * ms, "fault link=5 loss_ppm=200000 down=1"],
          [30 * ms, "fault link=4"], [30 * ms, "fault link=5"]])


def faults__routes_follow():
    ms = 1_000_000
    same(fault_events({"link": "s0-s1", "at_ms": 10, "for_ms": 20, "down": 1, "reroute_ms": 2}),
         [[10 * ms, "fault link=4 down=1"], [12 * ms, "routes"], [30 * ms, "fault link=4"], [32 * ms, "routes"]])
    same(fault_events({"link": "s0-s1", "at_ms": 10, "avoid": 1}), [[10 * ms, "fault link=4 avoid=1"], [10 * ms, "routes"]])
    same(fault_events({"link": "s0-s1", "at_ms": 90, "down": 1, "flap_ms": 4}, until_ms=99),
         [[at * ms, "fault link=4" + " down=1" * down] for at, down in ((90, 1), (92, 0), (94, 1), (96, 0), (98, 1))])


def faults__go_to_the_guest_and_can_be_set():
    raw = {"topology": {"kind": "star", "hosts": 3}, "load": {"x": {"kind": "incast"}}, "fault": [{"link": "h1-s0", "loss": 0.25}]}
    same(run_of(raw).job["faults"], [[0, "fault link=1 loss_ppm=250000"]])
    assert "faults" not in run_of({**raw, "fault": []}).job
    case, = cases_of({"fault.0.loss": 0.5}, raw=raw)
    same(case.spec["fault"][0]["loss"], 0.5)
    varied = cases_of(raw={**raw, "vary": [{"key": "fault.0.loss", "values": [0.1, 0.2], "name": "{:.0%}"}]})
    same([case.spec["fault"][0]["loss"] for case in varied], [0.1, 0.2])


def faults__refuse():
    raw = {"topology": {"kind": "star", "hosts": 3}, "load": {"x": {"kind": "incast"}}}
    def said(**fault):
        return mistake(run_of, raw | {"fault": [fault]})
    says(said(loss=1), "fault.0.link: missing", "s0-s1")
    says(said(link="s0-s1", loss=1), "fault.0.link=s0-s1", "h0-s0, h1-s0, h2-s0", "all, hosts, core")
    says(said(link="all"), "fault.0: expected one of loss, corrupt, reorder, down, avoid")
    says(said(link="all", loss=1.5), "fault.0.loss=1.5", "0 to 1")
    for key in ("loss", "corrupt", "reorder"):
        says(said(link="all", **{key: 4e-7}), f"fault.0.{key}=4e-07: expected 0, or 0.000001 to 1")
    says(said(link="all", lost=1), "fault.0.lost", "did you mean loss")
    says(said(link="all", loss=1, flap_ms=3), "fault.0.flap_ms=3", "down=1")
    says(said(link="all", loss=1, reroute_ms=3), "fault.0.reroute_ms=3", "down=1")
    says(said(link="all", down=1, flap_ms=0.000001), "flap_ms", "longer")
    says(mistake(run_of, raw | {"fault": [3]}), "fault.0=3", "a table")
    says(mistake(cases_of, {"fault.0.loss": 0.1}), "fault.0.loss", "the experiment has no [[fault]]")
    says(mistake(cases_of, {"fault.1.loss": 0.5}, 1.0, raw | {"fault": [{"link": "all", "loss": 1}]}), "fault.1.loss", "0 to 0")


def dumbbell__has_hosts_anywhere():
    t = build(kind="dumbbell", switches=3, places=[0, 1, 1, 2])
    same([t.hosts, t.rack, len(t.links), len(t.path(0, 3)), len(t.path(1, 2))], [4, [0, 1, 1, 2], 6, 4, 2])
    says(mistake(build_of, dict(kind="dumbbell", switches=3, places=[0, 3])), "topology.places=3", "0 to 2")
    says(mistake(build_of, dict(kind="dumbbell", places=[0, "1"])), "topology.places=1", "0 to 1")
    says(mistake(build_of, dict(kind="dumbbell", places=[0])), "topology.places", "2 hosts")
    says(mistake(build_of, dict(kind="dumbbell", places=[0, 1], left=2)), "topology.left=2", "places")
    says(mistake(build_of, dict(kind="star", places=[0, 1])), "topology.places")


def build_of(given):
    return build(**given)


def pfc__is_told_and_refused():
    t = build(kind="star", switch={"pfc_xoff_bytes": 60_000, "pfc_xon_bytes": 30_000, "shared": 1})
    says(t.switch_lines(1)[0], "pfc_xoff_bytes=60000 pfc_xon_bytes=30000")
    assert "pfc" not in build(kind="star").switch_lines(1)[0]
    says(mistake(build_of, dict(kind="star", switch={"pfc_xon_bytes": 5})), "topology.switch.pfc_xon_bytes=5", "0 to 0, pfc_xoff_bytes")


def hosts__are_told_in_the_result():
    raw = {"laws": {"swift": {"init_cwnd": 7}, "dctcp": {"initcwnd": 67}}, "hosts": {"qdisc": "pfifo_fast"}}
    one = experiment.Experiment("test", raw, {}, 1.0)
    found = results.assemble(one, experiment.cases(one), ["swift", "dctcp", "cubic", "bbr"], 1, [], "6.12", "abc")
    same(text.hosts_line(found), "hosts: pfifo_fast, ideal; initial window 7 packets (swift), 67 packets (dctcp), 10 packets (cubic bbr)")
    same(laws.initial_window(laws.resolve("swift", {})), 1)
    found["summary"] = results.summarise(results.by_law([entry(goodput_bps=1)]))
    says(text.experiment(found), text.hosts_line(found))
    same(text.about({"parameters": {"laws": {}}}), [])
