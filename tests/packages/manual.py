#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The manual against --help: every verb, action and option that --help shows is in the page, and
in both shells' completion. Usage: manual.py PROGRAM MANUAL-FOLDER. Prints TAP without a plan."""

import re, subprocess, sys, os

program, manual = sys.argv[1:]
name = os.path.basename(program)


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def sections(words):
    """--help of "swiftctl bpf load": options, and the names below "Verbs:" or "Actions:"."""
    text = output(program, *words, "--help").split("Examples:")[0]
    options = set(re.findall(r"^ +(?:-\w, ?)?(--[\w.-]+)", text, re.M))
    below = re.search(r"^(?:Verbs|Actions|Subcommands):\n((?:  .*\n)+)", text, re.M)
    return options, re.findall(r"^  (\w[\w-]*)", below[1], re.M) if below else []


def check(page, words, options):
    path = f"{manual}/man/man8/{page}.8"
    text = re.sub(r".\x08", "", output("mandoc", "-Tascii", "-O", "width=200", path))
    missing = sorted(o for o in options if not re.search(re.escape(o) + r"(?![\w-])", text))
    for shell, file in (("bash", name), ("zsh", f"_{name}")):
        with open(f"{manual}/{shell}/{file}", encoding="utf-8") as completion:
            written = completion.read()
        missing += [f"{shell}: {o}" for o in sorted(options) if o not in written]
    print(f"{'not ok' if missing else 'ok'} - {' '.join([name, *words])}: {len(options)} options are in "
          f"{page}(8) and the completion")
    for option in missing:
        print(f"# missing: {option}")
    return text


def lint():
    for folder, _, files in os.walk(f"{manual}/man"):
        for file in sorted(files):
            done = subprocess.run(["mandoc", "-Tlint", "-W", "warning", f"{folder}/{file}"], capture_output=True,
                                  text=True, check=False)
            said = (done.stdout + done.stderr).strip()
            print(f"{'not ok' if said or done.returncode else 'ok'} - mandoc -Tlint {file}")
            for line in said.splitlines():
                print(f"# {line}")


options, verbs = sections([])
overview = check(name, [], options)
for verb in verbs:
    assert f"{name}-{verb}" in overview, verb
    options, actions = sections([verb])
    page = f"{name}-{verb}"
    text = check(page, [verb], options)
    for action in actions:
        found = re.search(rf"^   {action}$", text, re.M)
        print(f"{'ok' if found else 'not ok'} - {name} {verb} {action} has its section")
if name == "swiftctl":
    lint()
    assert len(verbs) >= 11, verbs
