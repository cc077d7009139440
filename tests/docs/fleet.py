#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The fleet's files: usage fleet.py PART, at the top of the checkout; exit status and a line say what is
wrong. grafana: writes a rules file made of the dashboard's expressions to stdout, for promtool.
kubernetes: the manifests' structure, and that they are scraped. alerts: each alert has its test and its row in fleet.md."""

import json, pathlib, re, sys

import yaml

FLEET = pathlib.Path("scripts/fleet")


def grafana():
    board = json.loads((FLEET / "grafana/tcp_swift.json").read_text(encoding="utf-8"))
    panels = [p for p in board["panels"] if p["type"] != "row"]
    ids = [p["id"] for p in board["panels"]]
    assert len(ids) == len(set(ids)), "panels share an id"
    names = {v["name"] for v in board["templating"]["list"]}
    rules = []
    documented = set(re.findall(r"^\| `(\w+)` \|", pathlib.Path("Documentation/metrics.md").read_text(encoding="utf-8"), re.MULTILINE))
    for panel in panels:
        place = panel["gridPos"]
        assert 0 <= place["x"] and place["x"] + place["w"] <= 24, panel["title"]
        assert panel["description"] and panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        for target in panel["targets"]:
            expr = target["expr"].replace("$__rate_interval", "5m")
            used = set(re.findall(r"\$(\w+)", expr))
            assert used <= names, f"{panel['title']}: no variable {used - names}"
            for name in re.findall(r"\bswiftd?_\w+", expr):
                assert re.sub(r"_bucket$", "", name) in documented, f"{panel['title']}: no metric {name}"
            rules.append({"record": f"panel:{panel['id']}:{target['refId']}", "expr": re.sub(r"\$\w+", ".*", expr)})
    assert len(rules) >= 15, "hardly a panel"
    yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}, sys.stdout)


def alerts():
    rules = yaml.safe_load((FLEET / "prometheus/alerts.yml").read_text(encoding="utf-8"))
    tests = yaml.safe_load((FLEET / "prometheus/alerts_test.yml").read_text(encoding="utf-8"))
    page = pathlib.Path("Documentation/fleet.md").read_text(encoding="utf-8")
    names = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    fires = {case["alertname"] for test in tests["tests"] for case in test["alert_rule_test"] if case["exp_alerts"]}
    for name in names:
        assert name in fires, f"no test in which {name} fires"
        assert f"`{name}`" in page, f"fleet.md lacks {name}"


# What the API server would refuse, as far as these kinds use it: field by field.
POD = {"hostNetwork": bool, "hostPID": bool, "serviceAccountName": str, "terminationGracePeriodSeconds": int, "dnsPolicy": str, "automountServiceAccountToken": bool, "priorityClassName": str,
       "tolerations": list, "initContainers": list, "containers": list, "volumes": list}
CONTAINER = {"name": str, "image": str, "env": list, "command": list, "args": list, "securityContext": dict, "resources": dict,
             "volumeMounts": list, "ports": list, "readinessProbe": dict, "livenessProbe": dict}
SECURITY = {"runAsUser": int, "allowPrivilegeEscalation": bool, "readOnlyRootFilesystem": bool, "capabilities": dict,
            "seccompProfile": dict, "privileged": bool}


def fields(what, there, allowed):
    for key, value in there.items():
        assert key in allowed, f"{what}: unknown field {key}"
        assert isinstance(value, allowed[key]), f"{what}.{key}: {value!r}"


def installed(command):
    """Where the package has it: the unit's swiftd is there, too."""
    unit = pathlib.Path("userspace/swiftd/swiftd.service").read_text(encoding="utf-8")
    folder = re.search(r"^ExecStart=(/\S+)/swiftd ", unit, re.M)[1]
    assert re.fullmatch(folder + "/(swiftctl|swiftd)", command), f"{command} is not in {folder}"


def kubernetes():
    documents = list(yaml.safe_load_all((FLEET / "kubernetes/daemonset.yaml").read_text(encoding="utf-8")))
    kinds = {d["kind"]: d for d in documents}
    assert set(kinds) == {"Namespace", "ConfigMap", "DaemonSet"}, kinds
    for document in documents:
        fields(document["kind"], document, {"apiVersion": str, "kind": str, "metadata": dict, "data": dict, "spec": dict})
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", document["metadata"]["name"])
    spec = kinds["DaemonSet"]["spec"]
    fields("spec", spec, {"selector": dict, "updateStrategy": dict, "template": dict})
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items(), "the selector does not fit the template"
    pod = spec["template"]["spec"]
    fields("pod", pod, POD)
    volumes = {v["name"] for v in pod["volumes"]}
    mounted = set()
    for container in pod["initContainers"] + pod["containers"]:
        fields(container["name"], container, CONTAINER)
        fields(container["name"], container["securityContext"], SECURITY)
        assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
        assert "privileged" not in container["securityContext"]
        paths = [m["mountPath"] for m in container["volumeMounts"]]
        for path in paths:
            assert not any(path != other and path.startswith(other + "/") for other in paths), f"{path} lies in another mount"
        mounted |= {m["name"] for m in container["volumeMounts"]}
    assert mounted == volumes, f"volumes and mounts differ: {mounted ^ volumes}"
    # The rights are those of the unit with its drop-in for namespaces, but for those of others' processes.
    wanted = []
    for name in ("swiftd.service", "swiftd-netns.conf"):
        unit = pathlib.Path("userspace/swiftd/" + name).read_text(encoding="utf-8")
        wanted += re.search(r"^CapabilityBoundingSet=(.*)$", unit, re.M)[1].replace("CAP_", "").split()
    wanted.remove("SYS_PTRACE")
    netns = next(m for m in pod["containers"][0]["volumeMounts"] if m["mountPath"] == "/run/netns")
    assert netns["mountPropagation"] == "HostToContainer", "namespaces that come later are not seen"
    assert pod["containers"][0]["securityContext"]["capabilities"]["add"] == wanted, wanted
    # swiftd without sock_diag is not ready, and goes on trying: nobody is to end it.
    swiftd = pod["containers"][0]
    installed(swiftd["command"][0])
    port = swiftd["ports"][0]["name"]
    assert swiftd["readinessProbe"]["httpGet"] == {"path": "/healthz", "port": port, "scheme": "HTTPS"}, "the readiness probe"
    assert swiftd["livenessProbe"].get("tcpSocket") == {"port": port}, "the liveness probe asks for more than the port"
    # Who follows prometheus.io's annotations sends no token; the job has it, and finds the pods.
    assert not spec["template"]["metadata"].get("annotations"), "annotations"
    scrape = yaml.safe_load((FLEET / "kubernetes/scrape.yml").read_text(encoding="utf-8"))
    job, = scrape["scrape_configs"]
    assert job["authorization"]["credentials_file"] and job["scheme"] == "https", "pods serve HTTPS, and want a token"
    server = f"{kinds['DaemonSet']['metadata']['name']}.{kinds['Namespace']['metadata']['name']}.svc"
    assert job["tls_config"]["ca_file"] and job["tls_config"]["server_name"] == server, server
    fleet = pathlib.Path("Documentation/fleet.md").read_text(encoding="utf-8")
    assert f"DNS:{server}" in fleet, f"fleet.md makes no certificate for {server}"
    assert job.pop("kubernetes_sd_configs") == [{"role": "pod", "namespaces": {"names": [kinds["Namespace"]["metadata"]["name"]]}}]
    keep = next(r for r in job["relabel_configs"] if r.get("action") == "keep")
    assert keep["regex"] == f"{labels['app.kubernetes.io/name']};{port}", keep
    named = next(r["replacement"] for r in job["relabel_configs"] if r.get("target_label") == "job")
    rules = (FLEET / "prometheus/alerts.yml").read_text(encoding="utf-8")
    assert {named} == set(re.findall(r'job="([^"]*)"', rules)), f"alerts do not know the job {named}"
    config = kinds["ConfigMap"]["data"]["swiftd.toml"]
    assert re.search(r'^ccs = \["\*"\]$', config, re.M), "flows of nodes without Swift are not seen"
    for option, file in (("token_file", "token"), ("tls_certificate", "tls.crt"), ("tls_key", "tls.key")):
        place = re.search(rf'^{option} = "([^"]+)/{file}"', config, re.M)
        assert place, f"{option} is not set: the token would go over plain HTTP"
        assert any(m["mountPath"] == place[1] for m in swiftd["volumeMounts"]), f"nothing is mounted at {place[1]}"
    if len(sys.argv) > 2: # swiftd judges its configuration
        pathlib.Path(sys.argv[2]).write_text(config, encoding="utf-8")
    if len(sys.argv) > 3: # promtool the job, but for the discovery, which Debian's does not have
        pathlib.Path(sys.argv[3]).write_text(yaml.safe_dump(scrape), encoding="utf-8")


def pods():
    """The DaemonSet for annotated pods; prints the command of its container, for swiftctl to judge."""
    kinds = {d["kind"]: d for d in yaml.safe_load_all((FLEET / "kubernetes/pods.yaml").read_text(encoding="utf-8"))}
    watcher = {d["kind"]: d for d in yaml.safe_load_all((FLEET / "kubernetes/daemonset.yaml").read_text(encoding="utf-8"))}
    assert set(kinds) == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "DaemonSet"}, kinds
    account = kinds["ServiceAccount"]["metadata"]
    assert account["namespace"] == watcher["Namespace"]["metadata"]["name"], account
    subject, = kinds["ClusterRoleBinding"]["subjects"]
    assert subject == {"kind": "ServiceAccount", **account}, subject
    assert kinds["ClusterRoleBinding"]["roleRef"]["name"] == kinds["ClusterRole"]["metadata"]["name"]
    assert kinds["ClusterRole"]["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}], "more rights than a list takes"
    spec = kinds["DaemonSet"]["spec"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items(), "the selector does not fit the template"
    pod = spec["template"]["spec"]
    fields("pod", pod, POD)
    assert pod["hostPID"] and pod["serviceAccountName"] == account["name"]
    container, = pod["containers"]
    fields(container["name"], container, CONTAINER)
    fields(container["name"], container["securityContext"], SECURITY)
    installed(container["command"][0])
    assert container["image"] == watcher["DaemonSet"]["spec"]["template"]["spec"]["containers"][0]["image"], "two images"
    mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
    hosts = {v["name"]: v["hostPath"]["path"] for v in pod["volumes"]}
    assert mounts == hosts, "what is remembered, and the lock, are not where the node's tools look"
    assert set(re.findall(r"\$\((\w+)\)", " ".join(container["command"]))) == {e["name"] for e in container["env"]}
    print("\n".join(container["command"]))


try:
    {"grafana": grafana, "alerts": alerts, "kubernetes": kubernetes, "pods": pods}[sys.argv[1]]()
except AssertionError as error:
    sys.exit(f"fleet.py {sys.argv[1]}: {error}")
