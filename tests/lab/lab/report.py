# SPDX-License-Identifier: GPL-2.0
"""Reports: an HTML page without scripts or network, plots inlined as SVG, readable on light
and dark; and Markdown with the plots beside it. The paper's own points come from the
experiment's file."""

import io
import math
import pathlib

import jinja2
import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402 (the backend comes first)
from matplotlib import ticker  # noqa: E402

from . import text  # noqa: E402

TEMPLATE = pathlib.Path(__file__).with_name("report.html.j2")
GREY = "#868686"  # as far from white as from black
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#999933"]
DASHES = ["-", "--", ":", "-.", (0, (6, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 4))]
NAMES_MOST = 12  # in a legend
STYLE = {"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "lab", "axes.spines.top": False,
         "axes.spines.right": False, "lines.linewidth": 1.8,
         **{key: GREY for key in ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color",
                                  "grid.color", "legend.labelcolor")}}


def svg(figure):
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None})
    plt.close(figure)
    return out.getvalue()[out.getvalue().index("<svg"):]


def colours(result):
    """Of each law, the same in all plots."""
    return dict(zip(dict.fromkeys([*result["parameters"]["ccs"], *(row["cc"] for row in result["summary"])]), COLOURS * 10))


def axes_of(title="", **settings):
    figure, axes = plt.subplots(figsize=(5.2, 3.2))
    axes.set(title=title, **settings)
    axes.grid(alpha=0.3)
    return figure, axes


def keep_apart(notes):
    """No annotation over another: from left to right, each goes away from its point by lines until it is alone."""
    boxes = []
    for note in sorted(notes, key=lambda note: note.xy[0]):
        note.axes.autoscale_view()  # else nothing says where its point is
        x, y = note.get_position()
        line = note.get_fontsize() * (1 if y > 0 else -1)
        mine = note.get_window_extent()
        for _ in range(len(notes)):
            if not any(mine.overlaps(box) for box in boxes):
                break
            y += line
            note.set_position((x, y))
            mine = note.get_window_extent()
        boxes.append(mine)


def finish(figure, axes, from_zero=False, notes=()):
    """Linear y from zero if asked; log axes with plain numbers where they span little; notes apart."""
    if from_zero:
        axes.set_ylim(0, 1.1 * axes.dataLim.ymax if axes.dataLim.ymax > 0 else 1)
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        if axis.get_scale() == "log" and high < 300 * low:
            axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(ticker.NullFormatter())
    if 1 < len(axes.get_legend_handles_labels()[1]) <= NAMES_MOST:
        axes.legend(frameon=False, fontsize=8)
    keep_apart(notes)
    return svg(figure)


def median(row, metric):
    value = row["metrics"].get(metric)
    return value["median"] if value else None


def x_of(plot, row, result):
    """An axis' value in this row's case, or another metric of it."""
    values = result["parameters"]["cases"][row["case"]]["values"]
    return values.get(plot["x"], median(row, plot["x"]))


def plot_asked(plot, result):
    """Metric against axis, a line a law; the paper's points as crosses."""
    figure, axes = axes_of(xlabel=plot.get("xlabel", plot["x"]), ylabel=plot.get("ylabel", plot["y"]))
    x_unit, y_unit = plot.get("x_unit", 1), plot.get("y_unit", 1)
    for cc, colour in colours(result).items():
        points = [(x_of(plot, row, result), row["metrics"].get(plot["y"])) for row in result["summary"] if row["cc"] == cc]
        points = [(x / x_unit, y) for x, y in points if isinstance(x, (int, float)) and y]
        if not points:
            continue
        axes.plot([x for x, _ in points], [y["median"] / y_unit for _, y in points], "o-", color=colour, label=cc, markersize=4)
        axes.vlines([x for x, _ in points], [y["min"] / y_unit for _, y in points], [y["max"] / y_unit for _, y in points],
                    color=colour, alpha=0.5)
    for i, series in enumerate(plot.get("paper", [])):
        axes.plot(*zip(*series["points"]), "x", color=GREY if i == 0 else COLOURS[(5 - i) % 8], label=f"paper: {series['label']}")
    axes.set(xscale="log" if plot.get("logx") else "linear", yscale="log" if plot.get("logy") else "linear")
    return finish(figure, axes, not plot.get("logy"))


def plot_trade(result):
    figure, axes = axes_of(xlabel="p99 RTT, us", ylabel="goodput, Gb/s", xscale="log")
    labels, notes = set(), []
    for row in result["summary"]:
        rtt, goodput = median(row, "rtt_ns.p99"), median(row, "goodput_bps")
        if rtt and goodput:
            axes.plot(rtt / 1e3, goodput / 1e9, "o", markersize=7, color=colours(result)[row["cc"]],
                      label=row["cc"] if row["cc"] not in labels and len(result["summary"]) > 6 else None)
            labels.add(row["cc"])
            name = text.label(row) if len(result["summary"]) <= 6 else row["case"] if len(result["summary"]) <= 24 else ""
            above = 5 if list(colours(result)).index(row["cc"]) % 2 == 0 else -10  # where two laws are alike
            if name:
                notes.append(axes.annotate(name, (rtt / 1e3, goodput / 1e9), textcoords="offset points", xytext=(6, above),
                                           color=colours(result)[row["cc"]],
                                           fontsize=8 if len(result["summary"]) <= 6 else 6))
    return finish(figure, axes, True, notes)


def first_runs(result):
    """Of each law and case the first seed's."""
    seen = {}
    for run in result["runs"]:
        seen.setdefault((run["cc"], run["case"]), run)
    return list(seen.values())


def plot_each(axes, result, points_of):
    """A line for the first run of each law and case: of each its colour and name; where they are too many
    for that, laws have colours and cases have dashes."""
    lines = [(run, points) for run in first_runs(result) if (points := points_of(run))]
    many, laws = len(lines) > len(COLOURS), colours(result)
    dashes = dict(zip(dict.fromkeys(run["case"] for run, _ in lines), DASHES * 10))
    by_law = many or len(result["parameters"]["cases"]) == 1
    for i, (run, points) in enumerate(lines):
        axes.plot(*zip(*points), color=laws[run["cc"]] if by_law else COLOURS[i % 8],
                  label=None if many else text.label(run), **{"linestyle": dashes[run["case"]], "linewidth": 1.2} if many else {})
    if many:
        for cc in dict.fromkeys(run["cc"] for run, _ in lines):
            axes.plot([], [], color=laws[cc], label=cc)
        for case, dash in dashes.items() if len(dashes) <= len(DASHES) else ():
            axes.plot([], [], color=GREY, linestyle=dash, linewidth=1.2, label=case)


def plot_tail(result):
    figure, axes = axes_of(xlabel="round trip, us", ylabel="part that took longer", xscale="log", yscale="log")
    plot_each(axes, result, lambda run: [(x / 1e3, y) for x, y in run["plot"]["rtt_tail"] if x and y > 0])
    return finish(figure, axes)


def plot_series(run, result):
    """Rates of the flows over time."""
    series = run["plot"]["series"]
    figure, axes = axes_of(xlabel="ms", ylabel="Gb/s")
    few = len(series["flows"]) <= 8
    for i, (flow, rates) in enumerate(series["flows"].items()):
        axes.plot(series["time_ms"], [r / 1e9 for r in rates], linewidth=1.4 if few else 0.6, alpha=1 if few else 0.5,
                  color=COLOURS[i % 8], label=f"flow {flow}" if few else None)
    return finish(figure, axes, True)


def plot_shares(result):
    """Rates of the flows, sorted."""
    def points_of(run):
        rates = run["plot"].get("flow_bps") or []
        return [(r * len(rates) / sum(rates), (k + 1) / len(rates)) for k, r in enumerate(rates) if sum(rates)]

    figure, axes = axes_of(xlabel="rate of a flow over the mean", ylabel="part of the flows below")
    plot_each(axes, result, points_of)
    axes.set_xlim(left=0)
    return finish(figure, axes)


def plot_grid(column, result):
    """How far each tunable moves a metric: a square a value, red for more, blue for less."""
    tunables, columns, cells = text.grid(result, column["metric"])
    columns = [c for c in columns if any((tunable, *c) in cells for tunable in tunables)]
    shown = [[math.log2(cells[tunable, *c]) if cells.get((tunable, *c)) else math.nan for c in columns] for tunable in tunables]
    figure, axes = plt.subplots(figsize=(1.8 + 0.42 * len(columns), 0.9 + 0.24 * len(tunables)))
    axes.imshow(shown, cmap="RdBu_r", vmin=-2, vmax=2, aspect="auto")
    axes.set_xticks(range(len(columns)), [" ".join(c) for c in columns], rotation=60, ha="right", fontsize=7)
    axes.set_yticks(range(len(tunables)), tunables, fontsize=7)
    for y, tunable in enumerate(tunables):
        for x, c in enumerate(columns):
            if (tunable, *c) in cells:
                axes.text(x, y, f"{cells[tunable, *c]:.2f}", ha="center", va="center", fontsize=6,
                          color="white" if abs(shown[y][x]) > 1.2 else "black")
    return svg(figure)


CURVES_MAX = 40  # of more nobody finds one


def plots(result):
    """[(caption, svg)]"""
    if text.is_sensitivity(result):
        return [(f"{column['heading']}, over nothing set", plot_grid(column, result)) for column in result["columns"]]
    few = len(first_runs(result)) <= CURVES_MAX
    found = [(plot.get("title") or plot["y"], plot_asked(plot, result)) for plot in result["plots"]]
    if any("rtt_ns.p99" in row["metrics"] for row in result["summary"]):
        found.append(("throughput against tail RTT", plot_trade(result)))
        if few:
            found.append(("round trips", plot_tail(result)))
    if few and any(run["plot"].get("flow_bps") for run in result["runs"]):
        found.append(("shares of the flows", plot_shares(result)))
    found += [(f"rates over time: {text.label(run)}", plot_series(run, result))
              for run in first_runs(result)[:6] if "series" in run["plot"]]
    return found


def render(results):
    plt.rcParams.update(STYLE)
    template = jinja2.Environment(autoescape=True, trim_blocks=True).from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(results=results, plots=plots, columns=text.columns_of, cell=text.cell, label=text.label,
                           expectations=text.expectation_rows, parameters_line=text.parameters_line,
                           about=text.about, complaints=text.complaints)


def markdown(results):
    """{file name: content}: a page of each experiment, and its plots but for those of each flow over time."""
    plt.rcParams.update(STYLE)
    files = {}
    for result in results:
        name = result["experiment"]
        lines = [f"# {name}: {result['title']}", "", f"{result['question']} {result['source']}.", "", result["notes"], "",
                 f"{text.parameters_line(result)}; kernel {result['kernel']}; source {result['git']}", ""]
        lines += [f"{told[0].upper()}{told[1:]}." for told in text.about(result)] + [""]
        lines += [f"    {line}".rstrip() for line in text.table(result).splitlines()] + [""]
        if result["expectations"]:
            lines += [f"    {line}".rstrip() for line in text.expectations(result).splitlines()] + [""]
        for number, (caption, image) in enumerate(plots(result), 1):
            if not caption.startswith("rates over time"):
                files[f"{name}-{number}.svg"] = image
                lines += [f"![{caption}]({name}-{number}.svg)", ""]
        files[f"{name}.md"] = "\n".join(lines)
    return files
