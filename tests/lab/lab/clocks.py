# SPDX-License-Identifier: GPL-2.0
"""Who stamps what a host receives: its stack, or its NIC. A NIC's stamps are in a clock of
its own, some seconds off and a little fast or slow; `swiftctl clock run`, a process a
host, tells the module how to read them."""

import functools
import hashlib
import random

from . import Mistake, TOP
from .fields import number, text

SWIFTCTL = TOP / "out/build/userspace/swiftctl"
PROCESS_MB = 2  # of the guest's memory, a process; measured, and doubled

HOSTS = {
    "stamps": text("software", "who stamps what a host receives", ("software", "hardware")),
    "clock_offset_s": number(10, 0, 100_000_000, "NICs' clocks are off by up to as much, either way"),
    "clock_drift_ppm": number(50, 0, 1000, "and fast or slow by up to as much"),
}


def check(spec):
    """Of a whole experiment: what the NICs can must be what is asked."""
    if spec["hosts"]["stamps"] == "software":
        return
    for part in ("host", "receiver"):
        for key in ("stamps", "phc"):
            if spec["topology"][part].get(key) == 0:
                raise Mistake(f"topology.{part}.{key}=0: expected 1, as hosts.stamps=hardware")


def nic_args(hosts, host, seed):
    """Of labfab's host line."""
    if hosts["stamps"] == "software":
        return {}
    rnd = random.Random(f"{seed}/clock/{host}")
    return {"phc": 1, "phc_offset_ns": round(rnd.uniform(-1, 1) * hosts["clock_offset_s"] * 1e9),
            "phc_drift_ppb": round(rnd.uniform(-1, 1) * hosts["clock_drift_ppm"] * 1000)}


def check_built():
    if not SWIFTCTL.exists():
        raise Mistake(f"hosts.stamps=hardware: {SWIFTCTL.relative_to(TOP)} is not there: run make tools")


@functools.cache
def built():
    """Of the program, for who asks whether a result is still this checkout's."""
    return hashlib.sha256(SWIFTCTL.read_bytes()).hexdigest()
