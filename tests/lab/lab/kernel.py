# SPDX-License-Identifier: GPL-2.0
"""The lab's kernel, and the modules built against it. Both are made once."""

import contextlib
import dataclasses
import fcntl
import functools
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys

from . import OUT, TOP, Failure

MODULES = ("tcp_swift.ko", "labfab.ko", "labload.ko", "timely.ko", "gcn.ko", "fast.ko", "theta_powertcp.ko")
FOLDERS = ("kmod", "tests/lab/kmod", "tests/lab/laws")


@dataclasses.dataclass
class Kernel:
    build: str  # folder with `linux`, named by what it was made of
    modules: str  # folder with MODULES
    version: str


def say(text):
    print(f"lab: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def locked(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def call(argv, **options):
    """(status, output). An interrupt ends it with all that it started, and lets it clean up."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True, **options)
    try:
        output, _ = process.communicate()
        return process.returncode, output
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        raise


def build_kernel(debug):
    """The folder of the kernel; its recipe tells on stderr when it takes long."""
    status, output = call([str(TOP / "tests/lab/kernel/build"), *(["--debug"] if debug else [])])
    if status:
        raise Failure("the lab's kernel did not build")
    return output.strip()


def sources():
    return sorted(path for folder in FOLDERS for path in (TOP / folder).rglob("*")
                  if path.suffix in (".c", ".h") or path.name == "Kbuild")


def hash_of(paths, *more):
    digest = hashlib.sha256(repr(more).encode())
    for path in paths:
        digest.update(f"{path.relative_to(TOP)} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def digest(module):
    """Of the module itself: what made it matters to a run as far as it changed that."""
    return hashlib.sha256(pathlib.Path(module).read_bytes()).hexdigest()[:16]


def copy_sources(to):
    """Only what changed, so that only that is compiled."""
    wanted = {path.relative_to(TOP) for path in sources()}
    for name in wanted:
        target = to / name
        if not target.exists() or target.read_bytes() != (TOP / name).read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(TOP / name, target)
    for folder in FOLDERS:
        for path in (to / folder).rglob("*.[ch]"):
            if path.relative_to(to) not in wanted and not path.name.endswith(".mod.c"):
                path.unlink()


def build_modules(build, stamp):
    """The folder of the modules, for the kernel in `build`."""
    name = pathlib.Path(build).parent.name
    folder = OUT / "modules" / name / stamp
    with locked(OUT / "modules" / name / "lock"):
        if (folder / "made").exists():
            return folder
        say(f"building the modules ({name})")
        work = OUT / "modules" / name / "work"
        copy_sources(work)
        for part in FOLDERS:
            status, output = call(["make", "-s", "-C", build, "ARCH=um", f"M={work / part}", "modules"],
                                  stderr=subprocess.STDOUT,
                                  env={k: v for k, v in os.environ.items() if k != "MAKEFLAGS"})
            if status:
                raise Failure(f"building {part} failed:\n" + "\n".join(output.splitlines()[-30:]))
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for module in MODULES:
            found = [work / part / module for part in FOLDERS if (work / part / module).exists()]
            if not found:
                raise Failure(f"{module} was not built")
            shutil.copyfile(found[0], folder / module)
        (folder / "made").touch()
    return folder


def prepare(debug=False):
    """Everything a run needs."""
    build = build_kernel(debug)
    modules = build_modules(build, hash_of(sources(), build))
    release = (pathlib.Path(build) / "include/config/kernel.release").read_text(encoding="ascii").strip()
    return Kernel(build, str(modules), f"{release} ({pathlib.Path(build).parent.name})")


def describe():
    """The checkout, for the record."""
    result = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=TOP, capture_output=True, text=True,
                            check=False)
    return result.stdout.strip() or "unknown"
