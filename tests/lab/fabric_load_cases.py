# SPDX-License-Identifier: GPL-2.0
"""Cases of test_fabric: what labload does with its lines, over a link of labfab."""

import contextlib
import struct

import fabric_net as fn
import guest
from fabric_net import G, Net
from guest import LOAD, monotonic_ns, read, write
from lab import measure
from tap import ok, same

MS = 10**6


@contextlib.contextmanager
def loaded(module, window, *flows):
    """The load, when what is measured (`window`) is over."""
    with Net(module, [""] * 2, [""], [f"h{i} s0 {G}" for i in range(2)]):
        fn.load_module(module.replace("labfab.ko", "labload.ko"))
        try:
            for line in (*flows, "connect", f"measure {window}", f"go at_ns={monotonic_ns() + 10 * MS}"):
                write(LOAD + "control", line)
            read(LOAD + "wait")
            yield
            write(LOAD + "control", "stop")
        finally:
            if said := fn.command("/sbin/rmmod", "labload"):
                raise guest.Failure(said)


def load_depth(module):
    """RPCs that start again while some are under way: 8 ms each, every 2 ms."""
    flow = f"flow group=0 src=1 dst=0 mode=rpc size=1000000 depth=3 stop_ns={MS} every_ns={2 * MS}"
    with loaded(module, f"start_ns=1 stop_ns={100 * MS}", flow):
        records = struct.iter_unpack("=IIQQQ", read(LOAD + "messages"))
        messages = [(start, done or 1 << 62) for _, _, start, done, _ in records]
    outstanding = [sum(start <= at < done for start, done in messages) for at, _ in messages]
    same("no more requests are outstanding than its depth", max(outstanding), 3)
    ok("  and it starts again", len(messages) > 6, messages)


def load_samples(module):
    """Samples begin before a connection does."""
    flows = [f"flow group=0 src=1 dst=0 mode=stream{late}" for late in ("", f" open=start start_ns={5 * MS}")]
    with loaded(module, f"start_ns={MS} stop_ns={20 * MS} sample_ns={MS}", *flows):
        samples = [one for one in struct.iter_unpack("=QIIQII", read(LOAD + "samples")) if one[1] == 1]
    early = [one[2:] for one in samples if one[0] < 5 * MS]
    same("a connection is sampled before it is there: zeros", early, [(0, 0, 0, 0)] * 4)
    ok("  and then as any", len(samples) == 20 and all(one[2] and one[3] for one in samples[6:]), samples)
    windows = measure.Samples(b"".join(struct.pack("=QIIQII", *one) for one in samples)).fcwnd
    same("  and has no window before", len(windows), sum(one[2] > 0 for one in samples))


CASES = (load_depth, load_samples)
