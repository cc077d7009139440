# SPDX-License-Identifier: MIT
"""swiftd as a whole, in a network namespace of its own, with real TCP flows over loopback.

Usage: e2e.py SWIFTD [SWIFTD_TSAN]     Prints TAP. What its threads share is tested again with
the second, a build with ThreadSanitizer. Needs root (or user namespaces); waits on state alone.
"""
import contextlib
import ctypes
import errno
import gzip
import json
import os
import re
import resource
import select
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.parse
import urllib.request
import warnings

import netns_world

HERE = os.path.dirname(os.path.abspath(__file__))
SCHEMA = os.path.join(HERE, "../../Documentation/api/v1.schema.json")
CLONE_NEWNET = 0x40000000
PATIENCE_S = 300  # ends a hang, and judges no speed


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


def without_sock_diag():
    """For a child: a kernel that does not list its sockets, as far as it can tell (seccomp)."""
    AF_NETLINK, NETLINK_SOCK_DIAG = 16, 4
    LD, JEQ, RET, ALLOW, REFUSE = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000 | errno.EPERM
    number = {"x86_64": 41}.get(os.uname().machine, 198)  # of socket(2)
    code = [(LD, 0, 0, 0), (JEQ, 0, 5, number), (LD, 0, 0, 16), (JEQ, 0, 3, AF_NETLINK),
            (LD, 0, 0, 32), (JEQ, 0, 1, NETLINK_SOCK_DIAG), (RET, 0, 0, REFUSE), (RET, 0, 0, ALLOW)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *c) for c in code))
    header = struct.pack("@HP", len(code), ctypes.addressof(program))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, header, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


@contextlib.contextmanager
def told_to_systemd():
    """What the services that are started meanwhile tell systemd: a function for the next message."""
    with tempfile.TemporaryDirectory() as d, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(d + "/notify")
        notify.settimeout(PATIENCE_S)
        os.environ["NOTIFY_SOCKET"] = d + "/notify"
        try:
            yield lambda: notify.recv(4096).decode()
        finally:
            del os.environ["NOTIFY_SOCKET"]


def make_certificate(path, name):
    """@path.cert of its own authority, for 127.0.0.1, and @path.key."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2",
                    "-keyout", path + ".key", "-out", path + ".cert"], check=True, capture_output=True)


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


class Service:
    """A running swiftd."""

    def __init__(self, program, *options, config=None, healthy=True, tls=None, preexec=None):
        self.tls = tls
        self.log = tempfile.TemporaryFile("w+")
        command = [program, "--http.listen=127.0.0.1:0", "--collect.interval_s=0.2", "--collect.ccs=*"]
        if not any(o.startswith("--collect.netns=") for o in options):
            command.append("--collect.netns=own")
        if config:
            command = [program, "--config", config]
        self.process = subprocess.Popen([*command, *options], stderr=self.log, preexec_fn=preexec)
        self.port = int(until("its address", lambda: re.search(r"serving https?://127\.0\.0\.1:(\d+)", self.said()))[1])
        if healthy:
            self.until_healthy()

    def said(self):
        assert self.process.poll() is None or self.process.returncode == -signal.SIGKILL, self.text()
        return self.text()

    def text(self):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode()

    def connect(self, source="127.0.0.1", timeout=PATIENCE_S):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=timeout, source_address=(source, 0))
        return self.tls.wrap_socket(s, server_hostname="127.0.0.1") if self.tls else s

    def get(self, target, source="127.0.0.1", headers="", method="GET", host="localhost"):
        with self.connect(source) as s:
            s.sendall(f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n".encode())
            data = b""
            while part := s.recv(65536):
                data += part
        head, _, body = data.partition(b"\r\n\r\n")
        return int(head.split()[1]), body.decode(), head.decode()

    def until_healthy(self):
        """On a loaded machine a look may be late, which is not what is asked here."""
        until("health", lambda: self.get("/healthz")[0] == 200)

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
        check("probes", service.json("/api/v1/probes"))  # there are none
        check("policy_detail", service.json("/api/v1/policy"))  # nor is there one
        check("state", {"version": 1, "time_s": 1.5, "collecting": False, "error": "why"})
        check("error", json.loads(service.get("/api/v1/flows?limit=0")[1]))
        # And swiftctl's, of the same flows.
        swiftctl = os.path.join(os.path.dirname(program), "swiftctl")
        said = json.loads(subprocess.run([swiftctl, "flows", "--all", "--json"], capture_output=True, text=True, check=True).stdout)
        check("swiftctl_flows", said)
        same = {f["id"]: f for f in said["flows"]}
        for f in got["flows"]:
            for name in ("local", "remote", "cc", "from_bpf"):
                assert same[f["id"]][name] == f[name], (name, f, same[f["id"]])
        try:
            check("flows", {**got, "total": "many"})
        except jsonschema.ValidationError:
            return
        raise AssertionError("the schema lets everything pass")


@contextlib.contextmanager
def in_background(step):
    """Calls @step again and again, until the end."""
    end = threading.Event()

    def run():
        while not end.is_set():
            step()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


@contextlib.contextmanager
def slow_path(port, delay_s):
    """A network that takes so long each way: its port, which leads to @port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as near, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far:
        near.bind(("127.0.0.1", 0))
        far.connect(("127.0.0.1", port))
        waiting, client = [], []

        def step():
            ready, _, _ = select.select([near, far], [], [], 0.002)
            for s in ready:
                packet, who = s.recvfrom(9000)
                if s is near:
                    client[:] = [who]
                waiting.append((time.monotonic() + delay_s, s is near, packet))
            while waiting and waiting[0][0] <= time.monotonic():
                _, out, packet = waiting.pop(0)
                far.send(packet) if out else near.sendto(packet, client[0])

        with in_background(step):
            yield near.getsockname()[1]


def probes_on(service):
    return int(until("its probes' address", lambda: re.search(r"answering probes on 127\.0\.0\.1:(\d+)", service.said()))[1])


def test_probes_tell_network_from_host(program):
    import jsonschema
    answers = "--probe.listen=127.0.0.1:0"
    with contextlib.ExitStack() as stack:
        d = stack.enter_context(tempfile.TemporaryDirectory())
        write(d + "/key", "0123456789abcdef\n")
        key = f"--probe.key_file={d}/key"
        good, busy = (stack.enter_context(Service(program, answers, key)) for _ in range(2))
        # The one is behind a slow network, the other hardly ever gets a CPU.
        far = stack.enter_context(slow_path(probes_on(good), 0.03))

        def hold():
            busy.process.send_signal(signal.SIGSTOP)
            time.sleep(0.06)
            busy.process.send_signal(signal.SIGCONT)
            time.sleep(0.005)

        write(d + "/peers", f"127.0.0.1:{probes_on(good)} near\n127.0.0.1:{far} far\n127.0.0.1:{probes_on(busy)} busy\n")
        stack.enter_context(in_background(hold))
        prober = stack.enter_context(Service(program, key, f"--probe.peers_file={d}/peers", "--probe.rack=here", "--probe.rate_pps=100",
                                             "--probe.sample=3", "--probe.window_s=10", "--probe.fabric_limit_us=20000",
                                             "--probe.host_limit_us=20000"))

        def told():
            return {p["peer_rack"]: p for p in prober.json("/api/v1/probes")["pairs"]}

        def limits():
            return {rack: (p["verdict"]["state"], p["verdict"]["limit"]) for rack, p in told().items()}

        wanted = {"near": ("good", "none"), "far": ("slow", "fabric"), "busy": ("slow", "host")}
        until("the right verdicts", lambda: limits() == wanted)
        assert told()["far"]["fabric_ns"]["min"] >= 60_000_000, told()["far"]
        assert told()["far"]["verdict"]["text"].startswith("fabric-bound: the path to rack far takes "), told()["far"]
        assert told()["busy"]["verdict"]["text"].startswith("host-bound: hosts in rack busy add "), told()["busy"]
        with open(SCHEMA) as f:
            schema = json.load(f)
        jsonschema.Draft202012Validator({"$ref": "#/$defs/probes", "$defs": schema["$defs"]}).validate(prober.json("/api/v1/probes"))
        # A look at a busy machine finds hosts late that are not.
        until("the metrics of a later look", lambda: [counted(prober, "swift_probe_slow", peer_rack="far", by=by)
                                                      for by in ("fabric", "host")] == [1, 0])
        assert counted(prober, "swift_probes_total", result="answered") > 0
        until("those that were answered", lambda: counted(good, "swift_probes_answered_total") > 0)
        # Another key, by a reload: then nobody answers, and says so.
        before = prober.text()
        write(d + "/key", "fedcba9876543210\n")
        prober.process.send_signal(signal.SIGHUP)
        until("the reload", lambda: "peers or keys have a new content" in prober.said()[len(before):])
        until("silence", lambda: limits().get("near") == ("silent", "none"))
        until("their count", lambda: counted(good, "swift_probes_refused_total", side="responder", why="signature") > 0)
        assert "signed by another key" in good.said()
        # A list with a wrong line changes nothing.
        write(d + "/peers", "a b c\n")
        prober.process.send_signal(signal.SIGHUP)
        until("the refusal", lambda: f"{d}/peers:1: not a peer" in prober.said())
        assert len(told()) == 3


def test_a_reload_moves_probes_and_mesh(program):
    with tempfile.TemporaryDirectory() as d, Service(program, "--probe.listen=127.0.0.1:0", "--probe.rack=b", "--probe.peers=127.0.0.1:1 b") as other:
        there = f"http://127.0.0.1:{other.port}"

        def write_probe(more):
            write(d + "/swiftd.toml", f'[collect]\nccs = ["*"]\ninterval_s = 0.2\n[http]\nlisten = ["127.0.0.1:0"]\n[probe]\n{more}')

        def reload(more):
            before = len(service.said())
            write_probe(more)
            service.process.send_signal(signal.SIGHUP)
            return until("the reload", lambda: re.search(r"reload: .*", service.said()[before:]))[0]

        write_probe("")
        with Service(program, config=d + "/swiftd.toml") as service:
            assert service.json("/api/v1/probes")["answering"] == []
            peer = f'rack = "a"\npeers = ["127.0.0.1:{probes_on(other)} b"]\nrate_pps = 100\n'
            mesh = f'mesh = ["{there}"]\n'
            reload(f'listen = ["127.0.0.1:0"]\n{mesh}{peer}')
            until("where it answers", lambda: len(service.json("/api/v1/probes")["answering"]) == 1)
            assert f"answering probes on {service.json('/api/v1/probes')['answering'][0]}" in service.said()
            until("the other's rows", lambda: {p["told_by"] for p in service.json("/api/v1/probes")["pairs"]} == {None, there})
            # What cannot be: one line, and all is as before, the rate as well.
            kept = service.json("/api/v1/probes")["answering"]
            said = reload(f'listen = ["192.0.2.1:21335"]\n{peer.replace("100", "99")}')
            assert said == "reload: probe.listen: cannot use 192.0.2.1:21335: Cannot assign requested address; everything stays as it was", said
            said = reload(f'mesh_token_file = "/no/such/file"\n{mesh}{peer.replace("100", "99")}')
            assert said.startswith("reload: probe.mesh_token_file: ") and said.endswith("; everything stays as it was"), said
            assert service.json("/api/v1/probes")["answering"] == kept
            assert service.json("/api/v1/probes")["rate_pps"] == 100
            # Nobody is asked any more, nothing answered: what the other told is gone.
            reload(peer)
            until("nothing to answer on", lambda: service.json("/api/v1/probes")["answering"] == [])
            until("its own rows alone", lambda: {p["told_by"] for p in service.json("/api/v1/probes")["pairs"]} == {None})


def test_promtool_likes_the_metrics(program):
    with Service(program) as service, Flows(3) as flows:
        text = until("flows", lambda: flows_to(service, flows)["matched"] and service.get("/metrics")[1])
        assert "swift_rtt_seconds_bucket{" in text and "swift_flows{" in text, text
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_native_histograms(program):
    """And what the fleet's rules make of them."""
    fleet = os.path.join(HERE, "../../scripts/fleet/prometheus")
    with contextlib.ExitStack() as stack:
        d = stack.enter_context(tempfile.TemporaryDirectory())
        service = stack.enter_context(Service(program))
        flows = stack.enter_context(Flows(3))
        write(d + "/prometheus.yml", json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [os.path.realpath(f"{fleet}/{name}.yml") for name in ("rules", "alerts")],
            "scrape_configs": [{"job_name": "swiftd", "static_configs": [{"targets": [f"localhost:{service.port}"]}]}]}))
        log = stack.enter_context(open(d + "/log", "w"))
        prometheus = subprocess.Popen(["prometheus", "--config.file=" + d + "/prometheus.yml", "--storage.tsdb.path=" + d + "/tsdb",
                                       "--web.listen-address=127.0.0.1:19090", "--enable-feature=native-histograms"], stderr=log)
        stack.callback(lambda: (prometheus.terminate(), prometheus.wait(PATIENCE_S)))

        def query(expr):
            if prometheus.poll() is not None:
                raise AssertionError(open(d + "/log").read())
            url = "http://127.0.0.1:19090/api/v1/query?" + urllib.parse.urlencode({"query": expr})
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                return [float(r["value"][1]) for r in json.load(answer)["data"]["result"]]

        # One that has more to send than its receiver takes.
        client = flows.pairs[0][0]
        client.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                client.send(b"x" * 65536)
        rtt, = until("quantiles", lambda: [v for v in query("histogram_quantile(0.5, sum(rate(swift_rtt_seconds[1m])))") if v > 0])
        assert rtt < 1, rtt
        # The kernel's own of the same flows.
        mine = [f["rtt_ns"] / 1e9 for f in service.json("/api/v1/flows")["flows"] if f["rtt_ns"]]
        assert min(mine) / 4 < rtt < max(mine) * 4, (rtt, mine)
        assert query('histogram_quantile(0.9, sum(rate(swiftd_collect_seconds[1m])))'), "looks"
        assert not query("swift_rtt_seconds_bucket") and not query("swift_rtt_seconds_count"), "classic ones beside them"
        assert until("the fleet's answer", lambda: query("sum(fleet:swift_flows_held:ratio)")) == [1]
        assert 0 < max(query("scrape_samples_scraped")) < 2000, query("scrape_samples_scraped")
        assert not query('ALERTS{alertname="SwiftHistogramsWithoutBuckets"}')


def test_answers_are_zipped(program):
    with Service(program) as service:
        def ask(path, **headers):
            with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{service.port}{path}", headers=headers)) as a:
                return a.headers, a.read()
        plain, text = ask("/metrics")
        head, zipped = ask("/metrics", **{"Accept-Encoding": "gzip"})
        assert plain["Content-Encoding"] is None and plain["Vary"] == "Accept, Accept-Encoding", plain
        assert head["Content-Encoding"] == "gzip" and len(zipped) < len(text) / 2, head
        names = lambda t: {line.split()[2] for line in t.decode().splitlines() if line.startswith("# TYPE")}
        assert names(gzip.decompress(zipped)) >= {"swift_flows_in_other", "swiftd_collect_seconds"}
        head, body = ask("/metrics", Accept="application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
        assert head["Content-Type"].startswith("application/vnd.google.protobuf") and b"swiftd_collect_seconds" in body, head
        assert b'le="0.0' not in text and b'le="0.0' in ask("/metrics?histograms=classic")[1]


def test_http_manners(program):
    with Service(program) as service:
        assert service.get("/api/v1/summary", method="POST")[0] == 405
        assert service.get("/api/v1/summary", method="DELETE")[0] == 405
        # 503 while a look is late.
        body, head = until("health by HEAD", lambda: (got := service.get("/healthz", method="HEAD"))[0] == 200 and got[1:])
        assert body == "", body
        assert "Content-Security-Policy: default-src 'self'" in head, head
        for path in ("/", "/api/v1/summary", "/api/v1/stream", "/metrics", "/metrics?/healthz", "/healthz/../metrics"):
            assert service.get(path, host="evil.example")[0] == 421, path
        assert service.get("/metrics", host="127.0.0.1:9")[0] == 200
        # Probes have a name of their own for it, and it tells no more than how swiftd does.
        until("health under another name", lambda: service.get("/healthz", host="swiftd.monitoring.svc")[:2] == (200, "ok\n"))
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
            service.until_healthy()
            assert token.name not in service.get("/api/v1/config", headers="Authorization: Bearer 0123456789abcdef0123\r\n")[1]


def events(stream):
    name = None
    for line in stream:
        if line.startswith("event: "):
            name = line[7:].strip()
        elif line.startswith("data: "):
            yield name, json.loads(line[6:])


def open_stream(service, target="/api/v1/stream", headers=""):
    s = service.connect()
    s.sendall(f"GET {target} HTTP/1.0\r\nHost: localhost\r\n{headers}\r\n".encode())
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


def test_a_kernel_that_lists_no_sockets(program):
    with told_to_systemd() as next_told, Service(program, healthy=False, preexec=without_sock_diag) as service:
        told = ""
        # The loop runs, and says so; that it cannot collect is a state.
        while told.count("WATCHDOG=1") < 3 or "READY=1" not in told:
            told += next_told() + "\n"
        assert "STATUS=cannot look at the flows: cannot open a sock_diag socket" in told, told
        status, body, _ = service.get("/healthz")
        assert status == 503 and "sock_diag" in body, body
        assert "sock_diag" in service.get("/api/v1/summary")[1]
        s, f = open_stream(service)
        name, data = next(events(f))
        assert name == "state" and "sock_diag" in data["error"], (name, data)
        s.close()


def test_streams_end_with_the_service(program):
    for _ in range(10):
        with Service(program) as service:
            streams = [open_stream(service)[0] for _ in range(20)]
            for s in streams[::2]:
                s.recv(1)
            service.stop()  # exit status 0: no abort
            for s in streams:
                s.close()


def test_a_reload_takes_up_renewed_files(program):
    with tempfile.TemporaryDirectory() as d:
        def serial():
            with service.connect() as s:
                return s.getpeercert(binary_form=True)

        def allowed(token):
            return service.get("/api/v1/config", headers=f"Authorization: Bearer {token}\r\n")[0] == 200

        def reload(says):
            at = len(service.text())
            service.process.send_signal(signal.SIGHUP)
            until(says, lambda: says in service.said()[at:])

        tls = ssl.create_default_context()
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
        make_certificate(d + "/my", "one")
        write(d + "/token", "0123456789abcdef")
        with Service(program, f"--http.tls_certificate={d}/my.cert", f"--http.tls_key={d}/my.key", f"--http.token_file={d}/token",
                     tls=tls) as service:
            first = serial()
            assert allowed("0123456789abcdef")
            reload("nothing has changed")
            assert serial() == first
            make_certificate(d + "/my", "two")
            write(d + "/token", "fedcba9876543210")
            reload("have a new content")
            second = serial()
            assert second != first and allowed("fedcba9876543210") and not allowed("0123456789abcdef")
            # All or nothing: what is wrong, with another token that is good, and that with good files.
            make_certificate(d + "/other", "three")
            write(d + "/token", "ffffffffffffffff")
            with open(d + "/my.key") as f, open(d + "/other.cert") as g:
                key, other = f.read(), g.read()
            for name, text, says in (("my.cert", "no certificate\n", f"http.tls_certificate, {d}/my.cert,"),
                                     ("my.cert", None, "http.tls_certificate: cannot "),
                                     ("my.cert", other, f"http.tls_key, {d}/my.key,"),
                                     ("my.key", key[:-60], f"http.tls_key, {d}/my.key,"),
                                     ("token", "too short", "http.token_file: ")):
                with open(f"{d}/{name}") as f:
                    before = f.read()
                if text is None:
                    os.unlink(f"{d}/{name}")
                else:
                    write(f"{d}/{name}", text)
                reload("everything stays as it was")
                last = [l for l in service.text().splitlines() if "everything stays as it was" in l][-1]
                assert "reload: " in last and says in last, last
                assert serial() == second and allowed("fedcba9876543210") and not allowed("ffffffffffffffff"), says
                write(f"{d}/{name}", before)
            service.until_healthy()
            reload("have a new content")
            assert serial() == second and allowed("ffffffffffffffff") and not allowed("fedcba9876543210")


def test_https_with_a_token(program):
    token = "0123456789abcdef"
    with tempfile.TemporaryDirectory() as d:
        make_certificate(d + "/my", "swiftd")
        write(d + "/token", token + "\n")
        files = [f"--http.tls_certificate={d}/my.cert", f"--http.tls_key={d}/my.key", f"--http.token_file={d}/token"]
        # A client that trusts this certificate alone, and wants it to be the address's.
        trusting = ssl.create_default_context(cafile=d + "/my.cert")
        with Service(program, *files, tls=trusting) as service:
            assert f"serving https://127.0.0.1:{service.port}" in service.text()

            def status(target, given=None, method="GET"):
                headers = "" if given is None else f"Authorization: {given}\r\n"
                return service.get(target, headers=headers, method=method)

            wanting = ["/metrics", "/api/v1/summary", "/api/v1/flows", "/api/v1/config", "/api/v1/stream"]
            for target in wanting:
                for given in (None, "Bearer ", f"Bearer {token}0", f"Bearer {token[:-1]}", f"Bearer {token.upper()}",
                              f"Basic {token}", token):
                    code, body, _ = status(target, given)
                    assert code == 401 and "a token is needed: Authorization: Bearer TOKEN" in body, (target, given, code, body)
                if target != "/api/v1/stream":
                    code, body, _ = status(target, f"Bearer {token}")
                    assert code == 200 and body, (target, code, body)
                    assert status(target, f"Bearer {token}", "HEAD")[0] == 200
            assert status("/")[0] == 200  # as /healthz, asked for already: it tells nothing of the host
            s, f = open_stream(service, headers=f"Authorization: Bearer {token}\r\n")
            name, data = next(events(f))
            assert name == "summary" and data["version"] == 1
            s.close()

            # Without TLS nothing is answered, and it takes nothing from the others.
            with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE_S) as s:
                s.sendall(f"GET /healthz HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
                answer = b""
                with contextlib.suppress(ConnectionError):
                    while part := s.recv(65536):
                        answer += part
            assert b"HTTP/" not in answer and b"ok" not in answer, answer
            service.until_healthy()


def test_old_tls_is_refused(program):
    with tempfile.TemporaryDirectory() as d:
        make_certificate(d + "/my", "swiftd")
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.load_verify_locations(d + "/my.cert")
        with warnings.catch_warnings():  # that they are old
            warnings.simplefilter("ignore")
            old.minimum_version = ssl.TLSVersion.TLSv1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with Service(program, f"--http.tls_certificate={d}/my.cert", f"--http.tls_key={d}/my.key", tls=old) as service:
            for version, taken in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1, False),
                                   (ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, True)):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    old.maximum_version = version
                try:
                    with service.connect() as s:
                        got = s.version()
                except (ssl.SSLError, ConnectionError):
                    got = None
                assert bool(got) == taken, (version, got)


def test_https_with_wrong_files_does_not_start(program):
    with tempfile.TemporaryDirectory() as d:
        make_certificate(d + "/my", "swiftd")
        make_certificate(d + "/other", "other")
        write(d + "/text", "no certificate, nor a key\n")
        write(d + "/token", "0123456789abcde\n")
        cert, key = f"--http.tls_certificate={d}/", f"--http.tls_key={d}/"
        pair = "are http.tls_certificate, {}, and http.tls_key, {}, a certificate in PEM and its key?"
        for options, status, says in (
                ([cert + "my.cert"], 2, "http.tls_certificate and http.tls_key: allowed are both or neither"),
                ([key + "my.key"], 2, "http.tls_certificate and http.tls_key: allowed are both or neither"),
                ([cert + "none", key + "my.key"], 1, f"http.tls_certificate: cannot open {d}/none"),
                ([cert + "my.cert", key + "none"], 1, f"http.tls_key: cannot open {d}/none"),
                ([cert + "text", key + "my.key"], 1, pair.format(d + "/text", d + "/my.key")),
                ([cert + "my.cert", key + "text"], 1, pair.format(d + "/my.cert", d + "/text")),
                ([cert + "my.cert", key + "other.key"], 1, pair.format(d + "/my.cert", d + "/other.key")),
                ([cert + "my.cert", key + "my.key", f"--http.token_file={d}/token"], 1,
                 f"http.token_file: {d}/token holds a token of 15 bytes: allowed are 16 to 4096"),
                ([f"--http.token_file={d}/none"], 1, f"http.token_file: cannot open {d}/none")):
            done = subprocess.run([program, "--http.listen=127.0.0.1:0", *options], capture_output=True, text=True,
                                  timeout=PATIENCE_S)
            errors = [l for l in done.stderr.splitlines() if says in l]
            assert done.returncode == status and len(errors) == 1 and not done.stdout, (options, done)
            assert "serving http" not in done.stderr, done


def test_a_configuration_that_comes_later(program):
    # In a mount namespace of its own, where /etc is nobody else's.
    code = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
assert libc.unshare(0x00020000) == 0
assert libc.mount(b"none", b"/", None, 0x44000, None) == 0
assert libc.mount(b"none", b"/etc", b"tmpfs", 0, None) == 0
pid = os.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
print(pid, flush=True)
for line in sys.stdin:
    with open("/etc/swiftd.toml", "w") as f:
        f.write('[collect]\\ninterval_s = 0.3\\n')
    os.kill(pid, 1)
os.kill(pid, 15)
os.waitpid(pid, 0)
"""
    with tempfile.TemporaryFile("w+") as log:
        holder = subprocess.Popen([sys.executable, "-c", code, program, "--http.listen=127.0.0.1:0"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert holder.stdout.readline(), os.pread(log.fileno(), 9999, 0)
            text = lambda: os.pread(log.fileno(), 1 << 20, 0).decode()
            until("it", lambda: "ready: " in text())
            holder.stdin.write("now\n")
            holder.stdin.flush()
            until("the change", lambda: "reload: collect.interval_s: 1.0 -> 0.3" in text())
        finally:
            holder.stdin.close()
            holder.wait(PATIENCE_S)


def test_ipv6_flows_are_there_too(program):
    with Service(program) as service:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
        client = socket.create_connection(server.getsockname()[:2])
        q = f"/api/v1/flows?q=[::1]:{server.getsockname()[1]}"
        until("both ends, once each", lambda: service.json(q)["matched"] == 2)
        client.close()
        server.close()


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
        while time.monotonic() < end or service.collections() < before + 5:
            for i, s in enumerate(attackers):
                try:  # half-open, byte by byte, and headers without end
                    s.send(b"G" if i % 3 == 0 else endless if i % 3 == 1 else b"")
                except OSError:
                    pass
            begun = time.monotonic()
            assert service.get("/healthz", source="127.0.0.7")[0] in (200, 503)  # which is late, on a loaded machine
            assert time.monotonic() - begun < 10
            assert time.monotonic() < end + PATIENCE_S, service.collections()
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
        service.until_healthy()
        client.close()
        server.close()


def test_systemd_is_told(program):
    with told_to_systemd() as next_told, Service(program) as service:
        def next_with(what):
            while what not in (text := next_told()):
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


def test_once_prints_a_summary(program):
    done = subprocess.run([program, "--once", "--collect.interval_s=0.1"], capture_output=True, text=True)
    assert done.returncode == 0 and json.loads(done.stdout)["version"] == 1, done
    done = subprocess.run([program, "--check", "--collect.interval_s=0"], capture_output=True, text=True)
    assert done.returncode == 2 and "collect.interval_s = 0" in done.stderr, done
    done = subprocess.run([program, "--check", "--collect.max_owner_prefix=3"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "swiftd: unknown option --collect.max_owner_prefix; see swiftd --help\n"), done
    sample = subprocess.run([program, "--print-sample"], capture_output=True, text=True, check=True).stdout
    with tempfile.NamedTemporaryFile("w") as f:
        f.write(sample)
        f.flush()
        subprocess.run([program, "--check", "--config", f.name], check=True)
    # Nor is one good that names files which a start would miss.
    for options, option in ((["--http.token_file=/nowhere"], "http.token_file"),
                            (["--http.tls_certificate=/nowhere", "--http.tls_key=/nowhere"], "http.tls_certificate"),
                            (["--otlp.endpoint=https://a.example", "--otlp.token_file=/nowhere"], "otlp.token_file"),
                            (["--probe.mesh=https://a.example", "--probe.mesh_token_file=/nowhere"], "probe.mesh_token_file")):
        done = subprocess.run([program, "--check", *options], capture_output=True, text=True)
        assert done.returncode == 2 and option in done.stderr and done.stderr.count("\n") == 1, done


def test_a_full_disk_is_complained_of(program):
    for options in (["--once", "--collect.interval_s=0.1"], ["--print-sample"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([program, *options], stdout=full, stderr=subprocess.PIPE, text=True)
        said = "swiftd: cannot write to the standard output: No space left on device\n"
        assert done.returncode == 1 and done.stderr.endswith(said), done


def test_documentation_has_the_options(program):
    table = subprocess.run([program, "--print-options-markdown"], capture_output=True, text=True, check=True).stdout
    with open(os.path.join(HERE, "../../Documentation/swiftd.md")) as f:
        assert table in f.read(), "Documentation/swiftd.md: swiftd --print-options-markdown says otherwise"


def test_many_flows_stay_cheap(program):
    bench = os.path.join(os.path.dirname(program), "tests-swiftd/bench_collect")
    with tempfile.NamedTemporaryFile() as dump:
        # A loose bound, for a loaded machine: 10 us of CPU time per flow.
        for source in (["--flows", "10000", "--record", dump.name], ["--replay", dump.name]):
            done = subprocess.run([bench, *source, "--intervals", "3", "--max-ms", "100", "--max-mb", "60"],
                                  capture_output=True, text=True)
            print("".join(f"# {l}\n" for l in done.stdout.splitlines()), end="")
            assert done.returncode == 0, done.stderr
            assert "flows 10000, " in done.stdout, done.stdout


def counted(service, name, **labels):
    """The sum of a metric's series with these labels."""
    total = 0
    for line in service.get("/metrics")[1].splitlines():
        got = re.fullmatch(name + r"(?:\{(.*)\})? (\S+)", line)
        if got and labels.items() <= dict(re.findall(r'(\w+)="([^"]*)"', got[1] or "")).items():
            total += float(got[2])
    return total


def with_rights(*kept):
    """For a child: root with these capabilities alone, as in a container."""
    def restrict():
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in range(64):
            if capability not in kept and libc.prctl(23, capability, 0, 0, 0) == 1 and libc.prctl(24, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "prctl")
    return restrict


NET_BROADCAST, NET_ADMIN, SYS_PTRACE, SYS_ADMIN, BPF = 11, 12, 19, 21, 39 # capabilities


def flows_of(service, pods):
    """All flows in these pods' namespaces, if all are there."""
    flows = [f for p in pods for f in service.json(f"/api/v1/flows?limit=1000&netns={p.netns}")["flows"]]
    return flows if len(flows) == sum(len(p.sockets) for p in pods) else None


def test_flows_of_all_namespaces(program):
    # The DaemonSet's rights, and no more: which process it is it cannot tell.
    rights = with_rights(NET_ADMIN, BPF, SYS_ADMIN, NET_BROADCAST)
    with netns_world.World() as world, Service(program, "--collect.netns=all", preexec=rights) as service:
        # A veth's end here goes when the namespace of the other end does: nothing holds it.
        pods = world.add(20, 5)
        ifname = "veth-of-pod"
        subprocess.run(["ip", "link", "add", ifname, "type", "veth", "peer", "name", "eth0", "netns", pods[3].netns], check=True)
        flows = until("all flows", lambda: flows_of(service, pods))
        netns_world.check(flows, pods, world.cgroups)
        one = service.json(f"/api/v1/flows/{flows[0]['id']}")["flow"]
        assert one["process"] is None, one
        summary = service.json("/api/v1/summary")
        assert summary["netns"] > len(pods), summary["netns"]
        others = [g for g in summary["prefixes"] if g["netns"] == "others"]
        assert sum(g["flows"] for g in others) >= len(flows), others
        for pod in pods:
            owner = {"netns": pod.netns, **({"owner": pod.name} if world.cgroups else {})}
            assert counted(service, "swift_owner_flows", **owner) == 10, owner
        # One that comes and one that goes, among those that stay.
        pods[0].connect(1)
        until("a new flow", lambda: flows_of(service, [pods[0]]))
        pods[0].drop(1)
        until("its end", lambda: service.json(f"/api/v1/flows?netns={pods[0].netns}")["matched"] == len(pods[0].sockets))
        netns_world.check(flows_of(service, pods), pods, world.cgroups)
        world.remove(pods[3])
        until("its flows' leaving", lambda: not service.json(f"/api/v1/flows?netns={pods[3].netns}")["matched"])
        until("the namespace's end", lambda: not os.path.exists(f"/sys/class/net/{ifname}")
              and subprocess.run(["ip", "link", "show", ifname], capture_output=True).returncode)
        assert counted(service, "swiftd_collection_errors_total", what="netns") == 0, service.text()


def test_namespaces_come_and_go(program):
    with netns_world.World() as world, Service(program, "--collect.netns=all") as service:
        stays = world.add(5, 2)
        for _ in range(40):
            pod, = world.add(1, 1)
            world.remove(pod)
        last, = world.add(1, 3)
        netns_world.check(until("those that are there", lambda: flows_of(service, [*stays, last])), [*stays, last], world.cgroups)
        assert counted(service, "swiftd_collection_errors_total") == 0, service.get("/metrics")[1]


def test_a_namespace_that_only_a_process_holds(program):
    rights = with_rights(NET_ADMIN, BPF, SYS_ADMIN, NET_BROADCAST, SYS_PTRACE)
    with Service(program, "--collect.netns=all", preexec=rights) as service:
        held = subprocess.Popen(["unshare", "-n", "sh", "-c", "ip link set lo up; exec python3 -c '"
                                 "import socket, sys; l = socket.create_server((\"127.0.0.1\", 0)); "
                                 "c = socket.create_connection(l.getsockname()); a = l.accept(); "
                                 "print(flush=True); sys.stdin.read()'"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        held.stdout.readline()
        inode = os.stat(f"/proc/{held.pid}/ns/net").st_ino
        found = until("its flows", lambda: (f := service.json(f"/api/v1/flows?netns={inode}"))["matched"] == 2 and f["flows"])
        assert service.json(f"/api/v1/flows/{found[0]['id']}")["flow"]["process"] == {"pid": held.pid, "program": "python3"}
        held.stdin.close()
        held.wait()
        until("their leaving", lambda: not service.json(f"/api/v1/flows?netns={inode}")["matched"])


def test_without_the_rights_its_own_namespace_goes_on(program):
    rights = with_rights(NET_ADMIN, BPF)
    for option, line in (("auto", "flows of this network namespace alone: "), ("all", "not all network namespaces: ")):
        with netns_world.World() as world, \
                Service(program, f"--collect.netns={option}", preexec=rights) as service, Flows(2) as flows:
            world.add(1, 1)
            until("our own flows", lambda: flows_to(service, flows)["matched"] >= 2)
            until("why not others'", lambda: line in service.said())
            before = service.collections()
            until("more looks", lambda: service.collections() > before + 3)
            told = [l for l in service.said().splitlines() if line in l]
            assert len(told) == 1 and "CAP_SYS_ADMIN" in told[0], told
            assert (counted(service, "swiftd_collection_errors_total", what="netns") > 0) == (option == "all")


def swiftctl(program, *arguments):
    done = subprocess.run([os.path.join(os.path.dirname(program), "swiftctl"), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_swiftctl_shows_all_namespaces(program):
    with netns_world.World() as world:
        pod, = world.add(1, 1)
        shot = json.loads(swiftctl(program, "flows", "--all-netns", "--processes", "--all", "--json"))
        flows = [f for f in shot["flows"] if f["netns"] == pod.netns]
        netns_world.check(flows, [pod], world.cgroups)
        assert shot["other_netns"] >= 1 and all(f["process"]["pid"] == os.getpid() for f in flows), shot
        text = swiftctl(program, "top", "--all-netns", "--processes", "--all", "--once", "--interval", "0.1",
                        "--filter", pod.netns)
        mine = [l for l in text.splitlines() if pod.netns in l]
        assert len(mine) == 2, text
        assert all(f"({os.getpid()})" in l for l in mine), mine
        assert not world.cgroups or all(pod.name in l for l in mine), mine


def test_flows_shorter_than_a_look_count(program):
    n, size = 60, 5000
    with netns_world.World() as world, Service(program, "--collect.netns=all") as service:
        pod, = world.add(1, 1)
        until("the namespace", lambda: flows_of(service, [pod]))

        def make(address):
            with socket.create_server((address, 0), backlog=n) as listener:
                for _ in range(n):
                    with socket.create_connection(listener.getsockname()) as client, listener.accept()[0] as server:
                        client.sendall(b"z" * size)
                        left = size
                        while left:
                            left -= len(server.recv(left))

        make("127.1.2.3")
        with world.elsewhere(pod):
            make("127.4.5.6")
        for prefix, netns in (("127.1.2.0/24", {}), ("127.4.5.0/24", {"netns": "others"})):
            where = {"dst_prefix": prefix, **netns}
            until("each flow's end", lambda: counted(service, "swift_flow_size_bytes_count", **where) == n)
            acked = counted(service, "swift_flow_size_bytes_sum", **where)
            # A SYN and a FIN count as a byte each.
            assert n * size <= acked <= n * (size + 2), acked
            assert counted(service, "swift_flow_completion_seconds_count", **where) == n
            assert counted(service, "swift_acked_bytes_total", **where) == acked
        assert service.json("/api/v1/summary")["ended"]["dropped"] == 0


def test_a_flood_of_ends_is_said_and_counted(program):
    with Service(program) as service:
        def lost():
            """What the kernel had no room for, of its sock_diag events for swiftd."""
            with open("/proc/net/netlink") as f:
                rows = [line.split() for line in f][1:]
            return sum(int(r[8]) for r in rows if r[1] == "4" and int(r[3], 16))

        service.process.send_signal(signal.SIGSTOP)
        with socket.create_server(("127.1.2.3", 0), backlog=128) as listener:
            while not lost(): # it tells later, from threads of its own
                for _ in range(500):
                    client = socket.create_connection(listener.getsockname())
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    listener.accept()[0].close()
                    client.close()
        service.process.send_signal(signal.SIGCONT)
        until("the loss", lambda: counted(service, "swiftd_ended_overruns_total") > 0)
        until("the log's line", lambda: "more flows end than can be counted" in service.said())
        before = service.json("/api/v1/summary")["ended"]["flows"]
        assert before > 0
        with Flows(3):
            pass
        until("that it goes on", lambda: service.json("/api/v1/summary")["ended"]["flows"] >= before + 6)


def families_of_dump(dump):
    """The address family of each socket in a file of ss --diag."""
    families, at = [], 0
    while at < len(dump):
        length, kind = struct.unpack_from("IH", dump, at)
        if kind == 20:  # SOCK_DIAG_BY_FAMILY; inet_diag_msg begins with the family
            families.append(dump[at + 16])
        at += length + 3 & ~3
    return families


def test_a_recorded_dump_has_both_families(program):
    bench = os.path.join(os.path.dirname(program), "tests-swiftd/bench_collect")
    with contextlib.ExitStack() as stack, tempfile.NamedTemporaryFile() as file:
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            listener = stack.enter_context(socket.create_server((address, 0), family=family))
            stack.enter_context(socket.create_connection(listener.getsockname()[:2]))
            stack.enter_context(listener.accept()[0])
        subprocess.run(["ss", "-tin", "--diag", file.name], check=True)
        families = families_of_dump(file.read())
        done = subprocess.run([bench, "--replay", file.name, "--intervals", "1"], capture_output=True, text=True, check=True)
        assert families.count(socket.AF_INET) >= 2 and families.count(socket.AF_INET6) >= 2, families
        assert f"flows {len(families)}, " in done.stdout, done.stdout


def main():
    program = sys.argv[1]
    tests = [(n, t, program) for n, t in globals().items() if n.startswith("test_")]
    if len(sys.argv) > 2:
        tests += [(t.__name__ + "_tsan", t, sys.argv[2]) for t in
                  (test_events_stream, test_streams_end_with_the_service, test_a_reload_takes_up_renewed_files,
                   test_attackers_stop_nobody, test_reload_is_all_or_nothing, test_flows_come_with_rates_and_go,
                   test_flows_of_all_namespaces, test_flows_shorter_than_a_look_count,
                   test_probes_tell_network_from_host, test_a_reload_moves_probes_and_mesh)]
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        print("1..0 # SKIP cannot make a network namespace")
        return 0
    netns_world.own_mounts()
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
