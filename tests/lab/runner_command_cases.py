# SPDX-License-Identifier: GPL-2.0
"""Cases of test_runner: scripts/lab's commands and what they say to wrong input; the plans of
tests/lab/stress."""

import argparse
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import random
import subprocess
import tempfile
import time
from unittest import mock

from lab import cli, kernel, uml
from runner_common import failure, no_room, same, says

HERE = pathlib.Path(__file__).resolve().parent


# --- Commands -----------------------------------------------------------------------------------------------

def lab(*arguments):
    return subprocess.run([HERE.parents[1] / "scripts/lab", *arguments], capture_output=True, text=True, check=False)


def refused(*arguments):
    """One line on stderr, status 2, nothing on stdout."""
    done = lab(*arguments)
    same([done.returncode, done.stdout, done.stderr.count("\n")], [2, "", 1])
    return done.stderr


def commands__refuse():
    says(refused("run", "table33"), "experiment table33: there is no such experiment; did you mean table3? there are clocks, ")
    says(refused("run", "xyz"), "experiment xyz: there is no such experiment; there are clocks, ", "timely-t1")
    says(refused("run", "timely-t1", "--cc", "fats"), "--cc fats", "fast")
    says(refused("run", "table3", "--cc", "vegas"), "--cc vegas", "swift-floor1", "cubic")
    says(refused("run", "table3", "--set", "topology.hosts=1"), "topology.hosts=1", "2 to 1024")
    says(refused("run", "table3", "--set", "topology.hots=9"), "topology.hots", "did you mean hosts")
    says(refused("run", "table3", "--set", "laws.swift.ai_milli=0"), "laws.swift.ai_milli=0", "1 to 100000")
    says(refused("run", "table3", "--scale", "2"), "--scale=2", "0.001 to 1")
    says(refused("run", "table3", "--nope"), "unrecognized arguments: --nope (see lab run --help)")
    for option in "--json", "--html", "--keep":
        says(refused("run", "table3", f"{option}="), f"{option}=: expected", "name")
    for option in "--json", "--html":
        says(refused("run", "table3", option, "/tmp"), f"{option} /tmp: expected a file, not a folder")
    for html, what in ("/tmp/../tmp/x", ""), ("/tmp/x.log", " log"):
        says(refused("run", "table3", "--json", "/tmp/x", "--html", html), f"--html {html}: expected another file than --json's{what}")
    says(refused("run", "table3", "--seeds", "0"), "--seeds=0", "1 to 1000")
    says(refused("run", "table3", "--case", "x"), "--case x: the experiment has no cases")
    says(refused("run", "defaults", "--case", "x"), "--case x: expected one of 1g-2, ")
    for words in ["star"], ["--", "true"]:
        says(refused("exec", *words), "required: TOPOLOGY -- COMMAND")
    says(refused("run", "table3", "--set", "measure.mem_mb=1000000"), "memory=", "MB available", "1000256")
    says(refused("exec", "ring", "--", "true"), "topology ring: there is no such topology or experiment", "star", "table3")
    says(refused("compare", "/nowhere", "/nowhere"), "/nowhere")
    says(refused("report", "/dev/null", "--html", "x"), "not JSON")
    says(refused("run", "table3", "--cc", ""), "--cc : expected some of")
    says(refused("run", "table3", "--params", ""), "--params ")
    says(refused("exec", "star", "--cc", "", "--", "true"), "--cc : expected some of")
    says(refused("exec", "star", "--cc", "swift,cubic", "--", "true"), "--cc swift,cubic: expected one law")
    says(refused("run", "table3", "--params", "/nowhere"), "--params /nowhere: No such file")
    says(refused("run", "table3", "--params", "/dev/null", "--defaults"), "--defaults", "--params")
    says(refused("run", "table3", "--hosts", "rael"), "--hosts=rael", "one of ideal, real")
    says(refused("run", "table3", "--hosts", "real", "--set", "topology.host.cores=0"), "expected topology.host.cores of 1 or more")
    says(refused(), "COMMAND")
    says(refused("run", "--no-such"), "see lab run --help")


def commands__help():
    for command in ("run", "compare", "exec", "report", "list"):
        done = lab(command, "--help")
        same(done.returncode, 0)
        says(done.stdout, "usage: lab " + command)


def commands__dry_run_and_list():
    done = lab("run", "table3", "--dry-run", "--cc", "swift,cubic", "--seeds", "2", "--scale", "0.1")
    same([done.returncode, done.stderr, len(done.stdout.splitlines())], [0, "", 5])
    says(done.stdout, "swift seed 1: 51 hosts, 1 switches, 500 flows, 100 ms")
    says(lab("list").stdout, "table3", "SIGCOMM 2020")
    says(lab("run", "table3", "--dry-run", "--defaults").stdout, "(defaults)")
    same(lab("run", "all", "--dry-run", "--hosts", "real").returncode, 0)


def commands__say_that_the_disk_is_full():
    for unbuffered in "", "1":
        for command in ["list"], ["run", "--help"], ["run", "table3", "--dry-run"]:
            with open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([HERE.parents[1] / "scripts/lab", *command], stdout=full, stderr=subprocess.PIPE,
                                      text=True, env=os.environ | {"PYTHONUNBUFFERED": unbuffered}, check=False)
            same([done.returncode, done.stderr], [1, "lab: standard output: No space left on device\n"])


def commands__who_shares_a_run_keeps_its_own_name():
    args = {"set": [], "scale": 1.0, "cc": "swift", "seeds": 1, "asked": None, "hosts": None}
    grid, = cli.Plan("defaults-grid", argparse.Namespace(case=["1g-1500-2"], **args)).runs
    plain, = cli.Plan("defaults", argparse.Namespace(case=["1g-2"], **args)).runs
    machine = kernel.Kernel("build", "modules", "6.12")
    entry = {"cc": grid.cc, "case": grid.case.name, "seed": grid.seed, "jain": 1}
    with mock.patch.object(cli, "make", lambda *_: entry), mock.patch.object(uml, "digest", str), \
         open(os.devnull, "w", encoding="ascii") as log:
        same(uml.key(grid, machine), uml.key(plain, machine))
        made = cli.make_all([grid, plain], machine, argparse.Namespace(jobs=1), log)
    same([one["case"] for one in made], ["1g-1500-2", "1g-2"])


def commands__runs_that_experiments_share_are_made_once():
    plan = cli.Plan("table3", argparse.Namespace(set=[], scale=0.1, cc="swift,cubic", case=None, seeds=2, asked=None, hosts=None))
    runs = plan.runs + plan.runs[::-1]
    begun = []

    def make(run, *_):
        begun.append(run)
        time.sleep(0.05)  # so long that its twin would begin beside it
        return {"said": run.name}

    machine = kernel.Kernel("build", "modules", "6.12")
    with mock.patch.object(cli, "make", make), mock.patch.object(uml, "digest", str), open(os.devnull, "w", encoding="ascii") as log:
        made = cli.make_all(runs, machine, argparse.Namespace(jobs=8), log)
    same([one["said"] for one in made], [run.name for run in runs])
    same(len(begun), len(plan.runs))


def commands__keep_a_folder_for_each_run():
    args = {"set": [], "scale": 0.1, "cc": "swift", "case": None, "seeds": 1, "asked": None, "hosts": None}
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(uml, "boot", lambda *_, **__: None):
        for name in ("table3", "fig21", "table3"):
            for run in cli.Plan(name, argparse.Namespace(**args)).runs:
                with contextlib.suppress(OSError):  # no guest, no files
                    uml.execute(run, kernel.Kernel("build", "modules", "6.12"), None, folder)
        same(sorted(os.listdir(folder)), ["fig21_swift_seed_1", "table3_swift_seed_1"])


def commands__keep_all_or_nothing():
    """On a full disk, too; and nothing stays behind of the run itself."""
    args = {"set": [], "scale": 0.1, "cc": "swift", "case": None, "seeds": 1, "asked": None, "hosts": None}
    run, = cli.Plan("table3", argparse.Namespace(**args)).runs

    def boot(_guests, _kernel, _job, folder, *_, **__):
        (folder / "dmesg").write_bytes(b"x" * 9)
        full.enter_context(no_room())

    with tempfile.TemporaryDirectory() as folder, mock.patch.object(uml, "OUT", pathlib.Path(folder)), \
         mock.patch.object(uml, "boot", boot):
        with contextlib.ExitStack() as full:
            complaint = failure(uml.execute, run, kernel.Kernel("build", "modules", "6.12"), None, f"{folder}/kept")
        says(complaint, f"--keep {folder}/kept/table3_swift_seed_1: ", "File too large")
        same([os.listdir(f"{folder}/{name}") for name in ("kept", "jobs")], [[], []])


# --- Stress ---------------------------------------------------------------------------------------------------

def program(name):
    """A script of this folder, as a module."""
    loader = importlib.machinery.SourceFileLoader(name, str(HERE / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


def stress__fails_without_hardware_stamps():
    stress = program("stress")
    for samples, status in ((0, 1), (7, 0)):
        rounds = stress.Rounds(stress.parse([]), kernel.Kernel("build", "modules", "6.12"), None)
        rounds.totals = {"swift samples_hardware": samples}
        with contextlib.redirect_stdout(io.StringIO()) as said:
            same(rounds.verdict(), status)
        says(said.getvalue(), f"swift samples_hardware {samples}")


def stress__some_hosts_have_clocks_that_are_fed():
    stress = program("stress")
    for seed in range(1, 30):
        plan = stress.plan_of(seed)
        hosts = stress.job_of(plan, random.Random(seed))["hosts"]
        assert len(plan["clocks"]) >= 3 and all("phc=1" in hosts[host]["args"] for host in plan["clocks"]), plan


def commands__exec_shows_all_but_the_kernels_farewell():
    shown = io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(shown):
        for line in b"one\r\n", b"reboot: Power down\r\n", b"[    0.044000] reboot: Power down\r\n", b"[1] reboot: no\n":
            uml.show_line(line)
    assert shown.buffer.getvalue() == b"one\n", shown.buffer.getvalue()
