# SPDX-License-Identifier: GPL-2.0
"""Cases of test_runner: from many runs' figures to medians, verdicts, comparisons, tables and files."""

import os
import pathlib
import re
import tempfile

from lab import cli, experiment, params, report, results, text
from runner_common import RAW, cases_of, entry, failure, mistake, near, no_room, same, says


def factors__are_of_each_tunable_alone():
    names = dict(params.times([0.25, 4], True))
    same(names["nothing set"], {})
    same([names["ai_milli x1/4"], names["ai_milli x4"]], [{"laws.swift.ai_milli": 250}, {"laws.swift.ai_milli": 4000}])
    for absent in ("beta_milli x4", "split x4", "target_policy x4", "echo x4", "dscp x4", "init_cwnd x1/4"):  # out of range, or no number
        assert absent not in names, absent
    same(len({name.rpartition(" ")[0] for name, _ in params.times([0.5], False)} - {"nothing"}), 1)
    raw = RAW | {"vary": [{"cases": {"few": {"topology.hosts": 3}}}, {"factors": [2]}]}
    experiment.check_file(raw)
    case = next(case for case in cases_of(raw=raw) if case.name == "few-ai_milli x2")
    same(case.spec["laws"]["swift"]["ai_milli"], 2000)
    says(mistake(experiment.axis_values, {"factors": [2], "key": "x", "values": [1]}), "vary: expected either")


def factors__become_a_grid():
    rows = [entry(case=f"{setup}-{name}", goodput_bps=value * scale_) for setup, scale_ in (("a", 10), ("b", 100))
            for name, value in (("nothing set", 2), ("ai_milli x1/2", 1), ("ai_milli x2", 3))]
    found = {"axes": [{"cases": {}}, {"factors": [0.5, 2]}], "summary": results.summarise(results.by_law(rows)),
             "columns": [{"heading": "throughput", "metric": "goodput_bps"}]}
    tunables, columns, cells = text.grid(found, "goodput_bps")
    same([tunables, columns], [["ai_milli"], [("a", "x1/2"), ("a", "x2"), ("b", "x1/2"), ("b", "x2")]])
    same(cells, {("ai_milli", setup, factor): value for setup in "ab" for factor, value in (("x1/2", 0.5), ("x2", 1.5))})
    says(text.table(found), "a-nothing set", "throughput, over nothing set  a x1/2  a x2  b x1/2  b x2", "ai_milli")
    assert "ai_milli x2" not in text.table(found)


def table__has_the_experiments_own_columns_first():
    one = experiment.Experiment("test", RAW | {"ccs": ["swift"], "vary": [], "column": [
        {"heading": "p99 ms", "metric": "fct_ns.p99", "unit": "ms"}, {"heading": "none", "metric": "groups.y.z"}]}, {}, 1.0)
    found = results.assemble(one, experiment.cases(one), one.ccs, 1, [entry(goodput_bps=3e9, fct_ns={"p99": 2_500_000})], "6.12", "abc")
    same([line.split() for line in text.table(found).splitlines()], [["p99", "ms", "goodput", "Gb/s"], ["swift", "2.50", "3.00"]])
    says(mistake(experiment.check_file, {"column": [{"heading": "x"}]}), "column: heading and metric")


def summary__is_of_medians():
    rows = results.summarise(results.by_law([entry(seed=s, a=v, b={"c": v}) for s, v in ((1, 5), (2, 1), (3, 3))]))
    same(rows[0]["metrics"]["b.c"], {"median": 3.0, "min": 1, "max": 5})
    same(rows[0]["seeds"], 3)


def verdicts():
    rows = results.by_law([entry(a=10), entry(cc="gcn", case="x", a=20)])

    def verdict(scale=1.0, **one):
        return results.judge({"what": "", **one}, rows, scale)["verdict"]

    same(verdict(of="swift.a", min=10), "met")
    same(verdict(of="swift.a", max=9), "missed")
    same(verdict(of="gcn/x.a", near=21, within=0.1), "met")
    same(verdict(of="gcn/x.a", near=30), "missed")
    same(verdict(of="gcn/x.a", over="swift.a", min=2, max=2), "met")
    same(verdict(of="swift.a", paper=3), "not judged")
    same(verdict(0.5, of="swift.a", max=9), "not judged at this scale")
    same(verdict(0.5, of="swift.a", max=9, smoke_max=11), "met")
    same(verdict(of="gcn.a", min=1), "not run")
    same(verdict(of="swift.b", min=1), "not measured")


def verdict__is_of_all_seeds():
    found = results.by_law([entry(seed=1, a=10), entry(seed=2, a=12), entry(seed=3, a=14), entry("gcn", seed=1, a=5),
                            entry("gcn", seed=2, a=3), entry("gcn", seed=3, a=7)])

    def judged(**one):
        told = results.judge({"what": "", "of": "swift.a", **one}, found, 1)
        return [told[key] for key in ("ours", "least", "most", "verdict")]

    same(judged(min=10), [12, 10, 14, "met"])
    same(judged(min=11), [12, 10, 14, "met by 2 of 3 seeds"])
    same(judged(max=11), [12, 10, 14, "missed"])
    same(judged(over="gcn.a", min=2), [2, 2, 4, "met"])  # each seed's ratio, not the medians'
    found = results.by_law([entry(seed=1, a=10), entry(seed=2, a=12), entry("gcn", seed=1, a=5), entry("gcn", seed=2, a=0)])
    same(judged(over="gcn.a", min=2), [None, None, None, "division by 0"])


def report__has_nothing_set_beside_it():
    def result(name, law, a, scale=1):
        return {"experiment": "x", "git": "abc", "parameters": {"tunables": {"set": name}, "seeds": 1, "scale": scale, "set": {}, "laws": {"swift": {"law": "swift"}, "bbr": {"law": "bbr"}}},
                "runs": [], "summary": results.summarise(results.by_law([entry(goodput_bps=a), entry("bbr", goodput_bps=9e9)])),
                "expectations": [{"what": "throughput", "unit": "Gb/s", "paper": 4e9, "ours": a, "least": a, "most": a + law,
                                  "min": 3e9, "max": None, "verdict": name}]}

    both = text.with_nothing_set(result("t1", 0, 5e9), result("defaults", 1e9, 2e9))
    same([line.split()[0] for line in text.rows_table(both).splitlines()[1:]], ["swift", "swift,", "bbr"])
    same(text.expectation_rows(both), [["", "paper", "nothing set", "verdict", "t1", "verdict", "limit"],
                                       ["throughput", "4 Gb/s", "2 Gb/s (2..3)", "defaults", "5 Gb/s", "t1", ">= 3 Gb/s"]])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.json")
        results.write(path, results.dump({"version": results.VERSION, "experiments": [result("t1", 0, 1)]}))
        says(mistake(cli.beside, [result("t1", 0, 1)], path), path, "x has the tunables t1", "expected defaults")
        says(mistake(cli.beside, [{"experiment": "y"}], path), path, "no y")
        results.write(path, results.dump({"version": results.VERSION, "experiments": [result("defaults", 0, 1, 0.5)]}))
        says(mistake(cli.beside, [result("t1", 0, 1)], path), path, "x has scale 0.5; expected 1")


def tables__name_the_load_of_an_index():
    def headings(**metrics):
        summary = results.summarise(results.by_law([entry(goodput_bps=1e9, **metrics)]))
        return re.split(r"\s{2,}", text.rows_table({"columns": [], "summary": summary}).splitlines()[0])[1:]

    same(headings(groups={"x": {"jain": 0.5}, "y": {"jain": 0.9}}), ["goodput Gb/s", "Jain x", "Jain y"])
    same(headings(jain=0.5, groups={"x": {"jain": 0.5}}), ["goodput Gb/s", "Jain"])
    same(headings(groups={"x": {"jain": None}}), ["goodput Gb/s"])


def plots__name_each_line_or_laws_and_cases():
    def names(laws, cases):
        runs = [{"cc": cc, "case": case, "plot": {"flow_bps": [1, 3]}} for cc in laws for case in cases]
        with report.plt.rc_context(report.STYLE):
            got = report.plot_shares({"parameters": {"ccs": laws, "cases": dict.fromkeys(cases)}, "summary": [], "runs": runs})
        return re.findall(r'text-anchor: start"[^>]*>([^<]*)</text>', got)

    same(names(["swift", "bbr"], ["a", "b"]), ["swift/a", "swift/b", "bbr/a", "bbr/b"])
    many = [f"c{i}" for i in range(7)]
    same(names(["swift", "bbr"], many), ["swift", "bbr", *many])
    same(names(["swift", "bbr"], [f"c{i}" for i in range(9)]), ["swift", "bbr"])  # more cases than dashes


def compare__tells_what_moved():
    def result(*values, hosts=3):
        return {"parameters": {"hosts": hosts}, "summary": results.summarise(results.by_law([entry(seed=i, a=v, b=1) for i, v in enumerate(values)]))}
    found = results.compare(result(100, 101), result(120, 121))
    same([(m["metric"], m["beyond_spread"], found["parameters"]) for m in found["moved"]], [("a", True, [])])
    near(found["moved"][0]["change"], 20 / 100.5, 1e-6)
    same(results.compare(result(100, 130), result(120, 121), 0.01)["moved"][0]["beyond_spread"], False)
    same(results.compare(result(1), result(1, hosts=4))["parameters"], ["hosts: 3 -> 4"])


def figures__have_units():
    same([text.figure(49.5e9, "Gb/s"), text.figure(None, "us"), text.figure(0.91, "")], ["49.5 Gb/s", "-", "0.91"])


def read__refuses():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "x.json"
        for content, words in ((b"[]", "a result of version 1"), (b"3", "a result of version 1"),
                               (b"null", "a result of version 1"), (b"{", "not JSON"), (b"\xff", "not JSON"),
                               (b'{"version": 1, "experiments": {}}', "a result of version 1"),
                               (b'{"version": 1, "experiments": [3]}', "experiments.0=3: expected a table"),
                               (b'{"version": 1, "experiments": [{}]}', "experiments.0.experiment=None: expected text"),
                               (b'{"version": 1, "experiments": [{"experiment": "x", "parameters": 3}]}',
                                "experiments.0.parameters=3: expected a table")):
            path.write_bytes(content)
            says(mistake(results.read, path), str(path), words)


def write__leaves_all_or_nothing():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a/x.json")
        results.write(path, "one")
        try:
            results.write(path, 2)
        except TypeError:
            pass
        same([pathlib.Path(path).read_text(), os.listdir(os.path.dirname(path))], ["one", ["x.json"]])
        with no_room():
            same(failure(results.write, path, "two"), f"{path}: File too large")
        same([pathlib.Path(path).read_text(), os.listdir(os.path.dirname(path))], ["one", ["x.json"]])
        says(mistake(results.write, "/proc/no/x.json", "a"), "/proc/no/x.json")


def report__takes_no_folder_and_no_file_that_it_reads():
    with tempfile.TemporaryDirectory() as folder:
        path, link = f"{folder}/x.json", f"{folder}/link"
        results.write(path, results.dump({"version": results.VERSION, "experiments": []}))
        os.symlink(path, link)
        for html, words in ((folder, "expected a file, not a folder"), (link, "expected another file than the result")):
            options = cli.build_parser().parse_args(["report", path, "--html", html])
            same(mistake(cli.report_command, options), f"--html {html}: {words}")
        says(pathlib.Path(path).read_text(), "experiments")
