#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""From what a demo measured (demo_guest.py) to what people look at: a table on the
terminal, result.json for programs, and index.html with plots, which needs no network."""
import io
import json
import pathlib
import statistics
import sys

import jinja2
import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402 (the backend comes first)

HERE = pathlib.Path(__file__).parent
COLOURS = {"swift": "#0072b2", "cubic": "#d55e00", "dctcp": "#009e73", "bbr": "#cc79a7"}
FABRIC, HOST = "#56b4e9", "#e69f00"


def percentile(sorted_values, p):
    """Nearest rank: a value that was measured, not one in between."""
    return sorted_values[min(len(sorted_values) - 1, int(p / 100 * len(sorted_values)))]


def spread(values):
    return {"min": min(values), "max": max(values)}


def rtt_summary(samples):
    samples = sorted(samples)
    return {"avg": round(statistics.fmean(samples)), "p50": percentile(samples, 50),
            "p99": percentile(samples, 99), "p999": percentile(samples, 99.9)}


def summarise(measured):
    by_cc = {}
    for run in measured["runs"]:
        by_cc.setdefault(run["cc"], []).append(run)
    rows = []
    for cc, runs in by_cc.items():
        p99s = [rtt_summary(run["rtt_samples_ns"])["p99"] for run in runs]
        rows.append({
            "cc": cc,
            "n": len(runs),
            "goodput_bps": round(statistics.median(run["goodput_bps"] for run in runs)),
            "rtt_ns": rtt_summary([ns for run in runs for ns in run["rtt_samples_ns"]]),
            "rtt_samples": sum(len(run["rtt_samples_ns"]) for run in runs),
            "retransmits": round(statistics.median(run["retransmits"] for run in runs)),
            "loss_ratio": statistics.median(run["loss_ratio"] for run in runs),
            "jain": round(statistics.median(run["jain"] for run in runs), 4),
            "spread": {"goodput_bps": spread([round(run["goodput_bps"]) for run in runs]),
                       "rtt_p99_ns": spread(p99s),
                       "jain": spread([round(run["jain"], 4) for run in runs])},
            "parameters": measured["parameters"],
        })
    return rows


def summarise_split(split):
    flows = {}
    for sample in split["samples"]:
        flows.setdefault(sample["flow"], []).append(sample)
    return {
        "goodput_bps": round(split["goodput_bps"]),
        "flows": [{"flow": flow,
                   **{key: round(statistics.median(s[key] for s in samples), 3)
                      for key in ("fabric_ns", "endpoint_ns", "target_ns", "fcwnd", "ecwnd")},
                   "n": len(samples)} for flow, samples in sorted(flows.items())],
    }


def print_table(rows):
    print(f"\n{'':8}{'throughput':>12}{'round trip through the queue, us':>38}{'':>4}{'retrans-':>9}{'fairness':>10}")
    print(f"{'':8}{'Mbit/s':>12}{'p50':>14}{'p99':>12}{'p99.9':>12}{'':>4}{'mits':>9}{'(Jain)':>10}")
    for row in rows:
        rtt = row["rtt_ns"]
        print(f"{row['cc']:8}{row['goodput_bps'] / 1e6:>12.1f}{rtt['p50'] / 1e3:>14.0f}{rtt['p99'] / 1e3:>12.0f}"
              f"{rtt['p999'] / 1e3:>12.0f}{'':>4}{row['retransmits']:>9}{row['jain']:>10.3f}")


def svg(figure):
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight", transparent=True)
    plt.close(figure)
    return out.getvalue()[out.getvalue().index("<svg"):]


def plot_rtt(measured, rows):
    figure, axes = plt.subplots(figsize=(7.2, 3.6))
    for row in rows:
        samples = sorted(ns / 1000 for run in measured["runs"] if run["cc"] == row["cc"]
                         for ns in run["rtt_samples_ns"])
        # Tail upwards: on a log axis 99 % and 99.9 % are as far apart as 90 % and 99 %.
        axes.plot(samples, [1 - i / len(samples) for i in range(len(samples))],
                  label=row["cc"], color=COLOURS.get(row["cc"]), linewidth=2)
    axes.set(xscale="log", yscale="log", xlabel="round trip through the queue, us",
             ylabel="share of round trips that took longer")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return svg(figure)


def plot_trade(rows):
    figure, axes = plt.subplots(figsize=(7.2, 3.6))
    for row in rows:
        goodput, p99 = row["goodput_bps"] / 1e6, row["rtt_ns"]["p99"] / 1000
        across = [x / 1e6 for x in row["spread"]["goodput_bps"].values()]
        along = [x / 1000 for x in row["spread"]["rtt_p99_ns"].values()]
        axes.plot(along, [goodput] * 2, color=COLOURS.get(row["cc"]), alpha=0.5)
        axes.plot([p99] * 2, across, color=COLOURS.get(row["cc"]), alpha=0.5)
        axes.plot(p99, goodput, "o", markersize=10, color=COLOURS.get(row["cc"]), label=row["cc"])
    axes.set(xscale="log", xlabel="p99 round trip, us (left is better)", ylabel="goodput, Mbit/s")
    axes.set_ylim(0, 1.15 * max(row["goodput_bps"] for row in rows) / 1e6)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower left")
    return svg(figure)


def plot_splits(splits):
    figure, both = plt.subplots(1, 2, figsize=(9.5, 3.2), sharey=True)
    for axes, (name, title) in zip(both, (("fabric", "the link is the bottleneck"),
                                          ("host", "the receiving host is the bottleneck"))):
        ticks = {}
        for sample in splits[name]["samples"]:
            ticks.setdefault(round(sample["t_s"] * 2) / 2, []).append(sample)
        times = sorted(ticks)
        fabric = [statistics.median(s["fabric_ns"] for s in ticks[t]) / 1000 for t in times]
        host = [statistics.median(s["endpoint_ns"] for s in ticks[t]) / 1000 for t in times]
        axes.stackplot(times, fabric, host, labels=["fabric delay", "host delay"], colors=[FABRIC, HOST])
        axes.set(title=title, xlabel="seconds")
        axes.title.set_fontsize(10)
        axes.grid(alpha=0.3)
    both[0].set_ylabel("delay of a round trip, us")
    both[0].legend(frameon=False, loc="upper left")
    return svg(figure)


def main():
    measured_file, out_dir = map(pathlib.Path, sys.argv[1:3])
    measured = json.loads(measured_file.read_text())
    rows = summarise(measured)
    splits = {name: summarise_split(split) for name, split in measured["splits"].items()}
    result = {"schema": 1, "kernel": measured["kernel"], "unloaded_rtt_ns": measured["unloaded_rtt_ns"],
              "runs": rows, "splits": splits}
    (out_dir / "result.json").write_text(json.dumps(result, indent=1) + "\n")

    print_table(rows)
    plt.rcParams.update({"font.size": 9, "svg.fonttype": "none", "axes.spines.top": False,
                         "axes.spines.right": False})
    page = jinja2.Template((HERE / "demo.html.j2").read_text(), autoescape=True).render(
        rows=rows, splits=splits, measured=measured, colours=COLOURS,
        trade=plot_trade(rows), rtt=plot_rtt(measured, rows), split=plot_splits(measured["splits"]))
    (out_dir / "index.html").write_text(page)
    print(f"\nwrote {out_dir}/result.json and {out_dir}/index.html")


if __name__ == "__main__":
    main()
