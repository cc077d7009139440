# SPDX-License-Identifier: GPL-2.0
"""The guest's part of bench_fabric: the same traffic through chains of switches.

Virtual time does not tell what it costs: the machine's clock does, by way of its
counter of cycles, which user mode may read."""

import ctypes
import json
import mmap
import socket
import sys
import time

import fabric_net as fn
from fabric_net import Net, Stats, frame

FRAMES, BYTES = 12000, 32 << 20
RATE = 100 * 10**9


def cycle_counter():
    """A function made of the instruction: rdtsc; shl rdx, 32; or rax, rdx; ret."""
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\xc3")
    function = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    function.memory = code
    return function


def frames(net):
    for _ in range(5):
        net.hosts[0].send(*[frame(0, 1, 1514)] * (FRAMES // 5))
        time.sleep(0.002)


def tcp(net):
    with net.hosts[1].socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.bind(("", 5000))
        server.listen()
        client = net.hosts[0].socket(socket.AF_INET, socket.SOCK_STREAM)
        client.connect((fn.address(1), 5000))
        connection = server.accept()[0]
        client.setblocking(False)
        sent = received = 0
        while received < BYTES:
            if sent < BYTES:
                try:
                    sent += client.send(bytes(min(BYTES - sent, 1 << 18)))
                except BlockingIOError:
                    pass
            received += len(connection.recv(1 << 20))
        client.close(), connection.close()


def main(module, runs, out, lengths):
    fn.unload_module()
    cycles = cycle_counter()
    result = {"frames": [], "TCP": []}
    for _ in range(runs):
        for kind, work in (("frames", frames), ("TCP", tcp)):
            run = {"hops": [], "cycles": []}
            for switches in lengths:
                parts = ["h0", *(f"s{i}" for i in range(switches)), "h1"]
                with Net(module, ["txq_pkts=65536"] * 2, [""] * switches,
                         [f"{a} {b} {RATE} prop_ns=500" for a, b in zip(parts, parts[1:])]) as net:
                    before = cycles()
                    work(net)
                    run["cycles"].append(cycles() - before)
                    run["hops"].append(Stats().fabric["hops"])
            result[kind].append(run)
    with open(out, "w", encoding="ascii") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], [int(n) for n in sys.argv[4:]])
