# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# Pacing below one packet, and what may not be seen of it: functions of edges.py.

cases_of "$here/edges.py"
edge() { case_of "$1"; }

ok 'pacing: the module loads' swift_load
topo_routed 1
wires r1
tc -n r1 filter add dev left ingress pref 1 protocol ip u32 match ip dsfield 4 0xff action drop
for ns in h1 h2; do
	# Nothing learnt from the flow of another edge.
	in_ns $ns sysctl -qw net.ipv4.tcp_no_metrics_save=1
done
in_ns h1 ping -qc 3 -i 0.05 "$h2_ip4" >/dev/null
in_ns h1 ping -qc 3 -i 0.05 "$h2_ip6" >/dev/null

ok 'pacing: a packet each RTT / window, and ACKs at once' edge paced_exactly
ok 'pacing: small messages are spaced like full packets' edge small_messages
ok 'pacing: who leaves Swift leaves the gap' edge leave
ok 'pacing: who disconnects, too' edge disconnect
ok 'pacing: a gap does not lengthen timers' edge repaired_in_time
ok 'pacing: time never goes back' edge time_never_goes_back
ok 'pacing: a window of a packet or more has the usual limit of the queue below TCP' edge unpaced_again
ok 'pacing: an idle flow restarts from the initial window' edge idle_restart
