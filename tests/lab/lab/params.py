# SPDX-License-Identifier: GPL-2.0
"""Sets of Swift's tunables. An experiment has none of its own but those that it is about
(`subject`): all experiments of a testbed have one set, tests/lab/params/TESTBED.toml, and
--defaults (nothing is set: what a user gets) or --params FILE stand in for it."""

import collections
import pathlib
import tomllib

from . import Mistake, TOP, fields, laws

FILES = TOP / "tests/lab/params"
TESTBEDS = ("t1", "t2", "timely", "sird")

# `values`: {tunable: value}, for each law that is Swift.
Set = collections.namedtuple("Set", "name values")
DEFAULTS = Set("defaults", {})


def read(path, name=None, what="--params "):
    """The set of a file; each value checked."""
    path = pathlib.Path(path)
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Mistake(f"{what}{path}: {error.strerror}") from None
    except ValueError as error:  # no TOML, or no text
        raise Mistake(f"{what}{path}: {error}") from None
    try:
        laws.resolve("swift", check(given))
    except Mistake as mistake:
        raise Mistake(f"{what}{path}: {mistake}") from None
    return Set(name or str(path), given)


def check(given):
    fields.fill("", laws.tunables("swift"), given)
    return given


def of_testbed(name):
    """What an experiment has if nothing else is asked for."""
    return read(FILES / f"{name}.toml", name, "") if name else DEFAULTS


# --- In an experiment --------------------------------------------------------------------

def is_swift(raw, name):
    """Whether `name` is Swift or a variant of it."""
    given = raw.get("laws", {}).get(name, {})
    return isinstance(given, dict) and given.get("law", name) == "swift"


def of_swift(raw, key):
    """Whether `key` (dotted) sets a tunable of Swift."""
    parts = key.split(".")
    return len(parts) == 3 and parts[0] == "laws" and is_swift(raw, parts[1]) and parts[2] in laws.tunables("swift")


def keys_set(raw):
    """All dotted keys of laws that a file sets, in its tables or by an axis."""
    result = [f"laws.{name}.{key}" for name, table in raw.get("laws", {}).items() if isinstance(table, dict) for key in table]
    for axis in raw.get("vary", []):
        result += [axis["key"]] if "key" in axis else []
        cases = axis.get("cases", {})
        result += [key for case in (cases.values() if isinstance(cases, dict) else []) for key in case]
    return list(dict.fromkeys(result))


def check_subject(raw):
    """A file sets what it is about, and nothing else of Swift."""
    own = [key for key in keys_set(raw) if of_swift(raw, key)]
    subject = raw.get("subject", [])
    for key in own:
        if key not in subject:
            raise Mistake(f"{key}: a tunable that is not this experiment's subject; expected it in tests/lab/params, "
                          "or in subject")
    for key in subject:
        if key not in own:
            raise Mistake(f"subject={key}: expected one of the tunables of Swift that are set here: {', '.join(own) or 'none'}")


def apply(raw, chosen):
    """Gives each law that is Swift what it has not: the subject, and what --set says, stay."""
    tables = raw.setdefault("laws", {})
    tables.setdefault("swift", {})
    for name, table in tables.items():
        if is_swift(raw, name):
            tables[name] = {**chosen.values, **table}
