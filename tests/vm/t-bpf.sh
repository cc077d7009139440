# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# The BPF variants: what tests/bpf/run has, windows below two packets, the WAN guard, and
# beside the module: the echo between the two, and the same traffic over each.

# shellcheck source-path=SCRIPTDIR source=../bpf/lib.sh
. "$top/tests/bpf/lib.sh"
bpf_test_load
bpf_test_equality 20000 # tests/bpf/run takes ten times as many: here it is other verifiers and compilers
ok 'bpf: a cgroup' bpf_enter_cgroup

topo_routed 1
wires r1
shape() { # RATE DELAY
	link_shape r1 right "$1" "$2" 1000 && link_shape r1 left "$1" "$2" 1000
}

cleanup_jobs_but() { # PID: the loader stays
	local pid
	for pid in $(jobs -p); do [ "$pid" = "$1" ] || kill "$pid"; done 2>/dev/null
}

# --- Loss-free paths and each variant ----------------------------------------------------------

shape 50mbit 500us
in_ns h1 ping -qc 3 -i 0.05 "$h2_ip4" >/dev/null
# As swift_hosts() for the module.
bpf_targets=(max_rtt_ns=30000000 target_policy=0 base_target_ns=4000000 endpoint_target_ns=4000000
	fs_range_ns=1000000)

# The window while the router marks so many of 1000 packets: the mean of some looks at it.
marked_cwnd() { # PER-MILLE
	in_ns r1 nft "flush ruleset; add table ip ce; add chain ip ce forward { type filter hook forward priority 0; }
		add rule ip ce forward ip ecn { ect0, ect1 } numgen random mod 1000 < $1 ip ecn set ce" || return
	sleep 0.5 # some hundred round trips
	for _ in $(seq 10); do
		in_ns h1 ss -Htin state established dport = :5201 | grep -o ' cwnd:[0-9]*' | cut -d: -f2 | sort -n | tail -1
		sleep 0.05
	done | awk '{ sum += $1 } END { print int(sum / NR); exit !NR }'
}
gcn_hears_marks() {
	local client rare often none
	shape 1gbit 500us # no queue of its own
	bpf_hosts bpf_gcn h1 h2
	iperf_server h2
	ip netns exec h1 iperf3 -c "$h2_ip4" -b 40M -t 3600 >/dev/null &
	client=$!
	negotiated_ecn() { in_ns h1 ss -Htino state established dport = :5201 | grep -q 'ecn.* bpf_gcn'; }
	ok 'bpf: bpf_gcn negotiates ECN' wait_until 10 negotiated_ecn
	rare=$(marked_cwnd 10)
	often=$(marked_cwnd 300)
	none=$(marked_cwnd 0)
	diag "cwnd with 1 %, 30 % and none of the packets marked: $rare, $often, $none"
	ok 'bpf: the peer tells of marks' eval 'in_ns h1 ss -Htin state established dport = :5201 | grep -q delivered_ce:'
	ok 'bpf: more marks, a smaller window' test "$((often * 2))" -le "$rare"
	ok 'bpf: which returns without them' test "$none" -ge "$((often * 2))"
	in_ns r1 nft flush ruleset
	ends $client
	cleanup_jobs_but "$bpf_pid"
	wait_until 10 not listening h2 5201
	shape 50mbit 500us
}
for cc in bpf_swift_v0 bpf_timely bpf_gcn; do
	case $cc in
	bpf_swift_v0) settings=("${bpf_targets[@]}") ;;
	bpf_timely) settings=(t_low_ns=2000000 t_high_ns=20000000 min_rtt_ns=1000000 init_rate_mbps=10
		max_rate_mbps=100 seg_bytes=1448) ;;
	*) settings=() ;;
	esac
	ok "bpf: $cc is registered" bpf_load $cc "${settings[@]}"
	ok "bpf: $cc carries traffic" bpf_carries $cc 25000000 4
	bpf_to=$h2_ip6
	ok "bpf: $cc carries traffic over IPv6" bpf_carries $cc 25000000 4
	bpf_to=
	[ $cc != bpf_gcn ] || gcn_hears_marks
	bpf_unload
done

ok 'bpf: bpf_swift is registered' bpf_load bpf_swift "${bpf_targets[@]}"
bpf_hosts bpf_swift h1 h2
iperf_server h2
# For as long as it takes: a guest's clock runs ahead while it waits for its files.
ip netns exec h1 iperf3 -c "$h2_ip6" -t 3600 >/dev/null &
client=$!
ok 'bpf: over IPv6, ACKs have stamps and echoes' wait_until 60 bpf_flow_with 'echo_on && samples > 100 && stamped > samples / 2 && echoes_received > samples / 2 && echo_hops == 1'
ok 'bpf: hops and echoes at the other end' bpf_flow_with 'echo_on && echoes_sent > 100 && rx_hops == 1'
ends $client
wait_until 10 not bpf_flow_with 'samples > 0'
ip netns exec h1 iperf3 -c "$h2_ip4" -t 3600 >/dev/null &
client=$!
ok 'bpf: ACKs have stamps and echoes' wait_until 60 bpf_flow_with 'echo_on && samples > 100 && stamped > samples / 2 && echoes_received > samples / 2 && echo_hops == 1'
ok 'bpf: hops and echoes at the other end' bpf_flow_with 'echo_on && echoes_sent > 100 && rx_hops == 1'

# Behind a lie of 1 s there would be no delay of the fabric's at all.
meddle munge offset 56 u32 set 0x3fffffff
ok 'bpf: echoes beyond the RTT are refused' wait_until 60 bpf_flow_with 'samples > 100 && echoes_refused > 100'
ok 'bpf: and the delay is the fabric'"'"'s' wait_until 10 bpf_flow_with 'samples > 100 && fabric_ns > endpoint_ns'
honest

# Sockets of its cgroup that are not its own, or not any more.
answers='
import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.setsockopt(socket.IPPROTO_TCP, 27, 2)  # TCP_SAVE_SYN, with the header of the link
s.bind(("", 7000)); s.listen()
assert s.getsockopt(socket.IPPROTO_TCP, 27) == 2, "TCP_SAVE_SYN is another"
for size in (1, 1, 20000):
    c, _ = s.accept(); assert len(c.recv(size, socket.MSG_WAITALL)) == size; c.sendall(b"y"); c.close()'
asks='
import ctypes, socket
def ask(c, size):
    c.connect(("'$h2_ip4'", 7000)); c.sendall(bytes(size)); assert c.recv(1) == b"y"
c = socket.socket(); c.settimeout(600); ask(c, 1)
unspec = (ctypes.c_char * 16)()  # AF_UNSPEC: to be connected once more
assert ctypes.CDLL(None).connect(c.fileno(), unspec, 16) == 0
c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
ask(c, 1)'
talk() { # THE ASKER'S WAYS
	timeout $patience ip netns exec h1 python3 -ISc "$1"
}
ip netns exec h2 timeout $patience python3 -ISc "$answers" >"$work/answers" 2>&1 &
# shellcheck disable=SC2034 # for eval
answerer=$!
ok 'bpf: a listener keeps the TCP_SAVE_SYN that it has set' wait_until 10 listening h2 7000
dump_starts h1 -nvl -i right -w "$work/syns" -U --immediate-mode 'tcp[tcpflags] & (tcp-syn | tcp-ack) == tcp-syn and dst port 7000'
ok 'bpf: a socket leaves bpf_swift between two connections' talk "$asks"
sleep 0.2
offers() { tcpdump -nvr "$work/syns" 2>/dev/null | grep -c 'Flags \[S\].*unknown-253' ; }
syns() { tcpdump -nr "$work/syns" 2>/dev/null | grep -c 'Flags \[S\]'; }
ok 'bpf: whose second SYN offers no echo' eval 'echo "$(offers) of $(syns)"; [ "$(offers)" = 1 ] && [ "$(syns)" = 2 ]'
# Somebody drops whatever has the option, but for handshakes.
in_ns r1 nft 'add table ip lossy; add chain ip lossy forward { type filter hook forward priority 0; }
	add rule ip lossy forward tcp flags & syn == 0 tcp option 253 exists counter drop'
ok 'bpf: where ACKs with the option are dropped, data arrives without' talk "${asks/ask(c, 1)*/ask(c, 20000)}"
ok 'bpf: and ACKs were dropped' eval 'in_ns r1 nft list table ip lossy | grep "packets [1-9]"'
in_ns r1 nft delete table ip lossy
ok 'bpf: the listener has had all three' eval 'wait $answerer || { cat "$work/answers"; false; }'

# No target can be met: the flow sits at 0.4 packet; a packet each RTT / 0.4.
shape 100mbit 5ms
ok 'bpf: parameters are set' bpf_say set "${bpf_targets[@]}" base_target_ns=1000 fs_range_ns=0 hop_target_ns=0 min_cwnd_micro=400000
ok 'bpf: the window of a running flow falls below one packet' wait_until 60 bpf_flow_with 'samples > 100 && fcwnd_q16 < 30000'
# Segments sent, and by the same look at the flow the ms for which it had data to send: a
# guest takes its time to start ss, and iperf3 at times waits for its files.
flow_now() {
	in_ns h1 ss -Htin state established dport = :5201 |
		sed -n 's/.*data_segs_out:\([0-9]*\).* busy:\([0-9]*\)ms.*/\1 \2/p' | sort -n | tail -1
}
read -r before began < <(flow_now)
sleep 5
read -r after ended < <(flow_now)
sent=$((after - before)) due=$(((ended - began) / 25)) # 10 ms / 0.4 = 25 ms
diag "$sent packets where $due are due"
ok 'bpf: packets leave at RTT / window' test "$due" -gt 50 -a "$sent" -ge $((due * 9 / 10)) -a "$sent" -le $((due * 11 / 10))
ok 'bpf: a higher target' bpf_say set "${bpf_targets[@]}" base_target_ns=60000000
ok 'bpf: brings the window back' wait_until 60 bpf_flow_with 'samples > 100 && fcwnd_q16 > 4 * 65536'

# A path longer than max_rtt_ns belongs to reno.
ends $client
ok 'bpf: a guard at 5 ms' bpf_say set "${bpf_targets[@]}" max_rtt_ns=5000000
ip netns exec h1 iperf3 -c "$h2_ip4" -t 4 >"$work/out" &
runs_reno() { in_ns h1 ss -Htin state established dport = :5201 | grep -qw reno; }
ok 'bpf: a flow above it runs reno' wait_until 10 runs_reno
wait $!
ok 'bpf: and moves data' grep -q receiver "$work/out"
cleanup_jobs_but "$bpf_pid"
wait_until 10 not listening h2 5201

# --- With nothing set ---------------------------------------------------------------------------

bpf_unload
ok 'bpf: bpf_swift is registered, with nothing set' bpf_load bpf_swift
tc -n r1 qdisc del dev left root
tc -n r1 qdisc replace dev right root tbf rate 100mbit burst 10kb limit 1mb
ok 'bpf: 16 flows run' shares_run bpf_swift
shares_show
ok "bpf: Jain's index is at least 0.9" shares_jain 0.9
ok 'bpf: and the link is full' shares_sum 85
cleanup_jobs_but "$bpf_pid"

# --- Beside the module -----------------------------------------------------------------------------

shape 20mbit 500us
ok 'bpf: the parameters of before' bpf_say set "${bpf_targets[@]}"
ok 'bpf: the module loads' swift_load
swift_hosts h1
swift_set h1 max_rtt_ns=30000000
bpf_hosts bpf_swift h2
for to in "$h2_ip4" "$h2_ip6"; do
	received=$(counter h1 echoes_received)
	iperf_server h2 -1
	ip netns exec h1 iperf3 -c "$to" -t 3600 >"$work/out" & # -C would be for both ends
	client=$!
	ok "bpf: $to: the module hears the echoes of bpf_swift" wait_until 20 counts h1 echoes_received -gt $((received + 100))
	ok 'bpf: which counts them as sent' wait_until 20 bpf_flow_with 'echo_on && echoes_sent > 100'
	ok 'bpf: the module takes them for what they are' eval "in_ns h1 '$swiftctl' flows --json | jq -e '.flows | max_by(.bytes_acked) | .echo_stamp == \"software\"'"
	ends $client
	wait_until 10 not listening h2 5201
	ok 'bpf: and none was malformed' counts h1 echoes_malformed -eq 0
	sent=$(counter h1 echoes_sent)
	iperf_server h2 -1
	ip netns exec h1 iperf3 -c "$to" -t 3600 -R >"$work/out" &
	client=$!
	ok "bpf: $to: bpf_swift hears the echoes of the module" wait_until 60 bpf_flow_with 'echo_on && samples > 100 && echoes_received > samples / 2 && echo_hops == 1'
	ok 'bpf: which counts them as sent' wait_until 20 counts h1 echoes_sent -gt $((sent + 100))
	ends $client
	wait_until 10 not listening h2 5201
done

# The same traffic: four flows through a link, and the delay that a ping meets.
measure() { # CC; adds goodput and the ping's 99th percentile in us to the file CC
	local cc=$1 pings=() i bps
	bpf_hosts "$cc" h1 h2
	iperf_server h2 -1 || return
	# Four, each at 20 ms: at 10 ms or less ping asks for its reply again and again.
	for i in 1 2 3 4; do
		ip netns exec h1 ping -i 0.02 -w 3 "$h2_ip4" >"$work/ping$i" &
		pings+=($!)
	done
	bps=$(timeout $patience ip netns exec h1 iperf3 --json -c "$h2_ip4" -P 4 -t 2 -O 1 |
		jq -e '.end.sum_received.bits_per_second | floor') || return
	wait "${pings[@]}"
	wait_until 10 not listening h2 5201
	echo "$bps $(sed -n 's/.*time=\([0-9.]*\) ms/\1/p' "$work"/ping[1-4] | sort -n |
		awk '{ v[NR] = $1 * 1000 } END { printf "%d", v[int(NR * 0.99)] }')" >>"$work/$cc"
	diag "$cc: bit/s and ping p99 in us: $(tail -n 1 "$work/$cc")"
}
mean() { # FILE COLUMN
	awk -v c="$2" '{ sum += $c } END { printf "%d", sum / NR }' "$1"
}
swift_hosts h1 h2
swift_set h1 max_rtt_ns=30000000
swift_set h2 max_rtt_ns=30000000
# What the module does by itself: prompt ACKs, and stamps from the stack.
for end in h1 h2; do
	# shellcheck disable=SC2086 # words
	ip -n $end route show | while read -r route; do ip -n $end route change $route quickack 1; done
done
python3 -ISc 'import signal, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 35, 1) # SO_TIMESTAMPNS
signal.pause()' &
for _ in 1 2 3 4 5; do
	measure swift
	measure bpf_swift
done
spread() { # FILE COLUMN: highest - lowest
	sort -nk "$2" "$1" | awk -v c="$2" 'NR == 1 { low = $c } END { printf "%d", $c - low }'
}
overlap() { # COLUMN: the ranges of the two
	sort -nk "$1" "$work/swift" | awk -v c="$1" -v other="$(sort -nk "$1" "$work/bpf_swift" | cut -d ' ' -f "$1")" '
		NR == 1 { low = $c } { high = $c }
		END { n = split(other, v, "\n"); exit !(v[1] <= high && low <= v[n]) }'
}
near() { # COLUMN PERCENT: or nothing that five runs could tell apart
	local apart=$(($(mean "$work/bpf_swift" "$1") - $(mean "$work/swift" "$1")))
	[ $((${apart#-} * 100)) -le $(($(mean "$work/swift" "$1") * $2)) ] || overlap "$1"
}
for cc in swift bpf_swift; do
	diag "$cc, n = $(wc -l <"$work/$cc"): $(mean "$work/$cc" 1) bit/s (spread $(spread "$work/$cc" 1)), ping p99 $(mean "$work/$cc" 2) us (spread $(spread "$work/$cc" 2))"
done
ok 'bpf: throughput is the module'"'"'s within 3 %, or their ranges overlap' near 1 3
ok 'bpf: and the ping'"'"'s 99th percentile' near 2 3
cleanup_jobs_but "$bpf_pid"
bpf_unload
ok 'bpf: it unloads' wait_until 10 not bpf_names
cleanup_jobs
bpf_leave_cgroup
