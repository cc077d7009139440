# SPDX-License-Identifier: GPL-2.0
"""How the parts of stress_guest.py reach the kernel: files, namespaces, modules, and the numbers
and names that more than one of them needs."""

import ctypes
import os

from guest import CLONE_NEWNET, SYS_FINIT_MODULE, libc

SYS_DELETE_MODULE = 176
TCP_CONGESTION = 13
LAWS = ("swift", "swift", "swift", "cubic", "reno", "dctcp", "timely", "gcn", "fast")
SWIFT = "/proc/sys/net/ipv4/tcp_swift/"
TRACING = "/sys/kernel/debug/tracing/"
TINY_TCP_MEM, PLAIN_TCP_MEM = "50 80 120", "100000000 200000000 400000000"


def write(path, text):
    """One write(2); False if it was refused."""
    try:
        fd = os.open(path, os.O_WRONLY)
    except OSError:
        return False
    try:
        os.write(fd, str(text).encode())
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def enter(fd):
    if libc.setns(fd, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def unshare():
    if libc.unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")


def this_ns():
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)


def insert(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        return 0 if libc.syscall(SYS_FINIT_MODULE, fd, b"", 0) == 0 else ctypes.get_errno()
    finally:
        os.close(fd)


def remove(name):
    return 0 if libc.syscall(SYS_DELETE_MODULE, name.encode(), os.O_NONBLOCK) == 0 else ctypes.get_errno()
