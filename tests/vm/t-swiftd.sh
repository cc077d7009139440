# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# swiftd beside real Swift flows: what it says of where the delay is, with the bottleneck in
# the fabric and in the receiving host; that its numbers are swiftctl's; and what befalls a
# service: a module that goes, a clock that is set, a kill, and the rights of its unit alone.

swiftd=${SWIFTD:-$top/out/build/userspace/swiftd}
prefix=10.0.1.0/24
port=9464
interval_s=0.5
mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf

at_h1() { nsenter --net=/run/netns/h1 "$@"; } # sees /sys/fs/bpf, other than `ip netns exec`
page() { at_h1 curl -sS -f -m 20 "http://127.0.0.1:$port$1"; }
healthy() { page /healthz >/dev/null 2>&1; }
swiftd_start() { # [COMMAND...]; its options after --
	local before=()
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		before+=("$1")
		shift
	done
	nsenter --net=/run/netns/h1 "${before[@]}" "$swiftd" --http.listen=127.0.0.1:$port \
		--collect.interval_s=$interval_s --collect.max_cpu_percent=100 --collect.netns=own "${@:2}" 2>>"$work/swiftd.log" &
	swiftd_pid=$!
	wait_until 30 healthy || { tail -n 5 "$work/swiftd.log"; return 1; }
}
swiftd_stop() {
	kill "$swiftd_pid" && wait "$swiftd_pid"
}
summary_holds() { # FILTER
	page /api/v1/summary >"$work/summary.json" && jq -e "$1" "$work/summary.json" >/dev/null
}
# To ask costs an emulated machine more than to wait, and there is news twice a second.
or_later() { "$@" || ! sleep 0.4; } # COMMAND...
becomes() { # SECONDS FILTER; of the summary
	wait_until "$1" or_later summary_holds "$2" && return
	jq -c . "$work/summary.json"
	tail -n 3 "$work/swiftd.log"
	return 1
}
# Each flow's address and what the law says of it, from both, in one form and order.
law_of_api() { page '/api/v1/flows?limit=1000&cc=swift' | jq -c '[.flows[] | select(.fabric_ns and (.remote | startswith("10."))) |
	{local, remote, fabric_ns, host_ns, target_ns, fcwnd: (.fcwnd_pkts * 1000 | round), ecwnd: (.ecwnd_pkts * 1000 | round),
	cwnd: .snd_cwnd_pkts, retrans: .retrans_pkts}] | sort_by(.local)'; }
law_of_swiftctl() { at_h1 "$swiftctl" flows --json | jq -c '[.flows[] | select(.fabric_ns and (.remote_addr | startswith("10."))) |
	{local: "\(.local_addr):\(.local_port)", remote: "\(.remote_addr):\(.remote_port)", fabric_ns, host_ns: .endpoint_ns, target_ns,
	fcwnd: (.fcwnd * 1000 | round), ecwnd: (.ecwnd * 1000 | round), cwnd: .snd_cwnd, retrans}] | sort_by(.local)'; }
at_rest() { # the kernel's records stand still
	local before
	before=$(law_of_swiftctl)
	sleep 0.6
	[ "$(law_of_swiftctl)" = "$before" ]
}
same_law() {
	law_of_api >"$work/api"
	law_of_swiftctl >"$work/ctl"
	[ "$(jq length "$work/api")" -ge 3 ] && cmp -s "$work/api" "$work/ctl"
}
medians_agree() { # while they run: of the flows that carry data, to a factor of two
	at_h1 "$swiftctl" flows --json | jq '[.flows[] | select(.fabric_ns and .bytes_acked > 100000)] |
		[(map(.fabric_ns) | sort)[length / 2 | floor], (map(.target_ns) | sort)[length / 2 | floor], length]' >"$work/ctl"
	page '/api/v1/flows?limit=1000&sort=rate' | jq '[.flows[] | select(.fabric_ns and .rate_bps > 1000)] |
		[(map(.fabric_ns) | sort)[length / 2 | floor], (map(.target_ns) | sort)[length / 2 | floor], length]' >"$work/api"
	jq -es '.[0][2] == .[1][2] and
		(.[0][0] / .[1][0] | . > 0.5 and . < 2) and (.[0][1] / .[1][1] | . > 0.5 and . < 2)' "$work/ctl" "$work/api" >/dev/null && return
	cat "$work/ctl" "$work/api" | tr '\n' ' '
	return 1
}
flows_run() { # SECONDS; three streams from h1 to h2
	iperf_server h2 -1 || return
	ip netns exec h1 iperf3 -c "$h2_ip4" -t "$1" -P 3 >"$work/iperf" 2>&1 &
	client=$!
}
flows_end() {
	kill -CONT "$client" 2>/dev/null
	ends "$client"
	wait_until 20 not listening h2 5201
}
sum_of() { # FILE NAME; of all its samples
	awk -v name="$2" '$1 ~ "^" name "({|$)" { sum += $NF } END { printf "%.0f\n", sum }' "$1"
}
have_grown() { # NAME...
	local name
	page /metrics >"$work/metrics" || return
	for name; do
		[ "$(sum_of "$work/metrics" "$name")" -gt "$(sum_of "$work/metrics.before" "$name")" ] || { echo "$name stands still"; return 1; }
	done
}
grow() { # NAME...
	page /metrics >"$work/metrics.before"
	wait_until 30 or_later have_grown "$@" || have_grown "$@"
}

topo_routed 1
wires r1
ok 'swiftd: the module loads' swift_load
swift_hosts h1 h2
for end in h1:right r1:left r1:right h2:left; do # packets as on a wire
	in_ns "${end%:*}" ethtool -K "${end#*:}" gso off tso off gro off >/dev/null
done
in_ns h1 ping -qc 3 -i 0.05 "$h2_ip4" >/dev/null

# --- The fabric ---------------------------------------------------------------------------------

ok 'swiftd: starts' swiftd_start
ok 'swiftd: without flows, says so' summary_holds '.module.loaded and all(.prefixes[]; .iface == "lo")'
link_shape r1 right 30mbit 500us 1000
ok 'swiftd: flows over a slow link' flows_run 3000
ok 'swiftd: the prefix, with its parts' becomes 30 "[.prefixes[] | select(.dst_prefix == \"$prefix\" and .cc == \"swift\" and .iface == \"right\" and .flows >= 3 and .fabric_ns.p50 > 0 and .host_ns.p50 > 0 and .rate_bps > 1e6)] | length == 1"
ok 'swiftd: fabric-bound, while the link is the bottleneck' becomes 30 ".prefixes[] | select(.dst_prefix == \"$prefix\") | .verdict.limit == \"fabric\" and (.verdict.text | startswith(\"fabric-bound: the path to $prefix\"))"
diag "$(jq -r '.prefixes[0].verdict.text' "$work/summary.json")"
ok 'swiftd: with most of its flows limited by it' becomes 30 '.prefixes[0].limited | .fabric > .host'
ok 'swiftd: stamps and echo are there' becomes 30 '.prefixes[0] | .stamps.software >= 3 and .echo.software >= 3'
ok 'swiftd: swiftctl sees the same while they run' wait_until 30 medians_agree

# From the guest's own namespace, in which there are none.
all_netns() {
	"$swiftctl" flows --all-netns --processes --json >"$work/netns" &&
		jq -e '.other_netns >= 2 and ([.flows[] | select(.netns == "h1" and .fabric_ns and .process.pid > 0)] | length >= 3)' \
			"$work/netns" >/dev/null
}
all_netns_of_swiftd() {
	"$swiftd" --once --collect.netns=all --collect.ccs='*' >"$work/netns" &&
		jq -e '.netns >= 3 and any(.owners[]; .netns == "h1" and .flows >= 3) and any(.prefixes[]; .netns == "others" and .fabric_ns)' \
			"$work/netns" >/dev/null
}
ok 'swiftd: swiftctl sees them from another namespace' wait_until 30 all_netns || head -c 2000 "$work/netns"
ok 'swiftd: and so does a swiftd' wait_until 30 all_netns_of_swiftd || head -c 2000 "$work/netns"

ok 'swiftd: promtool likes its metrics' eval "page /metrics | promtool check metrics"
ok 'swiftd: whose counters grow' grow swift_rtt_seconds_count swift_fabric_delay_seconds_count swift_host_delay_seconds_count \
	swift_target_seconds_count swift_module_events swiftd_collections_total swiftd_http_requests_total
sampled() { page /metrics >"$work/metrics" && grep -q "^swift_histograms_sampled{cc=\"swift\",.*dst_prefix=\"$prefix\"} $1" "$work/metrics"; }
ok 'swiftd: the histograms are of samples' sampled 1

kill -STOP "$client"
ok 'swiftd: senders held still come to rest' wait_until 30 at_rest
ok 'swiftd: and its flows are swiftctl'\''s, to the last digit' wait_until 10 same_law || diff "$work/api" "$work/ctl"
diag "$(jq length "$work/api") flows compared, of the first: $(jq -c '.[0]' "$work/api")"
kill -CONT "$client"

# --- Tuning ---------------------------------------------------------------------------------------

target() { in_ns h1 sysctl -n net.ipv4.tcp_swift.base_target_ns; }
was_target=$(target)
# Upwards: a smaller target starves an emulated machine's flows at times, which ends its turn at once.
tuning=(--tune.enabled=true --tune.apply=true --tune.learn_s=2 --tune.measure=5 --tune.min_us=4000 --tune.max_us=20000 --tune.tolerance_percent=5)
ok 'swiftd: while it does not tune, it says so' summary_holds '.tune.state == "off" and .tune.events == []'
swiftd_stop
ok 'swiftd: starts with [tune]' swiftd_start -- "${tuning[@]}"
ok 'swiftd: it tries another target' becomes 60 '.tune | .state == "trying" and .events[-1].event == "try" and .proposal_ns > 0'
diag "$(jq -c '.tune | [.state, .knob, .base_target_ns, .proposal_ns, .events[-1].reason]' "$work/summary.json")"
in_turn() { [ "$(target)" != "$(jq .kept.base_target_ns /run/tcp_swift/tune-sysctl-*.json)" ]; }
killed_in_turn() { # held still, so that it is seen and killed in one
	kill -STOP "$swiftd_pid" || return
	if in_turn; then
		kill -KILL "$swiftd_pid"
	else
		kill -CONT "$swiftd_pid" && false
	fi
}
ok 'swiftd: in turns with the last good one, in one of which it is killed' wait_until 90 or_later killed_in_turn
kill -KILL "$swiftd_pid" 2>/dev/null # if there was no turn, too
wait "$swiftd_pid" 2>/dev/null
diag "killed at $(target), kept was $(jq .kept.base_target_ns /run/tcp_swift/tune-sysctl-*.json)"
ok 'swiftd: a kill leaves the one that was tried' in_turn
ok 'swiftd: its next start puts back the last good one' eval "swiftd_start -- \"\${tuning[@]}\" && wait_until 30 or_later not in_turn && grep -q 'a tuning was killed' '$work/swiftd.log'"
ok 'swiftd: and tries again' wait_until 90 or_later in_turn
swiftd_stop
ok 'swiftd: ended, it takes back what it tried' eval "jq -e --argjson t \$(target) '.kept.base_target_ns == \$t and (.running | not)' /run/tcp_swift/tune-sysctl-*.json"
ok 'swiftd: and swiftctl the rest' eval "at_h1 '$swiftctl' tune --undo && [ \$(target) = $was_target ]"

# --- Policy ---------------------------------------------------------------------------------------

policy() { # VERSION TARGET_NS EXPIRES [GUARD]
	cat >"$work/policy.toml" <<-TOML
		version = "$1"
		author = "t-swiftd"
		expires = $3
		[guard]
		enabled = ${4:-false}
		[[target]]
		target_policy = "static"
		base_target_ns = $2
	TOML
}
reread() { # the file, and it was
	local reloads
	reloads=$(grep -c 'reload: ' "$work/swiftd.log")
	kill -HUP "$swiftd_pid"
	wait_until 30 or_later eval "[ \"\$(grep -c 'reload: ' '$work/swiftd.log')\" -gt $reloads ]"
}
in_s() { date -u -d "+$1 sec" +%FT%TZ; }
policy_is() { becomes 60 ".policy | .state == \"$1\" and .version == $2" && [ "$(target)" = "$3" ]; } # STATE VERSION TARGET_NS
was_policy=$(in_ns h1 sysctl -n net.ipv4.tcp_swift.target_policy)
policy 1 "$((was_target + 500000))" "$(in_s 86400)"
ok 'swiftd: a policy is in force' eval "at_h1 '$swiftctl' policy check --here '$work/policy.toml' >'$work/said' && swiftd_start -- --policy.file='$work/policy.toml' && policy_is in_force '\"1\"' $((was_target + 500000))"
diag "$(tail -n 1 "$work/said")"
ok 'swiftd: /metrics names it' eval "page /metrics >'$work/metrics' && promtool check metrics <'$work/metrics' && grep -qx 'swift_policy_info{version=\"1\",author=\"t-swiftd\"} 1' '$work/metrics'"
ok 'swiftd: swiftctl shows it' eval "at_h1 '$swiftctl' policy show --json | jq -e '.in_force.version == \"1\" and .targets[0].as_policy'"
ok 'swiftd: nobody else tunes it' eval "at_h1 '$swiftctl' tune --apply --learn 0 2>'$work/said' && false || grep -q 'switch \[tune\] and \[policy\] off' '$work/said'"
policy 2 9 "$(in_s 86400)"
reread
ok 'swiftd: a wrong line changes nothing, and is named' eval "policy_is refused '\"1\"' $((was_target + 500000)) && jq -e '.policy.reason | endswith(\"policy.toml:8: target.base_target_ns: '\\''9'\\'' (allowed: 1000 to 1000000000)\")' '$work/summary.json'"
kill -KILL "$swiftd_pid"
wait "$swiftd_pid" 2>/dev/null
ok 'swiftd: killed and started again, with the wrong file still there' eval "swiftd_start -- --policy.file='$work/policy.toml' && policy_is refused '\"1\"' $((was_target + 500000))"
# Far below the path's length: no window grows.
policy 3 1000 "$(in_s 86400)" true
reread
ok 'swiftd: targets that starve flows are set' becomes 30 '.policy | .version == "3" and .guard == "trying"'
ok 'swiftd: and put back by the guard, to the policy before' policy_is put_back '"1"' "$((was_target + 500000))"
diag "$(jq -r .policy.reason "$work/summary.json")"
ok 'swiftd: for good' eval "reread && policy_is put_back '\"1\"' $((was_target + 500000))"
ok 'swiftd: /api/v1/policy has the targets, what was before, and what came to pass' eval "page /api/v1/policy >'$work/policy.json' && jq -e --argjson before $was_target '
	(.targets | any(.tunable == \"base_target_ns\" and (.before | tonumber) == \$before and (.value | tonumber) == \$before + 500000)) and
	(.events | map([.event, .version]) | contains([[\"put_back\", \"3\"]]))' '$work/policy.json'"
diag "$(jq -c '[.targets, [.events[] | [.event, .version]]]' "$work/policy.json")"
policy 4 "$((was_target + 1000000))" "$(in_s 12)"
reread
ok 'swiftd: a policy that ends soon' policy_is in_force '"4"' "$((was_target + 1000000))"
ok 'swiftd: it ends, and its targets with it' policy_is expired null "$was_target"
ok 'swiftd: all of them' eval "[ \$(in_ns h1 sysctl -n net.ipv4.tcp_swift.target_policy) = $was_policy ]"
policy 5 "$((was_target + 500000))" "$(in_s 86400)"
reread
ok 'swiftd: the next one' policy_is in_force '"5"' "$((was_target + 500000))"
swiftd_stop
ok 'swiftd: stopped, it leaves its targets' eval "[ \$(target) = $((was_target + 500000)) ]"
ok 'swiftd: which swiftctl takes back' eval "at_h1 '$swiftctl' policy undo && [ \$(target) = $was_target ] && ! ls /run/tcp_swift/policy-*.json"
ok 'swiftd: starts without it' swiftd_start

# --- Telemetry --------------------------------------------------------------------------------------

ok 'swiftd: telemetry loads' "$swiftctl" bpf load telemetry
ok 'swiftd: histograms come from BPF' becomes 30 ".histograms == \"bpf\" and (.prefixes[] | select(.dst_prefix == \"$prefix\") | .fabric_ns.n > 20 and .remote_host_ns.n > 0 and .local_host_ns.n > 0)"
diag "$(jq -c '.prefixes[0] | [.flows, .fabric_ns.n, .fabric_ns.p50, .remote_host_ns.p50, .local_host_ns.p50]' "$work/summary.json")"
ok 'swiftd: many more than one each flow and interval' becomes 30 '.prefixes[0] | .fabric_ns.n > 2 * .flows'
ok 'swiftd: /metrics says so' eval "sampled 0 && page /metrics | promtool check metrics"
ok 'swiftd: decreases are counted' grow swift_decreases_total

# --- A service's life ---------------------------------------------------------------------------------

ok 'swiftd: the clock is set an hour ahead' eval "before=\$(page /api/v1/summary | jq .time_s); date -s '+1 hour' >/dev/null"
ok 'swiftd: it goes on, in the new time' becomes 30 ".time_s > $before + 3590 and .interval_s > 0.3 and .interval_s < 30 and .totals.rate_bps > 1e5 and .totals.rate_bps < 1e9"
ok 'swiftd: histories are in the new time, in order, without a gap' eval "page '/api/v1/summary?history=1' | jq -e --argjson t $before '.history.prefixes | to_entries | all(.[].value.time_s; . == sort and .[-1] > \$t + 3590 and .[-1] - .[0] < 600)'"
ok 'swiftd: and flows' eval "page /api/v1/flows | jq -e '.flows | length >= 3 and all(.age_s >= 0 and .age_s < 600)'"
date -s '-1 hour' >/dev/null
ok 'swiftd: and back' becomes 30 ".time_s < $before + 1000 and .totals.flows >= 3"

at_h1 curl -sN -m 60 "http://127.0.0.1:$port/api/v1/stream" >"$work/stream" &
ok 'swiftd: somebody follows its events' wait_until 20 eval "[ \$(grep -c '^event: summary' '$work/stream') -ge 2 ]"
kill -KILL "$swiftd_pid"
wait "$swiftd_pid" 2>/dev/null
ok 'swiftd: killed and started again' swiftd_start
ok 'swiftd: it knows the flows at once' becomes 20 '.totals.swift_flows >= 3 and .histograms == "bpf" and .totals.rate_bps > 1e5'

# --- The kernel lists no sockets ------------------------------------------------------------------

mkdir -p /run/modprobe.d
echo 'install tcp_diag /bin/false' >/run/modprobe.d/tcp_diag.conf
unlisted() { rmmod tcp_diag 2>/dev/null || [ ! -d /sys/module/tcp_diag ]; }
ok 'swiftd: the kernel lists sockets no more' wait_until 20 unlisted
ok 'swiftd: it says so, beside what it saw last' becomes 30 '(.error | type == "string" and length > 0) and .totals.flows >= 3'
diag "$(jq -r .error "$work/summary.json")"
says_why() { ! healthy && at_h1 curl -sS -m 20 "http://127.0.0.1:$port/healthz" | grep -q tcp_diag; }
ok 'swiftd: three intervals later /healthz says why' wait_until 30 or_later says_why
ok 'swiftd: counts it' grow swiftd_collection_errors_total
rm /run/modprobe.d/tcp_diag.conf
ok 'swiftd: sees again' becomes 30 '(.error | not) and .totals.flows >= 3 and .totals.rate_bps > 1e5'
ok 'swiftd: and is healthy' healthy

# --- With no more rights than its unit has -----------------------------------------------------------

swiftd_stop
unit=$top/userspace/swiftd/swiftd.service
of_unit() { sed -n "s/^$1=//p" "$unit"; }
rights=$(of_unit CapabilityBoundingSet | tr 'A-Z ' 'a-z,' | sed 's/cap_/+/g')
rights_of_unit=(setpriv --no-new-privs --bounding-set "-all,$rights")
if [ "$(of_unit User)" != root ]; then
	rights_of_unit+=(--reuid 61184 --regid 61184 --clear-groups --inh-caps "-all,$rights" --ambient-caps "-all,$rights")
fi
mkdir -p /run/tcp_swift # RuntimeDirectory
cat >"$work/unit" <<-EOF # ProtectSystem=strict, ProtectKernelTunables
	set -e
	mount --make-rprivate /
	for dir in / /sys /sys/fs/bpf /proc/sys /run/tcp_swift; do
		[ \$dir = / ] || mountpoint -q \$dir || mount --bind \$dir \$dir
		[ \$dir = /run/tcp_swift ] || mount -o remount,bind,ro \$dir
	done
	if touch /etc/swiftd-was-here || sysctl -qw net.ipv4.tcp_swift.echo=1; then exit 1; fi 2>/dev/null
	exec ${rights_of_unit[*]} "\$@"
EOF
"$swiftctl" bpf load bpf_swift --set max_rtt_ns=1000000000 --set target_policy=static --set base_target_ns=4000000 --set endpoint_target_ns=4000000 2>"$work/notes" || cat "$work/notes"
flows_end
iperf_server h2 -1
ip netns exec h1 iperf3 -c "$h2_ip4" -t 3000 -P 3 -C bpf_swift >"$work/iperf" 2>&1 &
client=$!
in_unit_start() { swiftd_start unshare --mount bash "$work/unit" -- "$@"; }
ok 'swiftd: starts with the rights of its unit' in_unit_start
diag "$(grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs)' "/proc/$swiftd_pid/status" | tr '\n\t' '  ')"
ok 'swiftd: it sees all flows' becomes 30 '.totals.flows >= 3 and .totals.rate_bps > 1e5'
ok 'swiftd: and the records of a BPF variant, which are pinned' wait_until 30 eval "page '/api/v1/flows?cc=bpf_swift' | jq -e '[.flows[] | select(.from_bpf and .fabric_ns > 0)] | length >= 3'"
ok 'swiftd: and the telemetry, which is as well' becomes 30 '.histograms == "bpf"'
swiftd_stop
ok 'swiftd: it can feed clocks' in_unit_start --clocks.devices=right
ok 'swiftd: a NIC without one is a state' becomes 30 '.clocks | length >= 1'
diag "$(jq -c .clocks "$work/summary.json")"
swiftd_stop
flows_end
"$swiftctl" bpf unload bpf_swift
"$swiftctl" bpf unload telemetry

# --- The receiving host ---------------------------------------------------------------------------

tc -n r1 qdisc del dev right root
sysctl -qw net.core.dev_weight=1
{
	echo 'add table inet slow'
	echo 'add chain inet slow in { type filter hook input priority 0; }'
	for i in $(seq 0 3999); do echo "add rule inet slow in ip saddr 192.168.$((i >> 8)).$((i & 255)) drop"; done
} | in_ns h2 nft -f -
interval_s=0.2 # half a second of a host that is always busy takes an emulator ten
ok 'swiftd: flows to a slow host' flows_run 3000
ok 'swiftd: starts again' swiftd_start
ok 'swiftd: host-bound, while the receiver is the bottleneck' becomes 60 ".prefixes[] | select(.dst_prefix == \"$prefix\" and .cc == \"swift\") | .verdict.limit == \"host\" and (.verdict.text | startswith(\"host-bound:\")) and .host_ns.p50 > .fabric_ns.p50"
diag "$(jq -r '.prefixes[0].verdict.text' "$work/summary.json")"
flows_end
in_ns h2 nft delete table inet slow

# --- The module goes ------------------------------------------------------------------------------

for host in h1 h2; do in_ns $host sysctl -qw net.ipv4.tcp_congestion_control=cubic; done
ok 'swiftd: the module unloads under it' wait_until 30 swift_unload
ok 'swiftd: which is a state' becomes 20 '(.module.loaded | not) and .totals.swift_flows == 0'
ok 'swiftd: in good health' healthy
ok 'swiftd: and no error' eval "page /metrics | promtool check metrics && ! page /metrics | grep '^swiftd_collection_errors_total.*[1-9]$'"
ok 'swiftd: the module comes back' swift_load
swift_hosts h1 h2
ok 'swiftd: which it sees' becomes 20 '.module.loaded'
ok 'swiftd: and so its flows' eval "flows_run 3000 && becomes 30 '.totals.swift_flows >= 3'"
flows_end
ok 'swiftd: ends on a signal' swiftd_stop
grep -E '\[(error|warning)\]' "$work/swiftd.log" | while read -r line; do diag "$line"; done
