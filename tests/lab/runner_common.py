# SPDX-License-Identifier: GPL-2.0
"""What the cases of test_runner share: comparisons that raise AssertionError, and a small
experiment with its loads, runs and results."""

import contextlib
import resource

from lab import Failure, Mistake, experiment, load, topology, uml


def near(value, wanted, within=1e-9):
    assert abs(value - wanted) <= within * abs(wanted), f"{value}, not {wanted}"


def same(value, wanted):
    assert value == wanted, f"{value!r}, not {wanted!r}"


def mistake(function, *arguments, kind=Mistake):
    """The one line that it complains with."""
    try:
        function(*arguments)
    except kind as error:
        same(len(str(error).splitlines()), 1)
        return str(error)
    raise AssertionError("no complaint")


def failure(function, *arguments):
    return mistake(function, *arguments, kind=Failure)


@contextlib.contextmanager
def no_room(bytes_=0):
    """No file may be longer, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def says(line, *words):
    for word in words:
        assert word in line, f"{word!r} is not in {line!r}"


def build(**given):
    return topology.build(topology.resolve(given))


def loads_of(loads, t, seed=1, until_ns=10**7):
    return load.expand({k: load.resolve(k, v) for k, v in loads.items()}, t, "swift", seed, until_ns)


def run_of(raw, cc="swift", seed=1):
    case, = experiment.cases(experiment.Experiment("test", raw, {}, 1.0))
    return uml.prepare(case, cc, seed)


RAW = {"topology": {"kind": "star", "hosts": 5}, "load": {"x": {"kind": "incast", "flows": 100}},
       "time": {"warmup_ms": 10, "measure_ms": 100}, "scale": {"load.x.flows": 5, "time.measure_ms": 2},
       "vary": [{"key": "laws.swift.base_target_ns", "values": [20000, 30000], "name": "t{}"},
                {"cases": {"few": {"topology.hosts": 3}, "many": {"topology.hosts": 9}}}]}


def cases_of(settings=None, scale=1.0, raw=RAW):
    return experiment.cases(experiment.Experiment("test", raw, settings or {}, scale))


def entry(cc="swift", case="", seed=1, **metrics):
    return {"cc": cc, "case": case, "seed": seed, "checks": [], **metrics}
