# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# Timers, qdiscs, softirqs and processes on two CPUs against each other (tests/vm/guest LINE --cpus 2 --
# cpus): two-way traffic above and below one packet, IPv4 and IPv6, with fq and without, while sysctls,
# qdiscs and readers come and go; then a namespace vanishes with its flows, and the module is unloaded.
# Again and again, for $CPUS_SECONDS (30). What is wrong, the kernel's log says, which scripts/vm reads.

ok 'cpus: there are two' test "$(nproc)" -ge 2
started=$(date +%s)

restless() { # what an operator may do, until it is killed
	local value=0 qdiscs=(noqueue fq)
	while :; do
		value=$((1 - value))
		swift_set h1 echo=$value plb=$value min_cwnd_micro=$((value ? 500000 : 4000000))
		swift_set h2 base_target_ns=$((1000 + value * 50000000)) target_policy=static
		swift_set h2 target_policy=base_rtt_plus
		in_ns h1 tc qdisc replace dev right root "${qdiscs[value]}"
		in_ns h1 ss -tin >/dev/null
		in_ns h2 cat /proc/net/tcp_swift >/dev/null
	done 2>/dev/null
}

come_and_go() {
	local port busy ns
	swift_load && topo_routed 1 && patient_hosts h1 h2 || return
	# What is orphaned does not hold its namespace, and so the module, for minutes.
	for ns in h1 h2; do in_ns $ns sysctl -qw net.ipv4.tcp_orphan_retries=1 net.ipv4.tcp_retries2=3; done
	in_ns r1 tc qdisc add dev right root netem delay 1ms limit 200 rate 200mbit
	for port in 5201 5202 5203; do ip netns exec h2 iperf3 -s -p $port >/dev/null & done
	wait_until 20 eval '[ "$(in_ns h2 ss -Htln | grep -c ":520[123]")" = 3 ]' || return
	restless &
	busy=$!
	ip netns exec h1 iperf3 -p 5201 -c "$h2_ip4" --bidir -P 4 -t 60 >/dev/null 2>&1 &
	ip netns exec h1 iperf3 -p 5202 -c "$h2_ip6" --bidir -P 4 -t 60 >/dev/null 2>&1 &
	ip netns exec h1 iperf3 -p 5203 -c "$h2_ip6" -l 400 -b 4M -P 4 -t 60 >/dev/null 2>&1 &
	wait_until 30 counts h1 samples -gt 3000 && wait_until 30 counts h2 samples -gt 1000 || return
	ends $busy
	ip netns del h1 # in the middle of it all; it ends with its last process
	cleanup_namespaces
	wait_until 120 swift_unload
}

# One test, however many rounds this machine has time for.
rounds() {
	local round=0
	while :; do
		come_and_go || { echo "in round $((round + 1))"; return 1; }
		((++round))
		(($(date +%s) - started < ${CPUS_SECONDS:-30})) || return 0
	done
}

ok 'cpus: flows, qdiscs and readers come and go, the namespace and the module after them' rounds
