# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# Edges: what takes a hand on both sockets of a flow is in edges.py, by the names below.

cases_of "$here/edges.py"
edge() { case_of "$1"; }

ok 'edges: the module loads' swift_load
topo_routed 1
wires r1
tc -n r1 filter add dev left ingress pref 1 protocol ip u32 match ip dsfield 4 0xff action drop
for ns in h1 h2; do
	# Nothing learnt from the flow of another edge.
	in_ns $ns sysctl -qw net.ipv4.tcp_no_metrics_save=1
done
in_ns h1 ping -qc 3 -i 0.05 "$h2_ip4" >/dev/null

# First: a path MTU that shrinks as below ends IPv6 on r1.
ok 'edges: a flow whose path stays congested takes another one (plb)' edge plb
ok 'edges: MPTCP has both of two paths, the faster one most' edge mptcp
ok "edges: a loss found by RACK's timer cuts the window" edge rack_timer
ok 'edges: a path MTU that shrank does not' edge path_mtu
ok 'edges: a peer with an echo is not waited for as one that delays ACKs' edge timeouts
ok 'edges: timeouts of flows that lost packets together come apart' edge timeouts_apart
ok 'edges: flows that begin at once, or after a silence, do so in turn' edge begin_in_turn
ok 'edges: a half-closed receiver acknowledges at once' edge half_closed
ok 'edges: with data both ways ACKs have their echo' edge echoes_both_ways
ok 'edges: deferred accept on a short path: no guard' edge deferred_short
ok 'edges: deferred accept on a long path: guarded' edge deferred_long
ok 'edges: a guarded socket that is connected again is counted once' edge guarded_again
ok 'edges: chosen between SYN and SYN-ACK' edge syn_sent_first
ok 'edges: chosen again between SYN and SYN-ACK, with echo' edge syn_sent_again
ok 'edges: a delayed ACK is no sample of the path' edge delayed_ack
ok 'edges: flows know together how long a path is, handshakes, too; of other paths or packets, nothing' edge learnt_together
ok "edges: a flow that leaves Swift leaves Swift's QoS class" edge leave_class

ok 'edges: a peer that leaves Swift has lone segments sent once, soon' edge peer_left
ok 'edges: who comes back to Swift keeps the window' edge chosen_again
ok 'edges: forged segments end no echo' edge forged_repeats
ipvlan() {
	modprobe ipvlan && ip netns add h3 && ip -n h3 link set lo up && ip -n h2 link add in3 link left type ipvlan mode l3 &&
		ip -n h2 link set in3 netns h3 && ip -n h3 addr add 10.0.9.3/32 dev in3 && ip -n h3 link set in3 up &&
		ip -n h3 route add default dev in3 && ip -n r1 route add 10.0.9.0/24 via 10.0.1.2 &&
		ip -n h1 route add 10.0.9.0/24 via 10.0.0.2 && in_ns h1 ping -qc 3 -i 0.05 10.0.9.3
}
ok 'edges: h2 has a container, on an ipvlan' ipvlan
ok 'edges: whose packets pass LOCAL_OUT twice, and have one option' edge ipvlan
ip netns del h3

ok 'edges: no pacing is left of another congestion control' edge unpaced_after_bbr
ok 'edges: flows that come and go do not switch stamping' edge stamping_lasts

# Through a virtual routing device, and with checksums that the receiver has to believe.
vrf() { # NS DEV ROUTE...
	ip -n "$1" link add vrf0 type vrf table 10 && ip -n "$1" link set vrf0 up &&
		ip -n "$1" link set "$2" master vrf0 &&
		ip -n "$1" route add "${@:3}" table 10 && in_ns "$1" ethtool -K "$2" tx off
}
ok 'edges: h1 gets a virtual routing device' vrf h1 right 10.0.1.0/24 via 10.0.0.2
ok 'edges: h2, too' vrf h2 left 10.0.0.0/24 via 10.0.1.1
ok 'edges: a packet that LOCAL_OUT sees twice has one option, and the right checksum' edge vrf
for ns in h1 h2; do tc -n $ns qdisc add dev vrf0 root pfifo; done # the second time without the socket's lock
ok 'edges: also with a queue of the virtual device' edge vrf
