# SPDX-License-Identifier: GPL-2.0
"""One run: a case, a law and a seed become a job file; a User Mode Linux process makes of
it the files that measure.py reads. Nothing outlives a run but what it returns."""

import contextlib
import ctypes
import dataclasses
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from . import OUT, TOP, Failure, Mistake, clocks, experiment, faults, hosts, laws, load, topology
from .kernel import digest

GUEST = TOP / "tests/lab/guest.py"
START_NS = 10**18  # of the guest's CLOCK_REALTIME
FIRST_PORTS = (10_000, 20_000)  # of each host's connections; all of 45000 flows have room above
ADDR_NO_RANDOMIZE = 0x0040000  # personality(2)
CLOCKS_NS = 2 * 10**9  # within which all lines of clocks are known
FILES = ("wait", "fabric", "fabric_start", "fabric_reset", "reset_late", "counters", "flows", "groups", "messages", "samples",
         "truth")

# So that the host is never the limit: memory, queues and backlogs beyond any need.
KERNEL_SYSCTLS = {
    "net.ipv4.tcp_mem": "100000000 200000000 400000000",
    "net.core.netdev_max_backlog": 10_000_000,
    "net.core.netdev_budget": 100_000,
}
HOST_SYSCTLS = {
    "net.core.somaxconn": 65535,
    "net.ipv4.tcp_max_syn_backlog": 65535,
    # As Documentation/hosts-100g.md has it: windows that grow as they are used, in units of 512 bytes.
    "net.ipv4.tcp_rmem": "4096 131072 16777216",
    "net.ipv4.tcp_wmem": "4096 16384 16777216",
    # What waits for the load is as new.
    "net.ipv4.tcp_slow_start_after_idle": 0,
    "net.ipv4.tcp_no_metrics_save": 1,
}


@dataclasses.dataclass
class Run:
    """What is asked of one guest."""
    case: experiment.Case
    cc: str
    seed: int
    topology: topology.Topology
    flows: list
    job: dict
    mem_mb: int
    experiment: str = ""

    @property
    def name(self):
        return "/".join(filter(None, (self.cc, self.case.name))) + f" seed {self.seed}"


# --- Jobs ------------------------------------------------------------------------------

def prepare(case, cc, seed):
    """Errors in any of its values are raised here; nothing is started."""
    spec = case.spec
    t = topology.build(spec["topology"])
    law = laws.in_topology(experiment.resolve_law(spec, cc), t)
    if not spec["load"]:
        raise Mistake("load: the experiment has none")
    flows, lines = load.expand(spec["load"], t, law["law"], seed, case.duration_ns)
    job = network(spec, t, [law, *other_laws(spec, t, law, cc)], seed) | measurement(case, t)
    job["load"] = lines
    if spec["fault"]:
        job["faults"] = faults.events(spec["fault"], t, case.duration_ns)
    job["first_port"] = random.Random(f"{seed}/ports").randrange(*FIRST_PORTS)
    return Run(case, cc, seed, t, flows, job, memory_mb(spec, t, flows))


def other_laws(spec, t, law, cc):
    """Those that loads name. A module, its sysctls and the hosts' routes are what all flows have in common."""
    result = []
    for name, one in spec["load"].items():
        if not one["law"]:
            continue
        other = laws.in_topology(experiment.resolve_law(spec, one["law"]), t)
        for key in sorted(law.keys() | other.keys()) if other["law"] == law["law"] else laws.COMMON:
            if other.get(key) != law.get(key):
                raise Mistake(f"load.{name}.law={one['law']}: its {key} is {other.get(key, 'not set')}; expected "
                              f"{law.get(key, 'not set')}, as that of {cc}, whose hosts it shares")
        result.append(other)
    return result


def network(spec, t, all_laws, seed):
    """What is true of a job with and without load."""
    law = all_laws[0]
    # The first one's win.
    law_sysctls = {key: value for one in reversed(all_laws) for key, value in laws.sysctls(one).items()}
    names = sorted({"reno", "cubic", *(one["law"] for one in all_laws)})
    job = {
        "modules": list(dict.fromkeys(filter(None, (laws.module(one, "MODULES", "KERNEL") for one in all_laws)))),
        "sysctls": KERNEL_SYSCTLS | {"net.core.default_qdisc": spec["hosts"]["qdisc"],
                                     "net.ipv4.tcp_allowed_congestion_control": " ".join(names)},
        "host_sysctls": HOST_SYSCTLS | law_sysctls | spec["sysctls"],
        "hosts": [{"id": i, "args": t.host_args(i, seed, clocks.nic_args(spec["hosts"], i, seed),
                                                hosts.quiet(spec, i, t.hosts, seed))} for i in range(t.hosts)],
        "switches": t.switch_lines(seed),
        "links": t.link_lines(),
    }
    truth = spec["measure"]["truth"]
    job["modules"] = [f"MODULES/labfab.ko truth={truth}", *job["modules"]]
    if truth:
        job["truth"] = 1
    if spec["hosts"]["stamps"] == "hardware" and any(one["law"] == "swift" for one in all_laws):
        job["clocks"] = list(range(t.hosts))
    metrics = " ".join(f"{key} {law[key]}" for key in ("initcwnd", "quickack") if law[key])
    if metrics:
        job["host_commands"] = [f"ip route replace 10.0.0.0/8 dev eth0 {metrics}"]
    return job


def go_ns(spec, t):
    """When the load starts: by then all NICs' carriers are up, their clocks known, and all flows connected.
    A second of nothing costs nothing."""
    return 5 * 10**9 + 20_000_000 * t.hosts + (CLOCKS_NS if spec["hosts"]["stamps"] == "hardware" else 0)


def measurement(case, t):
    start, end = load.ns(case.spec["time"]["warmup_ms"]), case.duration_ns
    sample = round(case.spec["time"]["sample_us"] * 1000)
    return {"go_ns": go_ns(case.spec, t), "start_ns": start,
            "measure": f"start_ns={start} stop_ns={end}" + (f" sample_ns={sample}" if sample else "")}


def memory_mb(spec, t, flows):
    """Of the guest: hosts, sockets, what waits in their buffers; measured, and doubled."""
    streams = sum(flow.mode == "stream" for flow in flows)
    host_mb = 1.5 + (clocks.PROCESS_MB if spec["hosts"]["stamps"] == "hardware" else 0)
    grown = sum(spec["load"][list(spec["load"])[flow.group]].get("pool", 1) > 1 for flow in flows)  # about one more each
    return spec["measure"]["mem_mb"] or round(384 + host_mb * t.hosts + 0.1 * (len(flows) + grown) + 0.5 * streams)


def place(job, kernel):
    """The job with the paths of this machine."""
    paths = [m.replace("MODULES/", kernel.modules + "/").replace("KERNEL/", kernel.build + "/")
             for m in job["modules"]]
    if "load" in job:
        paths.insert(1, kernel.modules + "/labload.ko")
    return job | {"modules": paths}


def key(run, kernel):
    """Equal keys, equal results: of the job, the kernel, the modules that it loads, and who reads the outcome."""
    package = [path.read_bytes() for path in sorted(pathlib.Path(__file__).parent.glob("*.py"))
               if path.stem in ("faults", "hosts", "measure", "ideal", "checks", "uml", "topology", "load", "clocks")]
    tools = clocks.built() if "clocks" in run.job else ""
    loaded = [digest(line.split()[0]) for line in place(run.job, kernel)["modules"]]
    text = json.dumps([run.job, run.case.spec, run.seed, run.mem_mb, kernel.build, loaded, tools], sort_keys=True)
    return hashlib.sha256(b"".join([text.encode(), GUEST.read_bytes(), *package])).hexdigest()[:24]


# --- The machine ---------------------------------------------------------------------------

def shm():
    """Where the guest's memory lives: a file, in memory if that is possible."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()


def check_machine(mem_mb, guests):
    with open("/proc/meminfo", encoding="ascii") as file:
        free_mb = int(re.search(r"MemAvailable: +(\d+)", file.read())[1]) // 1024
    need = mem_mb * guests
    if need > free_mb - 256:
        raise Mistake(f"memory={free_mb} MB available: expected at least {need + 256} MB"
                      f" ({guests} guest{'s' * (guests > 1)} of {mem_mb} MB; --jobs, --scale or measure.mem_mb make it less)")
    OUT.mkdir(parents=True, exist_ok=True)
    for folder, wanted in ((shm(), need), (OUT, 500)):
        free = shutil.disk_usage(folder).free >> 20
        if free < wanted:
            raise Mistake(f"{folder}={free} MB free: expected at least {wanted} MB")


class Guests:
    """The processes that run, so that an interrupt can end them all."""

    def __init__(self):
        self.lock = threading.Lock()
        self.running, self.closed = set(), False

    def start(self, argv, **options):
        with self.lock:
            if self.closed:
                raise Failure("interrupted")
            process = subprocess.Popen(argv, start_new_session=True, **options)
            self.running.add(process)
            return process

    def end(self, process):
        """With all its children: those of UML are of its process group."""
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        with self.lock:
            self.running.discard(process)

    def end_all(self):
        with self.lock:
            self.closed = True
            running = list(self.running)
        for process in running:
            self.end(process)


@contextlib.contextmanager
def cpu_of_its_own():
    """A CPU that no other guest of the lab in this network namespace has, or None. A guest's kernel and its
    processes take turns: were they on two CPUs, each turn would have to wake one, and a run take twice as long."""
    with socket.socket(socket.AF_UNIX) as claim:
        for cpu in sorted(os.sched_getaffinity(0)):
            with contextlib.suppress(OSError):
                claim.bind(f"\0tcp_swift.lab.cpu.{cpu}")
                break
        else:
            cpu = None
        yield cpu


def fixed_addresses():
    """For what this thread starts, where that is allowed. Else the guest's memory grows by a gap behind the
    kernel that is another in each run, up to a GB."""
    libc = ctypes.CDLL(None)
    libc.personality(libc.personality(0xFFFFFFFF) | ADDR_NO_RANDOMIZE)


def command_line(kernel, folder, seed, mem_mb):
    """(argv, environment) of a guest that is started in `folder`. The kernel stirs its command line into
    its random numbers, so no path of this machine may be in it: /proc is the machine's own until the guest
    mounts another, and /proc/self/cwd the folder."""
    return ([f"{kernel.build}/linux", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"mem={mem_mb}M",
             "init=/usr/bin/python3", "time-travel=inf-cpu", f"time-travel-start={START_NS}", "con0=fd:0,fd:1",
             "con=null", "quiet", "--", "-BIS", "/proc/self/cwd/guest.py", "/proc/self/cwd"],
            {"HOME": str(folder), "TMPDIR": shm(), "UML_RANDOM_SEED": str(seed), "PATH": "/usr/bin:/bin"})


def scratch():
    """A folder that the guest can write: not under /run, which it has of its own."""
    base = OUT / "jobs"
    base.mkdir(parents=True, exist_ok=True)
    return pathlib.Path(tempfile.mkdtemp(prefix="job-", dir=base))


def boot(guests, kernel, job, folder, seed, mem_mb, show=False, progress=None):
    """Runs a guest to its end. Its console goes to folder/console, or is shown."""
    try:
        (folder / "job.json").write_text(json.dumps(place(job, kernel)), encoding="utf-8")
        shutil.copyfile(GUEST, folder / "guest.py")
        if "clocks" in job:
            shutil.copy(clocks.SWIFTCTL, folder / "swiftctl")
    except OSError as error:
        raise Failure(f"{folder}: {error.strerror}") from None
    argv, environment = command_line(kernel, folder, seed, mem_mb)
    fixed_addresses()
    with open(folder / "console", "wb") as console, cpu_of_its_own() as cpu:
        if cpu is not None and shutil.which("taskset"):
            argv = ["taskset", "--cpu-list", str(cpu), *argv]
        process = guests.start(argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE if show else console, stderr=console)
        try:
            for line in process.stdout or []:
                show_line(line)
            while True:
                try:
                    process.wait(0.5)
                    break
                except subprocess.TimeoutExpired:
                    if progress:
                        progress(read_progress(folder))
        finally:
            guests.end(process)
    if (folder / "error").exists():
        raise Failure((folder / "error").read_text(encoding="utf-8", errors="replace") + kernel_said(folder))
    if not (folder / "done").exists():
        tail = (folder / "console").read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
        raise Failure(f"the guest ended early (status {process.returncode}): " + " | ".join(tail))


def show_line(line):
    """All but the kernel's farewell."""
    if not re.match(rb"(\[[ .\d]+\] )?reboot: ", line):
        sys.stdout.buffer.write(line.replace(b"\r\n", b"\n"))
        sys.stdout.buffer.flush()


def kernel_said(folder):
    """Which control line was refused, and why, is in its log."""
    log = folder / "dmesg"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    told = [line for line in lines if re.search(r"lab(fab|load)|timely|gcn|fast|theta|swift", line)]
    return f" ({told[-1].split('] ', 1)[-1]})" if told else ""


def read_progress(folder):
    """Part of the virtual time that is over, or None before the load starts."""
    try:
        return float((folder / "progress").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


# --- Runs -------------------------------------------------------------------------------------

def keep_files(folder, target):
    """All of them or none."""
    shutil.rmtree(target, ignore_errors=True)
    try:
        shutil.copytree(folder, target)
    except OSError as error:
        shutil.rmtree(target, ignore_errors=True)
        why = error.strerror or error.args[0][0][2]  # copytree's own has a list of what failed
        raise Failure(f"--keep {target}: {why}") from None


def execute(run, kernel, guests, keep=None, progress=None):
    """What was measured: {name: bytes}."""
    folder = scratch()
    try:
        began = time.monotonic()
        boot(guests, kernel, run.job, folder, run.seed, run.mem_mb, progress=progress)
        result = {name: (folder / name).read_bytes() for name in FILES if (folder / name).exists()}
        result["dmesg"] = (folder / "dmesg").read_bytes()
        return result, time.monotonic() - began
    finally:
        try:
            if keep:
                keep_files(folder, pathlib.Path(keep) / re.sub(r"[^\w.-]+", "_", f"{run.experiment} {run.name}"))
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def run_command(spec, cc, seed, argv, kernel, guests):
    """A command in the guest, as root, with the hosts as namespaces; its exit status."""
    t = topology.build(spec["topology"])
    law = laws.in_topology(experiment.resolve_law(spec, cc), t)
    job = network(spec, t, [law], seed) | {"command": argv}
    folder = scratch()
    try:
        boot(guests, kernel, job, folder, seed, memory_mb(spec, t, []) + 512, show=True)
        return int((folder / "status").read_text(encoding="ascii"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
