# SPDX-License-Identifier: MIT
"""swiftd as a whole, in a network namespace of its own, with real TCP flows over loopback.

Usage: e2e.py SWIFTD [SWIFTD_TSAN]     Prints TAP. What its threads share is tested again with
the second, a build with ThreadSanitizer. Needs root (or user namespaces); waits on state alone.
"""
import ctypes
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
SCHEMA = os.path.join(HERE, "../../Documentation/api/v1.schema.json")
CLONE_NEWNET = 0x40000000
PATIENCE_S = 60


def until(what, ask):
    """Whatever @ask returns, once it is true."""
    end = time.monotonic() + PATIENCE_S
    while True:
        last = None
        try:
            if last := ask():
                return last
        except OSError as e:
            last = e
        if time.monotonic() > end:
            raise AssertionError(f"{what} has not come about; last: {last}")
        time.sleep(0.05)


class Service:
    """A running swiftd."""

    def __init__(self, program, *options, config=None):
        self.log = tempfile.TemporaryFile("w+")
        command = [program, "--http.listen=127.0.0.1:0", "--collect.interval_s=0.2", "--collect.ccs=*"]
        if config:
            command = [program, "--config", config]
        self.process = subprocess.Popen([*command, *options], stderr=self.log)
        self.port = int(until("its address", lambda: re.search(r"serving https?://127\.0\.0\.1:(\d+)", self.said()))[1])
        until("health", lambda: self.get("/healthz")[0] == 200)

    def said(self):
        assert self.process.poll() is None or self.process.returncode == -signal.SIGKILL, self.text()
        return self.text()

    def text(self):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode()

    def connect(self, source="127.0.0.1", timeout=PATIENCE_S):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout, source_address=(source, 0))

    def get(self, target, source="127.0.0.1", headers="", method="GET", host="localhost"):
        with self.connect(source) as s:
            s.sendall(f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n".encode())
            data = b""
            while part := s.recv(65536):
                data += part
        head, _, body = data.partition(b"\r\n\r\n")
        return int(head.split()[1]), body.decode(), head.decode()

    def json(self, target):
        status, body, _ = self.get(target)
        assert status == 200, body
        return json.loads(body)

    def collections(self):
        return int(re.search(r"^swiftd_collections_total (\d+)", self.get("/metrics")[1], re.M)[1])

    def stop(self):
        self.process.terminate()
        assert self.process.wait(PATIENCE_S) == 0, self.text()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            print("".join(f"# swiftd: {l}\n" for l in self.text().splitlines()[-20:]), end="")
        assert kind or "ThreadSanitizer" not in self.text(), self.text()
        if self.process.poll() is None:
            if kind:
                self.process.kill()
                self.process.wait()
            else:
                self.stop()


class Flows:
    """TCP connections to 127.0.0.9, with traffic when asked for."""

    def __init__(self, n, cc=b"cubic"):
        self.server = socket.create_server(("127.0.0.9", 0), backlog=128)
        self.port = self.server.getsockname()[1]
        self.pairs = []
        for _ in range(n):
            s = socket.socket()
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc)
            s.connect(("127.0.0.9", self.port))
            self.pairs.append((s, self.server.accept()[0]))
        self.send()

    def send(self, size=100000):
        for client, server in self.pairs:
            client.sendall(b"x" * size)
            left = size
            while left:
                left -= len(server.recv(left))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pair in self.pairs:
            for s in pair:
                s.close()
        self.server.close()


def flows_to(service, flows, **query):
    q = "&".join(f"{k}={v}" for k, v in {"q": f"127.0.0.9:{flows.port}", "limit": 1000, **query}.items())
    return service.json("/api/v1/flows?" + q)


def test_flows_come_with_rates_and_go(program):
    with Service(program) as service, Flows(5) as flows:
        def measured():
            flows.send()
            got = flows_to(service, flows, prefix="127.0.0.9", sort="rate")
            return got["matched"] == 5 and got["flows"][0]["rate_bps"] > 0 and got["flows"]
        for f in until("five flows with a rate", measured):
            assert f["cc"] == "cubic" and f["iface"] == "lo" and f["rtt_ns"] > 0 and f["fabric_ns"] is None, f
        one = flows_to(service, flows, prefix="127.0.0.9")["flows"][0]["id"]
        assert service.json(f"/api/v1/flows/{one}")["flow"]["id"] == one
        until("a history", lambda: len(service.json(f"/api/v1/flows/{one}")["history"]["time_s"]) > 1)
        summary = service.json("/api/v1/summary?history=1")
        assert any(p["cc"] == "cubic" and p["rtt_ns"]["n"] >= 5 for p in summary["prefixes"]), summary
        flows.__exit__()
        until("their leaving", lambda: flows_to(service, flows, prefix="127.0.0.9")["matched"] == 0)


def test_answers_are_as_the_schema_says(program):
    import jsonschema
    with open(SCHEMA) as f:
        schema = json.load(f)
    jsonschema.Draft202012Validator.check_schema(schema)

    def check(kind, value):
        jsonschema.Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": schema["$defs"]}).validate(value)

    with Service(program) as service, Flows(3) as flows:
        got = until("flows", lambda: (f := flows_to(service, flows))["matched"] > 0 and f)
        check("flows", got)
        check("summary", service.json("/api/v1/summary"))
        until("a history", lambda: service.json("/api/v1/summary?history=1")["history"]["prefixes"])
        check("summary", service.json("/api/v1/summary?history=1"))
        check("flow", service.json("/api/v1/flows/" + got["flows"][0]["id"]))
        check("config", service.json("/api/v1/config"))
        check("error", json.loads(service.get("/api/v1/flows?limit=0")[1]))
        try:
            check("flows", {**got, "total": "many"})
        except jsonschema.ValidationError:
            return
        raise AssertionError("the schema lets everything pass")


def test_promtool_likes_the_metrics(program):
    with Service(program) as service, Flows(3) as flows:
        text = until("flows", lambda: flows_to(service, flows)["matched"] and service.get("/metrics")[1])
        assert "swift_rtt_seconds_bucket{" in text and "swift_flows{" in text, text
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_http_manners(program):
    with Service(program) as service:
        assert service.get("/api/v1/summary", method="POST")[0] == 405
        assert service.get("/api/v1/summary", method="DELETE")[0] == 405
        status, body, head = service.get("/healthz", method="HEAD")
        assert (status, body) == (200, ""), (status, body)
        assert "Content-Security-Policy: default-src 'self'" in head, head
        assert service.get("/healthz", host="evil.example")[0] == 421
        assert service.get("/healthz", host="127.0.0.1:9")[0] == 200
        assert "/api/v1/flows" in service.get("/")[1] or "<script" in service.get("/")[1]


def test_a_token_opens_the_door(program):
    with tempfile.NamedTemporaryFile("w") as token:
        token.write("0123456789abcdef0123\n")
        token.flush()
        with Service(program, f"--http.token_file={token.name}") as service:
            assert service.get("/api/v1/summary")[0] == 401
            assert service.get("/api/v1/summary", headers="Authorization: Bearer 0123456789abcdef0124\r\n")[0] == 401
            assert service.get("/api/v1/summary", headers="Authorization: Bearer \r\n")[0] == 401
            assert service.get("/api/v1/summary", headers="Authorization: Bearer 0123456789abcdef0123\r\n")[0] == 200
            assert service.get("/metrics")[0] == 401
            assert service.get("/metrics?a=b")[0] == 401
            # The pages ask for it themselves.
            assert service.get("/")[0] == 200
            assert service.get("/healthz")[0] == 200
            assert token.name not in service.get("/api/v1/config", headers="Authorization: Bearer 0123456789abcdef0123\r\n")[1]


def events(stream):
    name = None
    for line in stream:
        if line.startswith("event: "):
            name = line[7:].strip()
        elif line.startswith("data: "):
            yield name, json.loads(line[6:])


def open_stream(service, target="/api/v1/stream"):
    s = service.connect()
    s.sendall(f"GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
    return s, s.makefile("r")


def test_events_stream(program):
    with Service(program) as service:
        s, f = open_stream(service, "/api/v1/stream?flows=2")
        got = []
        for event in events(f):
            got.append(event)
            if len(got) == 6:
                break
        assert [e[0] for e in got] == ["summary", "flows"] * 3, got
        times = [e[1]["time_s"] for e in got if e[0] == "summary"]
        assert times == sorted(set(times)), times
        s.close()


def test_attackers_stop_nobody(program):
    options = ["--http.timeout_s=2", "--http.max_connections=64", "--http.per_ip=48"]
    with Service(program, *options) as service:
        attackers = []
        for i in range(300):  # far more than there is room for
            try:
                s = service.connect(source="127.0.0.66", timeout=1)
                s.setblocking(False)
                attackers.append(s)
            except OSError:
                pass
        endless = b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: " + b"a" * 1000 + b"\r\n"
        slow, slow_file = open_stream(service, "/api/v1/stream?flows=1000")
        before = service.collections()
        end = time.monotonic() + 6
        rounds = 0
        while time.monotonic() < end or service.collections() < before + 5:
            for i, s in enumerate(attackers):
                try:  # half-open, byte by byte, and headers without end
                    s.send(b"G" if i % 3 == 0 else endless if i % 3 == 1 else b"")
                except OSError:
                    pass
            begun = time.monotonic()
            assert service.get("/healthz", source="127.0.0.7")[0] == 200
            assert time.monotonic() - begun < 10
            rounds += 1
            assert rounds < 10000
        until("their end", lambda: int(re.search(r"^swiftd_http_connections (\d+)", service.get("/metrics")[1], re.M)[1]) < 10)
        for s in attackers:
            s.close()
        slow.close()


def test_reload_is_all_or_nothing(program):
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        def write(interval, more=""):
            config.seek(0)
            config.truncate()
            config.write(f'[collect]\nccs = ["*"]\ninterval_s = {interval}\n{more}[http]\nlisten = ["127.0.0.1:0"]\n')
            config.flush()

        def value(name):
            return next(o["value"] for o in service.json("/api/v1/config")["options"] if o["name"] == name)

        write(0.2)
        with Service(program, config=config.name) as service:
            write(99, "max_prefixes = 7\n")
            service.process.send_signal(signal.SIGHUP)
            until("a refusal", lambda: f"{config.name}:3: collect.interval_s = 99" in service.said())
            assert (value("collect.interval_s"), value("collect.max_prefixes")) == (0.2, 256)
            write(0.3, "max_prefixes = 7\n")
            service.process.send_signal(signal.SIGHUP)
            until("the change", lambda: value("collect.interval_s") == 0.3)
            assert value("collect.max_prefixes") == 7
            write(0.3, "max_prefixes = 7\n[log]\nformat = \"text\"\n")
            service.process.send_signal(signal.SIGHUP)
            until("a refusal by name", lambda: "log.format cannot change while swiftd runs" in service.said())
            at = service.collections()
            until("collection to go on", lambda: service.collections() > at)


def test_killed_and_started_again(program):
    with Flows(4) as flows:
        with Service(program) as service:
            until("flows", lambda: flows_to(service, flows)["matched"] == 8)
            service.process.send_signal(signal.SIGKILL)
            service.process.wait()
        with Service(program) as service:
            until("the flows again", lambda: flows_to(service, flows)["matched"] == 8)


def test_an_interface_goes(program):
    def ip(*args):
        subprocess.run(["ip", *args], check=True)

    ip("link", "add", "veth0", "type", "veth", "peer", "veth1")
    ip("addr", "add", "10.9.0.1/24", "dev", "veth0")
    ip("link", "set", "veth0", "up")
    ip("link", "set", "veth1", "up")
    with Service(program) as service:
        server = socket.create_server(("10.9.0.1", 0))
        client = socket.create_connection(server.getsockname())
        q = f"/api/v1/flows?q=10.9.0.1:{server.getsockname()[1]}"
        until("flows on veth0", lambda: {f["iface"] for f in service.json(q)["flows"]} == {"veth0"})
        ip("link", "del", "veth0")
        until("flows on no interface", lambda: {f["iface"] for f in service.json(q)["flows"]} == {"unknown"})
        assert service.get("/healthz")[0] == 200
        client.close()
        server.close()


def test_systemd_is_told(program):
    with tempfile.TemporaryDirectory() as d:
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind(d + "/notify")
        notify.settimeout(PATIENCE_S)
        os.environ["NOTIFY_SOCKET"] = d + "/notify"
        try:
            with Service(program) as service:
                def next_with(what):
                    while what not in (text := notify.recv(4096).decode()):
                        pass
                    return text
                next_with("READY=1")
                next_with("WATCHDOG=1")
                service.process.send_signal(signal.SIGHUP)
                assert "MONOTONIC_USEC=" in next_with("RELOADING=1")
                next_with("READY=1")
                service.process.terminate()
                next_with("STOPPING=1")
                assert service.process.wait(PATIENCE_S) == 0
        finally:
            del os.environ["NOTIFY_SOCKET"]


def test_once_prints_a_summary(program):
    done = subprocess.run([program, "--once", "--collect.interval_s=0.1"], capture_output=True, text=True)
    assert done.returncode == 0 and json.loads(done.stdout)["version"] == 1, done
    done = subprocess.run([program, "--check", "--collect.interval_s=0"], capture_output=True, text=True)
    assert done.returncode == 2 and "collect.interval_s = 0" in done.stderr, done
    sample = subprocess.run([program, "--print-sample"], capture_output=True, text=True, check=True).stdout
    with tempfile.NamedTemporaryFile("w") as f:
        f.write(sample)
        f.flush()
        subprocess.run([program, "--check", "--config", f.name], check=True)


def test_documentation_has_the_options(program):
    table = subprocess.run([program, "--print-options-markdown"], capture_output=True, text=True, check=True).stdout
    with open(os.path.join(HERE, "../../Documentation/swiftd.md")) as f:
        assert table in f.read(), "Documentation/swiftd.md: swiftd --print-options-markdown says otherwise"


def test_many_flows_stay_cheap(program):
    bench = os.path.join(os.path.dirname(program), "tests-swiftd/bench_collect")
    # A loose bound, for a loaded machine: 10 us of CPU time per flow.
    done = subprocess.run([bench, "--flows", "10000", "--intervals", "3", "--max-ms", "100", "--max-mb", "60"],
                          capture_output=True, text=True)
    print("".join(f"# {l}\n" for l in done.stdout.splitlines()), end="")
    assert done.returncode == 0, done.stderr


def main():
    program = sys.argv[1]
    tests = [(n, t, program) for n, t in globals().items() if n.startswith("test_")]
    if len(sys.argv) > 2:
        tests += [(t.__name__ + "_tsan", t, sys.argv[2]) for t in
                  (test_events_stream, test_attackers_stop_nobody, test_reload_is_all_or_nothing, test_flows_come_with_rates_and_go)]
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        print("1..0 # SKIP cannot make a network namespace")
        return 0
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(f"TAP version 13\n1..{len(tests)}", flush=True)
    failed = 0
    for i, (name, test, program) in enumerate(tests, 1):
        try:
            test(program)
            print(f"ok {i} - {name[5:].replace('_', ' ')}", flush=True)
        except Exception:
            failed += 1
            print("".join(f"# {l}\n" for l in traceback.format_exc().splitlines()), end="")
            print(f"not ok {i} - {name[5:].replace('_', ' ')}", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
