# SPDX-License-Identifier: GPL-2.0
"""What the terminal shows: a table of the main figures, then paper against ours."""

from . import params

COLUMNS = [  # heading, metric, divisor, digits
    ("goodput Gb/s", "goodput_bps", 1e9, 2), ("RTT us avg", "rtt_ns.avg", 1e3, 1), ("p50", "rtt_ns.p50", 1e3, 1),
    ("p99", "rtt_ns.p99", 1e3, 1), ("p99.9", "rtt_ns.p999", 1e3, 1), ("loss %", "loss_ratio", 0.01, 4),
    ("Jain", "jain", 1, 4), ("of ideal", "ideal.ratio", 1, 3), ("slowdown p50", "slowdown.all.p50", 1, 2), ("p99", "slowdown.all.p99", 1, 2),
    ("queue KB mean", "queue_bytes.mean", 1e3, 1), ("max", "queue_bytes.max", 1e3, 0),
]
UNITS = {"Gb/s": 1e9, "Mb/s": 1e6, "us": 1e3, "ms": 1e6, "KB": 1e3, "MB": 1e6, "%": 0.01}


def cell(value, divisor, digits):
    if value is None:
        return "-"
    shown = f"{value['median'] / divisor:.{digits}f}"
    if value["min"] != value["max"]:
        shown += f" ({value['min'] / divisor:.{digits}f}..{value['max'] / divisor:.{digits}f})"
    return shown


def usual_columns(result):
    """With Jain's index of each load, where that of all tells nothing."""
    metrics = dict.fromkeys(metric for row in result["summary"] for metric in row["metrics"])
    loads = [metric.split(".")[1] for metric in metrics if metric.startswith("groups.") and metric.endswith(".jain")]
    split = [(f"Jain {name}", f"groups.{name}.jain", 1, 4) for name in loads]
    at = [metric for _, metric, *_ in COLUMNS].index("jain")
    return COLUMNS if "jain" in metrics else COLUMNS[:at] + split + COLUMNS[at + 1:]


def columns_of(result):
    """The experiment's own, and those that any row has."""
    own = [(c["heading"], c["metric"], UNITS.get(c.get("unit", ""), 1), c.get("digits", 2)) for c in result.get("columns", [])]
    return [c for c in own + usual_columns(result) if any(c[1] in row["metrics"] for row in result["summary"])]


def layout(rows):
    """Columns of texts, the first to the left."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(text.ljust(w) if i == 0 else text.rjust(w)
                               for i, (text, w) in enumerate(zip(row, widths))).rstrip() for row in rows)


def label(row):
    return "/".join(filter(None, (row["cc"], row["case"])))


def is_sensitivity(result):
    return any(axis.get("factors") for axis in result["axes"])


def grid(result, metric):
    """[tunable], [(set-up, factor)], {(tunable, set-up, factor): the metric over that with nothing set}: of a result
    whose axes are set-ups and factors."""
    found = {}
    for row in result["summary"]:
        setup, _, name = row["case"].rpartition("-")
        found[setup, name] = row["metrics"].get(metric, {}).get("median")
    setups = list(dict.fromkeys(setup for setup, _ in found))
    names = [name for setup, name in found if setup == setups[0] and name != params.UNCHANGED]
    tunables = list(dict.fromkeys(name.rpartition(" ")[0] for name in names))
    factors = [params.factor_name(f) for axis in result["axes"] for f in axis.get("factors", [])]
    cells = {}
    for setup in setups:
        base = found.get((setup, params.UNCHANGED))
        for tunable in tunables:
            for factor in factors:
                value = found.get((setup, f"{tunable} {factor}"))
                if base and value is not None:
                    cells[tunable, setup, factor] = value / base
    return tunables, [(setup, factor) for setup in setups for factor in factors], cells


def grids(result):
    """A table of each metric that the experiment's columns name: what it is, over that with nothing set."""
    parts = []
    for column in result["columns"]:
        tunables, columns, cells = grid(result, column["metric"])
        columns = [c for c in columns if any((tunable, *c) in cells for tunable in tunables)]
        if not columns:
            continue
        rows = [[f"{column['heading']}, over nothing set", *(" ".join(c) for c in columns)]]
        rows += [[tunable, *(f"{cells[tunable, *c]:.2f}" if (tunable, *c) in cells else "-" for c in columns)] for tunable in tunables]
        parts.append(layout(rows))
    return "\n\n".join(parts)


def table(result):
    if is_sensitivity(result):
        kept = [row for row in result["summary"] if row["case"].endswith(params.UNCHANGED)]
        return rows_table(result | {"summary": kept}) + "\n\n" + grids(result)
    return rows_table(result)


def rows_table(result):
    columns = columns_of(result)
    rows = [["", *(c[0] for c in columns)]]
    rows += [[label(row), *(cell(row["metrics"].get(c[1]), c[2], c[3]) for c in columns)] for row in result["summary"]]
    return layout(rows)


def with_nothing_set(result, beside):
    """The result with what `beside`, the same experiment with nothing set, has of Swift: each row and run after its own,
    and each expectation's as its "beside"."""
    of_swift = [cc for cc, law in beside["parameters"]["laws"].items() if law["law"] == "swift"]

    def both(key):
        def whose(row):
            return row["cc"], row["case"], row.get("seed")

        others = {whose(row): row | {"cc": f"{row['cc']}, nothing set"} for row in beside[key] if row["cc"] in of_swift}
        return [one for row in result[key] for one in (row, others.get(whose(row))) if one]

    found = {one["what"]: one for one in beside["expectations"]}
    return result | {"summary": both("summary"), "runs": both("runs"), "beside_git": beside["git"],
                     "expectations": [one | {"beside": found.get(one["what"])} for one in result["expectations"]]}


def number(value, unit):
    return f"{value / UNITS.get(unit, 1):.5g}"


def figure(value, unit):
    if value is None:
        return "-"
    return number(value, unit) + (f" {unit}" if unit else "")


def limit(one):
    low, high = (None if one[k] is None else figure(one[k], one["unit"]) for k in ("min", "max"))
    if low and high:
        return f"{low} to {high}"
    return f">= {low}" if low else f"<= {high}" if high else "-"


def ours(one):
    """The median, and where seeds differ their range."""
    shown = figure(one["ours"], one["unit"])
    if one.get("least") is None:
        return shown
    low, high = (number(one[key], one["unit"]) for key in ("least", "most"))
    return shown if low == high else f"{shown} ({low}..{high})"


def expectation_rows(result):
    """Cells of the table of the paper's figures and ours, its head first; with_nothing_set() has two of ours."""
    if any(one.get("beside") for one in result["expectations"]):
        rows = [["", "paper", "nothing set", "verdict", result["parameters"]["tunables"]["set"], "verdict", "limit"]]
        rows += [[one["what"], figure(one["paper"], one["unit"]), ours(one["beside"]) if one["beside"] else "-",
                  one["beside"]["verdict"] if one["beside"] else "not run", ours(one), one["verdict"], limit(one)]
                 for one in result["expectations"]]
    else:
        rows = [["", "paper", "ours", "verdict", "limit"]]
        rows += [[one["what"], figure(one["paper"], one["unit"]), ours(one), one["verdict"], limit(one)]
                 for one in result["expectations"]]
    return rows


def expectations(result):
    return layout(expectation_rows(result))


def parameters_line(result):
    p = result["parameters"]
    given = " ".join(f"{k}={v}" for k, v in p["set"].items())
    return f"{p['seeds']} seed{'s' * (p['seeds'] > 1)}, scale {p['scale']:g}" + (f", {given}" if given else "")


def tunables_line(result):
    """Whose tunables Swift has, and which; nothing of a result that does not tell."""
    told = result["parameters"].get("tunables")
    if not told or not has_swift(result):
        return ""
    values = " ".join(f"{key}={value}" for key, value in told["values"].items()) or "nothing is set"
    return f"Swift's tunables: {told['set']} ({values})" + "".join(
        f"{', its subject ' if i == 0 else ', '}{key}" for i, key in enumerate(told["subject"]))


def hosts_line(result):
    """The hosts, alike for all laws; nothing of a result that does not tell."""
    told = result["parameters"].get("hosts")
    if not told:
        return ""
    windows = {}
    for cc, pkts in told["initial_window_pkts"].items():
        windows.setdefault(pkts, []).append(cc)
    models = f", {' and '.join(told['model'])}" if "model" in told else ""
    return f"hosts: {' and '.join(told['qdisc'])}{models}; initial window " + ", ".join(
        f"{pkts} packets ({' '.join(ccs)})" for pkts, ccs in windows.items())


def about(result):
    """Lines: whose tunables, what stands beside them, which hosts."""
    nothing = f"nothing set: source {result['beside_git']}" if "beside_git" in result else ""
    return list(filter(None, (tunables_line(result), nothing, hosts_line(result))))


def has_swift(result):
    return any(law["law"] == "swift" for law in result["parameters"]["laws"].values())


def complaints(result):
    """One line each run whose checks failed."""
    return [f"{label(run)} seed {run['seed']}: {check['check']}: {check['detail']}"
            for run in result["runs"] for check in run["checks"] if not check["ok"]]


def experiment(result):
    parts = [f"{result['experiment']}: {result['title']} ({result['source']})",
             f"{parameters_line(result)}; {result['kernel']}", *about(result), "", table(result)]
    if result["expectations"]:
        parts += ["", expectations(result)]
    return "\n".join(parts) + "\n"


def comparison(name, found):
    parts = [f"{name}: " + ("same parameters" if not found["parameters"] else "other parameters:")]
    parts += [f"  {line}" for line in found["parameters"]]
    parts += [f"  only in one: {one}" for one in found["only"]]
    if found["moved"]:
        rows = [["", "before", "after", "change", ""]]
        rows += [[f"  {label(m)}.{m['metric']}", f"{m['before']:.6g}", f"{m['after']:.6g}", f"{m['change']:+.1%}",
                  "beyond the spread of seeds" if m["beyond_spread"] else ""] for m in found["moved"]]
        parts.append(layout(rows))
    else:
        parts.append("  nothing moved")
    return "\n".join(parts)
