#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Edges of the module that need a hand on both sockets of a flow: tests/vm/t-edges.sh
builds the network (h1 - r1 - h2) and runs, in a guest, one of the functions below.

A function fails by expect(), which says what it saw. Data goes from h1 to h2 unless said
otherwise, and r1 drops what carries the class DROPPED: a segment sent with it is lost, and
its retransmission is not."""

import ctypes
import errno
import fcntl
import itertools
import json
import os
import select
import socket
import statistics
import struct
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
SWIFTCTL = TOP + "/out/build/userspace/swiftctl"
CLONE_NEWNET = 0x40000000
SIOCOUTQ = 0x5411
SYN_SENT, FIN_WAIT2 = 2, 5
PORT = 7000
IPPROTO_MPTCP = 262
DROPPED = 4  # as IP_TOS
MS = 1_000_000  # ns
# What every edge starts from: targets that no emulated path exceeds.
SETTINGS = {"echo": 1, "max_rtt_ns": 1000 * MS, "target_policy": "static", "base_target_ns": 500 * MS,
            "endpoint_target_ns": 500 * MS, "fs_range_ns": 0, "hop_target_ns": 0, "min_cwnd_micro": 1000,
            "plb": 0, "max_cwnd": 4096, "init_cwnd": 10, "ai_milli": 1000, "beta_milli": 800, "max_mdf_milli": 500}
libc = ctypes.CDLL(None, use_errno=True)


def expect(condition, text):
    if not condition:
        sys.exit(text)


def run(command):
    done = subprocess.run(command.split(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    expect(not done.returncode, f"{command}: {done.stdout.strip()}")
    return done.stdout


def enter(netns):
    with open(f"/run/netns/{netns}") as file:
        expect(not libc.setns(file.fileno(), CLONE_NEWNET), f"cannot enter {netns}")


def sysctl(netns, name, value):
    run(f"ip netns exec {netns} sysctl -qw {name}={value}")


def tune(netns, **settings):
    run(f"ip netns exec {netns} sysctl -qw " +
        " ".join(f"net.ipv4.tcp_swift.{name}={value}" for name, value in settings.items()))


def counter(netns, name):
    lines = run(f"ip netns exec {netns} cat /proc/net/tcp_swift").splitlines()
    return int(dict(line.split() for line in lines)[name])


def delay(ms, more_or_less_ms=0):
    """From r1 to h2: all of the round trip but what the machine takes. With a rate netem keeps the order."""
    run(f"tc -n r1 qdisc replace dev right root netem delay {ms}ms {more_or_less_ms}ms limit 1000" +
        (" rate 1gbit" if more_or_less_ms else ""))


def below_one(micro, netns="h1"):
    """No target can be met: the flows of @netns sit at this window, from the first sample on."""
    tune(netns, base_target_ns=1000, beta_milli=1000, max_mdf_milli=1000, min_cwnd_micro=micro)


def listen(cc="swift", device=None, deferred=0, address="10.0.1.2"):
    enter("h2")
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if device:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, deferred)
    listener.bind((address, PORT))
    listener.listen()
    return listener


def prepared(sock):
    sock.settimeout(20)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # No flow is left to linger beside the next edge's.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return sock


def caller(device=None):
    enter("h1")
    client = prepared(socket.socket())
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    if device:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device)
    return client


def accept(listener):
    listener.settimeout(20)
    return prepared(listener.accept()[0])


def connect(cc="swift", device=None):
    """A flow: its socket in h1, and the one in h2, which runs @cc."""
    listener, client = listen(cc, device), caller(device)
    client.connect(("10.0.1.2", PORT))
    return client, accept(listener)


def info(sock):
    """Of struct tcp_info."""
    raw = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 200)
    u32 = {"rto_us": 8, "mss": 16, "unacked": 24, "rtt_us": 68, "cwnd": 80, "retransmits": 100, "notsent": 144,
           "data_segs_out": 156}
    return {"state": raw[0], "backoff": raw[4], **{name: struct.unpack_from("I", raw, at)[0] for name, at in u32.items()}}


def wait_until(what, condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        expect(time.monotonic() < end, f"in vain for {seconds} s: {what}")
        time.sleep(0.001)


def wait_acked(sock):
    wait_until("all is acknowledged",
               lambda: not struct.unpack("I", fcntl.ioctl(sock, SIOCOUTQ, bytes(4)))[0])


def acked_ms(sock, data=bytes(100)):
    began = time.monotonic()
    sock.send(data)
    wait_acked(sock)
    return (time.monotonic() - began) * 1000


def receive(sock, size):
    got = 0
    while got < size:
        got += len(sock.recv(size - got)) or sys.exit(f"the peer closed after {got} of {size} bytes")


def rack_timer():
    """The second of two segments is acknowledged, the first is lost: too few for an ACK to
    tell, and a quarter of an RTT later the timer does."""
    delay(200)  # the tail loss probe, after two of it, is not to be first
    client, _ = connect()
    acked_ms(client)
    cwnd, cuts = info(client)["cwnd"], counter("h1", "decreases_loss")
    timeouts = counter("h1", "decreases_timeout")
    client.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, DROPPED)
    client.send(bytes(1000))
    client.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0)
    client.send(bytes(100))
    wait_acked(client)
    after, cuts = info(client)["cwnd"], counter("h1", "decreases_loss") - cuts
    expect(info(client)["retransmits"] == 1, f"retransmits: {info(client)['retransmits']}, wanted 1")
    expect(counter("h1", "decreases_timeout") == timeouts, "a timeout repaired it, and not the timer")
    expect(cuts == 1, f"decreases_loss rose by {cuts}, wanted 1")
    expect(after <= cwnd / 2 + 1, f"the window went from {cwnd} to {after}")


def timeouts():
    """Who has an echo acknowledges at once: no RTO waits for delayed ACKs. TCP's own comes back
    for who leaves, or has no echo."""
    delay(2)
    client, server = connect()
    expect(info(client)["rto_us"] < 60_000, f"RTO after the handshake: {info(client)['rto_us']} us")
    acked_ms(client)
    expect(info(client)["rto_us"] < 60_000, f"RTO: {info(client)['rto_us']} us")
    client.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, DROPPED)
    client.send(bytes(100))
    client.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0)
    began = time.monotonic()
    wait_acked(client)
    took = (time.monotonic() - began) * 1000
    expect(took < 120, f"repaired after {took:.0f} ms")
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    for _ in range(3):
        acked_ms(client)
    expect(info(client)["rto_us"] >= 200_000, f"RTO without Swift: {info(client)['rto_us']} us")
    for what in {"rto_min_us": 0}, {"rto_min_us": 10_000, "echo": 0}:
        tune("h1", **what)
        client, server = connect()
        acked_ms(client)
        expect(info(client)["rto_us"] >= 200_000, f"RTO with {what}: {info(client)['rto_us']} us")
    tune("h1", echo=1)
    server.close()


def timeouts_apart():
    """Flows whose packets were lost together do not try again together for good: from the second on, each
    timeout is up to a third longer or shorter than twice the one before. TCP's own just double."""
    def spread(cc):
        flows = [connect(cc) for _ in range(16)]
        clients = [client for client, _ in flows]
        for c in clients:
            if cc != "swift":
                c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
            acked_ms(c)
        first = [info(c)["rto_us"] for c in clients]
        for c in clients:
            c.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, DROPPED)
            c.send(bytes(100))
        wait_until("each has waited twice", lambda: all(info(c)["backoff"] >= 2 for c in clients))
        now = [info(c) for c in clients]
        return [n["rto_us"] / (rto << n["backoff"]) for n, rto in zip(now, first)], now

    delay(2)
    ratios, now = spread("swift")
    # A tick of the clock that is added or left doubles as well.
    expect(all((2 / 3) ** n["backoff"] - 0.1 < r < (4 / 3) ** n["backoff"] + 0.1 for r, n in zip(ratios, now)), f"too far: {ratios}")
    expect(len({n["rto_us"] >> n["backoff"] for n in now}) >= 4 and max(ratios) > 1 > min(ratios), f"all as one: {ratios}")
    ratios, _ = spread("reno")
    expect(set(ratios) == {1}, f"reno's: {ratios}")


def begin_in_turn():
    """Of flows that begin at once, or after a silence, packets of 16 KB are under way to a destination; others begin as
    those are answered. Who waits and goes, or leaves Swift, leaves nothing behind; nobody waits for a peer without an echo."""
    def delayed():
        return counter("h1", "starts_delayed")

    def segs(flows):
        return sum(info(c)["data_segs_out"] for c, _ in flows)

    def send(flows, size=1000):
        for c, _ in flows:
            c.send(bytes(size))

    delay(20)
    flows = [connect() for _ in range(40)]
    for what in "new", "silent for 200 ms":
        before, sent = delayed(), segs(flows)
        send(flows)
        expect(segs(flows) - sent == 16, f"{what}: {segs(flows) - sent} began at once")
        expect(delayed() - before == 24, f"{what}: {delayed() - before} waited")
        began = time.monotonic()
        for _, s in flows:
            receive(s, 1000)
        took = time.monotonic() - began
        expect(0.015 < took < 0.08, f"{what}: the last one came after {took} s")
        time.sleep(0.2)  # the silence itself

    # Small packets are not counted as large ones: 4 KB of them.
    before = delayed()
    send(flows, 100)
    expect(delayed() == before, f"{delayed() - before} waited")
    for _, s in flows:
        receive(s, 100)
    time.sleep(0.2)

    # Some leave Swift, and send; some are closed; some are disconnected.
    sent = segs(flows)
    send(flows)
    leaving = [f for f in flows if info(f[0])["notsent"]]
    expect(len(leaving) == 24, f"{len(leaving)} wait")
    for c, _ in leaving[:8]:
        c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    wait_until("they send", lambda: segs(flows) - sent >= 24, 0.015)
    for c, s in leaving[8:16]:
        c.close()
        s.close()
    for c, _ in leaving[16:]:
        libc.connect(c.fileno(), struct.pack("HHIQ", socket.AF_UNSPEC, 0, 0, 0), 16)
    flows = [f for f in flows if f not in leaving]
    for _, s in flows:
        receive(s, 1000)
    # As before, at once: what those had, or waited for, is free; and the window is what the answers made it.
    time.sleep(0.01)
    before, sent = delayed(), segs(flows)
    send(flows)
    expect(segs(flows) - sent == 16 and delayed() == before, f"{segs(flows) - sent} began, {delayed() - before} waited")

    # What is lost stands in nobody's way for longer than a timeout.
    delay(20)
    time.sleep(0.2)
    for c, _ in flows:
        c.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, DROPPED)
    send(flows)
    last = connect()
    began = time.monotonic()
    send([last])
    receive(last[1], 1000)
    took = time.monotonic() - began
    expect(took < 0.3, f"behind packets that are lost one waits for {took} s")

    for netns in ("h1", "h2"):
        tune(netns, **{**SETTINGS, "echo": 0})
    flows = [connect() for _ in range(40)]
    before = delayed()
    send(flows)
    expect(segs(flows) == 40 and delayed() == before, f"without an echo {segs(flows)} began, {delayed() - before} waited")


def path_mtu():
    delay(10)
    client, _ = connect()
    acked_ms(client)
    before, timeouts = info(client), counter("h1", "decreases_timeout")
    run("ip -n r1 link set right mtu 1200")
    acked_ms(client, bytes(4 * before["mss"]))
    run("ip -n r1 link set right mtu 1500")
    run("ip -n h1 route flush cache")
    after, timeouts = info(client), counter("h1", "decreases_timeout") - timeouts
    expect(after["mss"] < before["mss"] and after["retransmits"], f"the path MTU did not reach h1: {after}")
    expect(not timeouts, f"decreases_timeout rose by {timeouts}")
    expect(after["cwnd"] >= before["cwnd"], f"the window went from {before['cwnd']} to {after['cwnd']}")


def half_closed():
    client, server = connect()
    server.shutdown(socket.SHUT_WR)
    wait_until("FIN_WAIT2", lambda: info(server)["state"] == FIN_WAIT2)
    took = []
    for _ in range(9):
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        took.append(acked_ms(client))
    expect(statistics.median(took) < 25, f"acknowledged after ms: {took}")


def deferred_accept(ms):
    """Of flows accepted with the first data, a while after the handshake: how many are
    guarded, on a path of @ms where max_rtt_ns is 50 ms?"""
    delay(ms)
    tune("h2", max_rtt_ns=50 * MS)
    guarded = counter("h2", "guarded_flows_total")
    listener, client = listen(deferred=10), caller()
    client.connect(("10.0.1.2", PORT))
    time.sleep(0.3)  # no state to wait for: this is the silence that h2 takes for a long path
    client.send(bytes(100))
    server = accept(listener)
    rtt_us = info(server)["rtt_us"]
    expect(rtt_us > 200_000, f"the handshake does not look long: {rtt_us} us")
    acked_ms(server)
    return counter("h2", "guarded_flows_total") - guarded


def deferred_short():
    expect(deferred_accept(1) == 0, "a flow on a short path is guarded")


def deferred_long():
    expect(deferred_accept(100) == 1, "a flow on a long path is not guarded")


def guarded_again():
    """A guarded socket that is disconnected, and connected again, on a short path, is counted once."""
    def gauges():
        return counter("h1", "flows"), counter("h1", "guarded_flows")

    wait_until("no flow is left", lambda: gauges() == (0, 0))
    tune("h1", max_rtt_ns=50 * MS)
    delay(100)
    client, server = connect()
    acked_ms(client)
    expect(gauges() == (0, 1), f"on a long path: flows, guarded: {gauges()}")
    unspecified = struct.pack("H14x", socket.AF_UNSPEC)
    expect(not libc.connect(client.fileno(), unspecified, len(unspecified)), f"disconnect: errno {ctypes.get_errno()}")
    expect(gauges() == (0, 0), f"disconnected: flows, guarded: {gauges()}")
    server.close()
    delay(1)
    listener = listen()
    enter("h1")
    client.connect(("10.0.1.2", PORT))
    server = accept(listener)
    acked_ms(client)
    expect(gauges() == (1, 0), f"connected again, on a short path: flows, guarded: {gauges()}")
    client.close()
    wait_until("it is gone", lambda: gauges() == (0, 0), 10)


def vrf():
    """LOCAL_OUT sees packets twice. An option that is twice in a header counts as malformed."""
    for credit in (0, 1):
        for netns in ("h1", "h2"):
            tune(netns, link_mbps=1000, credit=credit)
        through_vrf(credit)
    for netns in ("h1", "h2"):
        tune(netns, credit=0)


def through_vrf(credit):
    names = ("echo_flows_total", "echoes_malformed", "credit_no_room")
    before = {netns: {name: counter(netns, name) for name in names} for netns in ("h1", "h2")}
    received = counter("h1", "echoes_received")
    client, server = connect(device=b"vrf0")
    for _ in range(20):
        client.send(bytes(10000))
        receive(server, 10000)
    wait_acked(client)
    for netns in ("h1", "h2"):
        rise = {name: counter(netns, name) - was for name, was in before[netns].items()}
        expect(rise["echo_flows_total"] == 1, f"{netns}: no echo negotiated")
        for name in names[1:]:
            expect(not rise[name], f"{netns}, credit {credit}: {rise[name]} {name}")
        wrong = nstat(netns, "TcpInCsumErrors")
        expect(not wrong, f"{netns}: {wrong} wrong checksums")
    received = counter("h1", "echoes_received") - received
    expect(received >= 20, f"{received} echoes received")


def from_h3():
    """h3, on an ipvlan of h2's device, connects to h1."""
    enter("h1")
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("10.0.0.1", PORT))
    listener.listen()
    enter("h3")
    client = prepared(socket.socket())
    client.connect(("10.0.0.1", PORT))
    return client, accept(listener)


def tap(netns, device):
    enter(netns)
    seen = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
    seen.bind((device, 0))
    return seen


def packets(seen):
    """IPv4 packets that it saw; None: what begins like none."""
    while select.select([seen], [], [], 0.1)[0]:
        packet, where = seen.recvfrom(4000)
        if where[1] == 0x0800:
            yield packet if packet[0] == 0x45 else None


def kinds_of(packet):
    """Kinds of the TCP options, but for padding."""
    options, at, kinds = packet[40:20 + (packet[32] >> 4) * 4], 0, []
    while at < len(options) and options[at]:
        if options[at] != 1:
            kinds.append(options[at])
        at += 1 if options[at] == 1 else options[at + 1]
    return kinds


def ipvlan_with(queue):
    """What leaves h3 passes LOCAL_OUT there, and again for the device that it stands on, in h2."""
    for netns in ("h1", "h2", "h3"):
        tune(netns, link_mbps=1000, credit=1)
    if queue:
        run("tc -n h3 qdisc replace dev in3 root netem delay 3ms")
    wire, above = tap("h1", "right"), tap("h3", "in3")
    client, server = from_h3()
    for _ in range(20):
        client.sendall(bytes(500))
        receive(server, 500)
    wait_acked(client)
    with_options = [kinds_of(packet).count(253) for packet in packets(wire) if packet and packet[12:16] == socket.inet_aton("10.0.9.3") and
                    int.from_bytes(packet[2:4], "big") > 20 + (packet[32] >> 4) * 4]
    expect(len(with_options) >= 20 and max(with_options) == 1, f"queue {queue}: options of data segments: {with_options}")
    expect(all(packets(above)), "a tap has seen a packet whose headers had moved")
    if queue:
        run("tc -n h3 qdisc del dev in3 root")
    for netns in ("h1", "h2", "h3"):
        tune(netns, credit=0)


def ipvlan():
    tune("h3", **SETTINGS)
    sysctl("h3", "net.ipv4.tcp_congestion_control", "swift")
    for queue in (False, True):
        ipvlan_with(queue)
    # What h2 offers is not h3's word.
    tune("h3", echo=0)
    before = [counter(netns, "echo_flows_total") for netns in ("h1", "h3")]
    client, server = from_h3()
    for _ in range(5):
        acked_ms(client)
        acked_ms(server)
    rise = [counter(netns, "echo_flows_total") - was for netns, was in zip(("h1", "h3"), before)]
    expect(rise == [0, 0], f"flows with an echo of a namespace without: {rise}")


def nstat(netns, name):
    return int(run(f"ip netns exec {netns} nstat -asz {name}").split()[-2])


def peer_left():
    """The peer leaves Swift, and delays its ACKs again: lone segments are not lost."""
    delay(1)
    client, server = connect()
    acked_ms(client)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
    before = nstat("h1", "TcpRetransSegs")
    for _ in range(150):
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        acked_ms(client)
    again = nstat("h1", "TcpRetransSegs") - before
    expect(again <= 70, f"{again} of 150 segments were sent twice")  # 64 ACKs without an echo tell


def chosen_again():
    """A flow that runs keeps its window when it comes back to Swift."""
    delay(5)
    tune("h1", init_cwnd=1)
    client, server = connect()
    for _ in range(10):
        client.sendall(bytes(50_000))
        receive(server, 50_000)
    wait_acked(client)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    before = info(client)["cwnd"]
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"swift")
    cwnd = info(client)["cwnd"]
    expect(before >= 10 and cwnd >= before // 2, f"a window of {cwnd}, {before} before")


def checksum(data):
    words = sum(struct.unpack(f"!{len(data) // 2}H", data))
    words = (words >> 16) + (words & 0xFFFF)
    return ~(words + (words >> 16)) & 0xFFFF


def forged_repeats():
    """Who knows the ports and no sequence number cannot end a flow's echo."""
    delay(1)
    client, server = connect()
    for _ in range(5):
        acked_ms(client)
    stopped = counter("h2", "echoes_stopped")
    time.sleep(1.5)
    enter("r1")
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    ends = socket.inet_aton("10.0.0.1") + socket.inet_aton("10.0.1.2")
    for seq in [0x12345678] * 4 + [0x92345678] * 4:  # one of the two looks old
        head = struct.pack("!HHIIBBHHH", client.getsockname()[1], PORT, seq, 1, 5 << 4, 0x10, 1000, 0, 0)
        total = checksum(ends + struct.pack("!BBH", 0, 6, len(head) + 8) + head + b"x" * 8)
        packet = struct.pack("!BBHHHBBH", 0x45, 0, 28 + len(head), 0, 0, 64, 6, 0) + ends
        raw.sendto(packet + head[:16] + struct.pack("!H", total) + head[18:] + b"x" * 8, ("10.0.1.2", 0))
    time.sleep(0.1)
    echoes = counter("h1", "echoes_received")
    for _ in range(5):
        acked_ms(client)
    expect(counter("h1", "echoes_received") - echoes == 5 and counter("h2", "echoes_stopped") == stopped, "its echo has ended")


def syn_sent(default, chosen):
    """A connection begins under @default, and before it is answered others are @chosen, one
    after the other. Returns what h1 counts: flows with an echo, and echoes."""
    delay(300)
    sysctl("h1", "net.ipv4.tcp_congestion_control", default)
    echoes, flows = counter("h1", "echoes_received"), counter("h1", "echo_flows_total")
    listener, client = listen(), caller()
    client.setblocking(False)
    expect(client.connect_ex(("10.0.1.2", PORT)) == errno.EINPROGRESS, "connect() did not begin")
    for cc in chosen:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc)
    expect(info(client)["state"] == SYN_SENT, "the SYN-ACK was faster")
    select.select([], [client], [], 20)
    client.settimeout(20)
    cwnd = info(client)["cwnd"]
    expect(cwnd == 4, f"the window is {cwnd}, wanted init_cwnd=4")
    server = accept(listener)
    client.sendall(bytes(100_000))
    receive(server, 100_000)
    wait_acked(client)
    expect(counter("h1", "flows") == 1, f"{counter('h1', 'flows')} flows are counted, wanted 1")
    return counter("h1", "echo_flows_total") - flows, counter("h1", "echoes_received") - echoes


def syn_sent_first():
    tune("h1", init_cwnd=4)
    flows, echoes = syn_sent("reno", (b"swift",))
    expect(not flows and not echoes, f"the SYN did not offer; {echoes} echoes in {flows} flows")


def syn_sent_again():
    tune("h1", init_cwnd=4)
    flows, echoes = syn_sent("swift", (b"reno", b"swift"))
    expect(flows == 1 and echoes > 2, f"{echoes} echoes in {flows} flows with echo")


def paced(client):
    """Kernels do not pace the first ten segments; and what was in flight before has to come back."""
    wait_until("the flow is paced", lambda: info(client)["data_segs_out"] > 12 and info(client)["cwnd"] == 1)


def small_messages():
    """One packet each 2 ms / 0.1 = 20 ms, however small."""
    delay(2)
    below_one(100_000)
    client, server = connect()
    for _ in range(26):
        client.send(bytes(100), socket.MSG_EOR)  # keeps them from becoming one segment
    receive(server, 16 * 100)
    began = time.monotonic()
    receive(server, 10 * 100)
    took = time.monotonic() - began
    expect(took > 0.18, f"10 messages came within {took:.3f} s, wanted 0.2 s")


def gaps_ms(server, count):
    """Between arrivals of full segments, in the order of their length."""
    size, stamps = info(server)["mss"], []
    while len(stamps) <= count:
        receive(server, size)
        stamps.append(time.monotonic())
    return sorted((b - a) * 1000 for a, b in zip(stamps, stamps[1:]))


def paced_exactly():
    """A packet each RTT / window, by any qdisc, with echo and without; ACKs do not wait for it."""
    for qdisc in "noqueue", "fq":
        for echo in 0, 1:
            for netns in "h1", "h2":
                tune(netns, **{**SETTINGS, "echo": echo})
            delay(2)
            below_one(100_000)
            run(f"tc -n h1 qdisc replace dev right root {qdisc}")
            client, server = connect()
            client.setblocking(False)
            client.send(bytes(200_000))
            paced(client)
            receive(server, 14 * info(server)["mss"])
            due_ms = info(client)["rtt_us"] / 1000 / 0.1
            gap_ms = statistics.median(gaps_ms(server, 15))
            where = f"{qdisc}, echo {echo}"
            expect(0.9 * due_ms < gap_ms < 1.1 * due_ms, f"{where}: a packet each {gap_ms:.2f} ms, due: {due_ms:.2f}")
            took = [acked_ms(server) for _ in range(15)]
            expect(statistics.median(took) < 6, f"{where}: acknowledged after ms: {took}")
            client.close()
            server.close()


def held(client):
    """A moment in which data waits for its time, and nothing is in flight: there is one after each
    packet where the RTT is below the gap, which is 17 to 34 ms long for windows far below one."""
    wait_until("data is held", lambda: not info(client)["unacked"] and info(client)["notsent"])
    return info(client)["data_segs_out"]


def leave():
    """Who leaves Swift sends at once; and Swift, when it comes back, has nothing of old."""
    below_one(1000)
    client, server = connect()
    client.setblocking(False)
    took = []
    for _ in range(9):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"swift")
        client.send(bytes(50_000))
        receive(server, 20_000)
        paced(client)
        segs = held(client)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        began = time.monotonic()
        wait_until("a segment", lambda: info(client)["data_segs_out"] > segs)
        took.append((time.monotonic() - began) * 1000)
        receive(server, 30_000)
    expect(statistics.median(took) < 4, f"sent after ms: {took}")


def disconnect():
    """A new connection of an old socket has no gap of the old one."""
    delay(4)
    below_one(1000)
    listener, client = listen(), caller()
    took = []
    for _ in range(5):
        client.settimeout(20)
        client.connect(("10.0.1.2", PORT))
        server = accept(listener)
        client.setblocking(False)
        client.send(bytes(100_000))
        paced(client)
        held(client)
        libc.connect(client.fileno(), struct.pack("HHIQ", socket.AF_UNSPEC, 0, 0, 0), 16)
        tune("h1", base_target_ns=500 * MS)
        client.settimeout(20)
        client.connect(("10.0.1.2", PORT))
        server = accept(listener)
        began = time.monotonic()
        client.send(bytes(100))
        receive(server, 100)
        took.append((time.monotonic() - began) * 1000)
        libc.connect(client.fileno(), struct.pack("HHIQ", socket.AF_UNSPEC, 0, 0, 0), 16)
        below_one(1000)
    expect(statistics.median(took) < 10, f"came after ms: {took}")


def repaired_in_time():
    """A gap does not lengthen the timers of what is in flight."""
    delay(4)
    below_one(1000)
    client, _ = connect()
    client.setblocking(False)
    client.send(bytes(50_000))
    paced(client)
    segs = held(client)
    client.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, DROPPED)
    wait_until("it is sent", lambda: info(client)["data_segs_out"] > segs)
    client.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0)
    began = time.monotonic()
    wait_until("it is repaired", lambda: info(client)["data_segs_out"] > segs + 1)
    took = (time.monotonic() - began) * 1000
    expect(took < 400, f"repaired after {took:.0f} ms")


def paws(netns):
    return nstat(netns, "TcpExtPAWSEstab")


def time_never_goes_back():
    """Bulk, both ways and request and response, at once; the peer drops what carries an older
    TSval than what it has seen."""
    kinds = "bulk", "both ways", "request and response"
    before = paws("h1") + paws("h2")
    for windows, qdisc, echo in itertools.product(("below one", "above"), ("noqueue", "fq"), (0, 1)):
        where = f"{windows}, {qdisc}, echo {echo}"
        for netns, device in ("h1", "right"), ("h2", "left"):
            tune(netns, **{**SETTINGS, "echo": echo, "max_cwnd": 8})
            if windows == "below one":
                below_one(100_000, netns)
            run(f"tc -n {netns} qdisc replace dev {device} root {qdisc}")
        delay(4, 3)  # what an ACK tells may make the next packet earlier than what was settled before
        flows = {}
        for address in "10.0.1.2", "fd00:1::2":
            listener = listen(address=address)
            for kind in kinds:
                enter("h1")
                client = prepared(socket.socket(listener.family))
                client.connect((address, PORT))
                server = accept(listener)
                for sock in client, server:
                    sock.setblocking(False)
                flows[client.fileno()] = client, kind, [0], False
                flows[server.fileno()] = server, kind, [0], True
            listener.close()
        poll = select.poll()
        for fd, (sock, kind, got, is_server) in flows.items():
            sends = kind == "both ways" or (kind == "bulk" and not is_server)
            poll.register(fd, select.POLLIN | (select.POLLOUT if sends else 0))
            if kind.startswith("request") and not is_server:
                sock.send(bytes(100))
        end = time.monotonic() + (5 if windows == "below one" else 0.5)
        while time.monotonic() < end:
            for fd, event in poll.poll(100):
                sock, kind, got, is_server = flows[fd]
                if event & select.POLLIN:
                    got[0] += len(sock.recv(1 << 20))
                    if kind.startswith("request"):
                        sock.send(bytes(100))
                if event & select.POLLOUT:
                    sock.send(bytes(20_000))
        drops = paws("h1") + paws("h2") - before
        expect(not drops, f"{where}: PAWS dropped {drops} packets")
        for sock, kind, got, is_server in flows.values():
            expect(got[0] >= 1000 or kind == "bulk" and not is_server, f"{where}: {kind}: {got[0]} bytes came")
            sock.close()


def echoes_both_ways():
    """Where data goes both ways an ACK could be the data's, which has no echo."""
    for windows, seconds in ("above", 0.5), ("below one", 3):
        delay(2)
        for netns in "h1", "h2":
            tune(netns, **{**SETTINGS, "max_cwnd": 8})
            if windows == "below one":
                below_one(200_000, netns)
        client, server = connect()
        names = ("samples", "echoes_received")
        before = {(netns, name): counter(netns, name) for netns in ("h1", "h2") for name in names}
        poll, ends = select.poll(), {sock.fileno(): sock for sock in (client, server)}
        for fd, sock in ends.items():
            sock.setblocking(False)
            poll.register(fd, select.POLLIN | select.POLLOUT)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for fd, event in poll.poll(100):
                if event & select.POLLIN:
                    ends[fd].recv(1 << 20)
                if event & select.POLLOUT:
                    ends[fd].send(bytes(20_000))
        for netns in "h1", "h2":
            samples, echoes = (counter(netns, name) - before[netns, name] for name in names)
            expect(samples > 100, f"{windows}: {samples} samples in {netns}")
            expect(echoes > 0.9 * samples, f"{windows}: {echoes} echoes in {netns} of {samples} samples")
        client.close()
        server.close()


def idle_restart():
    """After a silence of some RTOs a large window is halved towards init_cwnd for each, before
    the first packet leaves."""
    delay(2)
    tune("h1", ai_milli=10000, max_cwnd=100)
    client, server = connect()
    for _ in range(10):
        client.sendall(bytes(100_000))
        receive(server, 100_000)
    wait_acked(client)
    restarts, before = counter("h1", "idle_restarts"), info(client)["cwnd"]
    expect(before > 40, f"the window did not grow: {before}")
    time.sleep(3)
    client.send(bytes(300_000))
    after = info(client)
    expect(counter("h1", "idle_restarts") == restarts + 1, "no idle restart is counted")
    expect(after["unacked"] <= 12, f"{after['unacked']} packets leave at once, wanted init_cwnd=10")


def delayed_ack():
    """A peer without Swift: no echo, and lone segments acknowledged after 40 ms."""
    tune("h1", max_rtt_ns=30 * MS, base_target_ns=25 * MS)
    client, server = connect("reno")
    acked_ms(client)
    before = {name: counter("h1", name) for name in ("decreases_fabric", "guarded_flows_total")}
    cwnd, took = info(client)["cwnd"], []
    for _ in range(8):
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        took.append(acked_ms(client))
    expect(statistics.median(took) > 35, f"the peer did not delay: {took} ms")
    for name, was in before.items():
        expect(counter("h1", name) == was, f"{name} rose by {counter('h1', name) - was}")
    expect(info(client)["cwnd"] >= cwnd, f"the window went from {cwnd} to {info(client)['cwnd']}")
    flow = json.loads(run(f"ip netns exec h1 {SWIFTCTL} flows --json"))["flows"][0]
    expect(flow["fabric_ns"] < 30 * MS, f"a fabric delay of {flow['fabric_ns']} ns")


def learnt_together():
    """What the flows of a host know together of a path (D10), on one that is 2 ms long, and later 20; to
    addresses that no other edge has."""
    def target_ms(mss_bytes=0, address="10.0.1.3", data=20000):
        listener, client = listen(address=address), caller()
        if mss_bytes:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, mss_bytes)
        client.connect((address, PORT))
        server = accept(listener)
        if data:
            acked_ms(client, bytes(data))
        name = "{}:{}".format(*client.getsockname())
        flows = json.loads(run(f"ip netns exec h1 {SWIFTCTL} flows --json"))["flows"]
        (flow,) = [flow for flow in flows if flow["local"] == name]
        for sock in listener, client, server:
            sock.close()
        return flow["target_ns"] / MS

    for address in "10.0.1.3", "10.0.1.4":
        run(f"ip -n h2 address add {address}/24 dev left")
    delay(2)
    target_ms(mss_bytes=1000)
    tune("h1", target_policy="base_rtt_plus", base_target_ns=1000)
    target_ms(data=0)
    delay(20)
    got = {"a handshake told it": target_ms(), "of shorter packets": target_ms(mss_bytes=536),
           "of another destination": target_ms(address="10.0.1.4"), "by static": target_ms(mss_bytes=1000)}
    for address in "10.0.1.3", "10.0.1.4":
        run(f"ip -n h2 address delete {address}/24 dev left")
    for what, target in got.items():
        expect((target < 10) == (what == "a handshake told it"), f"{what}: targets in ms: {got}")


def unpaced_again():
    """A paced socket's queue below TCP may be as long as its rate allows, and unpaced that
    is any length; one not paced has tcp_limit_output_bytes. The link to r1 is the slow
    one, and what waits there is the socket's. fq says of each socket that it is paced."""
    sysctl("h1", "net.ipv4.tcp_limit_output_bytes", 20000)
    run("ip -n h1 link set right gso_max_segs 1")
    delay(2)
    for below in "bfifo limit 1000000", "fq flow_limit 1000":
        run("tc -n h1 qdisc replace dev right root handle 1: tbf rate 10mbit burst 3000 limit 1000000")
        run(f"tc -n h1 qdisc replace dev right parent 1:1 {below}")
        tune("h1", **SETTINGS)
        below_one(50_000)
        client, server = connect()
        client.setblocking(False)
        client.send(bytes(100_000))
        paced(client)
        tune("h1", base_target_ns=500 * MS, ai_milli=10000, max_cwnd=100)
        wait_until("a window of more than one packet", lambda: info(client)["cwnd"] > 4)
        unacked = keep_sending(client, server, 3_000_000)
        expect(unacked < 50, f"{below}: up to {unacked} packets wait below TCP")
        client.close()
        server.close()


def keep_sending(client, server, left):
    """As long as data is left; the most that was not acknowledged."""
    server.setblocking(False)
    unacked = [0]

    def all_sent():
        nonlocal left
        try:
            left -= client.send(bytes(50_000))
        except BlockingIOError:
            pass
        try:
            server.recv(1_000_000)
        except BlockingIOError:
            pass
        unacked.append(info(client)["unacked"])
        return left <= 0

    wait_until("all is sent", all_sent)
    return max(unacked)


def leave_class():
    """The class of 3.7 is Swift's: a flow that leaves Swift leaves it, but not one that the application chose."""
    tune("h1", dscp=10)
    listener = listen()
    enter("h1")
    for family, address in (socket.AF_INET, "10.0.1.2"), (socket.AF_INET6, "::ffff:10.0.1.2"):
        v6 = family == socket.AF_INET6
        own = (socket.IPPROTO_IPV6, socket.IPV6_TCLASS) if v6 else (socket.IPPROTO_IP, socket.IP_TOS)
        client = prepared(socket.socket(family))

        def goes(cc, *wanted, client=client, v6=v6, family=family):
            if cc:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc)
            found = (client.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) & ~3,
                     client.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS) & ~3 if v6 else 0,
                     client.getsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY))
            expect(found == wanted, f"{family.name}: {cc}: class and priority are {found}, wanted {wanted}")

        client.connect((address, PORT))
        server = accept(listener)
        priority = client.getsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY)
        expect(priority, "the class 10 has no priority of its own")
        goes(None, 40, 40 * v6, priority)
        goes(b"reno", 0, 0, 0)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 5)
        goes(b"swift", 40, 40 * v6, 5)
        goes(b"reno", 0, 0, 5)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 0)
        for mine in 8, 40:  # another one's, and by chance Swift's
            client.setsockopt(*own, mine)
            was = client.getsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY)
            goes(b"swift", 0 if v6 else mine, mine * v6, was)
            goes(b"reno", 0 if v6 else mine, mine * v6, was)
        server.close()
    tune("h1", dscp=-1)


def mptcp_socket(netns):
    """Of IPv6: one of IPv4 has no subflows of the other."""
    enter(netns)
    return socket.socket(socket.AF_INET6, socket.SOCK_STREAM, IPPROTO_MPTCP)


def link_bytes():
    """What r1 has sent to h2: over IPv4, over IPv6."""
    found = {row["handle"]: row["bytes"] for row in json.loads(run("tc -n r1 -s -j qdisc show dev right")) if "bytes" in row}
    return found["4:"], found["6:"]


def mptcp():
    """Its scheduler goes by what its subflows' rates say: of two paths, 40 and 10 Mbit/s, a stream has
    both, the faster one most, and no part of the stream waits for the slower."""
    run("tc -n r1 qdisc replace dev right root handle 1: prio bands 2 priomap" + " 0" * 16)
    for band, protocol, mbit, ms in (1, "ip", 40, 2), (2, "ipv6", 10, 6):
        run(f"tc -n r1 filter add dev right parent 1: pref {band} protocol {protocol} u32 match u32 0 0 flowid 1:{band}")
        run(f"tc -n r1 qdisc replace dev right parent 1:{band} handle {2 + 2 * band}: netem rate {mbit}mbit delay {ms}ms limit 200")
    for netns in "h1", "h2":
        tune(netns, base_target_ns=15 * MS, ai_milli=10000)
        run(f"ip -n {netns} mptcp limits set subflows 2 add_addr_accepted 2")
    run("ip -n h2 mptcp endpoint add fd00:1::2 dev left signal")
    listener = mptcp_socket("h2")
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("::", PORT))
    listener.listen()
    client = mptcp_socket("h1")
    client.settimeout(60)
    client.connect(("::ffff:10.0.1.2", PORT))
    server = listener.accept()[0]
    server.settimeout(60)
    client.send(bytes(1000))
    receive(server, 1000)
    wait_until("there are two subflows", lambda: counter("h1", "flows") == 2)
    client.setblocking(False)
    server.setblocking(False)
    sent, got, marks = 0, 0, []
    while got < 12_000_000:
        readable, writable, _ = select.select([server], [client] if sent < 12_000_000 else [], [], 20)
        expect(readable or writable, f"it stalls after {got} bytes: {run('ip netns exec h1 ss -tinM')}")
        if writable:
            sent += client.send(bytes(100_000))
        if readable:
            got += len(server.recv(1 << 20))
        if not marks and got > 3_000_000 or len(marks) == 1 and got > 11_000_000:
            marks.append((time.monotonic(), got, *link_bytes()))
    seconds, rate, v4, v6 = (after - before for before, after in zip(*marks))
    rate *= 8 / seconds / 1e6
    expect(rate > 36, f"{rate:.1f} Mbit/s over 40 and 10; on the links: {v4}, {v6} bytes")
    expect(0.1 * v4 < v6 < 0.4 * v4, f"on the links of 40 and 10 Mbit/s: {v4}, {v6} bytes, {rate:.1f} Mbit/s")
    client.close()
    server.close()
    run("ip -n h2 mptcp endpoint flush")


def trace(file, text):
    """Python's own append mode seeks, which these files refuse."""
    fd = os.open("/sys/kernel/tracing/" + file, os.O_WRONLY | os.O_APPEND)
    os.write(fd, text.encode())
    os.close(fd)


def calls(function, action):
    """How often the kernel calls @function while @action lasts."""
    trace("kprobe_events", "p:counted " + function)
    trace("events/kprobes/counted/enable", "1")
    action()
    with open("/sys/kernel/tracing/kprobe_profile") as file:
        hits = int(file.read().split()[1])
    trace("events/kprobes/counted/enable", "0")
    trace("kprobe_events", "-:counted")
    return hits


def stamping_lasts():
    """Packets are stamped from the first flow on; each change rewrites code on all CPUs."""
    client, server = connect()
    acked_ms(client)

    def come_and_go():
        nonlocal client, server
        for _ in range(10):
            client.close()
            server.close()
            wait_until("no flow is left", lambda: not counter("h1", "flows") + counter("h2", "flows"))
            client, server = connect()
            acked_ms(client)

    hits = calls("netstamp_clear", come_and_go)
    expect(not hits, f"the kernel's code was changed {hits} times")


def unpaced_after_bbr():
    """BBR has TCP pace, and leaves it so."""
    client, server = connect()
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"bbr")
    client.sendall(bytes(100_000))
    receive(server, 100_000)
    wait_acked(client)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"swift")

    def transfer():
        for _ in range(10):
            client.sendall(bytes(50_000))
            receive(server, 50_000)

    hits = calls("tcp_pace_kick", transfer)
    expect(not hits, f"the pacing timer fired {hits} times")


def flow_labels(**settings):
    """Those of a flow's packets, on a path with which it has these settings, and how often PLB changed it."""
    tune("h1", **settings)
    repaths = counter("h1", "plb_repaths")
    listener = listen(address="fd00:1::2")
    enter("h1")
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
    wire.bind(("right", 0))
    client = prepared(socket.socket(socket.AF_INET6))
    client.connect(("fd00:1::2", PORT))
    server = accept(listener)
    labels = []
    for _ in range(20):
        client.sendall(bytes(20_000))
        receive(server, 20_000)
        while select.select([wire], [], [], 0)[0]:
            packet = wire.recv(60)
            # Not a SYN: one that is sent again, for want of a neighbour's address, has another.
            if (packet[0] >> 4 == 6 and int.from_bytes(packet[40:42], "big") == client.getsockname()[1] and
                    not packet[53] & 2):
                labels.append(int.from_bytes(packet[:4], "big") & 0xfffff)
    client.close()
    server.close()
    expect(len(labels) >= 20, f"{len(labels)} packets were seen")
    return len(set(labels)), counter("h1", "plb_repaths") - repaths


def plb():
    delay(2)
    never = {"base_target_ns": 1000, "min_cwnd_micro": 2_000_000}
    stays = {"without plb": dict(never, plb=0), "where the target is met": {"plb": 1},
             "where the host is the limit": {"plb": 1, "endpoint_target_ns": 1000, "min_cwnd_micro": 2_000_000},
             "below one packet": dict(never, plb=1, init_cwnd=1, min_cwnd_micro=500_000)}
    for where, settings in stays.items():
        got = flow_labels(**dict(SETTINGS, **settings))
        expect(got == (1, 0), f"{where}: labels, changes: {got}")
    rounds = counter("h1", "plb_rounds")
    labels, repaths = flow_labels(**dict(SETTINGS, **never, plb=1))
    rounds = counter("h1", "plb_rounds") - rounds
    expect(labels > 3 and labels - 1 <= repaths, f"{labels} labels, {repaths} changes")
    expect(5 * repaths <= rounds < 5 * repaths + 5, f"{repaths} changes in {rounds} congested rounds")


def main():
    edge = globals()[sys.argv[1]]
    for netns in ("h1", "h2"):
        tune(netns, **SETTINGS)
        sysctl(netns, "net.ipv4.tcp_congestion_control", "swift")
    delay(0)
    run("tc -n h1 qdisc replace dev right root noqueue")
    edge()


if __name__ == "__main__":
    main()
