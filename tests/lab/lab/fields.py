# SPDX-License-Identifier: GPL-2.0
"""What a value may be. A table of these describes each part of an experiment, so that
whatever is wrong is said in one line: the field, its value and what is allowed."""

import collections
import difflib

from . import Mistake

Field = collections.namedtuple("Field", "kind default lo hi choices doc")


def number(default, lo, hi, doc):
    return Field("number", default, lo, hi, None, doc)


def whole(default, lo, hi, doc):
    return Field("whole", default, lo, hi, None, doc)


def text(default, doc, choices=None):
    return Field("text", default, None, None, choices, doc)


def flag(default, doc):
    return Field("flag", default, None, None, None, doc)


def listing(default, doc):
    return Field("list", default, None, None, None, doc)


def table(doc):
    return Field("table", {}, None, None, None, doc)


def expected(field):
    """What is allowed, in words."""
    if field.kind in ("number", "whole"):
        return f"{'a whole number' if field.kind == 'whole' else 'a number'} from {field.lo} to {field.hi}"
    if field.choices:
        return "one of " + ", ".join(str(choice) or "none" for choice in field.choices)
    return {"text": "text", "flag": "true or false", "list": "a list", "table": "a table"}[field.kind]


def fits(field, value):
    if field.kind == "flag":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if field.kind == "whole":
        return isinstance(value, int) and field.lo <= value <= field.hi
    if field.kind == "number":
        return isinstance(value, (int, float)) and field.lo <= value <= field.hi
    if field.kind == "text":
        return isinstance(value, str) and (not field.choices or value in field.choices)
    return isinstance(value, {"list": list, "table": dict}[field.kind])


def check(where, field, value):
    if not fits(field, value):
        raise Mistake(f"{where}={value}: expected {expected(field)}")
    return value


def each(where, field, values):
    """A list, of which each is what the field says."""
    for value in check(where, listing(None, ""), values):
        check(where, field, value)
    return values


def unknown(where, key, allowed, what="unknown key; {}allowed: {}"):
    allowed = list(allowed)
    near = difflib.get_close_matches(key, allowed, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    return Mistake(f"{where}{key}: " + what.format(hint, ", ".join(sorted(allowed))))


def fill(where, fields, given):
    """The table `given`, checked, with defaults for what it leaves out."""
    for key in check(where, table(""), given):
        if key not in fields:
            raise unknown(f"{where}." if where else "", key, fields)
    result = {}
    for key, field in fields.items():
        if key in given:
            result[key] = check(f"{where}.{key}" if where else key, field, given[key])
        elif field.default is not None:
            result[key] = field.default
    return result
