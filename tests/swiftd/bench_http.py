#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""How long a real swiftd takes to answer on a host with very many flows, while clients search all of them:

	bench_http.py SWIFTD [--flows 100000] [--searchers 8] [--seconds 20] [--most-ms 50]

As root; the flows are TCP sockets over loopback in a network namespace of its own. Prints median, p99 and
the longest of /healthz, /metrics and the first event of a stream, with and without searches. Exits with 1
if the longest of any took more than --most-ms."""

import argparse
import contextlib
import ctypes
import os
import resource
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from e2e import CLONE_NEWNET, Service, until

PER_PROCESS = 8000  # connections, of two flows each


def hold(n, which):
    """A child with N connections, once they are there."""
    done, ready = os.pipe()
    if child := os.fork():
        os.close(ready)
        os.read(done, 1)
        os.close(done)
        return child
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it goes when we do
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * n + 100,) * 2)
    server = socket.create_server((f"127.1.{which}.1", 0), backlog=1024)
    kept = [server]
    for _ in range(n):
        kept.append(socket.create_connection(server.getsockname()))
        kept.append(server.accept()[0])
    os.write(ready, b".")
    signal.pause()
    os._exit(0)


def get(port, target, first_event=False):
    """Milliseconds until the answer's end, or until the first event's."""
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        data = b""
        while part := s.recv(1 << 18):
            if first_event:
                data += part
                if b"\n\n" in data.partition(b"\r\n\r\n")[2]:
                    break
    return (time.monotonic() - begun) * 1e3


def measure(port, seconds):
    """The longest of each, in milliseconds."""
    asked = {"/healthz": [], "/metrics": [], "/api/v1/stream": []}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for target, took in asked.items():
            took.append(get(port, target, target.endswith("stream")))
        time.sleep(0.01)
    for target, took in asked.items():
        took.sort()
        print(f"  {target:16} n {len(took):5}   median {statistics.median(took):7.2f} ms   "
              f"p99 {took[len(took) * 99 // 100]:7.2f} ms   longest {took[-1]:7.2f} ms", flush=True)
    return {target: took[-1] for target, took in asked.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("swiftd")
    for name, default in ("flows", 100_000), ("searchers", 8), ("seconds", 20):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--most-ms", type=float, default=50)
    o = parser.parse_args()
    if ctypes.CDLL(None).unshare(CLONE_NEWNET):
        sys.exit("bench_http.py: needs root")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    children, left = [], o.flows // 2
    try:
        while left > 0:
            children.append(hold(min(left, PER_PROCESS), len(children) + 1))
            left -= PER_PROCESS
        with Service(o.swiftd, "--http.per_ip=1000", "--http.max_connections=1000") as service:
            until("all flows", lambda: service.json("/api/v1/summary")["totals"]["flows"] >= o.flows // 2 * 2)
            print(f"{service.json('/api/v1/summary')['totals']['flows']} flows; nobody searches", flush=True)
            longest = [measure(service.port, o.seconds)]
            enough, searched = threading.Event(), [0] * o.searchers

            def search(which):
                while not enough.is_set():
                    with contextlib.suppress(OSError):
                        get(service.port, f"/api/v1/flows?q=x{which}.{searched[which]}")
                        searched[which] += 1

            threads = [threading.Thread(target=search, args=(i,)) for i in range(o.searchers)]
            for t in threads:
                t.start()
            print(f"{o.searchers} clients search", flush=True)
            longest.append(measure(service.port, o.seconds))
            enough.set()
            for t in threads:
                t.join()
            print(f"  {sum(searched)} searches")
            late = [f"{target} {ms:.2f} ms" for each in longest for target, ms in each.items() if ms > o.most_ms]
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
    if late:
        sys.exit(f"bench_http.py: more than {o.most_ms:g} ms: " + ", ".join(late))


if __name__ == "__main__":
    main()
