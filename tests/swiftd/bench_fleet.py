#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What a fleet of swiftds costs the Prometheus that scrapes it, and what being scraped costs a host:

	bench_fleet.py SWIFTD [--hosts 200] [--interval 15] [--rounds 4] [--owners 80] [--cc NAME]

Each host is a network namespace with a swiftd, TCP flows, and a link to the bridge on which Prometheus is; the fleet's
rules and alerts are evaluated, and scrapes take TLS and a token, as Documentation/fleet.md has it. A host's flows are
of as many owners and destinations as are told apart, and more. Different from the defaults are collect.ccs = "*"
(--cc: what the flows run, if it is not the kernel's default), and collect.netns = "own", as all of these hosts are
one kernel's. As root; needs prometheus and openssl. All that it makes is in namespaces and control groups of its own
and goes with it. Fails if a scrape does, or if a host has 2,000 series or 300 kB, or more."""

import argparse
import contextlib
import ctypes
import gzip
import json
import os
import resource
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from e2e import CLONE_NEWNET, HERE, make_certificate, write
from netns_world import cgroup_mount, must

FLEET = os.path.realpath(HERE + "/../../scripts/fleet/prometheus")
PROMETHEUS = "127.0.0.1:19091"
TOKEN = "of-the-bench-alone"
PORT = 9464
MOST_SERIES, MOST_BYTES = 2000, 300_000
# As this Prometheus asks for them, when it takes native histograms.
PROTOBUF = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
libc = ctypes.CDLL(None, use_errno=True)


def end_with_us():
    libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def enter(netns):
    must(libc.setns(netns, CLONE_NEWNET), "setns")


def ip(lines):
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)


class Host:
    def __init__(self, home, number):
        self.address = f"10.200.{number // 250}.{number % 250 + 1}"
        must(libc.unshare(CLONE_NEWNET), "unshare")
        self.netns = os.open("/proc/self/ns/net", os.O_RDONLY)
        ip(["link set lo up", f"link add eth0 type veth peer name h{number} netns /proc/{os.getpid()}/fd/{home}",
            f"addr add {self.address}/16 dev eth0", "link set eth0 up"])
        self.swiftd = None

    def start(self, program, files):
        def prepare():
            end_with_us()
            enter(self.netns)

        with open(f"{files}/{self.address}.log", "w") as log:
            self.swiftd = subprocess.Popen(
                [program, f"--http.listen={self.address}:{PORT}", f"--http.tls_certificate={files}/all.cert",
                 f"--http.tls_key={files}/all.key", f"--http.token_file={files}/token", "--collect.ccs=*", "--collect.netns=own"],
                stderr=log, preexec_fn=prepare)

    def used(self):
        """Seconds of CPU, bytes resident."""
        with open(f"/proc/{self.swiftd.pid}/stat") as f:
            stat = f.read().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK"), int(stat[21]) * os.sysconf("SC_PAGE_SIZE")

    def scrape(self, tls, accept, zipped):
        request = urllib.request.Request(f"https://{self.address}:{PORT}/metrics", headers={
            "Accept": accept, "Authorization": "Bearer " + TOKEN, **({"Accept-Encoding": "gzip"} if zipped else {})})
        with urllib.request.urlopen(request, context=tls, timeout=60) as answer:
            body = answer.read()
        assert not zipped or gzip.decompress(body)
        return len(body)

    def end(self):
        os.close(self.netns)


def connect(listener, number, cc):
    """To a prefix of its own; in the control group and the namespace where we are."""
    client = socket.socket()
    if cc:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
    client.connect((f"127.{1 + number // 250}.{1 + number % 250}.1", listener.getsockname()[1]))
    return client, listener.accept()[0]


def hold(hosts, join, cc, talk_s):
    """A child with flows on all of @hosts, once they are there: one for each of the functions to @join an owner, and the
    other end of it. Some bytes go over each now and then."""
    done, ready = os.pipe()
    if child := os.fork():
        os.close(ready)
        there = os.read(done, 1)
        os.close(done)
        if not there:
            os.waitpid(child, 0)
            sys.exit(1)
        return child
    try:
        end_with_us()
        flows, listeners = [], []
        for host in hosts:
            enter(host.netns)
            listeners.append(socket.create_server(("0.0.0.0", 0), backlog=16))
        for number, join_owner in enumerate(join):
            join_owner()
            for host, listener in zip(hosts, listeners):
                enter(host.netns)
                flows.append(connect(listener, number, cc))
        os.write(ready, b".")
        while True:
            for client, server in flows:
                client.sendall(b"x" * 1000)
                server.recv(1000)
            time.sleep(talk_s)
    except OSError as e:
        print(f"bench_fleet.py: cannot make flows: {e}", file=sys.stderr)
    finally:
        os._exit(1)  # whatever else there is to end is our parent's


def end_child(child):
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@contextlib.contextmanager
def owners(n):
    """Control groups as systemd makes them for services: for each a function that puts us there."""
    mount = cgroup_mount()
    if not mount:
        yield [lambda: None] * n
        return
    top = f"{mount}/swift-bench-{os.getpid()}"
    paths = [f"{top}/app-{i}.service" for i in range(n)]
    try:
        for path in paths:
            os.makedirs(path)
        yield [lambda p=path: write(p + "/cgroup.procs", str(os.getpid())) for path in paths]
    finally:
        for path in [*paths, top]:
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(path)


def query(expr):
    with urllib.request.urlopen(f"http://{PROMETHEUS}/api/v1/query?" + urllib.parse.urlencode({"query": expr}), timeout=60) as answer:
        return [float(r["value"][1]) for r in json.load(answer)["data"]["result"]]


def one(expr):
    return (query(expr) or [0.0])[0]


def row(what, values, scale=1.0, unit=""):
    values = sorted(v * scale for v in values)
    print(f"  {what:34} median {statistics.median(values):9.1f}{unit}   least {values[0]:9.1f}{unit}   most {values[-1]:9.1f}{unit}", flush=True)


def start_prometheus(files, hosts, interval_s, labels_of=lambda host: {}):
    write(files + "/token", TOKEN)
    write(files + "/prometheus.yml", json.dumps({
        "global": {"scrape_interval": f"{interval_s}s", "evaluation_interval": f"{interval_s}s"},
        "rule_files": [f"{FLEET}/{name}.yml" for name in ("rules", "alerts")],
        "scrape_configs": [
            {"job_name": "swiftd", "scheme": "https", "scrape_timeout": f"{min(interval_s, 10)}s", "body_size_limit": "10MB",
             "authorization": {"credentials_file": files + "/token"},
             "tls_config": {"ca_file": files + "/all.cert", "server_name": "127.0.0.1"},
             "static_configs": [{"targets": [f"{h.address}:{PORT}"], "labels": labels_of(h)} for h in hosts]},
            {"job_name": "prometheus", "static_configs": [{"targets": [PROMETHEUS]}]}]}))
    with open(files + "/prometheus.log", "w") as log:
        return subprocess.Popen(["prometheus", f"--config.file={files}/prometheus.yml", f"--storage.tsdb.path={files}/tsdb",
                                 f"--web.listen-address={PROMETHEUS}", "--enable-feature=native-histograms"],
                                stderr=log, preexec_fn=end_with_us)


def stopped(process):
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait(hosts, prometheus, files, what, done, between_s=1.0):
    """Until @done, while all of them live."""
    while True:
        for name, process in [("prometheus", prometheus), *((h.address, h.swiftd) for h in hosts)]:
            if process and process.poll() is not None:
                with open(f"{files}/{name}.log") as log:
                    sys.exit(f"bench_fleet.py: {name} has ended: {log.read()[-2000:]}")
        with contextlib.suppress(OSError):
            if done():
                if what:
                    print(what, flush=True)
                return
        time.sleep(between_s)


def report(hosts, took_s, before, interval_s, tls):
    """Whether all bounds are kept."""
    used = [h.used() for h in hosts]
    of_job = '{job="swiftd"}'
    series = query(f"scrape_samples_scraped{of_job}")
    failed = one(f"sum(count_over_time(up{of_job}[1h])) - sum(sum_over_time(up{of_job}[1h]))")
    plain = [h.scrape(tls, PROTOBUF, False) for h in hosts]
    print(f"per host, of {len(hosts)}:")
    row("series", series)
    row("bytes of a scrape, protobuf", plain, 1e-3, " kB")
    row("  compressed, as Prometheus has it", [h.scrape(tls, PROTOBUF, True) for h in hosts], 1e-3, " kB")
    row("bytes of a scrape, text", [h.scrape(tls, "text/plain", False) for h in hosts], 1e-3, " kB")
    row("  compressed", [h.scrape(tls, "text/plain", True) for h in hosts], 1e-3, " kB")
    row("duration of a scrape", query(f"scrape_duration_seconds{of_job}"), 1e3, " ms")
    row("swiftd's CPU, of a core", [(u[0] - b[0]) / took_s for u, b in zip(used, before)], 100, " %")
    row("swiftd's memory", [u[1] for u in used], 1e-6, " MB")
    print(f"all swiftds: {100 * sum(u[0] - b[0] for u, b in zip(used, before)) / took_s:.0f} % of a core over {took_s:.0f} s")
    scrapes = one(f"sum(count_over_time(up{of_job}[1h]))")
    print(f"prometheus: {scrapes:.0f} scrapes, one of each host every {interval_s} s, {failed:.0f} failed; "
          f"{one('prometheus_tsdb_head_series'):.0f} series, "
          f"{one('process_resident_memory_bytes{job=%sprometheus%s}' % (chr(34), chr(34))) / 1e6:.0f} MB resident, "
          f"{100 * one('rate(process_cpu_seconds_total{job=%sprometheus%s}[5m])' % (chr(34), chr(34))):.1f} % of a core; "
          f"the fleet's rules took {1e3 * one('sum(prometheus_rule_group_last_duration_seconds)'):.0f} ms; "
          f"alerts: {', '.join(sorted(alerts())) or 'none'}")
    return failed == 0 and len(series) == len(hosts) and max(series) < MOST_SERIES and max(plain) < MOST_BYTES


def alerts():
    with urllib.request.urlopen(f"http://{PROMETHEUS}/api/v1/alerts", timeout=60) as answer:
        return {a["labels"]["alertname"] for a in json.load(answer)["data"]["alerts"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("swiftd")
    for name, default in ("hosts", 200), ("interval", 15), ("rounds", 4), ("owners", 80):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--cc", default="")
    o = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench_fleet.py: told to end"))
    most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files,) * 2)
    with contextlib.ExitStack() as stack:
        files = stack.enter_context(tempfile.TemporaryDirectory())
        make_certificate(files + "/all", "fleet")
        write(files + "/token", TOKEN)
        must(libc.unshare(CLONE_NEWNET), "unshare")
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        # A host's kernel goes through its own sockets, not through those of all hosts.
        write("/proc/sys/net/ipv4/tcp_child_ehash_entries", "4096")
        ip(["link set lo up", "link add br0 type bridge", "addr add 10.200.255.254/16 dev br0", "link set br0 up"])
        hosts = []
        try:
            for i in range(o.hosts):
                hosts.append(Host(home, i))
                stack.callback(hosts[-1].end)
                enter(home)
            ip([f"link set h{i} master br0 up" for i in range(o.hosts)])
            join = stack.enter_context(owners(o.owners))
            at_once = max(1, (most_files - o.hosts - 100) // (2 * o.owners + 2))
            for i in range(0, o.hosts, at_once):
                stack.callback(end_child, hold(hosts[i:i + at_once], join, o.cc, o.interval / 2))
            for host in hosts:
                host.start(o.swiftd, files)
                stack.callback(stopped, host.swiftd)
            prometheus = start_prometheus(files, hosts, o.interval)
            stack.callback(stopped, prometheus)
            tls = ssl.create_default_context(cafile=files + "/all.cert")
            tls.check_hostname = False  # it is 127.0.0.1's

            wait(hosts, prometheus, files, f"{o.hosts} hosts with {2 * o.owners} flows each are scraped",
                 lambda: one('sum(up{job="swiftd"})') == o.hosts)
            begun, before = time.monotonic(), [h.used() for h in hosts]
            wait(hosts, prometheus, files, f"{o.rounds} scrapes of each",
                 lambda: one('min(count_over_time(up{job="swiftd"}[1h]))') >= o.rounds, 2)
            kept = report(hosts, time.monotonic() - begun, before, o.interval, tls)
            for host in hosts:
                host.swiftd.terminate()
        finally:
            enter(home)
    sys.exit(0 if kept else "bench_fleet.py: a bound is not kept")


if __name__ == "__main__":
    main()
