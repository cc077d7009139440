# SPDX-License-Identifier: GPL-2.0
"""The cases of test_clocks, run inside the guest. Hosts: 0 and 1 have plain NICs, 2 one
whose driver tells its stamps when asked, 3 one without stamps."""

import contextlib
import ctypes
import json
import signal
import subprocess
import sys
import time
import traceback

import guest
from guest import FABRIC, LOAD, monotonic_ns, read, sleep_until, write
from lab import measure
from tap import ok, plan, same

NONE, SOFTWARE, HARDWARE = range(3)
CLOCKED = (0, 1, 2)
RATE_BPS, PROP_NS = 10**9, 3000  # as test_clocks has it
PROBE_PORT, PROBE_HEADERS = 21335, 66  # UDP, IP, Ethernet, preamble, FCS and gap
MS, S = 10**6, 10**9


def until(ready, seconds=30):
    """Whether it became so; virtual seconds."""
    end_ns = monotonic_ns() + seconds * S
    while not ready():
        if monotonic_ns() > end_ns:
            return False
        time.sleep(0.01)
    return True


# --- Load ---------------------------------------------------------------------------------

class Window:
    """What was measured for some time."""

    def __init__(self, ns):
        self.flows = measure.parse_lines(read(LOAD + "flows"))
        self.groups = measure.parse_lines(read(LOAD + "groups"))
        self.truth = measure.truth(read(LOAD + "truth"))
        self.goodput_bps = sum(flow["rx_bytes"] for flow in self.flows) * 8 * S / ns

    def errors(self, part):
        return self.truth[part]["error_ns"]

    def is_true(self):
        """To what the echo resolves, and clocks that are read a nanosecond at a time."""
        return (self.truth["endpoint"]["count"] > 50 and self.errors("local")["max"] <= 20
                and self.errors("remote")["max"] <= 84 and self.errors("fabric")["max"] <= 1200)


class Load:
    """Flows as ["SRC DST ..."], messages of 32 KB if nothing else is said; they go on until the end."""

    def __init__(self, *flows):
        for flow in flows:
            src, dst, *more = flow.split()
            write(LOAD + "control", f"flow group=0 src={src} dst={dst} mode=rpc " + (" ".join(more) or "size=32768 depth=2"))

    def __enter__(self):
        write(LOAD + "control", "connect")
        self.go_ns = monotonic_ns() + 10 * MS
        write(LOAD + "control", f"go at_ns={self.go_ns}")
        sleep_until(self.go_ns + 50 * MS)
        return self

    def __exit__(self, *_):
        write(LOAD + "control", "stop")

    @contextlib.contextmanager
    def window(self, ns):
        """What happens meanwhile is the caller's; .window then has it."""
        start_ns = monotonic_ns() - self.go_ns + MS
        write(LOAD + "control", f"measure start_ns={start_ns} stop_ns={start_ns + ns}")
        sleep_until(self.go_ns + start_ns)
        yield
        read(LOAD + "wait")
        self.last = Window(ns)

    def measure(self, ns=50 * MS):
        with self.window(ns):
            pass
        return self.last

    @staticmethod
    def flows():
        return measure.parse_lines(read(LOAD + "flows"))

    def sources(self):
        """Of each flow: (local, remote)."""
        return [(flow["local_source"], flow["remote_source"]) for flow in self.flows()]

    def all_hardware(self):
        return set(self.sources()) == {(HARDWARE, HARDWARE)}

    def is_sane(self, least=0.05):
        """Windows within their bounds, and none that a wrong delay has driven to its least."""
        return all(least <= flow[key] / 65536 <= 1 << 15 for flow in self.flows() for key in ("fcwnd_q16", "ecwnd_q16"))


class Watch:
    """How flows fare while something happens: that is looked at 100 times a second."""

    def __init__(self, load):
        self.load, self.sane, self.seen, self.worst_bps = load, True, set(), RATE_BPS

    def look(self, seconds, done=lambda: False):
        end_ns = monotonic_ns() + round(seconds * S)
        while monotonic_ns() < end_ns and not done():
            now = self.load.measure(10 * MS)
            self.worst_bps = min(self.worst_bps, now.goodput_bps)
            self.sane &= self.load.is_sane()
            self.seen |= set(self.load.sources())
        return done()


# --- NICs and clocks ------------------------------------------------------------------------

def inside(host, *argv):
    subprocess.run(guest.Clocks.inside(host, *argv), check=True)


def running(hosts=CLOCKED):
    return guest.Clocks({"clocks": hosts})


def host_clock(step_s):
    now_ns = time.clock_gettime_ns(time.CLOCK_REALTIME) + step_s * S
    spec = (ctypes.c_long * 2)(*divmod(now_ns, S))
    guest.check(guest.libc.clock_settime(time.CLOCK_REALTIME, spec), "clock_settime")


# --- Cases -------------------------------------------------------------------------------------

def plain():
    """Clocks that are a thousand seconds and tens of ppm apart."""
    with running(), Load("1 0", "2 0", "0 1", "1 2") as load:
        ok("all flows come to NICs' stamps, the driver's own ones too", until(load.all_hardware), load.sources())
        found = load.measure(500 * MS)
        same("  every sample", found.truth["hardware_ratio"], {"local": 1, "remote": 1})
        ok("  and its delays are true", found.is_true(), found.truth)
        ok("  of packets that waited long enough to tell", found.truth["endpoint"]["count"] > 5000
           and max(flow["endpoint_ns"] for flow in load.flows()) > 20000, load.flows())
        ok("  and the link is full", found.goodput_bps > 0.9 * RATE_BPS, found.goodput_bps)
    with Load("1 0", "0 1") as load:
        ok("without swiftctl all is software's", until(lambda: set(load.sources()) == {(SOFTWARE, SOFTWARE)}), load.sources())
        found = load.measure()
        ok("  which is blind to the ring", found.errors("endpoint")["p50"] > 20000, found.truth)


def owned():
    """Packets that wait because a process has the socket."""
    with running(), Load("1 0 size=1000 depth=1") as load:
        until(load.all_hardware)
        with load.window(100 * MS):
            for _ in range(100):
                for end in ("src", "dst"):
                    write(LOAD + "control", f"own flow=0 end={end} for_ns=300000")
        found = load.last
        ok("a packet that waited for the socket's owner", found.groups[0]["rtt_max_ns"] > 350000, found.groups)
        ok("  is as old as it is", found.is_true(), found.truth)


def mixed():
    """One end has stamps, the other has none."""
    with running(), Load("3 0", "0 3") as load:
        ok("each end is told apart: NIC's stamps at one, the stack's at the other",
           until(lambda: load.sources() == [(SOFTWARE, HARDWARE), (HARDWARE, SOFTWARE)]), load.sources())
        watch = Watch(load)
        watch.look(0.2)
        ok("  and it stays so", watch.seen == {(SOFTWARE, HARDWARE), (HARDWARE, SOFTWARE)}, watch.seen)
        ok("  with sane windows on full links", watch.sane and watch.worst_bps > 0.8 * RATE_BPS, watch.worst_bps)


def steps():
    """The NIC's clock jumps, with flows on it."""
    with running(), Load("1 0", "2 0", "0 1") as load:
        until(load.all_hardware)
        # Backward by less than a second a step looks like delay at host 0, until swiftctl reads the clock again.
        for step_ns in (S, -S, 3600 * S, -86400 * S, 10 * MS, -10 * MS, 50000, -50000):
            time.sleep(1)
            before = load.measure()
            watch = Watch(load)
            write(FABRIC + "control", f"phc id=0 step_ns={step_ns}")
            watch.look(0.1)
            back = watch.look(30, lambda: load.all_hardware() and load.last.is_true())
            name = f"PHC of host 0 steps by {step_ns / S:g} s"
            ok(f"{name}: the flows go on", watch.worst_bps > 0.7 * before.goodput_bps, watch.worst_bps, before.goodput_bps)
            ok("  with sane windows", -S < step_ns < -MS or watch.sane, load.flows())
            if abs(step_ns) > MS:
                ok("  on the stack's stamps meanwhile", SOFTWARE in {source for pair in watch.seen for source in pair}, watch.seen)
            ok("  and return to the NIC's, which are true again", back, load.sources(), load.last.truth)
            # A flow that such a step threw far down comes back when the other one leaves it a gap at the busy
            # host, whose target knows no flow scaling (3.5): it has to be off its least, 0.001, no more.
            least = 0.005 if -S < step_ns < -MS else 0.05
            ok("  with sane windows", until(lambda least=least: load.is_sane(least), 5), load.flows())


def host_steps():
    """The host's wall clock is set."""
    with running(), Load("1 0", "0 1") as load:
        until(load.all_hardware)
        watch = Watch(load)
        for step_s in (3600, -7200, 3600):
            host_clock(step_s)
            watch.look(0.5)
        same("the host's clock is set: NICs' stamps stay", watch.seen, {(HARDWARE, HARDWARE)})
        ok("  and true", load.measure().is_true(), load.last.truth)
        ok("  on a full link with sane windows", watch.sane and watch.worst_bps > 0.8 * RATE_BPS, watch.worst_bps)


def flaps():
    """Carriers and devices go down and come back."""
    with running(), Load("1 0", "2 1", "1 2") as load:
        until(load.all_hardware)
        whole = load.measure().goodput_bps
        for name, down, up in (
                ("carrier", lambda: write(FABRIC + "control", "fault link=1 down=1"),
                 lambda: write(FABRIC + "control", "fault link=1")),
                ("device", lambda: inside(1, "ip", "link", "set", "eth0", "down"),
                 lambda: inside(1, "ip", "link", "set", "eth0", "up"))):
            for _ in range(3):
                down()
                time.sleep(0.3)
                up()
                time.sleep(0.3)
            watch = Watch(load)
            back = watch.look(60, lambda: load.all_hardware() and load.last.is_true()
                              and load.last.goodput_bps > 0.9 * whole)
            ok(f"the {name} of host 1 flaps: all flows are back on NICs' stamps", back, load.sources(), load.last.truth,
               load.last.goodput_bps)
            ok("  with sane windows", load.is_sane(), load.flows())


def deaths():
    """Who tells of the clocks is killed, ended, started again."""
    with running() as clocks, Load("1 0", "0 1") as load:
        until(load.all_hardware)
        for name in (signal.SIGKILL, signal.SIGTERM):
            watch = Watch(load)
            clocks.running[0].send_signal(name)
            clocks.running[0].wait()
            ok(f"swiftctl of host 0: {name.name}: its line ends, software stamps what host 0 receives", watch.look(
                60, lambda: load.sources() == [(HARDWARE, SOFTWARE), (SOFTWARE, HARDWARE)]), load.sources())
            ok("  the flows go on, with sane windows", watch.sane and watch.worst_bps > 0.7 * RATE_BPS, watch.worst_bps)
            clocks.start(0)
            ok("  and when it is back its NIC is", watch.look(30, load.all_hardware), load.sources())
            ok("  and true", load.measure().is_true(), load.last.truth)


class Responder:
    """`swiftctl probe --respond` on a host."""

    def __init__(self, host):
        self.host = host
        self.process = subprocess.Popen(guest.Clocks.inside(host, guest.SWIFTCTL, "probe", "--respond"), stdin=subprocess.DEVNULL)

    def __enter__(self):
        until(lambda: f":{PROBE_PORT:04X} " in subprocess.run(
            guest.Clocks.inside(self.host, "cat", "/proc/net/udp6", "/proc/net/udp"), capture_output=True, text=True, check=True).stdout)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def probed(host, *options):
    """What `swiftctl probe` on host 0 says of one."""
    done = subprocess.run(guest.Clocks.inside(0, guest.SWIFTCTL, "probe", f"10.0.0.{host + 1}", "--count", "200", "--interval", "5",
                                              "--json", *options), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["targets"][0]


def is_fabric(found, size, *which):
    """Four times down a fibre, and twice whole into the switch: within 200 ns and 1 %."""
    true_ns = 4 * PROP_NS + 2 * (size + PROBE_HEADERS) * 8 * S // RATE_BPS
    return all(abs(found["fabric_rtt_ns"][key] - true_ns) <= 200 + true_ns / 100 for key in which)


def probe():
    """`swiftctl probe`: the fabric alone, whatever the hosts take."""
    with running((0, 1)), Responder(1):
        for size in (72, 1400):
            found = probed(1, "--size", str(size))
            ok(f"probes of {size} bytes have NICs' stamps at both ends",
               found["stamps"]["local"] == found["stamps"]["remote"] == "hw" and found["fabric_rtt_ns"]["n"] > 150, found)
            ok("  and tell the fabric's RTT", is_fabric(found, size, "min", "p50", "p99"), found)
            ok("  from which the hosts' is told apart", found["remote_turnaround_ns"]["p50"] >= 20000
               and found["local_rx_nic_ns"]["p50"] >= 20000, found)
        # Packets that take host 1 longer than the link; now and then a probe meets one on that, too.
        with Load(*["2 1 size=100 depth=16"] * 4):
            found = probed(1)
            ok("beside a load that waits in the host's ring", found["remote_turnaround_ns"]["p50"] > 60_000, found)
            ok("  it is the fabric's still", is_fabric(found, 72, "min", "p50"), found)


CASES = (probe, plain, owned, mixed, steps, host_steps, flaps, deaths)


def main(names, cases=CASES):
    for case in cases:
        if names and case.__name__ not in names:
            continue
        print(f"# {case.__name__}", flush=True)
        try:
            case()
        except Exception:  # pylint: disable=broad-except # whatever it is, the rest shall run
            ok(f"{case.__name__} runs to its end", False, *traceback.format_exc().splitlines())
            with contextlib.suppress(guest.Failure):
                write(LOAD + "control", "stop")
    return plan()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
