#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""GoogleTest's JSON reports as TAP lines: gtest_to_tap.py FIRST_NUMBER PREFIX REPORT

Prints the lines without a plan and exits with 1 if a test failed."""
import json
import sys

number, prefix, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]
failed = False

with open(path) as report:
    suites = json.load(report)["testsuites"]
for suite in suites:
    for test in suite["testsuite"]:
        failures = test.get("failures", [])
        failed |= bool(failures)
        name = f"{suite['name']}__{test['name']}".replace("/", ".")
        print(f"{'not ok' if failures else 'ok'} {number} - {prefix}{name}")
        for failure in failures:
            for line in failure["failure"].splitlines()[:20]:
                print(f"# {line}")
        number += 1
sys.exit(failed)
