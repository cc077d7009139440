#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""guest_hang.py RUN: what a guest of scripts/vm is doing that has gone silent.

RUN is the guest's folder, with QEMU's sockets (qmp, serial) and the kernel's log (console). The kernel is
asked by SysRq over its serial line for the stacks of its tasks, which are then in its log. Printed is a line
for each that is not the kernel's own, innermost function first, and where the CPUs are, of which QEMU knows.
(SysRq's stacks of the CPUs are not asked for: the NMI that they take hangs an emulated CPU.)

exit status: 3 if it is the emulator that hangs: QEMU does not answer, or all CPUs wait for an interrupt and do
not hear that of the serial line, once the guest's first process has that open. A kernel that waits answers; one
that is stuck runs. Else 0."""

import json
import re
import select
import socket
import sys
import time

EMULATORS = 3
QUIET_S = 2  # nothing more for so long: the kernel has said all
ANSWER_S = 15  # so long it is asked, on a busy machine
FRAMES = 5
NOISE = re.compile(r"_*(schedule|preempt_schedule|io_schedule|do_syscall_64|entry_SYSCALL_64)\w*$")


def connect(path):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(ANSWER_S)
    sock.connect(path)
    return sock


class Monitor:
    """QEMU's, by the QEMU Machine Protocol."""

    def __init__(self, path):
        self.lines = connect(path).makefile("rw")
        self.lines.readline()  # its greeting
        self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        self.lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.lines.flush()
        while True:
            answer = json.loads(self.lines.readline())
            if "event" not in answer:
                return answer.get("return")


def sysrq(monitor, serial, key):
    """What the kernel says to this key. (It stops when nobody reads.)"""
    said, began = b"", time.monotonic()
    while not said and time.monotonic() - began < ANSWER_S:
        monitor.ask("chardev-send-break", id="console")
        time.sleep(0.5)  # the guest takes notice of the break, or it and the key are one
        serial.sendall(key)
        while select.select([serial], [], [], QUIET_S)[0]:
            if not (more := serial.recv(1 << 16)):
                raise OSError("it ended meanwhile")
            said += more
    return said.decode(errors="replace").replace("\r", "")


def tasks(text):
    """(name, pid, parent, state, functions) of each task in the kernel's words."""
    found = []
    for line in text.splitlines():
        line = re.sub(r"^\[ *[\d.]+\](\[ *[CT]\d+\])? ?", "", line)
        if match := re.match(r"task:(\S+)\s+state:(\S+).*\bpid:(\d+)\s.*?ppid:(\d+)", line):
            name, state, pid, parent = match.groups()
            found.append((name, pid, parent, state, []))
        elif found and (frame := re.match(r"\s*([\w.]+)\+0x[0-9a-f]+/0x", line)):
            found[-1][4].append(frame[1])
    return found


def main():
    run = sys.argv[1]
    try:
        monitor, serial = Monitor(f"{run}/qmp"), connect(f"{run}/serial")
        found = tasks(sysrq(monitor, serial, b"t"))
        registers = monitor.ask("human-monitor-command", **{"command-line": "info registers -a"})
    except (OSError, ValueError) as error:  # no socket, no answer in time, no JSON
        print(f"QEMU itself does not answer ({error})")
        return EMULATORS
    cpus = re.findall(r"RIP=(\w+).*HLT=(\d)", registers)
    print("what it does:" if found else "the kernel does not answer; its CPUs:")
    for name, pid, parent, state, frames in found:
        if "2" not in (pid, parent):  # kthreadd, whose children are the kernel's own
            frames = [frame for frame in frames if not NOISE.match(frame)]
            print(f"  {name} {pid}, child of {parent}, {state}: {' < '.join(frames[:FRAMES]) or '(no stack)'}")
    for cpu, (rip, halted) in enumerate(cpus):
        print(f"  CPU {cpu}: at {rip}" + (", halted" if halted == "1" else ""))
    with open(f"{run}/console", encoding="utf-8", errors="replace") as file:
        listens = "init: ready" in file.read()  # before, nobody has the serial line open
    return EMULATORS if listens and not found and all(halted == "1" for _, halted in cpus) else 0


if __name__ == "__main__":
    sys.exit(main())
