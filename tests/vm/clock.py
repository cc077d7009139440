#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""NIC clocks, in a guest: tests/vm/t-clock.sh builds the network (h1 right --- left h2, a
NIC of tests/vm/nic at either end) and runs one of the functions below. First those of the
netlink interface, then those with traffic, data from h1 to h2.

A function fails by expect(), which says what it saw. Bytes are put and read by hand, so that
wrong ones can be, too."""

import ctypes
import errno
import fcntl
import os
import random
import socket
import struct
import subprocess
import sys
import time

CLONE_NEWNET = 0x40000000
SIOCOUTQ = 0x5411
DEVICE = {"h1": "right", "h2": "left"}
MS = 1_000_000  # ns
HOUR = 3600 * 1000 * MS
NIC = "/sys/module/stampnic/parameters/"
TRACE = "/sys/kernel/tracing/"
libc = ctypes.CDLL(None, use_errno=True)


def expect(condition, text):
    if not condition:
        sys.exit(text)


def run(command):
    done = subprocess.run(command.split(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    expect(not done.returncode, f"{command}: {done.stdout.strip()}")
    return done.stdout


def enter(netns):
    with open(f"/run/netns/{netns}") as file:
        expect(not libc.setns(file.fileno(), CLONE_NEWNET), f"cannot enter {netns}")


def wait_until(what, condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        expect(time.monotonic() < end, f"in vain for {seconds} s: {what}")
        time.sleep(0.001)


# --- Netlink ------------------------------------------------------------------------------

NLMSG_ERROR, NLMSG_DONE = 2, 3
F_REQUEST, F_ACK, F_DUMP = 1, 4, 0x300
F_CAPPED, F_ACK_TLVS = 0x100, 0x200
SET, DEL, GET = 1, 2, 3
NAMES = ("UNSPEC", "PAD", "IFINDEX", "NIC_NS", "HOST_NS", "RATIO_Q32", "ERROR_NS", "VALID_MS",
         "OWNER", "USED", "STALE", "FUTURE", "OLD")
NUMBER = {name: number for number, name in enumerate(NAMES)}
SETTING = NAMES[2:8]
WIDTH = {name: "I" for name in ("IFINDEX", "ERROR_NS", "VALID_MS", "OWNER")}
ONE = 1 << 32


class Refused(Exception):
    def __init__(self, error, text="", attr=None, missing=None):
        super().__init__(f"{errno.errorcode.get(error, error)}: {text}")
        self.error, self.text, self.attr, self.missing = error, text, attr, missing


def attr(kind, payload):
    return struct.pack("HH", 4 + len(payload), kind) + payload + bytes(-len(payload) % 4)


def attrs(values):
    return b"".join(attr(NUMBER[name], struct.pack(WIDTH.get(name, "Q"), value))
                    for name, value in values.items())


def parse(data):
    found = []
    while len(data) >= 4:
        length, kind = struct.unpack_from("HH", data)
        found.append((kind & 0x3fff, data[4:length]))
        data = data[(length + 3) & ~3:]
    return found


def named(data):
    return {NAMES[kind]: int.from_bytes(payload, "little") for kind, payload in parse(data)
            if NAMES[kind] != "PAD"}


class Netlink:
    """A sender, in the namespace that the process is in."""

    def __init__(self, resolve=True):
        self.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
        self.sock.bind((0, 0))
        self.sock.settimeout(20)
        for option in (10, 11, 12):  # CAP_ACK, EXT_ACK, GET_STRICT_CHK
            self.sock.setsockopt(270, option, 1)
        self.seq = 0
        self.family = 16  # that of all families
        if resolve:
            payload = dict(parse(self.request(3, attr(2, b"tcp_swift\0"))[0]))
            self.family = struct.unpack("H", payload[1])[0]

    @property
    def port(self):
        return self.sock.getsockname()[0]

    def close(self):
        self.sock.close()

    def request(self, command, payload, flags=F_ACK):
        """The attributes of each reply."""
        self.seq += 1
        body = struct.pack("BBH", command, 1, 0) + payload
        self.sock.send(struct.pack("IHHII", 16 + len(body), self.family, flags | F_REQUEST,
                                   self.seq, 0) + body)
        replies = []
        while True:
            data = self.sock.recv(1 << 17)
            while data:
                length, kind, flags_in, seq, _ = struct.unpack_from("IHHII", data)
                message, data = data[16:length], data[(length + 3) & ~3:]
                if seq != self.seq:
                    continue
                if kind == NLMSG_ERROR:
                    self.raise_error(message, flags_in, body)
                    return replies
                if kind == NLMSG_DONE:
                    return replies
                replies.append(message[4:])

    @staticmethod
    def raise_error(message, flags, body):
        error = -struct.unpack_from("i", message)[0]
        if not error:
            return
        text, at, missing = "", None, None
        if flags & F_ACK_TLVS:
            for kind, payload in parse(message[20:]):
                if kind == 1:
                    text = payload.rstrip(b"\0").decode()
                elif kind == 2:
                    offset = struct.unpack("I", payload)[0] - 16
                    at = struct.unpack_from("HH", body, offset)[1]
                elif kind == 5:
                    missing = struct.unpack("I", payload)[0]
        raise Refused(error, text, at, missing)

    def set(self, **values):
        self.request(SET, attrs(values))

    def delete(self, ifindex):
        self.request(DEL, attrs({"IFINDEX": ifindex}))

    def get(self, ifindex):
        return named(self.request(GET, attrs({"IFINDEX": ifindex}))[0])

    def dump(self, payload=b""):
        return [named(reply) for reply in self.request(GET, payload, F_DUMP)]


def refused(error, text, what, *args, **kwargs):
    """@what fails with @error, and says all of @text's words; what it failed with."""
    try:
        what(*args, **kwargs)
    except Refused as why:
        expect(why.error == error, f"{args} {kwargs}: {why}, wanted {errno.errorcode[error]}")
        for word in text.split():
            expect(word in why.text, f"{args} {kwargs}: '{why.text}' lacks '{word}'")
        return why
    sys.exit(f"{args} {kwargs}: accepted, wanted {errno.errorcode[error]}")


def index_of(name):
    return socket.if_nametoindex(name)


def good(ifindex, **values):
    return {"IFINDEX": ifindex, "NIC_NS": 5000, "HOST_NS": time.monotonic_ns(), "RATIO_Q32": ONE,
            "ERROR_NS": 100, "VALID_MS": 60000, **values}


def links(netns, commands):
    done = subprocess.run(["ip", "-n", netns, "-batch", "-"], input="\n".join(commands), text=True)
    expect(not done.returncode, f"{netns}: {commands}")


def dummies(netns, number):
    """Devices d0, d1, ..., in place of those of the test before; their indices."""
    for ns in DEVICE:
        old = run(f"ip -n {ns} -br link show type dummy").splitlines()
        links(ns, [f"link del {line.split()[0]}" for line in old])
    links(netns, [f"link add d{i} type dummy" for i in range(number)])
    enter(netns)
    return [index_of(f"d{i}") for i in range(number)]


def formats():
    """Does this kernel have messages with values in them, and of dumps (6.2 and later)?"""
    return tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 2)


def set_and_get():
    left, = dummies("h2", 1)
    nl = Netlink()
    refused(errno.ENOENT, "IFINDEX", nl.get, left)
    refused(errno.ENOENT, "IFINDEX", nl.delete, left)
    for number, values in enumerate((
            good(left), good(left, NIC_NS=0, HOST_NS=0, RATIO_Q32=4252017624, ERROR_NS=0, VALID_MS=1),
            good(left, NIC_NS=(1 << 63) - 1, RATIO_Q32=4337916968, ERROR_NS=1000000, VALID_MS=60000))):
        nl.set(**values)
        got = nl.get(left)
        for name in SETTING[:-1]:
            expect(got[name] == values[name], f"{number}: {name} is {got[name]}, set to {values[name]}")
        expect(got["VALID_MS"] <= values["VALID_MS"], f"valid for {got['VALID_MS']} ms")
        expect(got["OWNER"] == nl.port, f"owner {got['OWNER']}, wanted {nl.port}")
        expect(set(got) == set(NAMES[2:]), f"the reply has {sorted(got)}")
        expect(not any(got[name] for name in NAMES[9:]), f"it counts something: {got}")
    expect(got["VALID_MS"] > 50000, f"{got['VALID_MS']} ms are left of 60000")
    nl.delete(left)
    refused(errno.ENOENT, "IFINDEX", nl.get, left)


def refusals():
    left, = dummies("h2", 1)
    nl = Netlink()
    nl.set(**good(left))
    before = nl.get(left)
    u64 = (1 << 64) - 1
    cases = [("NIC_NS", 1 << 63, "2^63"), ("NIC_NS", u64, "2^63"),
             ("HOST_NS", time.monotonic_ns() + HOUR, "CLOCK_MONOTONIC"), ("HOST_NS", u64, "CLOCK_MONOTONIC"),
             ("RATIO_Q32", 0, "2^32"), ("RATIO_Q32", 4252017623, "2^32"), ("RATIO_Q32", 4337916969, "2^32"),
             ("RATIO_Q32", u64, "2^32"), ("ERROR_NS", 1000001, "1000000"), ("ERROR_NS", ONE - 1, "1000000"),
             ("VALID_MS", 0, "60000"), ("VALID_MS", 60001, "60000"), ("VALID_MS", ONE - 1, "60000")]
    for name, value, allowed in cases:
        words = f"{name} {value if formats() else ''} allowed: {allowed}"
        why = refused(errno.ERANGE, words, nl.set, **good(left, **{name: value}))
        expect(why.attr == NUMBER[name], f"{name}: the kernel points at attribute {why.attr}")
    for name in SETTING:
        values = good(left)
        del values[name]
        why = refused(errno.EINVAL, f"{name} missing", nl.set, **values)
        expect(why.missing == NUMBER[name], f"{name}: the kernel misses attribute {why.missing}")
    for command in (DEL, GET):
        refused(errno.EINVAL, "IFINDEX missing", nl.request, command, b"")
    # Of a wrong size, of replies, of no number known, twice the message's header.
    whole = attrs(good(left))
    for name in SETTING:
        values = good(left)
        rest = attrs({other: value for other, value in values.items() if other != name})
        wrong = 4 if WIDTH.get(name, "Q") == "Q" else 8
        for size in (0, 1, wrong, 64):
            why = refused_any((errno.ERANGE, errno.EINVAL), nl.request, SET, rest + attr(NUMBER[name], bytes(size)))
            expect(why.attr == NUMBER[name], f"{name} of {size} bytes: points at {why.attr}")
    for kind in (1, *range(8, 14), 100, 0x3fff):
        refused_any((errno.EINVAL,), nl.request, SET, whole + attr(kind, bytes(8)))
    for name in SETTING[1:]:
        refused_any((errno.EINVAL,), nl.request, GET, attrs({"IFINDEX": left, name: 1}))
        refused_any((errno.EINVAL,), nl.request, DEL, attrs({"IFINDEX": left, name: 1}))
    refused_any((errno.EINVAL,), nl.request, SET, whole + b"\1")
    for command in (0, 4, 255):
        refused(errno.EOPNOTSUPP, "", nl.request, command, whole)
    refused(errno.EINVAL, "dump IFINDEX" if formats() else "", nl.dump, attrs({"IFINDEX": left}))
    for ifindex in (0, 4000000, ONE - 1):
        words = f"IFINDEX {ifindex if formats() else ''}"
        refused(errno.ENODEV, words, nl.set, **good(ifindex))
        refused(errno.ENOENT, words, nl.get, ifindex)
        refused(errno.ENOENT, words, nl.delete, ifindex)
    after = nl.get(left)
    for name in SETTING[:-1] + ("OWNER",):
        expect(after[name] == before[name], f"{name} became {after[name]}, was {before[name]}")
    expect(len(nl.dump()) == 1, f"lines: {nl.dump()}")


def refused_any(errors, what, *args):
    try:
        what(*args)
    except Refused as why:
        expect(why.error in errors, f"{args}: {why}")
        return why
    sys.exit(f"{args}: accepted")


def rights():
    left, = dummies("h2", 1)
    nl = Netlink()
    nl.set(**good(left, VALID_MS=60000))
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setresuid(65534, 65534, 65534)
        ordinary = Netlink()
        refused(errno.EPERM, "", ordinary.set, **good(left))
        refused(errno.EPERM, "", ordinary.delete, left)
        expect(ordinary.get(left)["OWNER"] == nl.port, "an ordinary user may look")
        expect(len(ordinary.dump()) == 1, "and list")
        os._exit(0)
    expect(not os.waitpid(child, 0)[1], "the ordinary user's half failed")
    expect(nl.get(left)["OWNER"] == nl.port, "the line changed hands")


def ownership():
    left, = dummies("h2", 1)
    first, second = Netlink(), Netlink()
    values = good(left)
    first.set(**values)
    words = f"port {first.port}" if formats() else "another sender"
    refused(errno.EBUSY, words, second.set, **good(left, NIC_NS=1))
    refused(errno.EBUSY, words, second.delete, left)
    expect(second.get(left)["NIC_NS"] == 5000, "the refused line is there")
    first.set(**good(left, NIC_NS=6000))  # its own, it may
    # The same port number in another namespace is somebody else.
    enter("h1")
    stranger = Netlink()
    stranger.close()
    far = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
    far.bind((first.port, 0))
    far.close()
    enter("h2")
    expect(second.get(left)["OWNER"] == first.port, "a port of another namespace set the line free")
    # A socket of another protocol with that number, too.
    route = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    route.bind((first.port, 0))
    route.close()
    expect(second.get(left)["OWNER"] == first.port, "a port of another protocol set the line free")

    first.close()
    got = second.get(left)
    expect(got["OWNER"] == 0 and got["NIC_NS"] == 6000, f"after its sender closed: {got}")
    expect(got["VALID_MS"] > 0, "the line ended with its sender")
    second.set(**good(left, NIC_NS=7000, VALID_MS=50))
    third = Netlink()
    wait_until("the line expires", lambda: not third.get(left)["VALID_MS"])
    third.set(**good(left, NIC_NS=8000))
    expect(third.get(left)["OWNER"] == third.port, "an expired line is nobody's")
    refused(errno.EBUSY, "", second.set, **good(left))
    third.close()
    second.delete(left)


def dump():
    enter("h1")
    other = Netlink()
    other.set(**good(index_of("right")))
    number = 200  # more than a message holds
    indices = dummies("h2", number)
    nl = Netlink()
    expect(nl.dump() == [], "an empty table")
    for ifindex in random.Random(1).sample(indices, number):
        nl.set(**good(ifindex, NIC_NS=ifindex))
    lines = nl.dump()
    expect([line["IFINDEX"] for line in lines] == sorted(indices),
           f"{len(lines)} lines, wanted {number} in the order of IFINDEX")
    expect(all(line["NIC_NS"] == line["IFINDEX"] for line in lines), "a line is another's")
    expect(other.dump()[0]["NIC_NS"] == 5000 and len(other.dump()) == 1, f"h1 lists {other.dump()}")
    other.delete(other.dump()[0]["IFINDEX"])


def devices_go():
    first, second = dummies("h2", 2)
    nl = Netlink()
    nl.set(**good(first))
    nl.set(**good(second))
    run("ip -n h2 link del d0")
    refused(errno.ENOENT, "", nl.get, first)
    refused(errno.ENODEV, "", nl.set, **good(first))
    run(f"ip -n h2 link add d0 index {first} type dummy")
    refused(errno.ENOENT, "", nl.get, first)  # another device, without a line

    run("ip -n h2 link set d1 netns h1")
    refused(errno.ENOENT, "", nl.get, second)
    enter("h1")
    there = Netlink()
    expect(there.dump() == [], f"the line went along: {there.dump()}")
    moved = index_of("d1")
    there.set(**good(moved))
    run("ip -n h1 link set d1 netns h2")
    expect(there.dump() == [], f"and back: {there.dump()}")
    expect(nl.dump() == [], f"and is here again: {nl.dump()}")

    # A namespace that goes while a sender in it has a line.
    run("ip netns add gone")
    run("ip -n gone link add d0 type dummy")
    enter("gone")
    last = Netlink()
    last.set(**good(index_of("d0")))
    enter("h2")
    run("ip netns del gone")
    expect(len(last.dump()) == 1, "the socket keeps the namespace")
    last.close()


def hold():
    """A line of h2, by a sender who stays; and one in h1, whose sender is gone."""
    enter("h1")
    nl = Netlink()
    nl.set(**good(index_of("right")))
    nl.close()
    enter("h2")
    nl = Netlink()
    nl.set(**good(index_of("left")))
    print("holding", flush=True)
    time.sleep(60)
    nl.close()


def races(seconds):
    """Lines are set, as fast as it goes, for devices that come and go, in namespaces that come
    and go, while the module does: until killed. Prints how often what happened."""
    seen, end = {}, time.monotonic() + float(seconds)
    draw = random.Random(2)
    run("ip netns add race")
    enter("race")
    while time.monotonic() < end:
        try:
            nl = Netlink()
            for _ in range(50):
                ifindex = draw.randrange(2, 40)
                for what in (lambda: nl.set(**good(ifindex, VALID_MS=draw.randrange(1, 60))),
                             lambda: nl.get(ifindex), nl.dump, lambda: nl.delete(ifindex)):
                    try:
                        what()
                        seen["done"] = seen.get("done", 0) + 1
                    except Refused as why:
                        seen[why.error] = seen.get(why.error, 0) + 1
        except Refused as why:  # the family is not there
            seen[why.error] = seen.get(why.error, 0) + 1
        nl.close()
    print({errno.errorcode.get(key, key): count for key, count in seen.items()})
    expect(seen.get("done", 0) > 20, f"nothing was done: {seen}")


def fuzz(messages=20000, seed=7):
    """Wrong messages, and some right ones, at the devices that a flow uses meanwhile."""
    enter("h2")
    draw = random.Random(seed)
    nl = Netlink()
    nl.sock.setblocking(False)
    nl.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    extremes = (0, 1, 2, 100, 60000, ONE - 1, ONE, ONE + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
    indices = (index_of("left"), 1, 0, 12345)
    seen = {}

    def value(name):
        if name == "IFINDEX":
            return draw.choice(indices)
        if draw.random() < 0.2:
            return draw.choice(extremes)
        return {"RATIO_Q32": draw.randrange(4252017624 - 9, 4337916968 + 9),
                "HOST_NS": time.monotonic_ns() - draw.randrange(1 << draw.randrange(1, 40)),
                "ERROR_NS": draw.randrange(1100000), "VALID_MS": draw.randrange(61000)}.get(
                    name, draw.getrandbits(draw.randrange(1, 65)))

    def attribute(name):
        kind, width = NUMBER[name], WIDTH.get(name, "Q")
        payload = (value(name) & ((1 << (32 if width == "I" else 64)) - 1)).to_bytes(struct.calcsize(width), "little")
        chance = draw.random()
        if chance < 0.02:
            kind = draw.getrandbits(16)
        elif chance < 0.04:
            payload = draw.randbytes(draw.randrange(70))
        data = attr(kind, payload)
        if draw.random() < 0.01:  # a length that lies
            data = struct.pack("H", draw.getrandbits(draw.choice((4, 16)))) + data[2:]
        return data

    def message():
        names = list(SETTING) if draw.random() < 0.7 else draw.choices(NAMES, k=draw.randrange(9))
        if draw.random() < 0.1:
            draw.shuffle(names)
        command = draw.choice((SET, SET, SET, GET, DEL, GET)) if draw.random() < 0.97 else draw.getrandbits(8)
        if command in (GET, DEL) and draw.random() < 0.8:
            names = ["IFINDEX"]
        body = struct.pack("BBH", command, draw.choice((1, 1, 1, 0, 255)),
                           0 if draw.random() < 0.95 else draw.getrandbits(16)) + b"".join(map(attribute, names))
        for _ in range(draw.choice((0, 0, 0, 0, 0, 1, 4))):  # bits that flipped
            body = bytearray(body)
            body[draw.randrange(len(body))] ^= 1 << draw.randrange(8)
        if draw.random() < 0.03:
            body = body[:draw.randrange(len(body))]
        flags = F_REQUEST | F_ACK if draw.random() < 0.9 else draw.getrandbits(16) | F_REQUEST
        length = 16 + len(body) if draw.random() < 0.98 else draw.getrandbits(draw.choice((5, 8, 32)))
        return struct.pack("IHHII", length, nl.family, flags, 0, 0) + bytes(body)

    def drain():
        while True:
            try:
                data = nl.sock.recv(1 << 17)
            except BlockingIOError:
                return
            except OSError as why:  # ENOBUFS: replies that nobody read
                seen[why.errno] = seen.get(why.errno, 0) + 1
                continue
            while len(data) >= 20:
                length, kind = struct.unpack_from("IH", data)
                error = -struct.unpack_from("i", data, 16)[0] if kind == NLMSG_ERROR else "reply"
                seen[error] = seen.get(error, 0) + 1
                data = data[max(length + 3 & ~3, 16):]

    for number in range(messages):
        nl.sock.send(message())
        if number % 16 == 0:
            drain()
    drain()
    print({errno.errorcode.get(key, key): count for key, count in seen.items()})
    for error in (0, errno.ERANGE, errno.EINVAL, errno.ENODEV, errno.ENOENT, errno.EOPNOTSUPP, "reply"):
        expect(seen.get(error, 0) > messages / 2000, f"too few of {error}: {seen}")
    nl.close()
    after = Netlink()
    after.set(**good(index_of("left"), VALID_MS=1))
    expect(after.get(index_of("left"))["NIC_NS"] == 5000, "the family does not work any more")


# --- Traffic --------------------------------------------------------------------------------

EARLY = 3 * MS  # the NICs' stamps are that long before the stack's
PPM = 5000  # and their clock is 0.5 % fast: 5 ms a second
OFFSET = 1_700_000_000 * 1000 * MS
SLACK = 4 * MS  # an emulated machine's


def nic(**parameters):
    for name, value in parameters.items():
        with open(NIC + name, "w") as file:
            file.write(str(value))


def nic_time(mono_ns, offset=OFFSET):
    return offset + mono_ns + mono_ns // 1000 * PPM // 1000


def counters(netns):
    enter(netns)
    with open("/proc/thread-self/net/tcp_swift") as file:
        return {name: int(value) for name, value in map(str.split, file)}


STAMPS = ("stamps_no_clock", "stamps_stale", "stamps_future", "stamps_old")


class Flow:
    """From h1 to h2, and a sender of lines in either."""

    def __init__(self, address="10.0.0.2", port=7000):
        self.nl, self.index = {}, {}
        for netns, device in DEVICE.items():
            enter(netns)
            self.nl[netns], self.index[netns] = Netlink(), index_of(device)
            for line in self.nl[netns].dump():  # of another flow
                self.nl[netns].delete(line["IFINDEX"])
        listener = socket.create_server((address, port))
        enter("h1")
        self.client = socket.create_connection((address, port), timeout=20)
        self.client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server = listener.accept()[0]
        self.server.settimeout(20)
        self.port = port
        for sock in (self.client, self.server):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def close(self):
        for end in (self.client, self.server, *self.nl.values()):
            end.close()

    def set(self, *hosts, **values):
        for netns in hosts or DEVICE:
            host_ns = time.monotonic_ns()
            self.nl[netns].set(**{**good(self.index[netns], HOST_NS=host_ns, NIC_NS=nic_time(host_ns),
                                         RATIO_Q32=round(ONE / (1 + PPM / 1e6)), ERROR_NS=2000), **values})

    def line(self, netns):
        return self.nl[netns].get(self.index[netns])

    def exchange(self, number):
        for _ in range(number):
            self.client.send(bytes(1000))
            got = 0
            while got < 1000:
                got += len(self.server.recv(1000 - got)) or sys.exit("the flow ended")
            wait_until("all is acknowledged", lambda: not struct.unpack(
                "I", fcntl.ioctl(self.client, SIOCOUTQ, bytes(4)))[0])

    def observe(self, number=20):
        """Samples of h1, and what was counted: stamps refused, and lines used, at either host."""
        before = self.counts()
        with open(TRACE + "trace", "w"):
            pass
        with open(TRACE + "events/tcp_swift/swift_sample/enable", "w") as file:
            file.write("1")
        self.exchange(number)
        with open(TRACE + "events/tcp_swift/swift_sample/enable", "w") as file:
            file.write("0")
        with open(TRACE + "trace") as file:
            lines = [line for line in file if f" dport={self.port} " in line]
        samples = [dict(word.split("=") for word in line.split("swift_sample: ")[1].split()) for line in lines]
        samples = [{name: int(value) if value.isdigit() else value for name, value in sample.items()}
                   for sample in samples]
        expect(len(samples) >= number / 2, f"{len(samples)} samples of {number} exchanges")
        rise = {key: value - before[key] for key, value in self.counts().items()}
        return samples, rise

    def counts(self):
        counts = {(netns, name): value for netns in DEVICE for name, value in counters(netns).items()}
        for netns in DEVICE:
            try:
                line = self.line(netns)
            except Refused:
                line = {}
            counts |= {(netns, name): line.get(name, 0) for name in NAMES[9:]}
        return counts


def check(what, samples, rise, local, remote, counted=None, believed=True):
    """All samples have these sources, and hardware's delays; of the refused stamps each host
    counts @counted (netns: name), and nothing else. An echo that is not @believed has no source."""
    for name, want in (("local", local), ("remote", remote if believed else "none")):
        # The first echo may be of data from before the change.
        have = {sample[name] for sample in samples[2:]}
        expect(have == {want}, f"{what}: {name} is {have}, wanted {want}")
    for netns in DEVICE:
        for name in STAMPS:
            number, due = rise[netns, name], (counted or {}).get(netns) == name
            expect((number >= len(samples) / 2) if due else not number,
                   f"{what}: {netns} counts {number} {name}")
    hardware = {"h1": local, "h2": remote}
    for netns in DEVICE:
        want, used = hardware[netns] == "hardware", rise[netns, "USED"]
        expect((used >= len(samples) / 2) if want else not used, f"{what}: {netns} used {used} stamps")


def check_delays(what, samples):
    """The NIC stamped EARLY before the stack."""
    for name in ("local_ns", "remote_ns"):
        delays = sorted(sample[name] for sample in samples[2:])
        expect(delays[0] >= EARLY - 2100, f"{what}: {name} {delays[0]} is below {EARLY}")
        expect(delays[len(delays) // 2] < EARLY + SLACK, f"{what}: {name} {delays}, wanted {EARLY}")


def started(**parameters):
    nic(**{"form": 1, "offset_ns": OFFSET, "ppm": PPM, "early_ns": EARLY, **parameters})
    return Flow()


def without_stamps():
    flow = started(form=0)
    flow.set()
    check("no stamps", *flow.observe(), "software", "software")


def without_clock():
    flow = started()
    check("no line", *flow.observe(), "software", "software",
          {"h1": "stamps_no_clock", "h2": "stamps_no_clock"})


def hardware(**parameters):
    flow = started(**parameters)
    flow.set()
    time.sleep(1)  # so that the ratio counts: 5 ms
    samples, rise = flow.observe()
    check("hardware", samples, rise, "hardware", "hardware")
    check_delays("hardware", samples)
    expect(rise["h1", "samples_hardware"] >= 15 and not rise["h1", "samples_software"], f"counted: {rise}")


def hardware_of_driver():
    hardware(form=2)


def one_end():
    flow = started()
    flow.set("h2")
    check("h2 alone", *flow.observe(), "software", "hardware", {"h1": "stamps_no_clock"})


def driver_without_napi():
    """What only the driver understands is nobody's if no NAPI tells which one it is."""
    flow = started(form=2)
    flow.set()
    check("no NAPI", *flow.observe(), "software", "software",
          {"h1": "stamps_no_clock", "h2": "stamps_no_clock"})


def above(address):
    """VLAN, bridge or bond at h2 (t-clock.sh built it): the NIC below is the one that stamps."""
    nic(form=1, offset_ns=OFFSET, ppm=PPM, early_ns=EARLY)
    for form in (1, 2):
        flow = Flow(address, 7000 + form)
        nic(form=form)
        flow.set()
        samples, rise = flow.observe()
        check(f"form {form}", samples, rise, "hardware", "hardware")
        check_delays(f"form {form}", samples)
        flow.close()


def napi_anew():
    """The device goes down and up under a VLAN: its NAPIs are new, and known with the next line."""
    nic(form=1, offset_ns=OFFSET, ppm=PPM, early_ns=EARLY)
    flow = Flow("10.1.0.2", 7005)
    flow.set()
    check("before", *flow.observe(), "hardware", "hardware")
    run("ip -n h2 link set left down")
    run("ip -n h2 link set left up")
    run("ip -n h2 link set left.10 up")
    check("down and up", *flow.observe(), "hardware", "software", {"h2": "stamps_no_clock"})
    flow.set("h2")
    check("the next line", *flow.observe(), "hardware", "hardware")


def steps():
    flow = started()
    flow.set()
    check("before", *flow.observe(), "hardware", "hardware")
    both = {"h1": "stamps_future", "h2": "stamps_future"}
    for step in (10 * MS, HOUR, 100000 * HOUR):
        flow.set()
        nic(offset_ns=OFFSET + step)
        check(f"{step} ns forward", *flow.observe(), "software", "software", both)
    # An ACK answers data that left an RTT ago. Data does not; an echo beyond the RTT is refused.
    flow.set()
    nic(offset_ns=OFFSET - 200 * MS)
    samples, rise = flow.observe()
    check("200 ms back", samples, rise, "software", "hardware", {"h1": "stamps_old"}, believed=False)
    expect(rise["h1", "echoes_refused"] >= 10, f"200 ms back: {rise['h1', 'echoes_refused']} echoes refused")
    expect(all(sample["fabric_ns"] <= sample["rtt_ns"] for sample in samples), "a fabric delay above the RTT")
    both = {"h1": "stamps_old", "h2": "stamps_old"}
    for step in (2000 * MS, HOUR, 400000 * HOUR):
        flow.set()
        nic(offset_ns=OFFSET - step)
        check(f"{step} ns back", *flow.observe(), "software", "software", both)
    nic(offset_ns=OFFSET)
    check("set right", *flow.observe(), "hardware", "hardware")
    line = flow.line("h1")
    expect(line["FUTURE"] >= 45 and line["OLD"] >= 60, f"the line counts {line}")


def within_error():
    """Later than now, but no more than the line may err: as old as the stack says."""
    flow = started(early_ns=0, offset_ns=OFFSET + 400_000)
    flow.set(ERROR_NS=1_000_000)
    check("0.4 ms", *flow.observe(), "hardware", "hardware")
    flow.set(ERROR_NS=0)
    _, rise = flow.observe()
    expect(rise["h1", "stamps_future"] and rise["h2", "stamps_future"], f"0.4 ms, no error: {rise}")


def stale():
    flow = started()
    flow.set(VALID_MS=100)
    for netns in DEVICE:
        wait_until("the line expires", lambda: not flow.line(netns)["VALID_MS"])
    both = {"h1": "stamps_stale", "h2": "stamps_stale"}
    samples, rise = flow.observe()
    check("stale", samples, rise, "software", "software", both)
    expect(rise["h1", "STALE"] >= 10 and rise["h2", "STALE"] >= 10, f"the lines count {rise}")
    flow.set()
    check("set again", *flow.observe(), "hardware", "hardware")
    for netns in DEVICE:
        flow.nl[netns].delete(flow.index[netns])
    check("deleted", *flow.observe(), "software", "software",
          {"h1": "stamps_no_clock", "h2": "stamps_no_clock"})


def wall_clock():
    """Set forward and back all the time: with stamps of the NIC no delay notices."""
    flow = started()
    flow.set()
    now = time.clock_gettime(time.CLOCK_REALTIME)
    began = time.monotonic()
    child = os.fork()
    if not child:
        for step in range(1 << 30):
            time.clock_settime(time.CLOCK_REALTIME, now + time.monotonic() - began + (step & 1) * 600)
            time.sleep(0.003)
    samples, _ = flow.observe(100)
    os.kill(child, 9)
    os.waitpid(child, 0)
    time.clock_settime(time.CLOCK_REALTIME, now + time.monotonic() - began)
    wrong = [sample["remote_ns"] for sample in samples if sample["remote_ns"] > 500 * MS]
    expect(not wrong, f"echoed delays: {wrong}")
    have = [sample["local"] for sample in samples]
    expect(have.count("hardware") > len(have) / 2, f"sources: {have}")


def main():
    globals()[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
