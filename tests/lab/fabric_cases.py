# SPDX-License-Identifier: GPL-2.0
"""Runs the cases of test_fabric inside the guest: fabric_cases.py LABFAB.KO [CASE...]. Each case
gets the path of labfab.ko; they lie by topic in fabric_*_cases.py, whose CASES are run in the
order below. What they stand on is in fabric_net.py."""

import os
import sys
import time
import traceback

import fabric_control_cases
import fabric_fault_cases
import fabric_host_cases
import fabric_load_cases
import fabric_net as fn
import fabric_nic_cases
import fabric_path_cases
import fabric_switch_cases
import fabric_wire_cases
import guest
from fabric_net import command
from tap import ok, plan, same

LEAKS = "/sys/kernel/debug/kmemleak"  # of a kernel for debugging
CASES = (*fabric_wire_cases.CASES, *fabric_switch_cases.CASES, *fabric_fault_cases.CASES, *fabric_nic_cases.CASES,
         *fabric_control_cases.CASES, *fabric_host_cases.CASES, *fabric_path_cases.CASES,
         *fabric_load_cases.CASES)


def main(module, names):
    fn.unload_module()
    for case in CASES:
        if names and case.__name__ not in names:
            continue
        print(f"# {case.__name__}", flush=True)
        try:
            case(module)
        except Exception:  # pylint: disable=broad-except # whatever it is, the rest shall run
            ok(f"{case.__name__} runs to its end", False, *traceback.format_exc().splitlines())
            fn.unload_module()
            for name in os.listdir("/run/netns"):
                command("ip", "netns", "del", name)
    if os.path.exists(LEAKS):
        fn.unload_module()
        time.sleep(10)  # of younger objects it thinks no evil
        for _ in range(2):
            guest.write(LEAKS, "scan")
        same("no memory is lost", guest.read(LEAKS).decode(), "")
    return plan()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
