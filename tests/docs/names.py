#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The documentation against what there is: links, verbs, options, sysctls, counters, metrics, marked
blocks; and the other way round, each of these has its place. Usage: names.py SWIFTCTL SWIFTD, at the
top of the checkout. Prints TAP without a plan."""

import os, pathlib, re, subprocess, sys

swiftctl, swiftd = sys.argv[1:]
TOP = pathlib.Path(".")
PAGES = sorted([TOP / "README.md", TOP / "CONTRIBUTING.md", *TOP.glob("Documentation/**/*.md"),
                *TOP.glob("scripts/fleet/**/*.md")])
TEXT = {page: page.read_text(encoding="utf-8") for page in PAGES}


def report(name, wrong):
    wrong = list(dict.fromkeys(wrong))
    print(f"{'not ok' if wrong else 'ok'} - docs: {name}")
    for line in wrong:
        print(f"# {line}")


def help_of(program, *words):
    text = subprocess.run([program, *words, "--help"], check=True, capture_output=True, text=True).stdout
    text = text.split("\nExamples:")[0]
    below = re.search(r"^(?:Verbs|Actions):\n((?:  .*\n)+)", text, re.M)
    return (set(re.findall(r"^ +(?:-\w, ?)?(--[\w.-]+)", text, re.M)),
            re.findall(r"^  (\w[\w-]*)", below[1], re.M) if below else [])


def code_of(text):
    """What is set as code: indented lines, fenced ones, and spans in the prose between."""
    fenced = False
    prose = []
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            yield line.strip()
        else:
            prose.append(line)
    for span in re.findall(r"`([^`]+)`", "\n".join(prose)):
        yield " ".join(span.split())


CODE = [(page, line) for page, text in TEXT.items() for line in code_of(text)]


# --- Links -------------------------------------------------------------------------------------

def anchor(heading):
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def links():
    for page, text in TEXT.items():
        prose = re.sub(r"^    .*$", "", text, flags=re.M)
        for target in re.findall(r"\]\(([^)\s]+)\)", prose):
            if re.match(r"https?:|mailto:", target):
                continue
            path, _, part = target.partition("#")
            file = (page.parent / path) if path else page
            if not file.exists():
                yield f"{page}: {target} is not there"
            elif part and part not in map(anchor, re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.M)):
                yield f"{page}: {target}: no such heading"


def reached():
    todo, seen = [TOP / "Documentation/README.md"], set()
    while todo:
        page = todo.pop()
        if page in seen or page not in TEXT:
            continue
        seen.add(page)
        for target in re.findall(r"\]\(([^)#\s]+)", TEXT[page]):
            if not target.startswith("http"):
                todo.append(pathlib.Path(os.path.normpath(page.parent / target)))
    return [f"{page} is linked from nowhere" for page in PAGES if page not in seen]


report("each link leads somewhere", links())
report("each page is reached from Documentation/README.md", reached())


# --- Programs ----------------------------------------------------------------------------------

TOP_OPTIONS, VERBS = help_of(swiftctl)
OPTIONS = {}
ACTIONS = {}
for verb in VERBS:
    OPTIONS[verb, ""], ACTIONS[verb] = help_of(swiftctl, verb)
    for action in ACTIONS[verb]:
        OPTIONS[verb, action] = help_of(swiftctl, verb, action)[0] | OPTIONS[verb, ""]
DAEMON_OPTIONS = help_of(swiftd)[0]


def commands_wrong():
    for page, line in CODE:
        # Its own messages begin with its name, a verb and a colon; a comment is no command.
        for rest in re.findall(r"(?:^|[ /])swiftctl (?!-)([^|;<>#`]*)", line):
            words = rest.split()
            if not words or not re.fullmatch(r"[a-z]+", words[0]) or rest.startswith("  "):
                continue
            verb = words[0]
            if verb not in VERBS:
                yield f"{page}: swiftctl {verb}: no such verb ({line})"
                continue
            action = next((w for w in words[1:] if w in ACTIONS[verb]), "")
            for option in re.findall(r"(?:^|[ \[])(--[a-z][\w-]*)", rest.split("   ")[0]):
                if option not in OPTIONS[verb, action]:
                    yield f"{page}: swiftctl {verb} {action} has no {option} ({line})"
        for rest in re.findall(r"(?:^|[ /])swiftd (-[^|;<>#`]*)", line):
            for option in re.findall(r"(?:^|[ \[])(--[a-z][\w.]*(?:-[\w]+)*)", rest):
                if option not in DAEMON_OPTIONS | {"--print-options-markdown"}:
                    yield f"{page}: swiftd has no {option} ({line})"


def undocumented():
    for (verb, action) in OPTIONS:
        wanted = re.compile(rf"swiftctl {verb}(?: [^|;`]*)?\b{action}\b" if action else rf"swiftctl {verb}\b")
        if (verb, action) != (verb, "show") and not any(wanted.search(line) for _, line in CODE):
            yield f"no page shows `swiftctl {verb} {action}`"
    everything = "\n".join(TEXT.values())
    for option in DAEMON_OPTIONS - {"--help", "--version"}:
        if option.strip("-") not in everything:
            yield f"no page has swiftd's {option}"


report("each command is one of swiftctl or swiftd, with options that it has", commands_wrong())
report("each verb, action and option of swiftd is on a page", undocumented())


# --- Names -------------------------------------------------------------------------------------

SYSCTLS = set(re.findall(r"^\| `(\w+)` \|", TEXT[TOP / "Documentation/sysctl.md"], re.M))
source = (TOP / "userspace/swiftd/metrics.cpp").read_text(encoding="utf-8")
METRICS = set(re.findall(r'"((?:swiftd?|process)_[a-z_]+)"', source))
metrics_page = TEXT[TOP / "Documentation/metrics.md"]
swiftd_table, module_table = metrics_page.split("\n## The module")
documented = re.findall(r"^\| `(\w+)` \|", swiftd_table, re.M)
counted = re.findall(r"^\| `(\w+)` \|", module_table, re.M)
header = (TOP / "kmod/swift_sock.h").read_text(encoding="utf-8")
COUNTERS = re.findall(r"^\tX\((\w+)\)", header.split("#define SWIFT_COUNTERS")[1].split("enum")[0], re.M)
collector = (TOP / "userspace/swiftd/collector.cpp").read_text(encoding="utf-8")
ERRORS = set(re.findall(r'(?:count_error\(|pair\(|\{)"(\w+)"(?:\)|, status\.)', collector))
FLEET = {file: file.read_text(encoding="utf-8") for file in TOP.glob("scripts/fleet/**/*")
         if file.is_file() and file.suffix in (".yml", ".yaml", ".json", ".md")}


def sysctls_wrong():
    for page, text in (TEXT | FLEET).items():
        for name in re.findall(r"(?:net\.ipv4\.|net/ipv4/)tcp_swift[./](\w+)", text):
            if name not in SYSCTLS and name not in ("NAME",):
                yield f"{page}: no sysctl {name}"
        for name, unit in re.findall(r"`([a-z_]+_(ns|ms|milli|micro))`", text):
            if name not in SYSCTLS and name not in FIELDS:
                yield f"{page}: nothing is called {name} ({unit})"


def metrics_wrong():
    derived = re.compile(r"_(bucket|sum|count)$")
    for page, text in (TEXT | FLEET).items():
        for name in re.findall(r"\b((?:swiftd?)_[a-z_]+_(?:seconds|total|bytes|packets)(?:_[a-z_]+)?|swift_flows\w*|"
                               r"swift_module_\w+|swift_clock_\w+|swift_measured_flows)\b", text):
            if derived.sub("", name) not in METRICS and (page in FLEET or name not in FIELDS): # a map, say
                yield f"{page}: no metric {name}"
        for name in re.findall(r'what=~?\\?"([a-z_|()]+)\\?"', text) if page in FLEET else ():
            for one in expand(name):
                if one not in COUNTERS and one not in ERRORS:
                    yield f"{page}: neither the module has a counter {one}, nor swiftd an error"


def expand(pattern):
    found = re.fullmatch(r"(\w*)\(([\w|]+)\)", pattern)
    return [found[1] + part for part in found[2].split("|")] if found else pattern.split("|")


# Other names with units: of the API, of --json, of the records, of the lab's files.
fields = (TOP / "Documentation/api/v1.schema.json").read_text(encoding="utf-8") + "".join(
    file.read_text(encoding="utf-8") for pattern in ("userspace/swiftctl/**/*", "userspace/lib/**/*", "kmod/*", "kmod/core/*",
                                                     "kmod/uapi/*", "bpf/*", "tests/lab/kmod/*", "tests/lab/lab/*")
    for file in TOP.glob(pattern) if file.is_file())
FIELDS = set(re.findall(r"\w+", fields))
report("each sysctl that a page names exists", sysctls_wrong())
report("each metric that a page, an alert or a panel names exists", metrics_wrong())
report("metrics.md has the metrics of swiftd, no more and no less",
       [f"not documented: {m}" for m in sorted(METRICS - set(documented))] +
       [f"not there: {m}" for m in documented if m not in METRICS])
what = re.search(r"^\| `swiftd_collection_errors_total` .*$", metrics_page, re.M)[0]
report("metrics.md has what swiftd_collection_errors_total counts",
       [f"not documented: {e}" for e in sorted(ERRORS) if not re.search(rf"\b{e}\b", what)] if len(ERRORS) >= 7 else [f"only {ERRORS}"])
report("metrics.md has the counters of the module, in their order",
       [] if counted == COUNTERS else [f"{counted} instead of {COUNTERS}"])


# --- Deviations and blocks -----------------------------------------------------------------------

paper = TEXT[TOP / "Documentation/paper.md"]
law = "".join((TOP / "kmod" / file).read_text(encoding="utf-8") for file in ("core/swift.h", "cong.c"))
report("paper.md lists each deviation that the code numbers",
       [f"{d} is not in paper.md" for d in sorted(set(re.findall(r"\bD\d+\b", law)))
        if not re.search(rf"^\| {d} \|", paper, re.M)])
functions = set(re.findall(r"`(swift_\w+)`", paper))
code = law + "".join((TOP / file).read_text(encoding="utf-8") for file in
                     ("kmod/core/swift_params.h", "kmod/core/option.h", "kmod/rx.c", "kmod/echo.c", "kmod/core/clock.h"))
report("each function that paper.md names exists", [f"no {f}()" for f in sorted(functions) if f"{f}(" not in code])
files = [(page, name) for page, line in CODE for name in
         re.findall(r"\b((?:kmod|bpf|userspace|tests|scripts)/[\w./-]+\.\w+)\b", line) if "experiments/" not in str(page)]
report("each file that a page names exists",
       [f"{page}: {name}" for page, name in files
        if not name.endswith((".o", ".ko")) and not (TOP / name).exists()]) # built, those two
runners = "".join((TOP / f).read_text(encoding="utf-8") for f in
                  ("tests/docs/run", "tests/vm/t-docs.sh", "tests/packages/t-packages.sh"))
report("each marked block is run by a test",
       [f"{page.stem}: {block}" for page, text in TEXT.items() for block in re.findall(r"^<!-- test: (.*) -->$", text, re.M)
        if not re.search(rf"{page.stem} {block}\b", runners)])
