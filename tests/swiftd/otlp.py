#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""swiftd's deliveries over OTLP, to a collector that is there, is not, refuses, and hangs.

Usage: otlp.py SWIFTD DESCRIPTORS     Prints TAP. In a network namespace of its own; waits on state alone. What
arrives is held against OpenTelemetry's own .proto files (DESCRIPTORS, by otlp-proto), which know each name and type,
and against otlp.schema.json, which says what has to be there.
"""
import contextlib
import ctypes
import http.server
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import urllib.request

import jsonschema
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e  # noqa: E402
from e2e import Service, until  # noqa: E402

with open(os.path.join(e2e.HERE, "otlp.schema.json"), encoding="utf-8") as f:
    SCHEMA = jsonschema.Draft202012Validator(json.load(f))
OFTEN = "--otlp.interval_s=1"


def messages(descriptors):
    """What the protocol has at each path, by its own descriptors."""
    pool, files = descriptor_pool.DescriptorPool(), descriptor_pb2.FileDescriptorSet()
    with open(descriptors, "rb") as f:
        files.ParseFromString(f.read())
    for file in files.file:
        pool.Add(file)
    # Debian 12's has no such function.
    of = getattr(message_factory, "GetMessageClass", None) or message_factory.MessageFactory(pool).GetPrototype
    return {f"/v1/{signal}": of(pool.FindMessageTypeByName(
        f"opentelemetry.proto.collector.{signal}.v1.Export{signal.capitalize()}ServiceRequest")) for signal in ("metrics", "logs")}


MESSAGES = messages(sys.argv[2])


class Collector:
    """Takes what comes, as self.status says; keeps it."""

    def __init__(self, port=0, tls=None):
        self.requests = []
        self.wrong = []  # that are not of the protocol, and why
        self.status = 200
        self.reply = "{}"
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.requests.append((self.path, dict(self.headers), body))
                if message := MESSAGES.get(self.path):
                    try:
                        json_format.Parse(body, message())
                    except json_format.ParseError as error:
                        collector.wrong.append(str(error))
                self.send_response(collector.status)
                self.send_header("Content-Length", str(len(collector.reply)))
                self.end_headers()
                self.wfile.write(collector.reply.encode())

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", port), Handler)
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
        assert not self.wrong, self.wrong[0]

    @property
    def endpoint(self):
        return f"--otlp.endpoint=http://127.0.0.1:{self.port}"

    def of(self, signal):
        return [json.loads(body) for path, _, body in self.requests if path == "/v1/" + signal]

    def records(self):
        return [r for logs in self.of("logs") for r in logs["resourceLogs"][0]["scopeLogs"][0]["logRecords"]]


def metrics_of(delivery):
    return {m["name"]: m for m in delivery["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]}


def attributes(item):
    return {a["key"]: next(iter(a["value"].values())) for a in item["attributes"]}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


@contextlib.contextmanager
def flow():
    """A connection that has carried something."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far = listener.accept()[0]
        near.sendall(b"x" * 100000)
        got = 0
        while got < 100000:
            got += len(far.recv(65536))
        yield near, far


def counter(service, name, result):
    found = re.search(rf'^{name}{{result="{result}"}} (\d+)', service.get("/metrics")[1], re.M)
    return int(found[1]) if found else 0


def test_what_is_not_of_the_protocol_is_noticed(_):
    with Collector() as collector:
        for path, body in (("metrics", {"resourceMetrics": [{"scopeMetrics": [{"metric": []}]}]}),
                           ("logs", {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"timeUnixNano": "soon"}]}]}]}),
                           ("logs", {"resourceLogs": []})):
            urllib.request.urlopen(f"http://127.0.0.1:{collector.port}/v1/{path}", json.dumps(body).encode()).close()
        assert len(collector.wrong) == 2, collector.wrong
        collector.wrong.clear()


def test_metrics_are_those_of_prometheus(program):
    with Collector() as collector, flow(), Service(program, collector.endpoint, OFTEN) as service:
        until("a delivery with flows", lambda: any("swift_flows" in metrics_of(d) for d in collector.of("metrics")))
        delivery = collector.of("metrics")[-1]
        SCHEMA.validate(delivery)
        metrics = metrics_of(delivery)
        resource = attributes(delivery["resourceMetrics"][0]["resource"])
        assert resource["service.name"] == "swiftd" and resource["host.name"] == os.uname().nodename, resource
        exposed = dict(re.findall(r"^# TYPE (\S+) (\S+)", service.get("/metrics")[1], re.M))
        assert set(metrics) <= set(exposed) and len(metrics) > 15, set(metrics) ^ set(exposed)
        for name, metric in metrics.items():
            kind = {"counter": "sum", "histogram": "histogram"}.get(exposed[name], "gauge")
            assert kind in metric, (name, exposed[name], metric)
        flows = {attributes(p)["iface"]: p["asDouble"] for p in metrics["swift_flows"]["gauge"]["dataPoints"]}
        assert flows and sum(flows.values()) >= 2, flows
        for point in metrics["swiftd_collect_seconds"]["histogram"]["dataPoints"]:
            assert len(point["bucketCounts"]) == len(point["explicitBounds"]) + 1
            assert sum(map(int, point["bucketCounts"])) == int(point["count"]) > 0
            assert int(point["startTimeUnixNano"]) < int(point["timeUnixNano"])
        path, headers, _ = collector.requests[0]
        assert headers["Content-Type"] == "application/json" and "Authorization" not in headers, headers
        assert not service.said().count("otlp:"), service.said()


def test_ended_flows_are_logged_once(program):
    with Collector() as collector, Service(program, collector.endpoint, OFTEN) as service:
        with flow() as (near, far):
            local = near.getsockname()
            until("the flow to be seen", lambda: str(local[1]) in service.get("/api/v1/flows?limit=100")[1])
            near.close()
            far.close()
        until("its record", lambda: [r for r in collector.records() if attributes(r)["source.port"] == str(local[1])])
        deliveries = len(collector.of("metrics"))
        until("two more deliveries", lambda: len(collector.of("metrics")) >= deliveries + 2)
        for logs in collector.of("logs"):
            SCHEMA.validate(logs)
        mine = [attributes(r) for r in collector.records() if attributes(r)["source.port"] == str(local[1])]
        assert len(mine) == 1, mine
        record = mine[0]
        assert record["source.address"] == "127.0.0.1" and record["network.transport"] == "tcp", record
        assert int(record["swift.acked_bytes"]) in (100000, 100001) and record["swift.dst_prefix"] == "127.0.0.0/24", record
        assert counter(service, "swiftd_otlp_flows_total", "taken") >= 1


def test_flows_shorter_than_a_look_are_logged_once(program):
    # By both ports: one of a flow may be one of another flow's, at its other end.
    def seen(collector):
        return [(attributes(r)["source.port"], attributes(r)["destination.port"]) for r in collector.records()]

    with Collector() as collector, Service(program, collector.endpoint, OFTEN) as service:
        until("a look", lambda: collector.of("metrics"))
        flows = set()
        for _ in range(20):
            with flow() as (near, far):
                flows.add((str(near.getsockname()[1]), str(near.getpeername()[1])))
                near.close()
                far.close()
        until("a record of each", lambda: flows <= set(seen(collector)))
        deliveries = len(collector.of("metrics"))
        until("two more deliveries", lambda: len(collector.of("metrics")) >= deliveries + 2)
        assert all(seen(collector).count(one) == 1 for one in flows), seen(collector)
        assert int(re.search(r"^swiftd_ended_unseen_total (\d+)", service.get("/metrics")[1], re.M)[1]) > 0


def test_no_flow_log(program):
    with Collector() as collector, Service(program, collector.endpoint, OFTEN, "--otlp.flow_log=false") as service:
        with flow() as (near, _):
            port = near.getsockname()[1]
            until("the flow to be seen", lambda: str(port) in service.get("/api/v1/flows?limit=100")[1])
        until("it to be gone", lambda: '"state":"ESTAB"' not in service.get("/api/v1/flows?limit=100&q=" + str(port))[1])
        deliveries = len(collector.of("metrics"))
        until("two more deliveries", lambda: len(collector.of("metrics")) >= deliveries + 2)
        assert collector.of("logs") == []


def test_a_collector_that_is_down_is_said_once(program):
    port = free_port()
    with Service(program, f"--otlp.endpoint=http://127.0.0.1:{port}", OFTEN) as service:
        with flow() as (near, far):
            local = near.getsockname()[1]
            until("the flow to be seen", lambda: str(local) in service.get("/api/v1/flows?limit=100")[1])
            near.close()
            far.close()
        until("three lost deliveries", lambda: counter(service, "swiftd_otlp_deliveries_total", "lost") >= 3)
        assert service.get("/healthz")[0] == 200
        said = [line for line in service.said().splitlines() if "otlp: http" in line]
        assert len(said) == 2 and {re.search(r"/v1/(\w+)", line)[1] for line in said} <= {"metrics", "logs"} or len(said) == 1, said
        with Collector(port) as collector:
            until("a delivery", lambda: collector.of("metrics"))
            # The metrics of meanwhile are lost, the flow that ended is not.
            until("its record", lambda: [r for r in collector.records() if attributes(r)["source.port"] == str(local)])
            until("the word", lambda: "otlp: deliveries of metrics go on" in service.said())
        assert counter(service, "swiftd_otlp_flows_total", "lost") == 0


def test_a_collector_that_refuses(program):
    with Collector() as collector:
        collector.status = 400
        with Service(program, collector.endpoint, OFTEN) as service:
            until("three lost deliveries", lambda: counter(service, "swiftd_otlp_deliveries_total", "lost") >= 3)
            assert service.said().count("/v1/metrics: HTTP status 400") == 1, service.said()
            collector.status, collector.reply = 200, '{"partialSuccess": {"rejectedDataPoints": "3", "errorMessage": "too old"}}'
            until("it to be said", lambda: counter(service, "swiftd_otlp_deliveries_total", "taken") >= 1)
            collector.reply = '{"partialSuccess": '
            taken = counter(service, "swiftd_otlp_deliveries_total", "taken")
            until("more", lambda: counter(service, "swiftd_otlp_deliveries_total", "taken") > taken)


def test_a_collector_that_hangs_holds_up_nobody(program):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with Service(program, f"--otlp.endpoint=http://127.0.0.1:{silent.getsockname()[1]}", OFTEN) as service:
            connection = silent.accept()[0]
            looks = service.collections()
            until("more looks", lambda: service.collections() > looks + 20)
            # And it leaves without waiting for an answer (Service's end would fail otherwise).
        connection.close()


def test_with_a_token_over_https(program):
    with tempfile.TemporaryDirectory() as d:
        e2e.make_certificate(d + "/collector", "collector")
        e2e.write(d + "/token", "s3cret\n")
        os.chmod(d + "/token", 0o600)
        tls = e2e.ssl.SSLContext(e2e.ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(d + "/collector.cert", d + "/collector.key")
        with Collector(tls=tls) as collector:
            options = [f"--otlp.endpoint=https://127.0.0.1:{collector.port}/", f"--otlp.token_file={d}/token", OFTEN]
            with Service(program, *options, f"--otlp.ca_file={d}/collector.cert") as service:
                until("a delivery", lambda: collector.of("metrics"))
                assert collector.requests[0][1]["Authorization"] == "Bearer s3cret"
                assert f"{d}/token" not in service.get("/api/v1/config")[1]
            taken = len(collector.requests)
            with Service(program, *options) as service:
                until("lost deliveries", lambda: counter(service, "swiftd_otlp_deliveries_total", "lost") >= 1)
                assert "certificate" in service.said() and len(collector.requests) == taken, service.said()


def test_wrong_options(program):
    for options, words in ((["--otlp.endpoint=collector:4318"], "otlp.endpoint"),
                           (["--otlp.endpoint=http://a:b@c"], "otlp.endpoint"),
                           (["--otlp.endpoint=http://192.0.2.1", "--otlp.token_file=/x"], "otlp.token_file"),
                           (["--otlp.interval_s=0"], "otlp.interval_s")):
        done = subprocess.run([program, "--check", *options], capture_output=True, text=True)
        assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1, done
    done = subprocess.run([program, "--http.listen=127.0.0.1:0", "--otlp.endpoint=http://127.0.0.1:9", "--otlp.token_file=/nowhere"],
                          capture_output=True, text=True)
    assert done.returncode == 1 and "otlp: " in done.stderr and "/nowhere" in done.stderr, done


def main():
    program = sys.argv[1]
    tests = [(n, t) for n, t in globals().items() if n.startswith("test_")]
    if ctypes.CDLL(None, use_errno=True).unshare(e2e.CLONE_NEWNET):
        print("1..0 # SKIP cannot make a network namespace")
        return 0
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    print(f"TAP version 13\n1..{len(tests)}", flush=True)
    failed = 0
    for i, (name, test) in enumerate(tests, 1):
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
