#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""What a NIC's stamp costs, for each packet received: the guest's part of tests/bench/stamps.
A flow of Swift's goes back and forth over a veth, whose ends tests/vm/nic makes NICs that stamp;
the guest's clock counts instructions (scripts/vm --icount), less what the idle loop takes.

    software   the NICs leave no stamp: the stack's own is taken
    hardware   they do, and a line of their clocks is known: the stamp is converted
    driver     the same, but the driver makes the time of it when it is asked

In turns, so that what drifts drifts for all. Each received packet is either data, whose stamp
becomes t2, or an ACK, whose is t5; there are as many of both. Leaves $VM_OUT/stamps.json."""

import json
import os
import re
import socket
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../vm"))

from clock import OFFSET, PPM, Netlink, enter, expect, good, index_of, nic, nic_time, run  # noqa: E402

HOSTS = {"h1": ("right", "10.0.0.1"), "h2": ("left", "10.0.0.2")}
FORMS = {"software": 0, "hardware": 1, "driver": 2}
ROUNDS, TURNS = 500, 15
# Far from any congestion: the window shall not move, nor a packet wait for the pacer.
SWIFT = ("target_policy=static", "base_target_ns=500000000", "endpoint_target_ns=500000000", "echo=1")


def build(module, stampnic):
    run("modprobe veth")
    run(f"insmod {module}")
    run(f"insmod {stampnic}")
    for netns in HOSTS:
        run(f"ip netns add {netns}")
    run("ip -n h1 link add right type veth peer name left netns h2")
    for netns, (dev, address) in HOSTS.items():
        run(f"ip -n {netns} addr add {address}/24 dev {dev}")
        run(f"ip -n {netns} link set {dev} up")
        # With GRO veth has NAPIs, as a NIC.
        run(f"ip netns exec {netns} ethtool -K {dev} gro on tso off")
        for setting in SWIFT:
            run(f"ip netns exec {netns} sysctl -qw net.ipv4.tcp_swift.{setting}")
        run(f"ip netns exec {netns} sysctl -qw net.ipv4.tcp_congestion_control=swift")
        enter(netns)
        nic(attach=dev)


def idle_ns():
    with open("/proc/timer_list", encoding="ascii") as file:
        return int(re.search(r"\.idle_sleeptime\s*:\s*(\d+)", file.read()).group(1))


def received():
    """TCP's packets, of both hosts; and Swift's account of stamps."""
    packets, kinds = 0, {}
    for netns in HOSTS:
        enter(netns)
        with open("/proc/thread-self/net/snmp", encoding="ascii") as file:
            names, values = (line.split() for line in file if line.startswith("Tcp:"))
        packets += int(dict(zip(names, values))["InSegs"])
        with open("/proc/thread-self/net/tcp_swift", encoding="ascii") as file:
            for name, value in map(str.split, file):
                if name.startswith(("samples", "stamps")):
                    kinds[name] = kinds.get(name, 0) + int(value)
    return packets, kinds


def connect():
    enter("h2")
    listener = socket.create_server((HOSTS["h2"][1], 7000))
    enter("h1")
    client = socket.create_connection((HOSTS["h2"][1], 7000), timeout=60)
    server = listener.accept()[0]
    for end in (client, server):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.settimeout(60)
    return client, server


def exchange(client, server, rounds):
    data = bytes(1000)
    for _ in range(rounds):
        for one, other in ((client, server), (server, client)):
            one.send(data)
            left = len(data)
            while left:
                left -= len(other.recv(left)) or sys.exit("the flow ended")


def turn(kind, ends, tellers):
    """Instructions a packet received."""
    nic(form=FORMS[kind], offset_ns=OFFSET, ppm=PPM, early_ns=1000)
    for index, teller in tellers:
        now_ns = time.monotonic_ns()
        teller.set(**good(index, HOST_NS=now_ns, NIC_NS=nic_time(now_ns), RATIO_Q32=round((1 << 32) / (1 + PPM / 1e6)),
                          ERROR_NS=2000, VALID_MS=60000))
    exchange(*ends, 20)
    before, kinds = received()
    idle, start = idle_ns(), time.monotonic_ns()
    exchange(*ends, ROUNDS)
    spent = time.monotonic_ns() - start - (idle_ns() - idle)
    after, now = received()
    rise = {name: now[name] - kinds[name] for name in now}
    hardware = rise["samples_hardware"] / rise["samples"]
    expect(hardware == (kind != "software"), f"{kind}: {hardware} of the samples by hardware: {rise}")
    expect(after - before == 4 * ROUNDS, f"{kind}: {after - before} packets in {ROUNDS} rounds")
    return spent / (after - before)


def main(module, stampnic):
    build(module, stampnic)
    ends, tellers = connect(), []
    for netns, (dev, _) in HOSTS.items():
        enter(netns)
        tellers.append((index_of(dev), Netlink()))
    exchange(*ends, 200)  # caches of the emulator
    found = {kind: [] for kind in FORMS}
    for _ in range(TURNS):
        for kind, values in found.items():
            values.append(turn(kind, ends, tellers))
    result = {"kernel": os.uname().release, "packets": 4 * ROUNDS, "turns": TURNS}
    print(f"{result['kernel']}, instructions of the stack for each packet received, {TURNS} turns of {4 * ROUNDS} packets")
    for kind, values in found.items():
        more = [value - base for value, base in zip(values, found["software"])]
        result[kind] = {"median": statistics.median(values), "lowest": min(values), "highest": max(values),
                        "more_median": statistics.median(more), "more_lowest": min(more), "more_highest": max(more)}
        one = result[kind]
        print(f"  {kind:10} {one['median']:8.0f} ({one['lowest']:.0f}..{one['highest']:.0f}); more than software, turn by turn: "
              f"{one['more_median']:+.0f} ({one['more_lowest']:+.0f}..{one['more_highest']:+.0f})")
    with open(os.environ["VM_OUT"] + "/stamps.json", "w", encoding="ascii") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
