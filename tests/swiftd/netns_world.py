# SPDX-License-Identifier: MIT
"""Network namespaces with real TCP flows in them, in control groups as containerd makes them: what a node of
a cluster looks like to swiftd. For e2e.py; and by itself, the large version:

    netns_world.py SWIFTD [--namespaces 200] [--flows 100] [--looks 20] [--churn 10]

which says what a look costs, and whether each flow had its namespace and its pod, to a swiftd with the rights
of scripts/fleet/kubernetes/daemonset.yaml and a PID namespace of its own. Exits 1 where that is more than BOUNDS.
Needs root; makes everything in a mount namespace of its own, but for the control groups, which it removes.
"""
import argparse
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 4096, 16384, 1 << 18, 2
libc = ctypes.CDLL(None, use_errno=True)
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BOUNDS = {"of a core": 0.10, "bytes resident": 200e6, "seconds for /healthz": 0.050}


def must(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source, target, kind=None, flags=0):
    must(libc.mount(source.encode(), target.encode(), kind and kind.encode(), flags, None), f"mount {target}")


def own_mounts():
    """From here on what is mounted is ours alone; /run/netns and /var/log are empty."""
    must(libc.unshare(CLONE_NEWNS), "unshare")
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    os.makedirs("/run/netns", exist_ok=True)
    mount("none", "/run/netns", "tmpfs")
    mount("none", "/var/log", "tmpfs")


def cgroup_mount():
    """Where cgroup2 is, which may be mounted anywhere; None: this kernel, or machine, has none for us."""
    with open("/proc/self/mounts") as f:
        for line in f:
            _, where, kind, options, *_ = line.split()
            if kind == "cgroup2" and "ro" not in options.split(","):
                return where
    try:
        os.makedirs("/run/cgroup2-of-test", exist_ok=True)
        mount("none", "/run/cgroup2-of-test", "cgroup2")
        return "/run/cgroup2-of-test"
    except OSError:
        return None


class Pod:
    """A namespace with a name, and a control group, as a pod of Kubernetes has them."""

    def __init__(self, world, number):
        self.number = number
        self.netns = f"cni-{os.getpid()}-{number}"
        self.uid = f"{os.getpid():08x}-0000-4000-8000-{number:012x}"
        self.container = f"{os.getpid():032x}{number:032x}"
        self.world = world
        self.path = "/run/netns/" + self.netns
        self.sockets = []
        self.holder = 0
        open(self.path, "w").close()
        with world.elsewhere():
            must(libc.unshare(CLONE_NEWNET), "unshare")
            mount("/proc/self/ns/net", self.path, None, MS_BIND)
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        self.cgroup = None
        if world.cgroups:
            self.cgroup = (f"/{world.name}/kubepods.slice/kubepods-burstable.slice/"
                           f"kubepods-burstable-pod{self.uid.replace('-', '_')}.slice/cri-containerd-{self.container}.scope")
            os.makedirs(world.cgroups + self.cgroup)
            os.makedirs(f"/var/log/pods/shop_web-{number}_{self.uid}", exist_ok=True)
            os.makedirs("/var/log/containers", exist_ok=True)
            open(f"/var/log/containers/web-{number}_shop_nginx-{self.container}.log", "w").close()

    @property
    def name(self):
        return f"shop/web-{self.number}"

    def connect(self, pairs, address="127.0.0.1"):
        """Connections over its loopback, in its control group: two flows each."""
        with self.world.elsewhere(self):
            with socket.create_server((address, 0), backlog=pairs) as listener:
                for _ in range(pairs):
                    client = socket.create_connection(listener.getsockname())
                    server = listener.accept()[0]
                    client.sendall(b"x" * 1000)
                    server.recv(1000)
                    self.sockets += [client, server]

    def drop(self, pairs):
        """The oldest connections end."""
        for s in self.sockets[:2 * pairs]:
            s.close()
        del self.sockets[:2 * pairs]

    def hand_over(self):
        """Its sockets to a process of their own: one may not have as many files as there are in all."""
        self.holder = os.fork()
        if self.holder == 0:
            signal.pause()
            os._exit(0)
        for s in self.sockets:
            s.close()

    def end(self):
        for s in self.sockets:
            s.close()
        self.sockets = []
        if self.holder:
            os.kill(self.holder, signal.SIGKILL)
            os.waitpid(self.holder, 0)
        must(libc.umount2(self.path.encode(), MNT_DETACH), "umount")
        os.remove(self.path)
        if self.cgroup:
            os.rmdir(self.world.cgroups + self.cgroup)
            os.rmdir(os.path.dirname(self.world.cgroups + self.cgroup))


class World:
    def __init__(self):
        self.home = os.open("/proc/self/ns/net", os.O_RDONLY)
        self.cgroups = cgroup_mount()
        self.name = f"swift-test-{os.getpid()}"
        self.pods = []
        try:
            if self.cgroups:
                os.mkdir(f"{self.cgroups}/{self.name}")
        except OSError:  # not ours to write
            self.cgroups = None
        with open("/proc/self/cgroup") as f:
            self.home_group = next((l.strip().split("::", 1)[1] for l in f if l.startswith("0::")), "/")

    def elsewhere(self, pod=None):
        """A with block in another namespace, and, if a pod is given, in its control group."""
        world = self

        class Elsewhere:
            def __enter__(self):
                if not pod:
                    return
                if pod.cgroup:
                    world.join(pod.cgroup)
                with open(pod.path) as f:
                    must(libc.setns(f.fileno(), CLONE_NEWNET), "setns")

            def __exit__(self, *_):
                must(libc.setns(world.home, CLONE_NEWNET), "setns")
                if pod and pod.cgroup:
                    world.join(world.home_group)

        return Elsewhere()

    def join(self, cgroup):
        with open(f"{self.cgroups}{cgroup}/cgroup.procs", "w") as f:
            f.write(str(os.getpid()))

    def add(self, pods, pairs):
        """More pods; returns them."""
        first = self.pods[-1].number + 1 if self.pods else 0
        new = [Pod(self, first + i) for i in range(pods)]
        self.pods += new
        for pod in new:
            pod.connect(pairs)
        return new

    def remove(self, pod):
        self.pods.remove(pod)
        pod.end()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pod in list(self.pods):
            self.remove(pod)
        if self.cgroups:
            for path, _, _ in os.walk(f"{self.cgroups}/{self.name}", topdown=False):
                os.rmdir(path)
        os.close(self.home)


def check(flows, pods, with_cgroups):
    """Each of the pods' flows has its namespace and its pod; how many there are."""
    by_netns = {}
    for flow in flows:
        by_netns.setdefault(flow["netns"], []).append(flow)
    for pod in pods:
        mine = by_netns.get(pod.netns, [])
        assert len(mine) == len(pod.sockets), f"{pod.netns}: {len(mine)} flows of {len(pod.sockets)}"
        for flow in mine if with_cgroups else []:
            seen = flow["cgroup"], flow["pod"], flow["container"], flow["owner"]
            assert seen == (pod.cgroup, pod.name, "nginx", pod.name), seen
    return sum(len(by_netns[p.netns]) for p in pods)


def as_in_a_container():
    """A command that runs another with the DaemonSet's capabilities, and sees no process but that one's."""
    with open(TOP + "/scripts/fleet/kubernetes/daemonset.yaml") as f:
        added = re.findall(r'drop: \["ALL"\]\n +add: \[(.*)\]', f.read())[-1] # the last container's
    wanted = ["+" + name.strip(' "').lower() for name in added.split(",")]
    return ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "setpriv", "--no-new-privs",
            "--bounding-set", ",".join(["-all"] + wanted)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("swiftd")
    for option, value in (("--namespaces", 200), ("--flows", 100), ("--looks", 20), ("--churn", 10)):
        parser.add_argument(option, type=int, default=value)
    args = parser.parse_args()
    own_mounts()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with World() as world:
        for _ in range(args.namespaces):
            world.add(1, args.flows // 2)[0].hand_over()
        log = open("/tmp/netns_world.log" if os.environ.get("KEEP_LOG") else os.devnull, "w")
        swiftd = subprocess.Popen(as_in_a_container() + [args.swiftd, "--http.listen=127.0.0.1:19464", "--collect.ccs=*",
                                   "--collect.netns=all", "--collect.max_owners=512"], stderr=log)

        def get(path):
            for _ in range(600):
                try:
                    with urllib.request.urlopen("http://127.0.0.1:19464" + path) as answer:
                        return answer.read().decode()
                except OSError:
                    time.sleep(0.1)
            raise AssertionError("swiftd does not answer")

        def metrics():
            text = get("/metrics")
            value = lambda name: float(re.search(rf"^{name} (\S+)", text, re.M)[1])
            return (value("swiftd_collections_total"), value("process_cpu_seconds_total"),
                    value("process_resident_memory_bytes"), len(text), text.count("\n"))

        try:
            while metrics()[0] < 2:
                time.sleep(0.2)
            begin, begun = metrics(), time.monotonic()
            churned = 0
            slowest = 0
            while (now := metrics())[0] < begin[0] + args.looks:
                turn = time.monotonic()
                for _ in range(args.churn):
                    pod, = world.add(1, 1)
                    world.remove(pod)
                    churned += 1
                asked = time.monotonic()
                get("/healthz")
                slowest = max(slowest, time.monotonic() - asked)
                time.sleep(max(0, turn + 1 - time.monotonic()))
            took = time.monotonic() - begun
            flows = []
            total = 1
            while len(flows) < total:
                page = json.loads(get(f"/api/v1/flows?limit=1000&sort=age&order=asc&offset={len(flows)}"))
                total, flows = page["matched"], flows + page["flows"]
                if not page["flows"]:
                    break
            n = check({f["id"]: f for f in flows}.values(), world.pods, world.cgroups)
            looks = now[0] - begin[0]
            print(f"{len(world.pods)} namespaces, {n} flows, each with its namespace"
                  + (" and its pod" if world.cgroups else " (no cgroup2 here)")
                  + f"; {churned / took:.1f} namespaces came and went a second")
            print(f"swiftd: {looks:.0f} looks in {took:.1f} s, {1000 * (now[1] - begin[1]) / looks:.1f} ms of CPU a look, "
                  f"{100 * (now[1] - begin[1]) / took:.1f} % of a core, {now[2] / 1e6:.1f} MB resident; "
                  f"/metrics: {now[3] / 1e3:.0f} kB, {now[4]} lines; /healthz took {1000 * slowest:.1f} ms at most")
            seen = {"of a core": (now[1] - begin[1]) / took, "bytes resident": now[2], "seconds for /healthz": slowest}
            beyond = [f"{seen[what]:.3g} {what}, at most {bound:g}" for what, bound in BOUNDS.items() if seen[what] > bound]
            if churned / took < 0.95 * args.churn:
                beyond.append(f"{churned / took:.1f} namespaces a second instead of {args.churn}: this machine makes no more")
            for line in beyond:
                print("beyond its bounds: " + line)
            return 1 if beyond else 0
        finally:
            swiftd.kill() # unshare(1), whose child goes with it; it hears nothing else
            swiftd.wait()


if __name__ == "__main__":
    sys.exit(main())
