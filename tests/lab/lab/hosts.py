# SPDX-License-Identifier: GPL-2.0
"""What hosts cost: `ideal` ones nothing but the time to wake; others as a file of
tests/lab/hosts says, key by key of topology.host, each with its source. What the
experiment says of its hosts wins."""

import functools
import math
import random
import tomllib

from . import Mistake, TOP, fields, topology
from .fields import number, text

FILES = TOP / "tests/lab/hosts"
IDEAL = "ideal"
MODELS = (IDEAL, *sorted(path.stem for path in FILES.glob("*.toml")))

HOSTS = {
    "model": text(IDEAL, "what hosts cost", MODELS),
    "noisy": number(0.125, 0, 1, "part of the hosts, chosen at random, that have topology.host.noise_ns; rounded up"),
}
NOISE = ("noise_ns", "noise_every_ns")
NEED_CORES = ("gro", "rx_usecs", "rx_frames", "irq_ns", "seg_ns", "ack_ns", "timer_ns", "timer_slack_ns", *NOISE)


@functools.cache
def values(model):
    """{key of topology.host: value}"""
    if model == IDEAL:
        return {}
    path = FILES / f"{model}.toml"
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        fields.fill("", topology.HOST, given)
    except ValueError as error:  # no TOML, or no text
        raise Mistake(f"{path.name}: {error}") from None
    except Mistake as mistake:
        raise Mistake(f"{path.name}: {mistake}") from None
    return given


def apply(given, model):
    """A [topology] table with the model's values where it has none of its own."""
    fields.check("topology", fields.table(""), given)
    own = values(model)
    if not own:
        return given
    host = {**own, **fields.check("topology.host", fields.table(""), given.get("host", {}))}
    receiver = fields.check("topology.receiver", fields.table(""), given.get("receiver", {}))
    return given | {"host": host, "receiver": {**host, **receiver}}


def check(spec):
    """What cores alone have needs some; noise needs both of its numbers."""
    host = spec["topology"]["host"]
    for part, table in (("host", host), ("receiver", host | spec["topology"]["receiver"])):
        for key in NEED_CORES:
            if key in table and not table.get("cores"):
                raise Mistake(f"topology.{part}.{key}={table[key]}: expected topology.{part}.cores of 1 or more, "
                              "or hosts.model other than ideal")
        if table.get("noise_ns") and table.get("noise_every_ns", 0) < 1000:
            raise Mistake(f"topology.{part}.noise_every_ns={table.get('noise_every_ns', 0)}: expected 1000 or more with noise_ns")


def quiet(spec, host, hosts, seed):
    """What a host that is not of the noisy ones is told."""
    if not spec["topology"]["host"].get("noise_ns"):
        return {}
    count = math.ceil(spec["hosts"]["noisy"] * hosts)
    noisy = random.Random(f"{seed}/noisy").sample(range(hosts), count)
    return {} if host in noisy else {"noise_ns": 0}
