# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# Whose link is it: what stands on one device alone has that one's link, with the settings of
# that one's namespace; a device that a second one joins has a link of its own from then on.

modprobe -a bridge dummy macvlan
ok 'links: the module loads' swift_load
topo_pair
patient_hosts h1 h2
for host in h1 h2; do
	swift_set $host link_mbps=50
	swift_set $host credit=1
done

book() { # NS JQ-EXPRESSION
	in_ns "$1" "$swiftctl" credit --json >"$work/book" && jq -e "$2" "$work/book"
}
link() { # NS DEVICE JQ-EXPRESSION: of the device's link
	book "$1" ".links[] | select(.iface == \"$2\") | $3" || { cat "$work/book"; return 1; }
}
send() { # NS ADDRESS: one megabyte, from h1
	iperf_server "$1" -1 && timeout $patience ip netns exec h1 iperf3 -c "$2" -n 1M >"$work/sent" 2>&1 ||
		{ cat "$work/sent"; return 1; }
	wait_until 10 not listening "$1" 5201
	cleanup_jobs
}

# A container on the host's device, whose root may set what it likes.
container() {
	ip netns add h3 && in_ns h3 sysctl -qw net.ipv6.conf.{all,default}.accept_dad=0 && ip -n h3 link set lo up &&
		ip -n h2 link add in3 link left type macvlan mode bridge && ip -n h2 link set in3 netns h3 &&
		ip -n h3 addr add 10.0.0.3/24 dev in3 && ip -n h3 link set in3 up
}
ok 'links: a container stands on the device' container
patient_hosts h3
swift_set h3 credit=1 credit_b_milli=16000 credit_unsched_milli=16000 link_mbps=10
ok "links: its link is the device's" wait_until 10 link h3 in3 '.rate_mbps == 50'
b_milli() { # OF: B, in thousandths of the BDP
	link h2 left ".bdp_bytes > 0 and (.most_bytes * 1000 / .bdp_bytes | round) == $1"
}
ok 'links: data comes to the container' send h3 10.0.0.3
ok "links: which has its credit by the settings of the device's namespace" b_milli 1500
ok 'links: and so for it, too' link h3 in3 '(.most_bytes * 1000 / .bdp_bytes | round) == 1500 and .unasked_bytes <= .bdp_bytes'
swift_set h2 credit_b_milli=3000
ok 'links: data comes to the container again' send h3 10.0.0.3
ok 'links: which has what was set there since' b_milli 3000
swift_set h2 credit_b_milli=1500
ip netns del h3

# A bridge over one device, then over two.
bridged() {
	ip -n h2 link add br0 type bridge && ip -n h2 addr flush dev left && ip -n h2 link set left master br0 &&
		ip -n h2 addr add 10.0.0.2/24 dev br0 && ip -n h2 link set br0 up
}
ok "links: a bridge takes the device's address" bridged
of_left() { # JQ-OPERATOR: is the bridge's link the device's?
	book h2 '[.links[] | select(.iface == "left", .iface == "br0") | [.rtt_ns, .loop_ns]] | length == 2 and .[0][0] > 0 and .[0] '"$1"' .[1]' ||
		{ cat "$work/book"; return 1; }
}
ok 'links: data comes through it' wait_until 20 send h2 "$h2_ip4"
ok "links: over one device it has that one's" of_left ==
joined() {
	ip -n h2 link add d0 type dummy && ip -n h2 link set d0 master br0 && ip -n h2 link set d0 up
}
ok 'links: a second device joins it' joined
ok 'links: the bridge has its own' wait_until 10 of_left !=
ok 'links: data comes through it still' send h2 "$h2_ip4"
ok "links: and is in the bridge's book" link h2 br0 '.rtt_ns > 0 and .rate_mbps == 50'
ok 'links: the second device goes' ip -n h2 link del d0
ok "links: and the bridge has the first one's again" wait_until 10 of_left ==
ok 'links: data comes through it as before' send h2 "$h2_ip4"
# A packet of almost 64 KB, whose length has 16 bits, and not with an option more (BIG TCP).
big='
import socket
s = socket.create_server(("::", 7000), family=socket.AF_INET6); c, _ = s.accept()
for size in [*[200000] * 4, *range(65400, 65536, 4)]:
    got = c.recv(size, socket.MSG_WAITALL)
    assert got == bytes(size), len(got)
    c.sendall(b"y")'
sends_big='
import socket
c = socket.create_connection(("'$h2_ip6'", 7000), 600)
c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for size in [*[200000] * 4, *range(65400, 65536, 4)]:
    c.sendall(bytes(size))
    assert c.recv(1) == b"y", size'
retransmitted() { in_ns h1 nstat -asz TcpRetransSegs | awk '/^TcpRetransSegs/ { print $2 }'; }
large() { # those of more than 65500 bytes have another header, and are no TCP to tcpdump
	local longest lost
	ip -n h1 link set right gso_max_size 150000 && ip -n h2 link set left gso_max_size 150000 || return
	timeout $patience ip netns exec h2 python3 -ISc "$big" &
	wait_until 10 listening h2 7000
	lost=$(retransmitted)
	dump_starts h2 -n -B 16384 --immediate-mode -i left -w "$work/pcap" -U tcp dst port 7000
	timeout $patience ip netns exec h1 python3 -ISc "$sends_big" || return
	sleep 0.2
	cleanup_jobs
	longest=$(tcpdump -nr "$work/pcap" 2>/dev/null | sed -n 's/.*length //p' | sort -n | tail -n 1)
	lost=$(($(retransmitted) - lost))
	echo "the longest has $longest bytes; $lost segments were sent again"
	[ "$longest" = 65500 ] && [ "$lost" = 0 ]
}
ip -n h2 addr add "$h2_ip6/64" dev br0 nodad
for host in h1 h2; do swift_set $host link_mbps=10000 credit_unsched_milli=64000; done
ok 'links: an option more than the length of a packet can say is none' large
ok 'links: nobody is left in the book' wait_until 20 counts h2 credit_flows -eq 0
