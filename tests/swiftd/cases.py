# SPDX-License-Identifier: MIT
"""A line "ok|not ok NAME" per case of GoogleTest's JSON, and what a failed one said."""
import json
import sys

build, path = sys.argv[1:]
try:
    suites = json.load(open(path))["testsuites"]
except (OSError, ValueError):
    print(f"not ok {build}: the tests did not finish")
    sys.exit()
for suite in suites:
    for case in suite["testsuite"]:
        name = f"{build}: {case['classname']}.{case['name']}"
        if "failures" not in case:
            print(f"ok {name}")
            continue
        print(f"not ok {name}")
        for failure in case["failures"]:
            for line in failure["failure"].splitlines():
                print(f"# {line}")
