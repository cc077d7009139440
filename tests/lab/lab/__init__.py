# SPDX-License-Identifier: GPL-2.0
"""The lab's runner: from experiments to guests to figures (Documentation/lab.md).

    fields.py      what a value may be: kinds, ranges, errors that name the field
    laws.py        the congestion controls and their tunables
    params.py      sets of Swift's tunables, one for a testbed
    topology.py    hosts, switches, links, paths
    hosts.py       what hosts cost
    clocks.py      who stamps what is received; the NICs' clocks
    load.py        flows and messages
    faults.py      what goes wrong in the fabric
    experiment.py  files, cases, --set, --scale
    kernel.py      the lab's kernel and modules
    guest.py       one run: job file, UML process, its files
    ideal.py       what any law could deliver of the messages that arrive
    measure.py     from those files to metrics
    checks.py      was the lab, not the law, the limit?
    results.py     medians, expectations, comparison
    text.py, report.py    what people look at
    cli.py         commands
"""

import pathlib

TOP = pathlib.Path(__file__).resolve().parents[3]
OUT = TOP / "out" / "lab"


class Mistake(Exception):
    """Something for the user to mend; one line."""


class Failure(Exception):
    """A run that went wrong; one line."""
