# SPDX-License-Identifier: GPL-2.0
"""Cases of test_runner: from the files that a run leaves to its figures, and whether these can be
trusted: parsing, metrics, what would be ideal, checks."""

import json
import random
import re
import struct

from lab import checks, ideal, measure, results
from runner_common import build, cases_of, loads_of, mistake, near, run_of, same, says


# --- Parsing ------------------------------------------------------------------------------------

FABRIC = b"""\
port=h1 to=s0 link=1 tx_pkts=100 tx_bytes=1 drops=0 drop_bytes=0 marks=0 lost=0 qlen_bytes=0 qmax_bytes=9 qmean_bytes=1 time_ns=1000 hist=0:1000
port=s0 to=h0 link=0 tx_pkts=90 tx_bytes=1 drops=6 drop_bytes=9 marks=2 lost=1 qlen_bytes=0 qmax_bytes=4096 qmean_bytes=700 time_ns=1000 hist=0:10,512:985,1024:5
switch=0 used_bytes=0 ttl_expired=0 no_route=0
host=0 tx_pkts=20 tx_bytes=1 tso_pkts=0 rx_pkts=90 rx_bytes=1 rx_missed=2 rx_crc_errors=0 ring_max_pkts=1 service_ns=5
host=1 tx_pkts=100 tx_bytes=1 tso_pkts=9 rx_pkts=20 rx_bytes=1 rx_missed=0 rx_crc_errors=0 ring_max_pkts=1 service_ns=5
fabric events=1 in_flight=1 hops=1 data_sent=100 data_lost=9 time_ns=1
"""


def fabric__is_read():
    fabric = measure.parse_fabric(FABRIC)
    same([len(fabric["ports"]), fabric["ports"][1]["to"], fabric["fabric"]["in_flight"]], [2, "h0", 1])
    queue = measure.queues([p for p in fabric["ports"] if p["port"] == "s0"])
    same([queue["max"], queue["mean"], queue["p99"], queue["port"]], [4096, 700, 543, "s0 to h0"])
    near(measure.loss_ratio(fabric), 0.09)
    fabric["fabric"]["data_sent"] = 0
    same(measure.loss_ratio(fabric), None)


def port_names__may_have_a_number():
    same(measure.parse_fabric(b"port=s0.3 link=7 to=h3 tx_pkts=1\n")["ports"][0]["port"], "s0")


def switch_max__prefers_what_the_switch_says():
    fabric = measure.parse_fabric(FABRIC)
    same(measure.switch_max(fabric, fabric["ports"][1:]), 4096)
    fabric["switches"][0]["used_max_bytes"] = 3000
    fabric["switches"].append({"switch": 1, "used_max_bytes": 9000})  # whose ports do not count
    same(measure.switch_max(fabric, fabric["ports"][1:]), 3000)


# --- The ideal -----------------------------------------------------------------------------------

def max_min__is_fair_and_full():
    links_of = {"a": ("x",), "b": ("x", "y"), "c": ("y",), "d": ("y",)}
    got = ideal.max_min({"a": 100, "b": 100, "c": 100, "d": 1}, links_of, {"x": 10, "y": 9})
    same({k: round(v, 9) for k, v in got.items()}, {"a": 6, "b": 4, "c": 4, "d": 1})
    rnd = random.Random(1)
    for _ in range(50):
        links_of = {pair: tuple(rnd.sample(range(6), rnd.randint(1, 3))) for pair in range(12)}
        wanted, room = {pair: rnd.choice((1, 5, 100)) for pair in links_of}, {link: rnd.randint(3, 30) for link in range(6)}
        got = ideal.max_min(wanted, links_of, room)
        used = {link: sum(got[pair] for pair in got if link in links_of[pair]) for link in room}
        assert all(used[link] <= room[link] + 1e-9 for link in room), used
        for pair, amount in got.items():  # it has what it wants, or the most on a link that is full
            assert amount > wanted[pair] - 1e-9 or any(
                used[link] > room[link] - 1e-9 and amount >= max(got[p] for p in got if link in links_of[p]) - 1e-9
                for link in links_of[pair]), (pair, got)


def ideal__of_a_full_and_of_a_shared_link():
    t = build(kind="star", hosts=4, rate_bps=8 * 10**9, mtu=1500)
    full = 8e9 * 1448 / ideal.wire_bytes(1448)
    much = [(0, 1, 0, 10**9), (0, 2, 0, 10**9)]
    near(ideal.goodput_bps(much, t, 10**6, 3 * 10**6), full, 1e-6)
    near(ideal.goodput_bps([*much, (0, 3, 2, 10**9)], t, 10**6, 3 * 10**6), 2 * full, 1e-6)
    near(ideal.goodput_bps([(0, 1, 0, 1448 * 100), (10**6, 2, 1, 1448 * 1000)], t, 10**6, 3 * 10**6), 8 * 1448e3 / 2e-3, 0.02)
    racks = build(kind="leafspine", tors=2, hosts_per_tor=4, spines=2, rate_bps=8 * 10**9, core_rate_bps=4 * 10**9, mtu=1500)
    across = [(0, src, src + 4, 10**9) for src in range(4)]
    near(ideal.goodput_bps(across, racks, 0, 10**6), full, 1e-6)
    row = build(kind="dumbbell", switches=4, places=[0, 1, 1, 2, 2, 3], rate_bps=8 * 10**9, mtu=1500)
    middle = [(0, 0, 3, 10**9), (0, 1, 5, 10**9), (0, 2, 4, 10**9)]  # all cross the link in the middle
    near(ideal.goodput_bps(middle, row, 0, 10**6), full, 1e-6)
    near(ideal.goodput_bps([*middle, (0, 5, 1, 10**9)], row, 0, 10**6), 2 * full, 1e-6)  # the other way is free


# --- Pools ----------------------------------------------------------------------------------------

def pools__are_told_to_labload_and_refused():
    t = build(kind="star", hosts=3)
    says(loads_of({"x": {"kind": "poisson", "size": 900, "pool": 40}}, t)[1][-1], "pool=40")
    says(mistake(loads_of, {"x": {"kind": "poisson", "size": 900, "pool": 2, "flows": 3}}, t), "load.x.pool=2",
         "at least flows=3")
    says(mistake(loads_of, {"x": {"kind": "poisson", "size": 900, "pool": 101}}, t), "load.x.pool=101", "1 to 100")
    raw = {"topology": {"kind": "star", "hosts": 3}, "load": {"x": {"kind": "poisson", "size": 900, "pool": 40}}}
    says(mistake(lambda: cases_of(raw=raw | {"time": {"sample_us": 5}})), "load.x.pool=40", "time.sample_us")


def pools__may_grow():
    raw = {"topology": {"kind": "star", "hosts": 2}, "load": {"x": {"kind": "poisson", "size": 1000, "pool": 2}},
           "time": {"warmup_ms": 0, "measure_ms": 1}}
    run = run_of(raw)
    rows = (FLOW.format(n=0, rx=1000) + FLOW.format(n=1, rx=0) + FLOW.format(n=2, rx=9).replace("connected=1", "connected=0"))
    records = [(0, 1000, 0, 9000), (2, 1000, 5000, 9000), (2, 1000, 8000, 0), (2, 1000, 9500, 0)]
    files = files_of(flows=rows.encode(), messages=b"".join(struct.pack("=IIQQQ", *r, 0) for r in records))
    same(checks.complaint(checks.checks(files, run)), "")
    found = measure.metrics(files, run)
    same([found["counters"]["opened"], found["counters"]["met_busy"]], [1, 2])
    near(found["ideal"]["ratio"], 1009 / 4000, 1e-3)
    says(checks.complaint(checks.checks(files, run_of(raw | {"load": {"x": {"kind": "poisson", "size": 1000}}}))), "3 of 2")


# --- Figures of flows, and of a run -----------------------------------------------------

def percentiles__of_a_histogram():
    hist = measure.parse_hist("100:90,512:9,1048576:1")
    same([measure.hist_percentile(hist, p) for p in (50, 95, 99.5)], [100, 513, 1048576 + 4095])
    same(measure.hist_percentile([], 50), None)
    same([measure.middle(low) for low in (0, 255, 256, 512)], [0, 255, 256, 513])


def percentiles__of_values_are_those_of_a_histogram():
    for values in ([1], [1, 2], [1, 2, 3, 4], list(range(100)), list(range(250))):
        for percent in (1, 50, 99):
            hist = [(value, 1) for value in values]
            same(measure.percentile(values, percent), measure.hist_percentile(hist, percent))


def times__of_groups():
    groups = measure.parse_lines(b"group=0 rtt_count=2 rtt_sum_ns=300 rtt_min_ns=100 rtt_max_ns=200 rtt_hist=100:1,200:1\n"
                                 b"group=1 rtt_count=1 rtt_sum_ns=150 rtt_min_ns=150 rtt_max_ns=150 rtt_hist=150:1\n")
    found = measure.times(groups, "rtt")
    same([found["avg"], found["p50"], found["max"], found["count"]], [150, 150, 200, 3])
    same(measure.times(measure.parse_lines(b"group=0 rtt_count=0 rtt_sum_ns=0 rtt_hist=\n"), "rtt"), None)


def jain__of_few():
    near(measure.jain([1, 1, 1]), 1)
    near(measure.jain([1, 0, 0, 0]), 0.25)
    same(measure.jain([0, 0]), None)


def samples__give_rates_phases_and_marks():
    raw = {"topology": {"kind": "star", "hosts": 3}, "load": {"x": {"kind": "join-leave", "senders": 2, "step_ms": 10}},
           "time": {"warmup_ms": 0, "measure_ms": 30, "sample_us": 1000, "marks_ms": [20]}}
    run = run_of(raw)
    early, late = sorted((0, 1), key=lambda n: run.flows[n].start_ns)
    data = b"".join(struct.pack("=QIIQII", t * 10**6, flow, 65536, rx, 2 * 65536, 3 * 65536)
                    for t in range(41) for flow, rx in ((early, 3000 * t), (late, 1000 * max(0, t - 10))))
    samples = measure.Samples(data)
    near(samples.rate_bps(early, 0, 10**7), 24e6)
    near(measure.phase_fairness(samples, run)["min"], 0.8)
    same(measure.rates_at_marks(samples, run), {"at_20ms": 8e6})
    same([measure.spread(samples.fcwnd)["p50"], measure.spread(samples.ecwnd)["p1"]], [2, 3])
    assert "flow_rate_bps.at_20ms" in measure.known([], [20])


def phases__are_those_that_are_measured():
    """Of four flows a step of 10 ms; some are over before the measurement, and one has nothing to say."""
    raw = {"topology": {"kind": "star", "hosts": 5}, "load": {"x": {"kind": "join-leave", "senders": 4, "step_ms": 10}},
           "time": {"warmup_ms": 26, "measure_ms": 24, "sample_us": 1000}}
    run = run_of(raw)
    order = sorted(range(4), key=lambda n: run.flows[n].start_ns)
    data = b"".join(struct.pack("=QIIQII", t * 10**6, flow, 65536, (1000 + 1000 * place) * min(t, 41), 65536, 65536)
                    for t in range(26, 51) for place, flow in enumerate(order))
    samples = measure.Samples(data)
    same([round(index, 3) for index in measure.phase_fairness(samples, run)["all"]], [0.833])
    first = raw | {"time": {"warmup_ms": 0, "measure_ms": 10, "sample_us": 1000}}
    same(measure.phase_fairness(samples, run_of(first)), None)


def metrics__of_a_whole_run():
    raw = {"topology": {"kind": "star", "hosts": 2}, "load": {"x": {"kind": "incast", "flows": 2}},
           "time": {"warmup_ms": 1, "measure_ms": 10}}
    run, files = run_of(raw), files_of()
    found = measure.metrics(files, run)
    same([found["goodput_bps"], found["jain"], found["share_ratio"]], [2.4e6, 0.9, 0.5])
    same([found["loss_ratio"], found["groups"]["x"]["rtt_ns"]["count"]], [0.09, 2])
    same(checks.complaint(checks.checks(files, run)), "")
    json.dumps(found, allow_nan=False)
    same(results.metrics_of(found).keys() - measure.known(["x"], []), set())


def jain__is_of_one_load():
    time = {"warmup_ms": 1, "measure_ms": 10}
    star = {"kind": "star", "hosts": 4}
    stream = {"kind": "pairs", "from": [1, 2], "to": [0]}
    rpc = {"kind": "pairs", "from": [3], "to": [0], "size": 64, "flows": 2}

    def found(**loads):
        run = run_of({"topology": star, "load": loads, "time": time})
        rx, rows = {}, ""
        for n, flow in enumerate(run.flows):  # of each load 1000, then 3000
            rx[flow.group] = rx.get(flow.group, -1000) + 2000
            rows += FLOW.format(n=n, rx=rx[flow.group]).replace("group=0", f"group={flow.group}")
        return measure.metrics(files_of(flows=rows.encode()), run)

    one = found(x=stream)
    same([one["jain"], one["share_ratio"], one["groups"]["x"]["jain"]], [0.8, 0.333333, 0.8])
    for other in (rpc, stream | {"law": "cubic"}, stream | {"start_ms": 0.5}):
        both = found(x=stream, y=other)
        same(["jain" in both, "share_ratio" in both, both["groups"]["x"]["jain"], both["groups"]["x"]["share_ratio"]],
             [False, False, 0.8, 0.333333])
        same(both["groups"]["y"]["jain"], 0.8)
    beside = found(x=stream, y={"kind": "poisson", "size": 64})
    same([beside["jain"], beside["groups"]["y"]["jain"]], [0.8, None])


def fct_ratio__is_over_what_the_receivers_link_needs():
    """Three messages of 100 bytes over 8 Mb/s: each frame takes 190 us on a link, the answer of 64 bytes 154 us."""
    raw = {"topology": {"kind": "star", "hosts": 4, "rate_bps": 8_000_000, "prop_ns": 1},
           "load": {"x": {"kind": "incast", "size": 100, "once": 1}}, "time": {"warmup_ms": 0, "measure_ms": 10}}
    least = measure.together_ns(run_of(raw), 0)
    near(least, (2 * 190 + 2 * 154 + 2 * 190) * 1000, 1e-4)
    near(measure.together_ns(run_of(raw | {"load": {"x": raw["load"]["x"] | {"depth": 2}}}), 0), least + 3 * 190_000, 1e-4)
    same(measure.over({"p50": 4, "p99": 6, "p999": 8, "max": 8, "count": 3}, 2), {"p50": 2, "p99": 3, "p999": 4, "max": 4})
    same(measure.over(None, 2), None)


FLOW = ("flow={n} group=0 src=1 dst=0 sport=1 dport=2 connected=1 rx_bytes={rx} messages=0 retrans=0 rtos=0 cwnd_pkts=1 "
        "srtt_us=9 fabric_ns=20 endpoint_ns=10 target_ns=30 fcwnd_q16=65536 ecwnd_q16=32768\n")
QUIET = re.sub(rb"(tx_pkts|rx_pkts|drops|lost|rx_missed|in_flight)=\d+", rb"\1=0", FABRIC)


def files_of(**changed):
    files = {"flows": (FLOW.format(n=0, rx=1000) + FLOW.format(n=1, rx=2000)).encode(),
             "groups": b"group=0 rtt_count=2 rtt_sum_ns=300 rtt_min_ns=100 rtt_max_ns=200 rtt_hist=100:1,200:1"
                       b" fct_count=0 fct_sum_ns=0 fct_max_ns=0 fct_hist=\n",
             "fabric": FABRIC, "fabric_start": QUIET, "fabric_reset": QUIET, "messages": b"", "samples": b"",
             "wait": b"time_ns=1 late_ns=5\n", "reset_late": b"7",
             "counters": b"{}", "dmesg": b"[1] fine\n"}
    return files | changed


TRUTH = (b"samples=10 local_none=2 local_software=0 local_hardware=8 remote_none=5 remote_software=4 remote_hardware=1\n"
         b"part=local count=8 within=6 sum_ns=1600 max_ns=900 ns_hist=100:7,900:1 ppm_hist=1000:8\n"
         b"part=fabric count=0 within=0 sum_ns=0 max_ns=0 ns_hist= ppm_hist=\n")


def truth__of_samples():
    found = measure.truth(TRUTH)
    same([found["samples"], found["hardware_ratio"], found["none_ratio"]],
         [10, {"local": 1, "remote": 0.2}, {"local": 0.2, "remote": 0.5}])
    same([found["local"]["within_ratio"], found["local"]["error_ns"]],
         [0.75, {"avg": 200, "p50": 100, "p99": 901, "max": 900}])
    near(found["local"]["error_ratio"]["p50"], 0.001, 0.01)
    same("fabric" in found, False)
    same(measure.truth(b"samples=0 local_none=0\npart=local count=0\n"), None)


# --- Checks ------------------------------------------------------------------------------------------

def complaint_of(**changed):
    raw = {"topology": {"kind": "star", "hosts": 2}, "load": {"x": {"kind": "incast", "flows": 2}}}
    return checks.complaint(checks.checks(files_of(**changed), run_of(raw)))


def checks__find_what_is_wrong():
    same(complaint_of(), "")
    says(complaint_of(counters=json.dumps({"TCPRcvQDrop": 3}).encode()), "the lab, not the law, was the limit", "TCPRcvQDrop=3")
    says(complaint_of(wait=b"late_ns=2000000\n"), "in time", "2000000 ns late")
    says(complaint_of(reset_late=b"3000000"), "in time", "3000000 ns late")
    says(complaint_of(dmesg=b"[2] WARNING: CPU: 0 PID: 1 at net\n"), "kernel log", "WARNING")
    says(complaint_of(fabric=FABRIC.replace(b"rx_pkts=90", b"rx_pkts=89")), "unaccounted", "sent 120 frames", "received 109")
    at_a_switch = FABRIC.replace(b"rx_pkts=90", b"rx_pkts=89").replace(b"lost=1 ", b"lost=1 rx_crc_errors=1 ")
    same(complaint_of(fabric=at_a_switch), "")
    says(complaint_of(fabric=FABRIC.replace(b"no_route=0", b"no_route=1")), "1 had none")
    says(complaint_of(flows=FLOW.format(n=0, rx=1).replace("connected=1", "connected=0").encode()), "1 of 1 flows are not connected", "1 of 2")


# --- Plots --------------------------------------------------------------------------------------

def notes_of_a_plot__are_apart():
    from lab import report

    figure, axes = report.axes_of()
    axes.plot([0, 10], [0, 10])
    notes = [axes.annotate("a name", (x, 5), textcoords="offset points", xytext=(6, above))
             for x, above in ((5, 5), (5.1, 5), (5.2, 5), (5, -10), (5.1, -10), (9.9, 5))]
    report.keep_apart(notes)
    boxes = [note.get_window_extent() for note in notes]
    same([(i, k) for k in range(len(boxes)) for i in range(k) if boxes[i].overlaps(boxes[k])], [])
    places = [note.get_position()[1] for note in notes]
    same([places[i] for i in (0, 3, 5)], [5, -10, 5])  # who is alone stays
    same(places[:3], sorted(places[:3]))  # and nobody crosses its point
    assert places[4] < -10, places
    report.svg(figure)

