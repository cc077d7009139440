#!/usr/bin/python3 -IS
# SPDX-License-Identifier: GPL-2.0
"""cases.py FILE OUTPUT SECONDS: runs functions of FILE, as its main() does for its arguments.

Each line of standard input is such arguments; they are obeyed in a process of their own, forked
off this one, which has read FILE: to start Python anew costs an emulated CPU more than most cases.
What that process prints is in the file OUTPUT, its exit status is a line of standard output. After
SECONDS it is ended."""

import os
import signal
import sys


def obey(main, arguments, output, seconds):
    """In the child; never returns."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    os.dup2(1, 2)
    sys.argv = arguments
    signal.alarm(seconds)
    status = 1
    try:
        main()
        status = 0
    except SystemExit as end:  # as Python ends
        if isinstance(end.code, str):
            print(end.code)
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # pylint: disable=broad-except
        sys.excepthook(*sys.exc_info())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def serve(file, output, seconds):
    names = {"__name__": "cases", "__file__": file}
    with open(file, encoding="utf-8") as source:
        exec(compile(source.read(), file, "exec"), names)  # pylint: disable=exec-used
    while line := sys.stdin.readline():
        child = os.fork()
        if not child:
            obey(names["main"], [file, *line.split()], output, int(seconds))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


serve(*sys.argv[1:])
