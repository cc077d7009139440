# SPDX-License-Identifier: GPL-2.0
"""TAP of the cases that run inside a guest: test_fabric's, test_clocks', test_tune's."""

tests = failures = 0


def ok(name, good, *detail):
    global tests, failures
    tests += 1
    failures += not good
    print(f"{'' if good else 'not '}ok {tests} - {name}", flush=True)
    if not good:
        for text in detail:
            print(f"# {str(text)[:600]}", flush=True)


def same(name, got, want):
    ok(name, got == want, f"got  {got}", f"want {want}")


def nearly(name, got, want):
    """Rows whose first column is of the kernel's clock, which at times goes on a nanosecond when read."""
    ok(name, [row[1:] for row in got] == [row[1:] for row in want]
       and all(0 <= a[0] - b[0] <= 1 for a, b in zip(got, want)), f"got  {got}", f"want {want}")


def near(name, got, want, tolerance):
    ok(f"{name} ({want} +- {tolerance})", abs(got - want) <= tolerance, f"got {got}")


def plan():
    """The status."""
    print(f"1..{tests}", flush=True)
    return 1 if failures else 0
