#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""How often the interval of `swiftctl ab --fleet` has the true effect in it, on real flows of namespaces as hosts:

	bench_namespaces.py SWIFTD SWIFTCTL [--hosts 50] [--minutes 60] [--experiments 200] [--seed 1]

Each host is two network namespaces, one for each arm, with a swiftd and a TCP flow that is paced to the same rate at
the same time: a rack has its own, which drifts, and each two minutes, a world, another one; all racks have good and bad
minutes; in the second arm it is nine tenths of that. A Prometheus scrapes all of them for so long. Then experiments are
drawn by `swiftctl ab --fleet plan`, by racks, a minute of one world each, and by time, twelve periods of a minute each
from another moment on, and read from a server between swiftctl and Prometheus that shows of each rack and period the
namespace of its arm, or always the first one: no effect. Fails unless the interval has the effect in 95 of 100
experiments, and a difference of nothing is shown in 5 of them, within what chance allows (99 %) if the experiments
were independent: those of one world share its racks, those by time overlap. As root; needs prometheus and openssl."""

import argparse
import contextlib
import http.server
import json
import math
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../swiftd"))
import bench_fleet as fleet
from e2e import CLONE_NEWNET, make_certificate, write
from netns_world import must

EFFECT = 0.9
RACKS = 10
PERIOD_S, PERIODS, SCRAPE_S = 60, 12, 5  # periods: by time
WORLD_S = 2 * PERIOD_S
RATE_BPS = 2e6
PORT = 5001
SO_MAX_PACING_RATE = 47  # bytes a second


class Twin(fleet.Host):
    """A host as it is with one of the arms."""

    def __init__(self, home, number, rack, arm):
        super().__init__(home, number)
        self.rack, self.arm, self.name = rack, arm, f"r{rack}-h{number // 2}"


def talk(hosts, home, seed, begin_s):
    """A child: a flow of each host, as fast as it may."""
    if child := os.fork():
        return child
    try:
        fleet.end_with_us()
        fleet.enter(home)
        listener = socket.create_server(("10.200.255.254", PORT), backlog=len(hosts))
        flows = []
        for host in hosts:
            fleet.enter(host.netns)
            flows.append(socket.socket())
            flows[-1].connect(("10.200.255.254", PORT))
        rng, drift, world = random.Random(seed), [0.0] * RACKS, 0
        change_rates(hosts, flows, rng, drift)
        for flow in flows:
            threading.Thread(target=send, args=(flow,)).start()
            threading.Thread(target=drain, args=(listener.accept()[0],)).start()
        while True:
            time.sleep(PERIOD_S / 3 - (time.time() - begin_s) % (PERIOD_S / 3))
            if world != (world := (time.time() - begin_s) // WORLD_S):
                drift = [rng.gauss(0, 0.1) for _ in range(RACKS)]
            change_rates(hosts, flows, rng, drift)
    finally:
        os._exit(1)


def send(flow):
    while True:
        flow.sendall(b"x" * 16384)


def drain(flow):
    while flow.recv(65536):
        pass


def change_rates(hosts, flows, rng, drift):
    """What a host has for the next third of a period."""
    everywhere = rng.gauss(0, 0.05)
    for rack in range(RACKS):
        drift[rack] = 0.9 * drift[rack] + rng.gauss(0, 0.04)
    for i in range(0, len(hosts), 2):
        rack = hosts[i].rack
        rate_Bps = RATE_BPS / 8 * math.exp(everywhere + drift[rack] + 0.1 * (rack / RACKS - 0.5) + rng.gauss(0, 0.1))
        for flow, part in (flows[i], 1), (flows[i + 1], EFFECT):
            flow.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, int(rate_Bps * part))


class Arms(http.server.BaseHTTPRequestHandler):
    """Prometheus, as it would be had each rack and period had the plan's arm alone."""

    plan, effect = {}, True

    def do_POST(self):
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        ask = {key: values[0] for key, values in form.items()}
        answers = [self.ask_of(ask, arm) for arm in (0, 1)]
        if "up{" in ask["query"]:
            answers = [[], []]
        shown = []
        for r, series in enumerate(answers[0]):
            rack = series["metric"]["rack"]
            other = next(s for s in answers[1] if s["metric"]["rack"] == rack)
            values = []
            for mine, others in zip(series["values"], other["values"]):
                assert mine[0] == others[0]
                values.append(others if self.effect and self.arm_of(rack, mine[0]) else mine)
            shown.append({"metric": {"rack": rack}, "values": values})
        body = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": shown}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def ask_of(self, ask, arm):
        query = ask["query"].replace('job="swiftd"', f'job="swiftd", twin="{arm}"')
        assert query != ask["query"], ask
        with urllib.request.urlopen(f"http://{fleet.PROMETHEUS}/api/v1/query_range",
                                    urllib.parse.urlencode({**ask, "query": query}).encode(), timeout=60) as answer:
            return json.load(answer)["data"]["result"]

    def arm_of(self, rack, end_s):
        plan = self.plan
        if plan["by"] == "racks":
            arm = next(r["arm"] for r in plan["racks"] if r["name"] == rack)
        else:
            arm = plan["turns"][round((end_s - plan["start"]) / PERIOD_S) - 1]["arm"]
        return arm == plan["arms"][1]["name"]

    def log_message(self, *_):
        pass


def experiment(swiftctl, files, server, by, periods, seed, start_s):
    def run(*args):
        done = subprocess.run([swiftctl, "ab", "--fleet", *args], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"bench_namespaces.py: swiftctl {' '.join(args)}: {done.stderr}")

    run("plan", "--inventory", files + "/hosts.json", "--arm", "old=true", "--arm", "new=true", "--by", by, "--name", by, "--seed", str(seed),
        "--start", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(start_s)), "--period", "1m", "--periods", str(periods),
        "--carry-over", "15", "--metric", "goodput", "--guardrail", "retransmits", "--out", f"{files}/{by}")
    with open(f"{files}/{by}/plan.json") as f:
        Arms.plan = json.load(f)
    run("read", "--plan", f"{files}/{by}/plan.json", "--prometheus", server, "--json", files + "/result.json")
    with open(files + "/result.json") as f:
        return next(c for c in json.load(f)["comparisons"] if c["metric"] == "goodput")


def allowed(n, share):
    """What n draws of @share are 99 times of 100: (least, most)."""
    odds = [math.comb(n, k) * share**k * (1 - share)**(n - k) for k in range(n + 1)]
    below, least = 0.0, 0
    while below + odds[least] < 0.005:
        below += odds[least]
        least += 1
    above, most = 0.0, n
    while above + odds[most] < 0.005:
        above += odds[most]
        most -= 1
    return least, most


def judge(o, files, begin_s, end_s):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Arms)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    last_s = end_s - PERIODS * PERIOD_S - 30
    worlds = int((end_s - begin_s) // WORLD_S)
    kept = True
    for by in "racks", "time":
        covered = alarms = 0
        effects = []
        periods = PERIODS if by == "time" else 1
        for i in range(o.experiments):
            start_s = int(begin_s + (last_s - begin_s) * i / max(1, o.experiments - 1))
            if by == "racks":
                start_s = int(begin_s + i % worlds * WORLD_S + WORLD_S / 4)
            Arms.effect = True
            c = experiment(o.swiftctl, files, url, by, periods, o.seed * 100000 + i, start_s)
            effects.append(c["effect"])
            covered += c["low"] <= EFFECT <= c["high"]
            Arms.effect = False
            c = experiment(o.swiftctl, files, url, by, periods, o.seed * 100000 + i, start_s)
            alarms += not c["low"] <= 1 <= c["high"]
        effects.sort()
        least, most = allowed(o.experiments, 0.95)
        good = least <= covered <= most and least <= o.experiments - alarms <= most
        of = f" in {worlds} worlds" if by == "racks" else ""
        print(f"  by {by:6} {o.experiments} experiments{of}: effect {effects[len(effects) // 2]:.3f} ({effects[0]:.3f} to {effects[-1]:.3f}), "
              f"true {EFFECT}; in the interval {covered}; without effect {alarms} alarms; {'as' if good else 'NOT as'} wanted", flush=True)
        kept &= good
    return kept


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("swiftd")
    parser.add_argument("swiftctl")
    for name, default in ("hosts", 50), ("minutes", 60), ("experiments", 200), ("seed", 1):
        parser.add_argument(f"--{name}", type=int, default=default)
    o = parser.parse_args()
    if o.hosts < 2 * RACKS or o.minutes < PERIODS * PERIOD_S // 60 + 2:
        parser.error(f"--hosts: {2 * RACKS} or more; --minutes: {PERIODS * PERIOD_S // 60 + 2} or more")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench_namespaces.py: told to end"))
    with contextlib.ExitStack() as stack:
        files = stack.enter_context(tempfile.TemporaryDirectory())
        make_certificate(files + "/all", "fleet")
        must(fleet.libc.unshare(CLONE_NEWNET), "unshare")
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        fleet.ip(["link set lo up", "link add br0 type bridge", "addr add 10.200.255.254/16 dev br0", "link set br0 up"])
        hosts = []
        try:
            for i in range(2 * o.hosts):
                hosts.append(Twin(home, i, i // 2 % RACKS, i % 2))
                stack.callback(hosts[-1].end)
                fleet.enter(home)
            fleet.ip([f"link set h{i} master br0 up" for i in range(len(hosts))])
            inventory = {"_meta": {"hostvars": {h.name: {"rack": f"r{h.rack}"} for h in hosts}}, "swift_hosts": {"hosts": sorted({h.name for h in hosts})}}
            write(files + "/hosts.json", json.dumps(inventory))
            begin_s = math.ceil(time.time()) + PERIOD_S + len(hosts)  # all are scraped by then
            stack.callback(fleet.end_child, talk(hosts, home, o.seed, begin_s))
            write(files + "/token", fleet.TOKEN)
            for host in hosts:
                host.start(o.swiftd, files)
                stack.callback(fleet.stopped, host.swiftd)
            fleet.enter(home)
            prometheus = fleet.start_prometheus(files, hosts, SCRAPE_S, lambda h: {"rack": f"r{h.rack}", "twin": str(h.arm)})
            stack.callback(fleet.stopped, prometheus)
            fleet.wait(hosts, prometheus, files, f"{len(hosts)} namespaces as {o.hosts} hosts are scraped",
                       lambda: fleet.one('sum(up{job="swiftd"})') == len(hosts))
            begin_s += max(0, math.ceil((time.time() - begin_s) / WORLD_S)) * WORLD_S
            end_s = begin_s + (o.minutes - 1) * 60
            while (left_s := end_s - time.time()) > 0:
                print(f"  {left_s / 60:.0f} minutes to go", flush=True)
                fleet.wait(hosts, prometheus, files, "", lambda: time.time() >= end_s - left_s + PERIOD_S)
            kept = judge(o, files, begin_s, end_s)
        finally:
            fleet.enter(home)
    sys.exit(0 if kept else "bench_namespaces.py: an interval is not what it says")


if __name__ == "__main__":
    main()
