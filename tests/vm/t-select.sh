# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# Choosing Swift: by sysctl, by setsockopt, by route; over IPv4 and IPv6; and what
# sock_diag, the tracepoint and /proc then show.

ok 'select: the module loads' swift_load
topo_routed 1
wires r1
patient_hosts h1 h2
link_shape r1 right 50mbit 500us 1000
in_ns h1 ping -qc 3 -i 0.05 "$h2_ip4" >/dev/null
in_ns h1 ping -qc 3 -i 0.05 "$h2_ip6" >/dev/null

while_running() { # DESCRIPTION EXPECTED-CC SERVER [IPERF3-ARG...]
	local description=$1 cc=$2 server=$3
	shift 3
	iperf_server h2 -1
	ip netns exec h1 iperf3 -c "$server" -t 3600 "$@" >/dev/null &
	local client=$!
	ok "$description" wait_until 30 flow_runs "$cc"
	ok "$description: data arrives" wait_until 30 flow_moves
	kill $client
	wait
}
flow_runs() { in_ns h1 ss -Htin dport = :5201 | grep -A1 ESTAB | grep -q "\b$1\b" ||
	in_ns h1 ss -Htin state established dport = :5201 | grep -q "[[:space:]]$1 "; }
flow_moves() {
	[ "$(in_ns h1 ss -Htin state established dport = :5201 | grep -o 'bytes_acked:[0-9]*' | cut -d: -f2 | sort -n | tail -1)" -gt 100000 ]
}

while_running 'select: sysctl, IPv4' swift "$h2_ip4"
while_running 'select: sysctl, IPv6' swift "$h2_ip6"
in_ns h1 sysctl -qw net.ipv4.tcp_congestion_control=cubic
while_running 'select: setsockopt' swift "$h2_ip4" -C swift
while_running 'select: another one beside it' cubic "$h2_ip4"
ip -n h1 route change 10.0.1.0/24 via 10.0.0.2 congctl swift
while_running 'select: ip route congctl' swift "$h2_ip4"
ip -n h1 route change 10.0.1.0/24 via 10.0.0.2
in_ns h1 sysctl -qw net.ipv4.tcp_congestion_control=swift

# What a running flow shows.
iperf_server h2 -1
ip netns exec h1 iperf3 -c "$h2_ip4" -t 3600 >/dev/null &
client=$!
bulk='.flows | max_by(.bytes_acked)'
flow_at_work() {
	in_ns h1 "$swiftctl" flows --json >"$work/flows"
	jq -e "$bulk | .bytes_acked > 1000000" "$work/flows"
}
ok 'select: swiftctl flows shows the flow' wait_until 30 flow_at_work
ok 'select: swiftctl flows shows fabric and host delay' jq -e "$bulk | .fabric_ns > 0 and .endpoint_ns > 0 and .target_ns >= 100000000" "$work/flows"
ok 'select: and windows' jq -e "$bulk | .fcwnd > 0.0005 and .ecwnd > 0.0005" "$work/flows"
ok 'select: and software stamps on both ends' jq -e "$bulk | .local_stamp == \"software\" and .echo_stamp == \"software\"" "$work/flows" ||
	diag "$(cat "$work/flows")"
kill $client
wait

# The parts of each sample add up; the tracepoint is the witness.
tracing=/sys/kernel/tracing
echo 1 >$tracing/events/tcp_swift/swift_sample/enable
iperf_server h2 -1
transfer h1 "$h2_ip4" 2 >/dev/null
echo 0 >$tracing/events/tcp_swift/swift_sample/enable
grep -a swift_sample: $tracing/trace | sed 's/.*swift_sample: //' >"$work/samples"
echo >$tracing/trace
ok 'select: the tracepoint fires' test "$(wc -l <"$work/samples")" -gt 100
adds_up() {
	awk '{ for (i = 1; i <= NF; i++) { split($i, kv, "="); v[kv[1]] = kv[2] }
		if (v["remote"] == "software" && v["remote_ns"] + v["local_ns"] <= v["rtt_ns"]) {
			n++; if (v["fabric_ns"] + v["remote_ns"] + v["local_ns"] != v["rtt_ns"]) bad++ } }
		END { print n + 0, bad + 0; exit !(n > 100 && !bad) }' "$work/samples"
}
ok 'select: fabric + remote + local is the RTT in every sample' adds_up

# A namespace of its own.
ip netns add other
ok 'select: another namespace counts nothing' counts other flows_total -eq 0
ok 'select: and keeps its defaults' test "$(in_ns other sysctl -n net.ipv4.tcp_swift.base_target_ns)" = 25000
ok 'select: all flows are over' wait_until 10 counts h1 flows -eq 0
