# SPDX-License-Identifier: GPL-2.0
"""Results: medians over seeds, the paper's expectations, and what moved between two files.
Nothing here depends on when or how fast something ran."""

import json
import os
import statistics
import tempfile

from . import Mistake, laws, measure

VERSION = 1
NO_METRIC = ("cc", "case", "seed", "checks", "plot", "n")


def flatten(tree, prefix=""):
    """{dotted key: number} of a tree."""
    result = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            result |= flatten(value, f"{prefix}{key}.")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            result[prefix + key] = value
    return result


def metrics_of(run):
    return flatten({k: v for k, v in run.items() if k not in NO_METRIC})


def summarise(runs):
    """A row for each law and case, in the order of the runs: {metric: {median, min, max}}."""
    rows = {}
    for run in runs:
        rows.setdefault((run["cc"], run["case"]), []).append(metrics_of(run))
    result = []
    for (cc, case), found in rows.items():
        # A figure that not all seeds have is no figure.
        keys = [key for key in found[0] if all(key in one for one in found)]
        result.append({"cc": cc, "case": case, "seeds": len(found), "metrics": {
            key: {"median": measure.rounded(float(statistics.median(one[key] for one in found))),
                  "min": min(one[key] for one in found), "max": max(one[key] for one in found)} for key in keys}})
    return result


# --- Expectations ----------------------------------------------------------------------

def find(summary, of):
    """(median or None, why not) of LAW[/CASE].METRIC."""
    name, _, metric = of.partition(".")
    cc, _, case = name.partition("/")
    for row in summary:
        if (row["cc"], row["case"]) == (cc, case):
            value = row["metrics"].get(metric)
            return (value["median"], "") if value else (None, "not measured")
    return None, "not run"


def limits(one, scale):
    """(least, most) that is allowed; None where nothing is."""
    if scale < 1:
        return one.get("smoke_min"), one.get("smoke_max")
    if "near" in one:
        slack = abs(one["near"]) * one.get("within", 0.1)
        return one["near"] - slack, one["near"] + slack
    return one.get("min"), one.get("max")


def judge(one, summary, scale):
    """An expectation's line: verdict is met, missed, or why it cannot be said."""
    ours, why = find(summary, one["of"])
    if ours is not None and one.get("over"):
        other, why = find(summary, one["over"])
        ours = ours / other if other else None
        why = why or "division by 0"
    least, most = limits(one, scale)
    if ours is None:
        verdict = why
    elif least is None and most is None:
        verdict = "not judged at this scale" if scale < 1 else "not judged"
    else:
        verdict = "met" if (least is None or ours >= least) and (most is None or ours <= most) else "missed"
    return {"what": one["what"], "of": one["of"], "over": one.get("over", ""), "unit": one.get("unit", ""),
            "paper": one.get("paper"), "ours": measure.rounded(ours), "min": least, "max": most, "verdict": verdict}


def tunables(experiment):
    """Whose Swift it is: `set` is defaults, a testbed or a file."""
    return {"set": experiment.tunables.name, "values": experiment.tunables.values,
            "subject": experiment.raw.get("subject", [])}


def hosts(cases, ccs):
    """What all laws have alike, and the window that each begins with."""
    laws_ = {cc: cases[0].spec["laws"].get(cc) or laws.resolve(cc, {}) for cc in ccs}
    return {"qdisc": sorted({case.spec["hosts"]["qdisc"] for case in cases}),
            "model": sorted({case.spec["hosts"]["model"] for case in cases}),
            "initial_window_pkts": {cc: laws.initial_window(law) for cc, law in laws_.items()}}


def assemble(experiment, cases, ccs, seeds, runs, kernel, describe):
    """The whole result. `cases` resolved, `runs` in order."""
    summary = summarise(runs)
    return {
        "version": VERSION,
        "experiment": experiment.id,
        **{key: experiment.raw.get(key, "") for key in ("title", "source", "question", "notes")},
        "kernel": kernel,
        "git": describe,
        "parameters": {"ccs": ccs, "seeds": seeds, "scale": experiment.scale, "set": experiment.settings,
                       "tunables": tunables(experiment),
                       "hosts": hosts(cases, ccs),
                       "laws": {cc: cases[0].spec["laws"].get(cc) or laws.resolve(cc, {}) for cc in ccs},
                       "cases": {case.name: {"values": case.values, **case.spec} for case in cases}},
        "axes": experiment.raw.get("vary", []),
        "plots": experiment.raw.get("plot", []),
        "columns": experiment.raw.get("column", []),
        "runs": runs,
        "summary": summary,
        "expectations": [judge(one, summary, experiment.scale) for one in experiment.raw.get("expect", [])],
    }


def failed(result):
    """Whether an expectation was missed or a check failed."""
    return (any(one["verdict"] == "missed" for one in result["expectations"]) or
            any(not check["ok"] for run in result["runs"] for check in run["checks"]))


# --- Files ----------------------------------------------------------------------------------

def check_folder(what, folder):
    """Made if it is not there; one that can be written."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise Mistake(f"{what}: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise Mistake(f"{what}: {folder} cannot be written")


def write(path, content):
    """All of it or nothing."""
    folder = os.path.dirname(os.path.abspath(path))
    check_folder(path, folder)
    fd, temporary = tempfile.mkstemp(prefix=".lab-", dir=folder)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def dump(results):
    return json.dumps(results, indent=1, allow_nan=False) + "\n"


def read(path):
    """The results of a file: a list, an experiment each."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except OSError as error:
        raise Mistake(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise Mistake(f"{path}: not JSON: {error}") from None
    found = content.get("experiments") if isinstance(content, dict) else None
    if content.get("version") != VERSION or not isinstance(found, list):
        raise Mistake(f"{path}: expected a result of version {VERSION}")
    return found


# --- Comparison -------------------------------------------------------------------------------

def compare(a, b, least=0.01):
    """What moved from one result of an experiment to another: {parameters, moved, only}."""
    before, after = ({(r["cc"], r["case"]): r["metrics"] for r in one["summary"]} for one in (a, b))
    several = all(row["seeds"] > 1 for one in (a, b) for row in one["summary"])
    parameters = differences(a["parameters"], b["parameters"])
    moved = []
    for key in before.keys() & after.keys():
        for metric in before[key].keys() & after[key].keys():
            x, y = before[key][metric], after[key][metric]
            change = relative(x["median"], y["median"])
            if change is not None and abs(change) >= least:
                apart = several and (x["max"] < y["min"] or y["max"] < x["min"])
                moved.append({"cc": key[0], "case": key[1], "metric": metric, "before": x["median"],
                              "after": y["median"], "change": change, "beyond_spread": apart})
    moved.sort(key=lambda m: (m["cc"], m["case"], m["metric"]))
    return {"parameters": parameters, "moved": moved,
            "only": sorted("/".join(filter(None, key)) for key in before.keys() ^ after.keys())}


def relative(x, y):
    if x == y:
        return None
    return (y - x) / abs(x) if x else float("inf") * (1 if y > x else -1)


def leaves(tree, prefix=""):
    if isinstance(tree, dict):
        return {k: v for key, value in tree.items() for k, v in leaves(value, f"{prefix}{key}." if key else prefix).items()}
    return {prefix[:-1]: tree}


def differences(a, b):
    """["key: before -> after"]"""
    x, y = leaves(a), leaves(b)
    return [f"{key}: {x.get(key, '-')} -> {y.get(key, '-')}" for key in sorted(x.keys() | y.keys())
            if x.get(key) != y.get(key)]
