# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# Windows below one packet, by pacing, with and without sch_fq; what the WAN guard and
# DSCP do.

ok 'windows: the module loads' swift_load
topo_routed 1
wires r1
swift_hosts h1 h2
link_shape r1 right 100mbit 5ms 1000
link_shape r1 left 100mbit 5ms 1000
in_ns h1 ping -qc 3 -i 0.05 "$h2_ip4" >/dev/null

# No target can be met: the flow sits at min_cwnd = 0.4 packet, one packet each
# RTT / 0.4 = 10 ms / 0.4 = 25 ms, 40 a second. An emulated machine adds to the RTT, a busy
# one more: 40 a second at most, and at least half of what TCP's own RTT leaves.
swift_set h1 base_target_ns=1000 fs_range_ns=0 min_cwnd_micro=400000 hop_target_ns=0
for qdisc in fq noqueue; do
	ip netns exec h1 tc qdisc replace dev right root $qdisc
	iperf_server h2 -1
	ip netns exec h1 iperf3 -c "$h2_ip4" -t 3600 -l 1448 >/dev/null &
	client=$!
	below_one() { in_ns h1 "$swiftctl" flows --json | jq -e '.flows | max_by(.bytes_acked) | [.fcwnd, .ecwnd] | min < 1 and min > 0.39'; }
	segments() { in_ns h1 ss -Htin state established dport = :5201 | grep -o 'data_segs_out:[0-9]*' | cut -d: -f2 | sort -n | tail -1; }
	rtt_us() { in_ns h1 ss -Htin state established dport = :5201 | sed -nE 's/.* rtt:([0-9]+)\.?([0-9]{0,3}).*data_segs_out:([0-9]+).*/\3 \1 \2/p' |
		sort -n | tail -1 | awk '{ printf "%d", ($2 "." $3) * 1000 }'; }
	ok "windows: $qdisc: the window falls below one packet" wait_until 10 below_one
	sleep 0.5
	began=${EPOCHREALTIME/./}
	before=$(segments)
	rtt=$(rtt_us)
	ok "windows: $qdisc: snd_cwnd is 1" eval "in_ns h1 ss -Htin state established dport = :5201 | grep -q 'cwnd:1 '"
	sleep 3
	sent=$(($(segments) - before))
	took=$((${EPOCHREALTIME/./} - began))
	most=$((took / 25000)) due=$((took * 4 / 5 / (rtt + $(rtt_us))))
	diag "$qdisc: $sent packets where $due are due, $most without the emulator's share of the RTT"
	ok "windows: $qdisc: packets leave at RTT / window" test "$sent" -ge $((due / 2)) -a "$sent" -le $((most * 11 / 10))
	ends $client
	cleanup_jobs
done

# From below one back up: when the target allows, the window grows again.
iperf_server h2 -1
ip netns exec h1 iperf3 -c "$h2_ip4" -t 3600 >/dev/null &
wait_until 10 below_one
swift_set h1 base_target_ns=60000000 endpoint_target_ns=60000000
above() { in_ns h1 "$swiftctl" flows --json | jq -e '.flows | max_by(.bytes_acked) | [.fcwnd, .ecwnd] | min > 4'; }
ok 'windows: new parameters reach a running flow' wait_until 10 above
cleanup_jobs
swift_hosts h1

# 15 ms each way is no datacenter path where the guard stands at 20.
swift_set h1 max_rtt_ns=20000000
link_shape r1 right 100mbit 15ms 1000
link_shape r1 left 100mbit 15ms 1000
iperf_server h2 -1
ip netns exec h1 iperf3 -c "$h2_ip4" -t 3600 >/dev/null &
client=$!
runs_reno() { in_ns h1 ss -Htin state established dport = :5201 | grep -q swift-reno; }
reno_moves() { # 4 MB: much more than the first window
	[ "$(in_ns h1 ss -Htin state established dport = :5201 | grep swift-reno | grep -o 'bytes_acked:[0-9]*' | cut -d: -f2 | sort -n | tail -1)" -gt 4000000 ]
}
ok 'windows: a WAN flow runs Reno' wait_until 5 runs_reno
ok 'windows: and is counted' counts h1 guarded_flows -ge 1
ok 'windows: and moves data' wait_until 30 reno_moves
# It was no path but a queue, which ends.
link_shape r1 right 100mbit 1ms 20
link_shape r1 left 100mbit 1ms 20
runs_swift() { in_ns h1 ss -Htin state established dport = :5201 | grep -v swift-reno | grep -q 'bytes_acked:[0-9]\{7\}'; }
ok 'windows: and runs Swift again when its RTT is short' wait_until 30 runs_swift
ok 'windows: which its gauge shows' wait_until 10 counts h1 guarded_flows -le 1 # but for iperf3's idle one
# What gets long later: TCP's smallest RTT has to forget the short ones.
in_ns h1 sysctl -qw net.ipv4.tcp_min_rtt_wlen=1
link_shape r1 right 100mbit 15ms 1000
link_shape r1 left 100mbit 15ms 1000
ok 'windows: a path that gets long later is guarded, too' wait_until 30 runs_reno
in_ns h1 sysctl -qw net.ipv4.tcp_min_rtt_wlen=300
kill $client
wait
ok 'windows: its gauge goes back' wait_until 10 counts h1 guarded_flows -eq 0
swift_set h1 max_rtt_ns=1000000000

# QoS class.
link_shape r1 right 100mbit 5ms 1000
link_shape r1 left 100mbit 5ms 1000
patient_hosts h1
swift_set h1 dscp=10
dump_starts h2 -nv -i left -c 20 'tcp dst port 5201 and ip[1] = 40'
iperf_server h2 -1
transfer h1 "$h2_ip4" 1 >/dev/null
ok 'windows: dscp=10 marks the flow' wait_until 5 eval "! kill -0 $dump 2>/dev/null"
swift_set h1 dscp=-1
