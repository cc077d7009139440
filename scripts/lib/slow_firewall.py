#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A host that is slow to process packets, for `make demo`: lets all of nftables' queue 0
pass, one each so many microseconds. Usage, as root: slow_firewall.py MICROSECONDS"""
import socket
import struct
import sys
import time

NETLINK_NETFILTER = 12  # linux/netlink.h
SO_RCVBUFFORCE = 33  # asm-generic/socket.h
PACKET, VERDICT, CONFIG = (3 << 8 | message for message in range(3))  # NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_
CFG_CMD, CFG_PARAMS = 1, 2  # NFQA_CFG_
PACKET_HDR, VERDICT_HDR = 1, 2  # NFQA_
ACCEPT = 1
ROOM_BYTES = 4 << 20  # for the numbers of all packets that the queue holds, 1024
NLM_F_REQUEST = 1


def send(queue, kind, attribute, payload):
    """One message with one attribute."""
    body = struct.pack("=BBHHH", socket.AF_UNSPEC, 0, 0, 4 + len(payload), attribute) + payload
    body += bytes(-len(body) % 4)
    queue.send(struct.pack("=IHHII", 16 + len(body), kind, NLM_F_REQUEST, 0, 0) + body)


def packets(queue):
    """The numbers of packets that wait, as they come."""
    while True:
        data = queue.recv(65536)
        while data:
            length, kind = struct.unpack_from("=IH", data)
            attribute = 20  # behind nlmsghdr and nfgenmsg
            while kind == PACKET and attribute < length:
                size, name = struct.unpack_from("=HH", data, attribute)
                if name == PACKET_HDR:
                    yield struct.unpack_from("!I", data, attribute + 4)[0]
                attribute += size + -size % 4
            data = data[length + -length % 4:]


def main():
    each_s = int(sys.argv[1]) / 1e6
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as queue:
        queue.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, ROOM_BYTES)
        send(queue, CONFIG, CFG_CMD, struct.pack("!BxH", 1, 0))  # bind
        send(queue, CONFIG, CFG_PARAMS, struct.pack("!IB", 0, 1))  # numbers alone
        free_s = 0.0
        for number in packets(queue):
            free_s = max(free_s, time.monotonic()) + each_s
            time.sleep(max(0.0, free_s - time.monotonic()))
            send(queue, VERDICT, VERDICT_HDR, struct.pack("!II", ACCEPT, number))


if __name__ == "__main__":
    main()
