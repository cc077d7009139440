# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# The echo on the wire: who offers, who answers, what the ACKs carry, and what happens
# when a peer has none, a server sends cookies, or somebody lies.

ok 'echo: the module loads' swift_load
topo_routed 2
wires r1
patient_hosts h1 h2
link_shape r2 right 50mbit 500us 1000
in_ns h1 ping -qc 3 -i 0.05 "$h2_ip4" >/dev/null
in_ns h1 ping -qc 3 -i 0.05 "$h2_ip6" >/dev/null

# One transfer h1 -> h2, seen by tcpdump at h2; the text is left in $work/dump.
capture() { # SERVER [FAMILY]
	local dump
	rm -f "$work/pcap"
	iperf_server h2 -1
	dump_starts h2 -nvl -i left -w "$work/pcap" -U tcp port 5201
	transfer h1 "$1" 1 >"$work/rate"
	sleep 0.3
	ends $dump
	timeout $patience tcpdump -nvr "$work/pcap" 2>/dev/null | awk '/^[0-9]/ { if (p) print p; p = $0; next } { p = p " " $0 } END { print p }' >"$work/dump"
	cleanup_jobs
}
from_h2() { grep -aE "$h2_ip4\.5201 > |$h2_ip6\.5201 > " "$work/dump"; }
from_h1() { grep -aE "> ($h2_ip4|$h2_ip6)\.5201" "$work/dump"; }
pure_acks_of_data() { from_h2 | grep 'Flags \[\.\]' | grep 'length 0'; }

seen_everywhere() { # pure ACKs with an echo of 2 hops, all but a few (window updates, SACK)
	local with all
	with=$(pure_acks_of_data | grep -c 'unknown-253 0x535702')
	all=$(pure_acks_of_data | wc -l)
	echo "$with of $all pure ACKs carry an echo of 2 hops"
	[ "$all" -gt 50 ] && [ $((with * 100)) -ge $((all * 90)) ]
}
no_data_with_option() { ! grep -a 'length [1-9][0-9]*$' "$work/dump" | grep 'Flags \[P\?\.\]' | grep -q 'unknown-253'; }
no_bad_checksum() { # what was offloaded is not summed yet: look where it is
	in_ns h1 nstat -asz TcpInCsumErrors | grep -q 'TcpInCsumErrors  *0 '
}

for family in 4 6; do
	server=h2_ip$family
	received=$(counter h1 echoes_received)
	capture "${!server}"
	ok "echo: IPv$family: the SYN offers" grep -qa 'Flags \[S\].*unknown-253 0x5357[],]' "$work/dump"
	ok "echo: IPv$family: the SYN-ACK offers" grep -qa 'Flags \[S\.\].*unknown-253 0x5357[],]' "$work/dump"
	ok "echo: IPv$family: pure ACKs carry the echo, with 2 routers counted" seen_everywhere
	ok "echo: IPv$family: data does not" no_data_with_option
	ok "echo: IPv$family: h1 reads it" counts h1 echoes_received -gt $((received + 50))
	ok "echo: IPv$family: no checksum is wrong" no_bad_checksum
	ok "echo: IPv$family: nothing malformed" counts h1 echoes_malformed -eq 0
done

# Peers without.
for how in cubic off; do
	if [ $how = cubic ]; then in_ns h2 sysctl -qw net.ipv4.tcp_congestion_control=cubic
	else swift_set h2 echo=0; fi
	sent=$(counter h2 echoes_sent)
	capture "$h2_ip4"
	ok "echo: a peer that is $how does not answer the offer" not grep -qa 'Flags \[S\.\].*unknown-253' "$work/dump"
	ok "echo: and gets and sends no echo ($how)" not grep -qa 'unknown-253 0x5357[0-9a-f]' "$work/dump"
	ok "echo: and data flows all the same ($how)" test "$(cat "$work/rate")" -gt 1000000
	ok "echo: its count stands still ($how)" counts h2 echoes_sent -eq "$sent"
	patient_hosts h2
done
# h1 does not offer: h2 must not either.
swift_set h1 echo=0
capture "$h2_ip4"
ok 'echo: no offer, no answer' not grep -qa 'unknown-253' "$work/dump"
swift_set h1 echo=1

# SYN cookies leave no room to remember.
in_ns h2 sysctl -qw net.ipv4.tcp_syncookies=2
negotiated=$(counter h2 echo_flows_total)
capture "$h2_ip4"
ok 'echo: a SYN cookie carries no offer' not grep -qa 'Flags \[S\.\].*unknown-253' "$work/dump"
ok 'echo: and nothing is echoed' not grep -qa 'unknown-253 0x5357[0-9a-f]' "$work/dump"
ok 'echo: the flow counts as without' counts h2 echo_flows_total -eq "$negotiated"
in_ns h2 sysctl -qw net.ipv4.tcp_syncookies=1

within_bounds() { # every window that h1's samples showed
	awk '{ for (i = 1; i <= NF; i++) { split($i, kv, "="); v[kv[1]] = kv[2] }
		n++
		if (v["fcwnd_q16"] < 65 || v["ecwnd_q16"] < 65 || v["fabric_ns"] > v["rtt_ns"]) bad++ }
		END { print n + 0, bad + 0; exit !(n >= 5 && !bad) }' "$work/samples"
}
traced_transfer() {
	echo 1 >/sys/kernel/tracing/events/tcp_swift/swift_sample/enable
	iperf_server h2 -1
	transfer h1 "$h2_ip4" 1 >"$work/rate"
	echo 0 >/sys/kernel/tracing/events/tcp_swift/swift_sample/enable
	cat /sys/kernel/tracing/trace >"$work/trace"
	echo >/sys/kernel/tracing/trace
	grep -a 'swift_sample:.*dport=5201' "$work/trace" | sed 's/.*swift_sample: //' >"$work/samples"
	cleanup_jobs
}

all_is_fabric() { # but for what this host says of itself; and in ACKs without an echo, of which there are few
	awk '{ for (i = 1; i <= NF; i++) { split($i, kv, "="); v[kv[1]] = kv[2] }
		n++
		if (v["fabric_ns"] < v["rtt_ns"] - v["local_ns"] || v["remote"] != "none") bad++ }
		END { print n + 0, bad + 0; exit !(n >= 20 && bad * 20 <= n) }' "$work/samples"
}

swift_hosts h1 # a lie must meet a target
meddle munge offset 56 u32 set 0x3fffffff
clamped=$(counter h1 echoes_clamped) refused=$(counter h1 echoes_refused)
traced_transfer
ok 'echo: a lie (63 hops, 1 s of delay) is counted' counts h1 echoes_clamped -gt "$clamped"
ok 'echo: the delay, too' counts h1 echoes_refused -gt "$refused"
ok 'echo: and bends no window and no delay beyond its bounds' within_bounds
ok "echo: a delay beyond the RTT takes nothing from the fabric's" all_is_fabric
honest
meddle munge offset 56 u32 set 0x00000000
traced_transfer
ok 'echo: a claim of no delay at all is harmless' within_bounds
honest
meddle munge offset 53 u8 set 7
malformed=$(counter h1 echoes_malformed)
traced_transfer
ok 'echo: a length that is none is malformed' counts h1 echoes_malformed -gt "$malformed"
ok 'echo: and the flow goes on without' within_bounds
honest
meddle munge offset 53 u8 set 60
malformed=$(counter h1 echoes_malformed)
# A kernel with TCP-AO reads the lengths of all options first: TCP drops the segment before the module sees it.
bad_header=/sys/kernel/tracing/events/tcp/tcp_hash_bad_header/enable
[ ! -e $bad_header ] || echo 1 >$bad_header
traced_transfer
[ ! -e $bad_header ] || echo 0 >$bad_header
ok 'echo: a length beyond the header is malformed, to the module or to TCP already' eval \
	"grep -qa 'tcp_hash_bad_header: .*src=10\.0\.' '$work/trace' || counts h1 echoes_malformed -gt '$malformed'"
honest

# A middlebox that drops what it does not know: ACKs with the option never arrive,
# neither plain ones nor those behind a SACK block (12 bytes more).
patient_hosts h1
for at in 52 64; do
	tc -n r1 filter add dev right ingress pref 9 protocol ip u32 match ip protocol 6 0xff \
		match u32 0xfd085357 0xffffffff at $at action drop
done
iperf_server h2 -1
in_ns h1 timeout $patience iperf3 -c "$h2_ip4" -n 200K >"$work/out" 2>&1
ok 'echo: where ACKs with the option get lost, the receiver stops sending it' counts h2 echoes_stopped -ge 1
ok 'echo: and the transfer ends' grep -q 'receiver' "$work/out"
