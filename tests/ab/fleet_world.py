#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A made-up fleet for the tests of `swiftctl ab --fleet`. Usage:
metrics PLAN OUT EFFECT   what swiftd of each host would have exported during the plan, as OpenMetrics;
                          the second arm's p99 is EFFECT times the first's. Prints the effect that a
                          reader of all of it has to find.
serve DIR                 an HTTP and an HTTPS server that answer as Prometheus does, and as others do
                          (by the first part of the path); their ports go to DIR/ports."""
import http.server
import json
import math
import os
import random
import ssl
import sys
import threading

SCRAPE_S = 60
RATE = 1000  # RTTs per second and host


def arm_of(plan, rack, time):
    """After the switch at @time; the control before and after the experiment."""
    if not plan["start"] <= time < plan["end"]:
        return plan["arms"][0]["name"]
    if plan["by"] == "racks":
        return rack["arm"]
    return plan["turns"][min((time - plan["start"]) // plan["period_s"], plan["periods"] - 1)]["arm"]


def metrics(plan_file, out, effect):
    plan = json.load(open(plan_file, encoding="utf-8"))
    random.seed(5)
    begin = plan["start"] - 2 * SCRAPE_S
    carry, period = plan["carry_over_s"], plan["period_s"]
    families = {name: [] for name in ("swift_rtt_seconds", "swift_acked_bytes", "swift_retransmitted_packets", "swift_sent_segments", "up")}
    means = {}
    fleet = {}
    for r, rack in enumerate(plan["racks"]):
        own = random.gauss(0, 0.05)
        for host in rack["hosts"]:
            labels = f'job="swiftd",instance="{host}",rack="{rack["name"]}"'
            total = tail = octets = 0
            time = begin
            while time <= plan["end"] + SCRAPE_S:
                arm = arm_of(plan, rack, time - 1)
                since = (time - 1 - plan["start"]) // period
                log = fleet.setdefault(since, random.gauss(0, 0.03)) + own
                p99_ms = 1.5 * math.exp(log)
                if arm == plan["arms"][1]["name"]:
                    # Flows of the arm before take a while to end.
                    if plan["by"] == "racks" or (time - 1 - plan["start"]) % period >= carry:
                        p99_ms *= effect
                # Of a bucket from 1 to 2 ms the share in which that is the 99th percentile.
                total += RATE * SCRAPE_S
                tail += RATE * SCRAPE_S * 0.01 / (2 - p99_ms)
                octets += 1e8 * SCRAPE_S * (1 + 0.001 * r)
                bucket = families["swift_rtt_seconds"]
                for edge, count in (("0.001", total - tail), ("0.002", total), ("+Inf", total)):
                    bucket.append(f'swift_rtt_seconds_bucket{{{labels},le="{edge}"}} {count:.3f} {time}')
                bucket.append(f"swift_rtt_seconds_count{{{labels}}} {total} {time}")
                bucket.append(f"swift_rtt_seconds_sum{{{labels}}} {total * 0.001} {time}")
                families["swift_acked_bytes"].append(f"swift_acked_bytes_total{{{labels}}} {octets:.0f} {time}")
                families["swift_retransmitted_packets"].append(f"swift_retransmitted_packets_total{{{labels}}} {octets // 1e8} {time}")
                families["swift_sent_segments"].append(f"swift_sent_segments_total{{{labels}}} {octets // 1e4} {time}")
                families["up"].append(f'up{{{labels},experiment="{plan["name"]}",arm="{arm}"}} 1 {time}')
                time += SCRAPE_S
            means.setdefault(rack["name"], own)
    with open(out, "w", encoding="utf-8") as f:
        for name, lines in families.items():
            kind = "histogram" if "rtt" in name else "gauge" if name == "up" else "counter"
            lines.sort(key=lambda line: line.rsplit(" ", 2)[0])  # series by series
            f.write(f"# TYPE {name} {kind}\n" + "\n".join(lines) + "\n")
        f.write("# EOF\n")

    # By hand: logarithms, the mean of the blocks' differences.
    blocks = {}
    if plan["by"] == "racks":
        for rack in plan["racks"]:
            blocks.setdefault(rack["block"], {})[rack["arm"]] = means[rack["name"]]
    else:
        for i, turn in enumerate(plan["turns"]):
            blocks.setdefault(turn["block"], {})[turn["arm"]] = fleet[i]
    old, new = (arm["name"] for arm in plan["arms"])
    print(math.exp(math.log(effect) + sum(b[new] - b[old] for b in blocks.values()) / len(blocks)))


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        self.rfile.read(length)
        way = self.path.split("/")[1]
        good = {"status": "success", "data": {"resultType": "matrix", "result": []}}
        answers = {
            "good": (200, good), "error": (422, {"status": "error", "errorType": "execution", "error": "too many samples"}),
            "html": (502, "<html>Bad Gateway</html>"), "moved": (302, ""), "cut": (200, json.dumps(good)[:20]),
            "list": (200, "[1, 2]"), "long": (200, " " * (65 << 20)),
            "token": (200, good) if self.headers["Authorization"] == "Bearer s3cret" else (401, "who?"),
        }
        status, body = answers.get(way, (404, "not found"))
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "file:///etc/passwd")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        try:
            self.wfile.write(data)
        except OSError:
            pass  # enough of it, for some

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        pass  # readers that leave are part of it


def serve(folder):
    plain = Server(("127.0.0.1", 0), Answers)
    tls = Server(("127.0.0.1", 0), Answers)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{folder}/cert.pem", f"{folder}/key.pem")
    tls.socket = context.wrap_socket(tls.socket, server_side=True)
    threading.Thread(target=tls.serve_forever, daemon=True).start()
    with open(f"{folder}/ports.new", "w", encoding="utf-8") as f:
        f.write(f"{plain.server_port} {tls.server_port}\n")
    os.rename(f"{folder}/ports.new", f"{folder}/ports")
    plain.serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        metrics(sys.argv[2], sys.argv[3], float(sys.argv[4]))
