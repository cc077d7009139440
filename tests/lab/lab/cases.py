# SPDX-License-Identifier: GPL-2.0
"""Tests that run inside one guest of the lab: a network, a script of cases in it that
prints TAP, and a look at the kernel's log afterwards."""

import re
import shutil
import signal
import sys

from . import Failure, Mistake, checks, clocks, kernel, uml


def run(job, script, names, mem_mb, debug=False):
    """The exit status. The script lies beside guest.py, and gets `names`."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the guest, too
    clocks.check_built()
    machine = kernel.prepare(debug)
    folder = uml.scratch()
    try:
        job = job | {"command": ["/usr/bin/python3", "-B", str(uml.GUEST.parent / script), *names]}
        uml.boot(uml.Guests(), machine, job, folder, 1, mem_mb * (2 if debug else 1), show=True)
        said = [line for line in (folder / "dmesg").read_text(errors="replace").splitlines() if re.search(checks.SPLATS, line)]
        for line in said[:20]:
            print(f"# {line}")
        if said:
            print("Bail out! the kernel's log has complaints")
        return int((folder / "status").read_text()) or int(bool(said))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(doc, make_job, script, mem_mb):
    argv = sys.argv[1:]
    if {"-h", "--help"} & set(argv):
        print(doc)
        return 0
    try:
        return run(make_job(), script, [name for name in argv if name != "--debug"], mem_mb, "--debug" in argv)
    except (Failure, Mistake) as failure:
        return f"Bail out! {failure}"
