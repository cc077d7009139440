# SPDX-License-Identifier: GPL-2.0
"""Sets of Swift's tunables. An experiment has none of its own but those that it is about
(`subject`): all experiments of a testbed have one set, tests/lab/params/TESTBED.toml, and
--defaults (nothing is set: what a user gets) or --params FILE stand in for it."""

import collections
import fractions
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


# --- Each tunable alone ------------------------------------------------------------------

UNCHANGED = "nothing set"


def factor_name(factor):
    """x2, x1/4: a case's name has no dot."""
    return f"x{fractions.Fraction(factor).limit_denominator(1000)}"


def times(factors, whole):
    """[(case's name, its setting)]: each of Swift's numbers, but for switches, times each factor where the law takes
    that. At a scale below 1 the first one alone."""
    result = [(UNCHANGED, {})]
    numbers = {name: field for name, field in laws.tunables("swift").items() if field.kind == "whole" and field.hi > 1 and field.default > 0}
    for name, field in list(numbers.items())[:None if whole else 1]:
        for factor in factors:
            value = round(field.default * factor)
            if value == field.default or not field.lo <= value <= field.hi:
                continue
            try:
                laws.resolve("swift", {name: value})
            except Mistake:  # it contradicts another's default
                continue
            result.append((f"{name} {factor_name(factor)}", {f"laws.swift.{name}": value}))
    return result


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
