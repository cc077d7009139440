# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# The commands of the documentation that want the module, as they stand there (tests/docs/lib.sh),
# on a host that has swiftctl, swiftd and the module installed.

cd "$top" || exit 1
# shellcheck source-path=SCRIPTDIR source=../docs/lib.sh
. tests/docs/lib.sh
PATH=$top/out/build/userspace:$PATH
installed=lib/modules/$(uname -r)
cp -r "$top/out/kmod/$(uname -r)/depmod/$installed"/{updates,modules.*} "/$installed" # of tests/vm/depmod
modprobe -a sch_ets cls_flower

mkdir -p "$work/reader"
typed() { # PAGE NAME; what the reader sees is kept in $work/NAME
	local status=0
	(doc_run "$1" "$2") >"$work/$2" 2>&1 || status=$?
	cat "$work/$2"
	return $status
}
step() { # PAGE NAME
	ok "docs: $1: $2" typed "$1" "$2"
}
shows() { # PAGE NAME PATTERN; in the end
	typed "$1" "$2" >/dev/null && grep -Eq "$3" "$work/$2"
}
eventually() { # PAGE NAME PATTERN
	wait_until 60 shows "$1" "$2" "$3" || { cat "$work/$2"; return 1; }
}
snapshot() {
	sysctl net.ipv4.tcp_congestion_control net.ipv4.tcp_allowed_congestion_control net.core.default_qdisc
	tc qdisc show
	ip netns list
	ls -d /sys/module/tcp_swift /var/lib/tcp_swift/enable.json 2>/dev/null
}

# --- quick-start.md --------------------------------------------------------------------------

ip link add eth0 numtxqueues 1 type veth peer name eth0-peer
ip link set eth0 up
ip link set eth0-peer up
sysctl -qw net.core.default_qdisc=pfifo_fast
snapshot >"$work/before"

step quick-start load
step quick-start namespaces
step quick-start choose
step quick-start target
step quick-start server
ok 'docs: the server listens' wait_until 30 listening right 5201
cd "$work/reader" && ln -sf "$top/Documentation" . || exit 1
step quick-start client
ok 'docs: quick-start: flows: fabric and host delay of each' eventually quick-start flows '10\.77\.0\.2:5201.* sw/sw'
grep -v '^$' "$work/flows" | while read -r line; do diag "$line"; done
ok 'docs: quick-start: top' eventually quick-start top '10\.77\.0\.0/24'
sed 's/^/# /' "$work/top"
ok 'docs: quick-start: verdict' eventually quick-start verdict '10\.77\.0\.0/24'
sed 's/^/# /' "$work/verdict"

# What exists has its place in the documentation.
ip -n left link set lo up
ip netns exec left swiftd --collect.interval_s=0.5 2>"$work/swiftd.log" &
swiftd=$!
metrics() { # of flows that run
	ip netns exec left bash -euc "$(doc_block metrics metrics)" >"$work/metrics" && grep -q '^swift_fabric_delay_seconds_sum' "$work/metrics"
}
ok 'docs: metrics metrics: with flows' wait_until 60 metrics || diag "$(cat "$work/swiftd.log")"
metrics_documented() {
	local name
	sed -nE 's/^([a-z_]+)(\{.*)? [^ ]+$/\1/p' "$work/metrics" | sed -E 's/_(bucket|sum|count)$//' | sort -u >"$work/names"
	while read -r name; do
		grep -q "^| \`$name\`" Documentation/metrics.md || { echo "metrics.md lacks $name"; return 1; }
	done <"$work/names"
	[ "$(wc -l <"$work/names")" -ge 12 ]
}
ok 'docs: all of them are in metrics.md' metrics_documented
diag "$(wc -l <"$work/names") metrics"
kill $swiftd && wait $swiftd
counters() { in_ns left cut -d' ' -f1 /proc/net/tcp_swift | sort; }
counters_documented() {
	diff <(counters) <(sed -n '/^## The module/,/^## /s/^| `\([a-z_]*\)` .*/\1/p' Documentation/metrics.md | sort)
}
ok 'docs: metrics.md has the counters of the module, no more and no less' counters_documented
sysctls() { (cd /proc/sys/net/ipv4/tcp_swift && printf '%s\n' * | sort); }
ok 'docs: sysctl.md has its sysctls' eval 'diff <(sysctls) <(sed -n "s/^| \`\([a-z_]*\)\` .*/\1/p" Documentation/sysctl.md | sort)'

step quick-start back
gone() { [ ! -d /sys/module/tcp_swift ] || { swiftctl disable; rmmod tcp_swift; }; } # as the page says of flows that are closing
ok 'docs: quick-start: the module goes' wait_until 60 gone
ok 'docs: all is as it was' eval 'snapshot | diff "$work/before" -'

step quick-start dry-run
ok 'docs: a dry run changes nothing' eval 'snapshot | diff "$work/before" -'
doctor() { typed quick-start doctor || [ $? = 1 ]; } # 1: a finding is a failure, here that nothing is loaded
ok 'docs: quick-start: doctor' eval 'doctor && grep -q "^fail *module" "$work/doctor"'
step quick-start enable
ok 'docs: doctor finds no failure now' typed quick-start doctor
ok 'docs: Swift is the default' test "$(sysctl -n net.ipv4.tcp_congestion_control)" = swift
step sysctl tracepoint
step quick-start disable
ok 'docs: all is as it was, once more' eval 'snapshot | diff "$work/before" -'
ip link del eth0

# --- qos.md ------------------------------------------------------------------------------------

cd "$top" && swift_load
topo_routed 1
wires r1
swift_hosts h1 h2
touch /run/netns/switch && mount --bind /run/netns/r1 /run/netns/switch # as the page calls it
for end in h1:right switch:left switch:right h2:left; do # packets as on a wire
	in_ns "${end%:*}" ethtool -K "${end#*:}" gso off tso off gro off >/dev/null
done
in_h() { nsenter --net="/run/netns/$1" bash -euc "$(doc_block qos qos-dscp)"; }
ok 'docs: qos: dscp on both hosts' eval 'in_h h1 && in_h h2'
step qos qos-port

# iperf3 chooses when it is connected: what began as Swift would keep its class.
in_ns h1 sysctl -qw net.ipv4.tcp_congestion_control=cubic
# Ports of its own for each time: a server that has not ended its last test yet is "busy", which iperf3 -J says with status 0.
beside() { # FILE SWIFTS-PORT CUBICS-PORT; both at the same time; Mbit/s of each, RTT of each
	iperf_server h2 -p "$2" && iperf_server h2 -p "$3" || return
	ip netns exec h1 timeout $patience iperf3 -J -c "$h2_ip4" -p "$3" -t 10 -P 2 -C cubic >"$work/cubic.json" &
	local cubic=$!
	ip netns exec h1 timeout $patience iperf3 -J -c "$h2_ip4" -p "$2" -t 10 -P 2 -C swift >"$work/swift.json" &
	wait $! && wait $cubic || return
	jq -s 'map(.error // empty | halt_error) | empty' "$work/swift.json" "$work/cubic.json" || return
	jq -ces 'map(.end.sum_received.bits_per_second / 1e6 | round), map(.end.streams | map(.sender.mean_rtt) | add / length / 1e3 | round)' \
		"$work/swift.json" "$work/cubic.json" >"$1"
}
ok 'docs: qos: Swift beside CUBIC, a class each' beside "$work/classes" 5201 5202
diag "a class each: Mbit/s and RTT in ms, Swift's and CUBIC's: $(tr '\n' ' ' <"$work/classes")"
step qos qos-look
sed 's/^/# /' "$work/qos-look"
class_has_packets() { grep -A1 "qdisc pfifo $1:" "$work/qos-look" | grep -Eq 'Sent [0-9]{7,} bytes'; }
ok 'docs: qos: both classes have had their megabytes' eval 'class_has_packets 21 && class_has_packets 22'
ok 'docs: qos: Swift gets about its half' jq -es '.[0] | .[0] / (.[0] + .[1]) | . > 0.35 and . < 0.65' <(head -n 1 "$work/classes")
tc -n switch filter del dev right parent 2:
ok 'docs: qos: without, in one queue' beside "$work/one" 5203 5204
diag "in one queue: $(tr '\n' ' ' <"$work/one")"
diag "$(in_ns h1 grep -E '^(flows_total|echo_flows_total)' /proc/net/tcp_swift | tr '\n' ' ')"
ok 'docs: qos: CUBIC takes most of it' jq -es '.[0][0] / (.[0][0] + .[0][1]) < 0.5 * .[1][0] / (.[1][0] + .[1][1])' \
	<(head -n 1 "$work/one") <(head -n 1 "$work/classes")
cleanup_jobs
# A flow that closes after its router has gone tries for minutes, and holds the module.
flows_closed() {
	local ns
	for ns in h1 h2; do
		[ -z "$(in_ns $ns ss -Htan exclude listening exclude time-wait)" ] || return 1
	done
}
ok 'docs: the flows close' wait_until 60 flows_closed

# --- troubleshooting.md ----------------------------------------------------------------------------

ok 'docs: something to get out of' swiftctl enable --qdisc keep
step troubleshooting get-out
ok 'docs: Swift is no default any more' test "$(sysctl -n net.ipv4.tcp_congestion_control)" = cubic
