# SPDX-License-Identifier: GPL-2.0
"""Cases of test_fabric: lines that the control file refuses; the module, NICs and namespaces
that come and go, under traffic, too."""

import errno
import os
import re
import signal
import socket
import time

import fabric_net as fn
import guest
from fabric_net import G, Net, Stats, command, control, frame
from tap import ok, same


# --- Control ------------------------------------------------------------------------------

def lines(module):
    early = [
        ("", errno.EINVAL), ("frobnicate id=1", errno.EINVAL), ("host", errno.EINVAL), ("host id=", errno.EINVAL),
        ("host id=x", errno.EINVAL), ("host id=-1", errno.EINVAL), ("host id=1024", errno.EINVAL), ("host id", errno.EINVAL),
        ("host id=5 color=3", errno.EINVAL), ("host id=5 mtu=100", errno.EINVAL), ("host id=5 mtu=9217", errno.EINVAL),
        ("host id=5 rx_stage=moon", errno.EINVAL), ("host id=5 phc_drift_ppb=1000001", errno.EINVAL),
        ("host id=5 phc_offset_ns=abc", errno.EINVAL), ("host id=5 txq_pkts=18446744073709551616", errno.EINVAL),
        ("host id=5 gro=1", errno.EINVAL), ("host id=5 cores=257", errno.EINVAL), ("host id=5 cores=1 gro=2", errno.EINVAL),
        ("host id=5 cores=1 rx_usecs=10001", errno.EINVAL), ("host id=5 cores=1 noise_ns=5", errno.EINVAL),
        ("host id=5 cores=1 noise_ns=5 noise_every_ns=999", errno.EINVAL), ("host id=5 cores=0 seg_ns=1", errno.EINVAL),
        ("host id=0", errno.EEXIST), ("switch id=0", errno.EEXIST), ("switch id=1024", errno.EINVAL),
        ("switch id=7 buffer_bytes=1", errno.EINVAL), ("switch id=7 buffer_bytes=4294967296", errno.EINVAL),
        ("switch id=7 pfc_xoff_bytes=4294967296", errno.EINVAL), ("switch id=7 pfc_xoff_bytes=10 pfc_xon_bytes=11", errno.EINVAL),
        ("fault link=0 avoid=2", errno.EINVAL),
        ("switch id=7 alpha_milli=0", errno.EINVAL), ("switch id=7 weights=1,2", errno.EINVAL),
        ("switch id=7 weights=1,2,3,4,5,6,7,8,9", errno.EINVAL), ("switch id=7 weights=1,2,3,4,5,6,7,1001", errno.EINVAL),
        ("switch id=7 weights=1,2,3,4,5,6,7,", errno.EINVAL), ("switch id=7 spray=2", errno.EINVAL),
        ("link a=h4 b=s0", errno.EINVAL), ("link a=h4 rate_bps=1000000000", errno.EINVAL),
        ("link b=h0 rate_bps=1000000000", errno.EINVAL), ("link a=h9 b=s0 rate_bps=1000000000", errno.ENOENT),
        ("link a=h4 b=s9 rate_bps=1000000000", errno.ENOENT), ("link a=h4 b=s4294967295 rate_bps=1000000000", errno.ENOENT),
        ("link a=x1 b=s0 rate_bps=1000000000", errno.EINVAL), ("link a=h b=s0 rate_bps=1000000000", errno.EINVAL),
        ("link a=h4 b=s0 rate_bps=999999", errno.EINVAL), ("link a=h4 b=s0 rate_bps=1600000000001", errno.EINVAL),
        ("link a=h4 b=s0 rate_bps=1000000000 prop_ns=1000000001", errno.EINVAL),
        ("link a=h4 b=h4 rate_bps=1000000000", errno.EINVAL), ("link a=s0 b=s0 rate_bps=1000000000", errno.EINVAL),
        ("link a=h0 b=s0 rate_bps=1000000000", errno.EEXIST), ("link a=s0 b=h0 rate_bps=1000000000", errno.EEXIST),
        ("fault link=99", errno.ENOENT), ("fault loss_ppm=1", errno.EINVAL), ("fault link=0 loss_ppm=1000001", errno.EINVAL),
        ("fault link=0 reorder_ns=-1", errno.EINVAL), ("phc id=77 step_ns=1", errno.ENOENT), ("phc id=0", errno.EINVAL),
        ("phc id=0 step_ns=9223372036854775807", errno.EINVAL), ("host id=5 " + "x" * 9000, errno.E2BIG),
        ("reset\nreset", errno.EINVAL), ("\0", errno.EINVAL), ("host id=5 \xff=1", errno.EINVAL)]
    late = [("start", errno.EBUSY), ("link a=h4 b=s0 rate_bps=1000000000", errno.EBUSY)]

    def wrong(known):
        results = [(line[:60], control(line), number) for line, number in known]
        return [(line, got, want) for line, got, want in results if got != want]

    def state():
        text = re.sub(r"(time_ns|events|hist|qmean_bytes|[rt]x_\w+|no_route|tso_pkts|hops)=\S*", "", guest.read(
            fn.FABRIC + "stats").decode())
        return text, [host.run("ip", "-br", "link") for host in net.hosts], command("ip", "-br", "link")

    with Net(module, [""] * 3 + ["", ""], [""], [f"h{i} s0 {10 * G}" for i in range(4)], start=False) as net:
        before = state()
        command("dmesg", "-n", "1")
        same(f"{len(early)} wrong lines are refused, each with its errno", wrong(early), [])
        same("  and change nothing", state(), before)
        net.hosts[4].enter()
        same("  nor does a second NIC in a namespace", control("host id=6"), errno.EEXIST)
        net.hosts[4].leave()
        same("  (whose number is free)", state(), before)
        guest.write(fn.FABRIC + "control", "start")
        time.sleep(1.5)
        before = state()
        same("after start, too", wrong(early + late), [])
        same("  and change nothing", state(), before)
        ok("  and all still works", " 0% packet loss" in net.hosts[0].run("ping", "-qc2", "-W5", fn.address(3)))
        log = command("dmesg")
        command("dmesg", "-n", "4")
        ok("the kernel's log names the key", all(text in log for text in (
            "labfab: mtu=100: expected 1280 to 9216", "labfab: color: unknown key", "labfab: rate_bps: missing")), log[-600:])


# --- Coming and going ---------------------------------------------------------------------

def child(work):
    """A process that goes on until it is ended."""
    pid = os.fork()
    if not pid:
        try:
            while True:
                work()
        finally:
            os._exit(0)
    return pid


def unload(module):
    with Net(module, [""] * 2, [""], [f"h0 s0 {G}", f"s0 h1 {G}"]) as net:
        same("unloads with nothing going on", net.hosts[0].send(frame(0, 1, 100)), 1)
    for rate in (1000000, 20000000, 10 * G):
        net = Net(module, ["txq_pkts=8192", "rx_pkt_ns=5000 rx_stage=ring", "phc=1", ""], ["", ""],
                  [f"h0 s0 {rate}", f"h1 s0 {rate}", f"h2 s1 {rate}", f"h3 s1 {rate}", f"s0 s1 {rate} prop_ns=10000000"])
        pairs, clients, sockets, children = ((0, 2), (3, 1), (2, 0)), [], [], []
        for src, dst in pairs:
            server = net.hosts[dst].socket(socket.AF_INET, socket.SOCK_STREAM)
            server.bind(("", 5000 + src))
            server.listen()
            client = net.hosts[src].socket(socket.AF_INET, socket.SOCK_STREAM)
            client.connect((fn.address(dst), 5000 + src))
            client.setblocking(False)
            clients.append(client)
            sockets += [server, client]
        for (src, dst), client in zip(pairs, clients):
            def work(host=net.hosts[src], src=src, dst=dst, client=client):
                try:
                    client.send(bytes(100000))
                except OSError:
                    pass
                try:
                    host.send(*(frame(src, dst, 1514, i) for i in range(3)))
                except OSError:
                    pass
                time.sleep(0.0003)
            children.append(child(work))
        time.sleep(0.2)
        busy = Stats().fabric["in_flight"]
        result = command("/sbin/rmmod", "labfab")
        time.sleep(0.2)
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        same(f"unloads under traffic with sockets open, {rate} b/s", (busy > 5, result), (True, ""))
        time.sleep(0.5)
        for sock in sockets + [host.tx for host in net.hosts]:
            sock.close()
        for number in range(4):
            command("ip", "netns", "del", f"h{number}")
        os.close(net.home)

    net = Net(module, ["", "rx_pkt_ns=20000", ""], [""], [f"h{i} s0 {10 * G}" for i in range(3)])
    net.hosts[1].tx.close()
    sender = child(lambda: (net.hosts[0].send(frame(0, 1, 1514), frame(0, 2, 1514)), time.sleep(0.0005)))
    time.sleep(0.01)
    command("ip", "netns", "del", "h1")
    time.sleep(2)
    known = command("ip", "-br", "link")
    same("a namespace that goes leaves its NIC to the first one", ("eth0" in known, Stats().balance()), (True, 0))
    control("reset")
    time.sleep(0.2)
    stats = Stats()
    ok("  the others go on, and it misses what it is sent", stats.hosts[2]["rx_pkts"] > 100 and stats.hosts[1]["rx_missed"] > 100
       and not stats.hosts[1]["rx_pkts"], stats.hosts)
    os.kill(sender, signal.SIGKILL)
    os.waitpid(sender, 0)
    net.hosts.pop(1)
    net.close()
    command("ip", "netns", "del", "h2")
    with Net(module, [""] * 2, [""], [f"h0 s0 {G}", f"s0 h1 {G}"]) as net:
        ok("and the module loads and works again", " 0% packet loss" in net.hosts[0].run("ping", "-qc2", "-W5", fn.address(1)))


CASES = (lines, unload)
