# SPDX-License-Identifier: GPL-2.0
"""Results: medians over seeds, the paper's expectations, and what moved between two files.
Nothing here depends on when or how fast something ran."""

import json
import os
import statistics
import tempfile

from . import Failure, Mistake, fields, laws, measure

VERSION = 1
# What is read of a result.
NEEDED = {"experiment": fields.text(None, ""), "parameters": fields.table(""), "runs": fields.listing(None, ""),
          "summary": fields.listing(None, ""), "expectations": fields.listing(None, "")}
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


def by_law(runs):
    """{(law, case): {seed: {metric: number}}}, in the order of the runs."""
    found = {}
    for run in runs:
        found.setdefault((run["cc"], run["case"]), {})[run["seed"]] = metrics_of(run)
    return found


def spread(values):
    return {"median": measure.rounded(float(statistics.median(values))), "min": min(values), "max": max(values)}


def summarise(found):
    """A row for each law and case of by_law(): {metric: {median, min, max}}."""
    result = []
    for (cc, case), seeds in found.items():
        rows = list(seeds.values())
        # A figure that not all seeds have is no figure.
        keys = [key for key in rows[0] if all(key in row for row in rows)]
        result.append({"cc": cc, "case": case, "seeds": len(rows),
                       "metrics": {key: spread([row[key] for row in rows]) for key in keys}})
    return result


# --- Expectations ----------------------------------------------------------------------

def find(found, of):
    """({seed: value}, why there is none) of LAW[/CASE].METRIC in by_law()."""
    name, _, metric = of.partition(".")
    cc, _, case = name.partition("/")
    seeds = found.get((cc, case))
    if not seeds:
        return {}, "not run"
    if not all(metric in metrics for metrics in seeds.values()):
        return {}, "not measured"
    return {seed: metrics[metric] for seed, metrics in seeds.items()}, ""


def limits(one, scale):
    """(least, most) that is allowed; None where nothing is."""
    if scale < 1:
        return one.get("smoke_min"), one.get("smoke_max")
    if "near" in one:
        slack = abs(one["near"]) * one.get("within", 0.1)
        return one["near"] - slack, one["near"] + slack
    return one.get("min"), one.get("max")


def judge(one, found, scale):
    """An expectation's line, of by_law(). `ours` is the median, a ratio's of each seed's ratio; verdict is met, if each
    seed's figure meets it; missed, if the median does not; or what else is to say."""
    values, why = find(found, one["of"])
    if values and one.get("over"):
        others, why = find(found, one["over"])
        # Not of some seeds: one without a ratio leaves none.
        values = {seed: value / others[seed] for seed, value in values.items()} if all(map(others.get, values)) else {}
        why = why or "division by 0"
    ours = spread(values.values()) if values else {"median": None, "min": None, "max": None}
    lower, upper = limits(one, scale)

    def meets(value):
        return (lower is None or value >= lower) and (upper is None or value <= upper)

    if not values:
        verdict = why
    elif lower is None and upper is None:
        verdict = "not judged at this scale" if scale < 1 else "not judged"
    elif not meets(ours["median"]):
        verdict = "missed"
    else:
        missed = sum(not meets(value) for value in values.values())
        verdict = f"met by {len(values) - missed} of {len(values)} seeds" if missed else "met"
    return {"what": one["what"], "of": one["of"], "over": one.get("over", ""), "unit": one.get("unit", ""),
            "paper": one.get("paper"), "ours": measure.rounded(ours["median"]), "least": measure.rounded(ours["min"]),
            "most": measure.rounded(ours["max"]), "min": lower, "max": upper, "verdict": verdict}


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
    found = by_law(runs)
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
        "summary": summarise(found),
        "expectations": [judge(one, found, experiment.scale) for one in experiment.raw.get("expect", [])],
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
    try:
        fd, temporary = tempfile.mkstemp(prefix=".lab-", dir=folder)
        try:
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(content)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from None


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
    if not isinstance(found, list) or content.get("version") != VERSION:
        raise Mistake(f"{path}: expected a result of version {VERSION}")
    for number, one in enumerate(found):
        for key, field in NEEDED.items():
            fields.check(f"{path}: experiments.{number}", fields.table(""), one)
            fields.check(f"{path}: experiments.{number}.{key}", field, one.get(key))
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
