# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# SIRD's credit on the wire: who offers and answers, what data tells and ACKs grant, and that
# all goes on where a peer has none, an application is slow, an end closes first, or Swift goes.

ok 'credit: the module loads' swift_load
topo_routed 2
patient_hosts h1 h2
link_shape r2 right 50mbit 500us 1000
for host in h1 h2; do
	swift_set $host link_mbps=50
	swift_set $host credit=1
done
in_ns h1 ping -qc 3 -i 0.05 "$h2_ip4" >/dev/null
in_ns h1 ping -qc 3 -i 0.05 "$h2_ip6" >/dev/null

# Some seconds h1 -> h2, seen by tcpdump at h2; the text is left in $work/dump.
capture() { # SERVER [IPERF3-ARG...]
	local server=$1
	shift
	local dump
	rm -f "$work/pcap"
	iperf_server h2 -1
	dump_starts h2 -nvl -i left -w "$work/pcap" -U tcp port 5201
	timeout $patience ip netns exec h1 iperf3 --json -c "$server" -n 2M "$@" |
		jq '.end.sum_received.bits_per_second | floor' >"$work/rate"
	sleep 0.3
	ends $dump
	timeout $patience tcpdump -nvr "$work/pcap" 2>/dev/null | awk '/^[0-9]/ { if (p) print p; p = $0; next } { p = p " " $0 } END { print p }' >"$work/dump"
	wait_until 10 not listening h2 5201
	cleanup_jobs
}
fast() { # Mbit/s at least, of the 50, the start of the transfer included
	echo "$(cat "$work/rate") bit/s"
	[ "$(cat "$work/rate")" -ge $(($1 * 1000000)) ]
}
data() { grep -aE "> ($h2_ip4|$h2_ip6)\.5201" "$work/dump" | grep -a 'length [1-9][0-9]*$'; }
all_data_tells() { # version 1 in the two highest bits of the flags; SACK blocks may fill the options
	local with all
	with=$(data | grep -c 'unknown-253 0x53434')
	all=$(data | wc -l)
	echo "$with of $all segments tell what there is to send"
	[ "$all" -gt 50 ] && [ $((with * 100)) -ge $((all * 95)) ]
}
within_mtu() { # where nobody merges or cuts segments
	! data | sed 's/.*length //' | awk '$1 > 1500 - 40 - 12 - 8' | grep -q .
}
no_bad_checksum() {
	in_ns h2 nstat -asz TcpInCsumErrors | grep -q 'TcpInCsumErrors  *0 '
}

for family in 4 6; do
	server=h2_ip$family
	# Summed before they leave, so that whoever gets them looks; cut by the stack, then by TCP.
	in_ns h1 ethtool -K right tx off >/dev/null
	[ $family = 4 ] || in_ns h1 ethtool -K right gso off >/dev/null
	windows=$(counter h2 credit_windows)
	kicks=$(counter h2 credit_kicks)
	granted=$(counter h2 credit_granted_bytes)
	capture "${!server}" -P 4 -n 4M
	ok "credit: IPv$family: the SYN offers both" grep -qa 'Flags \[S\].*unknown-253 0x5357.*unknown-253 0x5343' "$work/dump"
	ok "credit: IPv$family: the SYN-ACK offers both" grep -qa 'Flags \[S\.\].*unknown-253 0x5357.*unknown-253 0x5343' "$work/dump"
	ok "credit: IPv$family: data tells what there is to send" all_data_tells
	[ $family = 4 ] || ok "credit: IPv$family: no segment is larger than the MTU" within_mtu
	ok "credit: IPv$family: no checksum is wrong" no_bad_checksum
	ok "credit: IPv$family: windows are lowered to it" counts h2 credit_windows -gt $((windows + 50))
	ok "credit: IPv$family: flows are told by ACKs of their own" counts h2 credit_kicks -gt "$kicks"
	# Most of 4 MB, and no more than four streams of iperf3 have beyond them, 128 KB each.
	ok "credit: IPv$family: they are lent most of what they send" counts h2 credit_granted_bytes -gt $((granted + 2000000))
	ok "credit: IPv$family: and no more than they have" counts h2 credit_granted_bytes -le $((granted + 5000000))
	ok "credit: IPv$family: the link is full" fast 25
	ok "credit: IPv$family: nobody is left in the book" wait_until 20 counts h2 credit_flows -eq 0
done

# What an operator sees of it, while eight flows fill the link.
book() { in_ns h2 "$swiftctl" credit --json >"$work/book" && jq -e "$1" "$work/book"; }
sent() { in_ns h1 "$swiftctl" flows --json --dport 5201 --dport 5202 >"$work/sent" && jq -e "$1" "$work/sent"; }
show_seen() { diag "$(cat "$work/book" "$work/sent")"; }
iperf_server h2 -1
ip netns exec h1 iperf3 -c "$h2_ip4" -t 3600 -P 8 >/dev/null 2>&1 &
client=$!
waits() { book '[.flows[] | select((.standing == "link" or .standing == "late") and .wanted_bytes > 0)] | length >= 4'; }
ok 'credit: the receiver'\''s book has flows that wait for its link' wait_until 60 waits || show_seen
ok 'credit: and the link, as it is' jq -e '.credit and (.links[] | select(.iface == "left") | .rate_mbps == 50 and .lent_bytes > 0 and
	.most_bytes >= .bdp_bytes and .bdp_bytes >= 16384 and .loop_ns >= .rtt_ns and .rtt_ns > 500000)' "$work/book" || show_seen
ok 'credit: and one peer, of nine flows' jq -e "(.peers | length == 1) and (.peers[0] | .peer == \"$h1_ip4\" and .iface == \"left\" and
	.flows == 9 and (.standing == \"link\" or .standing == \"late\") and .bucket_bytes > 0)" "$work/book" || show_seen
sums_up() { book '([.flows[].lent_bytes] | add) as $flows | (.links[] | select(.iface == "left") | .lent_bytes) as $link | $flows > $link / 2 and $flows < $link * 2 + 65536'; }
ok 'credit: what flows were lent is what the link has lent' wait_until 60 sums_up || show_seen
ok 'credit: the table says so, too' eval 'in_ns h2 "$swiftctl" credit >"$work/table" && grep -q "^DEVICE" "$work/table" && grep -qE " (link|late)" "$work/table"' ||
	diag "$(cat "$work/table")"
ok 'credit: the book of the sender is empty but for its links' eval "in_ns h1 '$swiftctl' credit --json | jq -e '[.flows[].wanted_bytes] | add == 0'"
ok 'credit: anyone may read it' eval "in_ns h2 setpriv --reuid 65534 --clear-groups '$swiftctl' credit --json | jq -e '.flows | length == 9'"
ok 'credit: the sender says that flows wait for it' wait_until 60 sent '[.flows[] | select(.held_by == "credit" and .credit == "waits")] | length >= 4' || show_seen
ok 'credit: and has targets that nothing is mixed into' jq -e 'all(.flows[]; .target_ns == 0 or .target_ns >= 100000000)' "$work/sent" || show_seen
tracing=/sys/kernel/tracing
echo 1 >$tracing/events/tcp_swift/swift_sample/enable
traced() { grep -aq 'swift_sample:.*dport=5201.* credit=waits' $tracing/trace; }
ok 'credit: so does the tracepoint' wait_until 60 traced
echo 0 >$tracing/events/tcp_swift/swift_sample/enable
echo >$tracing/trace
ok 'credit: doctor sees both ends' eval "in_ns h2 '$swiftctl' doctor --iface left --json | jq -e '[.findings[] | select(.check == \"peer credit\" or .check == \"left credit\") | .severity] == [\"ok\", \"ok\"]'"
ok 'credit: and asks a peer' eval "in_ns h1 '$swiftctl' doctor --iface right --peer $h2_ip4:5202 --json >'$work/doctor'; jq -e '.findings[] | select(.check == \"peer credit\") | .seen | contains(\"not known\")' '$work/doctor'" ||
	diag "$(cat "$work/doctor")"
ends $client
cleanup_jobs
gone() { book '.flows == [] and all(.links[]; .lent_bytes == 0)'; }
ok 'credit: it ends with an empty book' wait_until 60 gone || show_seen

# A sender whose own link is the narrow one, with two receivers (h2 by both its addresses).
swift_set h1 link_mbps=25
iperf_server h2 -1
iperf_server h2 -1 -p 5202
ip netns exec h1 iperf3 -c "$h2_ip4" -t 3600 -P 2 >/dev/null 2>&1 &
ip netns exec h1 iperf3 -c "$h2_ip6" -p 5202 -t 3600 -P 2 >/dev/null 2>&1 &
ok 'credit: a sender that is congested itself says so' wait_until 60 sent '[.flows[] | select(.held_by == "own_link" and .credit == "congested")] | length >= 2' ||
	show_seen
ok 'credit: its segments are counted there' counts h1 credit_congested -gt 0
ok 'credit: and here' counts h2 credit_congested_senders -gt 0
narrow() { book '[.peers[] | select(.standing == "sender" and .bucket_bytes == .csn_bucket_bytes and .csn_bucket_bytes < .network_bucket_bytes)] | length == 2'; }
ok 'credit: the book holds it against that sender, by both addresses' wait_until 60 narrow || show_seen
cleanup_jobs
ok 'credit: and forgets it' wait_until 60 gone || show_seen
swift_set h1 link_mbps=50

# One peer has none: none of it is seen, and data flows.
for off in h1 h2; do
	swift_set $off credit=0
	capture "$h2_ip4"
	ok "credit: without it at $off no data tells" not grep -qa 'unknown-253 0x53434' "$work/dump"
	ok "credit: nor is an offer answered ($off)" not grep -qa 'Flags \[S\.\].*unknown-253 0x5343' "$work/dump"
	ok "credit: and data flows all the same ($off)" fast 25
	swift_set $off credit=1
done
# Credit alone, without the echo.
for host in h1 h2; do swift_set $host echo=0; done
capture "$h2_ip4"
ok 'credit: goes without the echo' all_data_tells
ok 'credit: and the link is full' fast 25
for host in h1 h2; do swift_set $host echo=1; done

# A rate that nobody knows: negotiated, but windows are the kernel's.
swift_set h2 link_mbps=0
windows=$(counter h2 credit_windows)
capture "$h2_ip4"
ok 'credit: none from a link of unknown rate' counts h2 credit_windows -eq "$windows"
ok 'credit: which is no obstacle' fast 25
iperf_server h2 -1
ip netns exec h1 iperf3 -c "$h2_ip4" -t 3600 >/dev/null 2>&1 &
client=$!
ok 'credit: of which the book says so' wait_until 60 book '.flows | length == 2 and all(.[]; .standing == "no_rate" and .lent_bytes == 0)' || show_seen
ok 'credit: and so does doctor, in one line' eval "in_ns h2 '$swiftctl' doctor --iface left --json | jq -e '.findings[] | select(.check == \"left credit\") | .severity == \"warn\" and (.fix | contains(\"link_mbps\"))'"
ends $client
cleanup_jobs
swift_set h2 link_mbps=50

# What arrives is what was sent, whatever the application does.
transfer_of() { # WHAT: the server's ways
	timeout $patience ip netns exec h2 python3 -ISc "$1" &
	local server=$!
	wait_until 10 listening h2 7000
	if timeout $patience ip netns exec h1 python3 -ISc "$2"; then
		wait $server
	else
		in_ns h1 ss -tinem
		in_ns h2 ss -tinem
		kill $server
		return 1
	fi
}
receiver='
import random, socket, time
s = socket.create_server(("", 7000)); c, _ = s.accept()
got = bytearray()
while True:
    d = c.recv(65536)
    if not d: break
    got += d
    SLOW
c.sendall(b"y" if got == random.Random(1).randbytes(len(got)) else b"n"); c.close()'
sender='
import random, socket
c = socket.create_connection(("'$h2_ip4'", 7000))
sizes = (4, 60, 64, 68, 1444, 1448, 20000, 200000, 500000, 8)
data = random.Random(1).randbytes(sum(sizes))
for size in sizes:
    c.sendall(data[:size]); data = data[size:]
c.shutdown(socket.SHUT_WR)
assert c.recv(1) == b"y"'
ok 'credit: bytes arrive as they were sent' transfer_of "${receiver/SLOW/}" "$sender"
ok 'credit: also at an application that is slow to read' transfer_of "${receiver/SLOW/time.sleep(0.02)}" "$sender"
half_closed='
import socket
c = socket.create_connection(("'$h2_ip4'", 7000))
c.shutdown(socket.SHUT_WR)
n = 0
while True:
    d = c.recv(65536)
    if not d: break
    n += len(d)
assert n == 2000000, n'
answers='
import socket
s = socket.create_server(("", 7000)); c, _ = s.accept()
assert not c.recv(1)
c.sendall(bytes(2000000)); c.close()'
ok 'credit: and to an end that has closed its own' transfer_of "$answers" "$half_closed"
leaves='
import socket
s = socket.create_server(("", 7000)); c, _ = s.accept()
n = 0
while d := c.recv(65536):
    if n < 500000 <= n + len(d): c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
    n += len(d)
assert n == 2000000, n
c.close()'
sends='
import socket, time
c = socket.create_connection(("'$h2_ip4'", 7000))
began = time.monotonic()
c.sendall(bytes(2000000))
c.shutdown(socket.SHUT_WR); c.recv(1)'
ok 'credit: a receiver that leaves Swift lets its sender go on' transfer_of "$leaves" "$sends"
switched_off() {
	(sleep 0.1; for host in h1 h2; do swift_set $host credit=0; done) &
	transfer_of "${receiver/SLOW/}" "$sender"
}
ok 'credit: switched off on the way, all goes on' switched_off
ok 'credit: nobody is left in the book' wait_until 20 counts h2 credit_flows -eq 0
ok 'credit: nor of the senders' wait_until 20 counts h1 credit_flows -eq 0

# ACKs get lost, and grants with them: who is silent is told again, and no bytes stay lent.
for host in h1 h2; do swift_set $host credit=1; done
# (So does a SYN-ACK now and then, for a second: the transfer is longer than that.)
link_shape r1 left 1gbit 100us 1000 loss 2%
capture "$h2_ip4" -P 4 -n 12M
ok 'credit: grants that are lost are told again' fast 25
link_shape r1 left 1gbit 100us 1000

# Many connections, some of which are reset with credit on its way. What then stays in the book is a
# warning of the module's, which fails the guest: when the last flow of a sender goes, and the link.
many_listen='
import socket
s = socket.create_server(("", 7000), backlog=64)
for i in range(120):
    c, _ = s.accept()
    try:
        if i % 3: c.recv(2000)
        else:
            while c.recv(65536): pass
    except ConnectionResetError: pass
    c.close()'
many='
import socket, struct
for i in range(120):
    c = socket.create_connection(("'$h2_ip4'", 7000))
    if i % 2: c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.setblocking(False)
    try: c.send(bytes(1 + i * 777))
    except BlockingIOError: pass
    c.close()'
ok 'credit: many connections, closed and reset' transfer_of "$many_listen" "$many"
ok 'credit: none of them is left in the book' wait_until 20 counts h2 credit_flows -eq 0

# Below one packet, with an announcement that waits for its time, a flow leaves Swift, and is reset. Of a
# window of no packet the kernel warns, which fails the guest.
gets='
import socket
s = socket.create_server(("", 7000))
for i in range(4):
    c, _ = s.accept()
    try:
        while d := c.recv(65536): c.sendall(b"y" if len(d) == 200 else b"n")
    except ConnectionResetError: pass
    c.close()'
below='
import socket, struct
for i in range(4):
    c = socket.create_connection(("'$h2_ip4'", 7000))
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200000)
    for j in range(3): c.sendall(bytes(200)); assert c.recv(1) == b"y"
    c.sendall(bytes(100000))
    if i % 2: c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
    assert struct.unpack_from("I", c.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 80)[0] > 0
    c.close()'
swift_set h1 base_target_ns=1000 fs_range_ns=0 max_mdf_milli=1000 beta_milli=1000 min_cwnd_micro=20000
ok 'credit: below one packet, flows leave Swift while they announce' transfer_of "$gets" "$below"
swift_set h1 base_target_ns=100000000 fs_range_ns=1000000 max_mdf_milli=500 beta_milli=800 min_cwnd_micro=1000
ok 'credit: none of these is left in the book either' wait_until 20 counts h2 credit_flows -eq 0

# In full flight: sockets are ended under load, and the module goes at once.
kicks=$(counter h2 credit_kicks)
iperf_server h2 -1
ip netns exec h1 iperf3 -c "$h2_ip4" -t 60 -P 8 >/dev/null 2>&1 &
in_flight() { wait_until 30 counts h2 credit_kicks -gt $((kicks + 50)); }
ok 'credit: eight flows are in full flight' in_flight
for host in h1 h2; do in_ns $host sysctl -qw net.ipv4.tcp_congestion_control=cubic; done
ended() { flows_ended h2 && flows_ended h1; }
ok 'credit: they are ended' wait_until 20 ended
cleanup_jobs
ok 'credit: and the module unloads' wait_until 30 swift_unload

# In a new book, as others' batches enlarge a grant. A peer with small segments announces much, and gets its ACK
# late: what one packet has the receiver grant is bounded, by 128 grants of 4 * 88 bytes. The rest follows.
grants='
import socket
def granted(): return int(dict(l.split() for l in open("/proc/net/tcp_swift"))["credit_granted_bytes"])
s = socket.create_server(("", 7000)); c, _ = s.accept()
for size in (900, 60): assert len(c.recv(size, socket.MSG_WAITALL)) == size; c.sendall(b"y")
before = granted(); n = len(c.recv(65536)); got = granted() - before
print(n, "bytes came,", got, "were granted"); assert n <= 88 and 352 * 100 < got <= 352 * 128
while n < 60000: d = c.recv(65536); assert d; n += len(d)
c.sendall(b"y"); c.close()'
small='
import socket, struct
c = socket.socket()
c.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 88)
c.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200000)
c.connect(("'$h2_ip4'", 7000))
c.sendall(bytes(900)); assert c.recv(1) == b"y"  # the first ten segments are not paced
# SO_MAX_PACING_RATE: all is written before the announcement leaves
c.setsockopt(socket.SOL_SOCKET, 47, 50)
c.sendall(bytes(60)); assert c.recv(1) == b"y"
c.sendall(bytes(60000)); c.setsockopt(socket.SOL_SOCKET, 47, struct.pack("Q", (1 << 64) - 1))
assert c.recv(1) == b"y"'
ok 'credit: and loads' swift_load
patient_hosts h1 h2
for host in h1 h2; do swift_set $host credit=1; done
swift_set h1 link_mbps=50
swift_set h2 link_mbps=1000 credit_unsched_milli=0
link_shape h2 left 1gbit 200ms 1000
ok 'credit: a packet has so much granted and no more' transfer_of "$grants" "$small"
