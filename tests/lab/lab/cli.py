# SPDX-License-Identifier: GPL-2.0
"""The commands of scripts/lab."""

import argparse
import concurrent.futures
import json
import os
import shutil
import signal
import sys
import threading
import time

from . import (OUT, Failure, Mistake, checks, clocks, experiment, fields, hosts, kernel, laws, measure, params, results, text,
               topology, uml)

DESCRIPTION = """The papers' experiments on the real Linux TCP stack, in virtual time
(Documentation/lab.md). Exit status: 0 all is as expected; 1 an expectation was
missed, a check failed or a run did; 2 a mistake in what was asked; 130 interrupted."""


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        message = message.replace(": -- COMMAND", ": TOPOLOGY -- COMMAND")  # of one word alone either may be missing
        raise Mistake(f"{message} (see {self.prog} --help)")


def positive(name, most):
    def parse(value):
        if not value.isdigit() or not 1 <= int(value) <= most:
            raise Mistake(f"--{name}={value}: expected a whole number from 1 to {most}")
        return int(value)
    return parse


def place(name):
    def parse(value):
        if not value:
            raise Mistake(f"--{name}=: expected a file's or folder's name")
        return value
    return parse


def scale(value):
    try:
        number = float(value)
    except ValueError:
        number = 0
    if not 0.001 <= number <= 1:
        raise Mistake(f"--scale={value}: expected a number from 0.001 to 1")
    return number


def build_parser():
    parser = Parser(prog="lab", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    settings = argparse.ArgumentParser(add_help=False)
    add = settings.add_argument
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="change a parameter, as topology.hosts=9, "
        "load.NAME.flows=10, laws.swift.base_target_ns=25000, time.measure_ms=50; may be repeated")
    add("--debug-kernel", action="store_true", help="a kernel with KASAN, lockdep and the like (slow)")

    commands.add_parser("list", help="the experiments")

    run = commands.add_parser("run", parents=[settings], help="run experiments",
                              description="Runs experiments; runs that were done before are taken from out/lab/cache.")
    add = run.add_argument
    add("ids", nargs="+", metavar="ID", help="an experiment (scripts/lab list), or all")
    add("--cc", metavar="A,B,..", help=f"laws instead of the experiment's: its own, or {', '.join(laws.SOURCES)}")
    add("--seeds", type=positive("seeds", 1000), metavar="N", help="runs of each law and case (seeds 1 to N)")
    add("--scale", type=scale, default=1.0, metavar="F", help="shrink what the experiment allows to this part")
    whose = run.add_mutually_exclusive_group()
    whose.add_argument("--defaults", action="store_true", help="Swift with nothing set, as a user gets it, but for what an "
                       "experiment is about (its subject)")
    whose.add_argument("--params", metavar="FILE", help="Swift with these tunables (TOML: tunable = value) in all experiments, "
                       "instead of each testbed's (tests/lab/params)")
    add("--hosts", metavar="MODEL", help="what hosts cost (hosts.model): " + ", ".join(hosts.MODELS))
    add("--case", action="append", metavar="NAME", help="only this case; may be repeated")
    add("--json", type=place("json"), metavar="FILE", help="write the result (the log goes to FILE.log too)")
    add("--html", type=place("html"), metavar="FILE", help="write a report with plots")
    add("--dry-run", action="store_true", help="check all parameters, show the runs, start nothing")
    add("--keep", type=place("keep"), metavar="DIR", help="keep the guests' files of the runs that are made")
    add("--jobs", type=positive("jobs", 64), default=1, metavar="N", help="run N guests at once (default 1)")
    add("--fresh", action="store_true", help="run again what was run before")

    compare = commands.add_parser("compare", help="what moved between two results")
    compare.add_argument("before", metavar="A.json")
    compare.add_argument("after", metavar="B.json")
    compare.add_argument("--least", type=float, default=0.01, metavar="R",
                         help="smallest relative change shown (default 0.01)")

    execute = commands.add_parser("exec", parents=[settings], help="run a command inside a topology",
                                  description="Runs a command as root in the guest. Host N is the network namespace hN with the "
                                  "address 10.0.0.(N+1): lab exec star -- sh -c 'ip netns exec h0 iperf3 -sD; "
                                  "ip netns exec h1 iperf3 -c 10.0.0.1 -n 200M'. Status: the command's.")
    execute.add_argument("topology", metavar="TOPOLOGY",
                         help=f"{', '.join(topology.KINDS)}, or an experiment for its own")
    execute.add_argument("--cc", default="cubic", metavar="A", help="the hosts' default (default cubic)")
    execute.add_argument("--seed", type=positive("seed", 1 << 31), default=1, metavar="N")
    execute.add_argument("argv", nargs="+", metavar="-- COMMAND")

    report = commands.add_parser("report", help="a report from a result")
    report.add_argument("file", metavar="FILE.json")
    report.add_argument("--beside", type=place("beside"), metavar="FILE.json", help="the same with nothing set (run --defaults): shown beside it")
    form = report.add_mutually_exclusive_group(required=True)
    form.add_argument("--html", type=place("html"), metavar="FILE", help="as one page")
    form.add_argument("--markdown", type=place("markdown"), metavar="DIR", help="as a page of each experiment, with plots as SVG")
    return parser


# --- What is asked ---------------------------------------------------------------------

def choose_ccs(given, one):
    if given is None:
        return one.ccs
    known = [*one.raw.get("laws", {}), *laws.SOURCES]
    ccs = list(dict.fromkeys(given.split(",")))
    for cc in ccs:
        if cc not in known:
            raise Mistake(f"--cc {cc}: expected some of {', '.join(dict.fromkeys(known))}")
    return ccs


def choose_cases(given, cases):
    names = [case.name for case in cases]
    for name in given or []:
        if name and names == [""]:
            raise Mistake(f"--case {name}: the experiment has no cases")
        if name not in names:
            raise Mistake(f"--case {name}: expected one of {', '.join(names)}")
    return [case for case in cases if not given or case.name in given]


def asked_settings(options):
    """Of --set, and of --hosts unless that says the same key."""
    if options.hosts is not None:
        fields.check("--hosts", hosts.HOSTS["model"], options.hosts)
    return ({"hosts.model": options.hosts} if options.hosts else {}) | experiment.parse_settings(options.set)


class Plan:
    """An experiment's runs, all of them checked."""

    def __init__(self, name, options):
        self.experiment = experiment.read(name, asked_settings(options), options.scale, options.asked)
        try:
            self.ccs = choose_ccs(options.cc, self.experiment)
            self.cases = choose_cases(options.case, experiment.cases(self.experiment))
            self.seeds = options.seeds or self.experiment.seeds
            self.runs = [uml.prepare(case, cc, seed) for case in self.cases for cc in self.ccs
                         for seed in range(1, self.seeds + 1)]
            for run in self.runs:
                run.experiment = name
        except Mistake as mistake:
            raise Mistake(f"{name}: {mistake}") from None

    def result(self, made, machine):
        return results.assemble(self.experiment, self.cases, self.ccs, self.seeds, made, machine.version,
                                kernel.describe())


# --- Progress ------------------------------------------------------------------------------

class Progress:
    """One line that changes on a terminal, a line a run elsewhere."""

    def __init__(self, count, log):
        self.count, self.done, self.log = count, 0, log
        self.live, self.lock, self.parts = sys.stderr.isatty(), threading.Lock(), {}

    def part(self, run, part, began):
        with self.lock:
            self.parts[run.name] = part
            if self.live and part:
                left = (time.monotonic() - began) * (1 - part) / part
                line = (f"{self.done + 1}/{self.count} {run.name}: {part:.0%} of {run.case.duration_ns / 1e6:g} ms, "
                        f"{left:.0f} s left")
                width = shutil.get_terminal_size().columns - 1
                print(f"\r\033[K{line[:width]}", end="", file=sys.stderr, flush=True)

    def say(self, line):
        with self.lock:
            print(("\r\033[K" if self.live else "") + line, file=sys.stderr, flush=True)
            print(line, file=self.log, flush=True)

    def finished(self, run, how):
        with self.lock:
            self.done += 1
            done = self.done
        self.say(f"{done}/{self.count} {run.name}: {how}")


# --- Running ----------------------------------------------------------------------------------

def cached(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def make(run, key, machine, guests, options, progress):
    """One run's entry in the result; from the cache, if it was made before."""
    path = OUT / "cache" / f"{key}.json"
    found = None if options.fresh or options.keep else cached(path)
    if found:
        progress.finished(run, "as before")
        return found
    began = time.monotonic()
    try:
        files, wall_s = uml.execute(run, machine, guests, options.keep,
                                    lambda part: progress.part(run, part, began))
        checked = checks.checks(files, run)
        entry = {"cc": run.cc, "case": run.case.name, "seed": run.seed, **measure.metrics(files, run),
                 "checks": checked}
    except Failure as failure:
        raise Failure(f"{run.name}: {failure}") from None
    except (KeyError, ValueError, ZeroDivisionError, IndexError) as error:
        raise Failure(f"{run.name}: what the guest left cannot be read: {error!r}") from error
    entry = json.loads(json.dumps(entry))
    complaint = checks.complaint(checked)
    if not complaint:
        results.write(path, json.dumps(entry))
    progress.finished(run, complaint or f"{wall_s:.1f} s for {run.case.duration_ns / 1e6:g} ms")
    return entry


def make_all(runs, machine, options, log):
    guests = uml.Guests()
    keys = [uml.key(run, machine) for run in runs]
    distinct = dict(zip(keys, runs))  # experiments may share runs
    progress = Progress(len(distinct), log)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        try:
            made = {key: pool.submit(make, run, key, machine, guests, options, progress)
                    for key, run in distinct.items()}
            done, _ = concurrent.futures.wait(made.values(), return_when=concurrent.futures.FIRST_EXCEPTION)
            for future in done:
                future.result()
            # An equal run of another experiment has its names, which are not ours.
            return [{**made[key].result(), "cc": run.cc, "case": run.case.name, "seed": run.seed} for key, run in zip(keys, runs)]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            guests.end_all()
            raise


def show_plan(plan):
    print(f"{plan.experiment.id}: {plan.experiment.raw.get('title', '')} ({plan.experiment.tunables.name})")
    for run in plan.runs:
        print(f"  {run.name}: {run.topology.hosts} hosts, {run.topology.switches} switches, {len(run.flows)} flows, "
              f"{run.case.duration_ns / 1e6:g} ms, {run.mem_mb} MB")


def elsewhere(ids):
    """Experiments that are not the lab's are named, and left out."""
    kept = []
    for name in ids:
        command = experiment.read(name).raw.get("elsewhere")
        if command:
            print(f"{name}: not in virtual time; run {command}", file=sys.stderr)
        else:
            kept.append(name)
    if not kept:
        raise Mistake(f"{ids[0]}: nothing here to run")
    return kept


def check_file(option, path, *others):
    """That it can be written, before there is anything to write, and is none of the others."""
    if os.path.isdir(path):
        raise Mistake(f"{option} {path}: expected a file, not a folder")
    for what, other in others:
        if other and os.path.realpath(path) == os.path.realpath(other):
            raise Mistake(f"{option} {path}: expected another file than {what}")
    results.check_folder(f"{option} {path}", os.path.dirname(os.path.abspath(path)))


def check_outputs(options):
    if options.json:
        check_file("--json", options.json)
    if options.html:
        log = options.json and f"{options.json}.log"
        check_file("--html", options.html, ("--json's", options.json), ("--json's log", log))
    if options.keep:
        results.check_folder(f"--keep {options.keep}", options.keep)


def asked_tunables(options):
    """A set instead of the testbeds', if one is asked for."""
    if options.params is not None:
        return params.read(options.params)
    return params.DEFAULTS if options.defaults else None


def run_command(options):
    options.asked = asked_tunables(options)
    ids = experiment.ids() if options.ids == ["all"] else options.ids
    plans = [Plan(name, options) for name in elsewhere(list(dict.fromkeys(ids)))]
    if options.dry_run:
        for plan in plans:
            show_plan(plan)
        return 0
    check_outputs(options)
    every = [run for plan in plans for run in plan.runs]
    if any("clocks" in run.job for run in every):
        clocks.check_built()
    uml.check_machine(max(run.mem_mb for run in every), min(options.jobs, len(every)))
    machine = kernel.prepare(options.debug_kernel)
    log_path = f"{options.json}.log" if options.json else os.devnull
    try:
        with open(log_path, "w", encoding="utf-8") as log:
            made = make_all(every, machine, options, log)
    except OSError as error:
        raise Failure(f"{error.filename or log_path}: {error.strerror}") from None
    found = []
    for plan in plans:
        found.append(plan.result([made.pop(0) for _ in plan.runs], machine))
        print(text.experiment(found[-1]))
    for line in [line for one in found for line in text.complaints(one)]:
        print(f"lab: the lab, not the law, was the limit: {line}", file=sys.stderr)
    write_results(found, options)
    return 1 if any(map(results.failed, found)) else 0


def write_results(found, options):
    if options.json:
        results.write(options.json, results.dump({"version": results.VERSION, "experiments": found}))
    if options.html:
        write_report(found, options.html)


def reporter():
    try:
        from . import report
    except ImportError as error:
        raise Failure(f"a report needs {error.name}; run scripts/setup report") from None
    return report


def write_report(found, path):
    results.write(path, reporter().render(json.loads(json.dumps(found))))


def compare_command(options):
    before, after = ({one["experiment"]: one for one in results.read(path)} for path in (options.before, options.after))
    both = [name for name in before if name in after]
    if not both:
        raise Mistake(f"{options.after}: no experiment of {options.before}")
    for name in both:
        print(text.comparison(name, results.compare(before[name], after[name], options.least)))
    return 0


def exec_command(options):
    settings = experiment.parse_settings(options.set)
    if options.topology in topology.KINDS:
        one = experiment.Experiment(options.topology, {"topology": {"kind": options.topology}}, settings, 1.0)
    elif options.topology in experiment.ids():
        one = experiment.read(options.topology, settings)
        one.raw.pop("vary", None)
    else:
        raise fields.unknown("topology ", options.topology, [*topology.KINDS, *experiment.ids()],
                             "there is no such topology or experiment; {}there are {}")
    cc, *more = choose_ccs(options.cc, one)
    if more:
        raise Mistake(f"--cc {options.cc}: expected one law")
    spec = experiment.cases(one)[0].spec
    if spec["hosts"]["stamps"] == "hardware" and experiment.resolve_law(spec, cc)["law"] == "swift":
        clocks.check_built()
    uml.check_machine(uml.memory_mb(spec, topology.build(spec["topology"]), []) + 512, 1)
    machine = kernel.prepare(options.debug_kernel)
    guests = uml.Guests()
    try:
        return uml.run_command(spec, cc, options.seed, options.argv, machine, guests)
    finally:
        guests.end_all()


def beside(found, path):
    """The results, each with what it is with nothing set, of another file."""
    others = {one["experiment"]: one for one in results.read(path)}
    for one in found:
        other = others.get(one["experiment"])
        if not other:
            raise Mistake(f"{path}: no {one['experiment']}")
        told = other["parameters"].get("tunables", {}).get("set")
        if told != "defaults":
            raise Mistake(f"{path}: {one['experiment']} has the tunables {told}; expected defaults (run --defaults)")
        for key in "seeds", "scale", "set":
            if one["parameters"][key] != other["parameters"][key]:
                raise Mistake(f"{path}: {one['experiment']} has {key} {other['parameters'][key]}; expected "
                              f"{one['parameters'][key]}, as what it stands beside")
    return [text.with_nothing_set(one, others[one["experiment"]]) for one in found]


def report_command(options):
    found = results.read(options.file)
    if options.beside:
        found = beside(found, options.beside)
    if options.html:
        check_file("--html", options.html, ("the result", options.file), ("--beside's", options.beside))
    if options.html:
        write_report(found, options.html)
    else:
        for name, content in reporter().markdown(found).items():
            results.write(os.path.join(options.markdown, name), content)
    return 0


def list_command(_options):
    rows = []
    for name in experiment.ids():
        raw = experiment.read(name).raw
        rows.append(f"{name:16}  {raw.get('title', '')} ({raw.get('source', '')})")
    print("\n".join(rows))
    return 0


def interrupt(*_):
    """Once: what is cleaned up then must not be interrupted."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def carry_out(argv):
    try:
        options, unknown = build_parser().parse_known_args(argv)
        if unknown:
            raise Mistake(f"unrecognized arguments: {' '.join(unknown)} (see lab {options.command} --help)")
        command = {"list": list_command, "run": run_command, "compare": compare_command, "exec": exec_command,
                   "report": report_command}[options.command]
        return command(options)
    finally:
        sys.stdout.flush()  # at the interpreter's end nobody could say that the disk is full


def drop_output():
    """What is still in its buffer cannot be written, and is not to be tried again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(argv):
    for number in SIGNALS:
        signal.signal(number, interrupt)
    try:
        return carry_out(argv)
    except Mistake as mistake:
        print(f"lab: {mistake}", file=sys.stderr)
        return 2
    except Failure as failure:
        print(f"lab: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nlab: interrupted; runs that were done are kept", file=sys.stderr)
        return 130
    except BrokenPipeError:
        drop_output()
        return 1
    except OSError as error:
        if not error.filename:
            drop_output()
        print(f"lab: {error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
        return 1
