# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
#
# What the tests of the BPF programs share, natively (tests/bpf/run) and in guests
# (tests/vm/t-bpf.sh): loading, the verifier's counts, equality, flows. Wants tests/vm/lib.sh
# sourced before, $top, and root.

# shellcheck source-path=SCRIPTDIR source=verifier.sh
. "$top/tests/bpf/verifier.sh"
bpf_objects=$top/out/bpf
bpf_tools=$top/out/build/bpf
bpf_cgroup=''
bpf_pid=''

# This shell, and what it starts, in a cgroup of its own for the programs that want one.
bpf_enter_cgroup() {
	local root=/sys/fs/cgroup
	[ -e $root/cgroup.controllers ] || root=$root/unified
	bpf_cgroup=$root/tcp-swift-test-$$
	mkdir "$bpf_cgroup" && echo $$ >"$bpf_cgroup/cgroup.procs"
}

bpf_leave_cgroup() {
	[ -n "$bpf_cgroup" ] || return 0
	echo $$ >"$(dirname "$bpf_cgroup")/cgroup.procs"
	wait_until 5 rmdir "$bpf_cgroup"
}

bpf_answered() { # LINES BEFORE
	[ "$(grep -c '^ready\|^done\|^error' "$work/loader.out")" -gt "$1" ]
}

# Starts the loader and returns once the programs run.
bpf_load() { # NAME [NAME=VALUE...]
	local name=$1
	shift
	rm -f "$work/loader.in"
	mkfifo "$work/loader.in" || return
	: >"$work/loader.out"
	"$bpf_tools/loader" -c "$bpf_cgroup" -f "$bpf_tools/flows.bpf.o" "$bpf_objects/$name.bpf.o" "$@" \
		<"$work/loader.in" >>"$work/loader.out" 2>&1 &
	bpf_pid=$!
	exec {bpf_in}>"$work/loader.in"
	wait_until 60 bpf_answered 0
	grep -q '^ready' "$work/loader.out" && return
	cat "$work/loader.out"
	bpf_unload
	return 1
}

# One line to the loader; its answer is in loader.out, of which the last line decides.
bpf_say() { # WORD...
	local before
	before=$(grep -c '^ready\|^done\|^error' "$work/loader.out")
	echo "$*" >&"$bpf_in"
	wait_until 20 bpf_answered "$before"
	tail -n 1 "$work/loader.out" | grep -q '^done'
}

bpf_unload() {
	[ -n "$bpf_pid" ] || return 0
	echo quit >&"$bpf_in" # servers that were started meanwhile hold it open
	exec {bpf_in}>&-
	wait "$bpf_pid"
	bpf_pid=''
}

# The storage of all flows, a line for each.
bpf_flows() {
	: >"$work/flows"
	local from
	from=$(($(wc -l <"$work/loader.out") + 1))
	bpf_say flows && tail -n +$from "$work/loader.out" | grep fcwnd_q16= >"$work/flows"
}

# Is there a flow for which the awk condition on its fields holds, e.g. 'echo_on && samples > 10'?
bpf_flow_with() { # CONDITION
	bpf_flows && awk -v RS='\n' "
		{ for (i = 1; i <= NF; i++) { split(\$i, a, \"=\"); f[a[1]] = a[2] } }
		$(sed -E 's/\b([a-z][a-z0-9_]*)\b/f["\1"]/g' <<<"$1") { found = 1 }
		END { exit !found }" "$work/flows"
}

bpf_names() { sysctl -n net.ipv4.tcp_available_congestion_control | tr ' ' '\n' | grep "^bpf_"; }

# --- Tests that need no network -------------------------------------------------------------

# Each program loads, at no more than 110 % of the verifier's work on record.
bpf_test_load() {
	local name program count
	for name in bpf_swift bpf_swift_v0 bpf_timely bpf_gcn; do
		ok "bpf: $name loads" eval "'$bpf_tools/loader' -n '$bpf_objects/$name.bpf.o' >'$work/$name.counts' 2>&1 || { cat '$work/$name.counts'; false; }"
		if [ -z "$(verifier_most "$bpf_objects/$name.bpf.o" "$name")" ]; then
			skip "bpf: $name: the verifier's work" "no record of this kernel and clang"
			continue
		fi
		while read -r _ program count; do
			ok "bpf: $name: $program: the verifier's work" \
				test "$count" -le "$(verifier_most "$bpf_objects/$name.bpf.o" "$name" "$program" | grep . || echo 0)"
		done < <(grep '^verified ' "$work/$name.counts")
	done
	ok 'bpf: nothing stays behind' not bpf_names
}

bpf_test_equality() { # STEPS
	local name trace traces=("$top"/tests/unit/golden/*.txt)
	"$bpf_tools/equality" "$bpf_tools/law_step.bpf.o" 7 "$1" "${traces[@]}" >"$work/equality"
	for name in swift timely gcn clock; do
		ok "bpf: $name: $1 random steps end in the same bits in C++, the kernel's build and BPF" eval "cat '$work/equality'; grep -q '^ok $name:' '$work/equality'"
	done
	for trace in "${traces[@]}"; do
		name=$(basename "$trace" .txt)
		ok "bpf: trace $name: so it does, and the oracle agrees" eval "cat '$work/equality'; grep -q '^ok golden $name:' '$work/equality'"
	done
	"$bpf_tools/equality" "$bpf_tools/law_step_wrong.bpf.o" 7 "$1" "${traces[@]}" >"$work/equality"
	ok 'bpf: and one constant that differs is noticed' grep -q '^not ok swift: .* differs' "$work/equality"
	ok 'bpf: one of the clocks, too' grep -q '^not ok clock: .* differs' "$work/equality"
	ok 'bpf: in a trace as well' grep -q '^not ok golden endpoint_congestion: .* differs' "$work/equality"
}

# --- Traffic from h1 to h2 ----------------------------------------------------------------------

bpf_hosts() { # CC NS...
	local cc=$1 ns
	shift
	for ns; do in_ns "$ns" sysctl -qw "net.ipv4.tcp_congestion_control=$cc" || return; done
}

# The goodput of some seconds of iperf3, in bits per second, at least. To $bpf_to, or by IPv4.
bpf_carries() { # CC BPS SECONDS [IPERF3-ARG...]
	local cc=$1 least=$2 seconds=$3 bps
	shift 3
	iperf_server h2 -1 || return
	bps=$(timeout $patience ip netns exec h1 iperf3 --json -c "${bpf_to:-$h2_ip4}" -t "$seconds" -C "$cc" "$@" |
		jq -e '.end.sum_received.bits_per_second | floor') || return
	wait_until 10 not listening h2 5201 # the next server wants its place
	echo "goodput $bps"
	[ "$bps" -ge "$least" ]
}

# --- QoS class -----------------------------------------------------------------------------------

# While the command runs, do five packets that h2 gets or sends look like this?
bpf_wire_has() { # FILTER COMMAND...
	local filter=$1 dump
	shift
	dump_starts h2 -nU -i left -c 5 "$filter" || return
	"$@" || echo "failed: $*"
	dumped() { ! kill -0 $dump 2>/dev/null; }
	wait_until 10 dumped || kill $dump 2>/dev/null
	wait $dump && grep -q '^5 packets captured' "$work/tcpdump" || { cat "$work/tcpdump"; false; }
}

# It does not take a tcpdump that ended for one that saw them.
bpf_test_wire() {
	dump_dies() { kill -KILL "$dump"; } # bpf_wire_has's
	ok 'bpf: a dump that dies has seen nothing' not bpf_wire_has tcp dump_dies
	ok 'bpf: nor has one that ends before five packets' not bpf_wire_has tcp eval 'kill "$dump"'
}

# With the variant loaded, its class in the packets of both ends.
bpf_test_dscp() { # CC [brief]
	local cc=$1 talk=("$top/tests/bpf/talk" "$1") v4='ip[1] & 0xfc' v6='(ip6[0:2] & 0x0fc0)'
	bpf_hosts "$cc" h1 h2
	ok "bpf: $cc: a class is set" bpf_say set dscp=10
	ok "bpf: $cc: and is on the wire" bpf_wire_has "tcp dst port 5201 and $v4 = 40" "${talk[@]}" "$h2_ip4"
	[ "$cc" != bpf_gcn ] || ok "bpf: $cc: beside ECN bits" bpf_wire_has 'tcp dst port 5201 and ip[1] = 42' "${talk[@]}" "$h2_ip4"
	[ -z "${2:-}" ] || return 0
	ok "bpf: $cc: with IPv6" bpf_wire_has "ip6 and tcp dst port 5201 and $v6 = 0x280" "${talk[@]}" "$h2_ip6"
	ok "bpf: $cc: with IPv4 through a socket of IPv6" bpf_wire_has "tcp dst port 5201 and $v4 = 40" "${talk[@]}" "::ffff:$h2_ip4"
	ok "bpf: $cc: of who accepts, with IPv6" bpf_wire_has "ip6 and tcp src port 5201 and $v6 = 0x280" "${talk[@]}" "$h2_ip6"
	ok "bpf: $cc: an application's own stays" bpf_wire_has "tcp dst port 5201 and $v4 = 32" "${talk[@]}" "$h2_ip4" 32
	ok "bpf: $cc: with IPv6" bpf_wire_has "ip6 and tcp dst port 5201 and $v6 = 0x200" "${talk[@]}" "$h2_ip6" 32
	ok "bpf: $cc: of its IPv4, too" bpf_wire_has "tcp dst port 5201 and tcp[13] & 2 = 0 and $v4 = 0" "${talk[@]}" "::ffff:$h2_ip4" 32
	ok "bpf: $cc: the class is left alone" bpf_say set dscp=-1
	ok "bpf: $cc: and is" bpf_wire_has "tcp dst port 5201 and tcp[13] & 2 = 0 and $v4 = 0" "${talk[@]}" "$h2_ip4"
}

# --- What the telemetry's transmit shares stand on -----------------------------------------------

# What they measure is for tests/vm/t-telemetry.sh; this is for kernels that are newer than its guests'.
# tcp_wfree()'s address is what its program learns from the first packet that TCP is done with. Where
# the kernel, or what guards it, refuses fentry programs, the rest goes on, and that is said.
bpf_test_transmit_shares() {
	local swiftctl=$top/out/build/userspace/swiftctl pins=/sys/fs/bpf/tcp_swift/telemetry
	ok 'bpf: a file system for pins' mount -t bpf bpf /sys/fs/bpf
	ok 'bpf: telemetry with its transmit shares' eval "'$swiftctl' bpf load telemetry --tx 2 --object '$bpf_objects/swift_telemetry.bpf.o' >'$work/said' 2>&1 || { cat '$work/said'; false; }"
	iperf_server h2 -1
	ok 'bpf: traffic under it' timeout $patience ip netns exec h1 iperf3 -c "$h2_ip4" -n 64M
	if "$swiftctl" bpf list --json | jq -e .telemetry.tx_nic_watched >/dev/null; then
		ok 'bpf: the kernel says which packets TCP is done with' eval "bpftool --json map dump pinned $pins/tx_destructor | jq -e '.[0].value | map(select(. != \"0x00\")) | length > 0'"
	else
		ok 'bpf: this kernel tells nothing of the NIC, which was said' eval "grep -E 'tx_nic_ns. is not measured: cannot .*(Operation not permitted|Not supported|error 524)' '$work/said' && '$swiftctl' delays | grep -q 'nic is not measured'"
	fi
	ok 'bpf: telemetry unloads' "$swiftctl" bpf unload telemetry
	umount /sys/fs/bpf
}

# --- What swiftctl refuses ------------------------------------------------------------------------

bpf_flow_runs() { # still with bpf_swift, and moves data
	local before after
	bpf_acked() { in_ns h1 ss -Htin state established dport = :5201 | grep -w bpf_swift | grep -o 'bytes_acked:[0-9]*' | cut -d: -f2 | sort -n | tail -1; }
	before=$(bpf_acked)
	bpf_moved() { after=$(bpf_acked) && [ -n "$after" ] && [ "$after" -gt "$before" ]; }
	[ -n "$before" ] && wait_until 10 bpf_moved
}

# One line that has TEXT, that status, and the flow goes on.
bpf_refuses() { # NAME STATUS TEXT COMMAND...
	local name=$1 wanted=$2 text=$3 got
	shift 3
	"$@" >"$work/refused" 2>&1
	got=$?
	bpf_is_refused() {
		echo "exit status $got:"
		cat "$work/refused"
		[ $got = "$wanted" ] && [ "$(wc -l <"$work/refused")" = 1 ] && grep -qF -- "$text" "$work/refused"
	}
	ok "bpf: $name: one line" bpf_is_refused
	ok "bpf: $name: the flow goes on" bpf_flow_runs
}

# In a mount namespace of its own, with h1, h2 and a cgroup.
bpf_test_refusals() {
	local swiftctl=$top/out/build/userspace/swiftctl client pins=/sys/fs/bpf/tcp_swift/bpf_swift
	local set=("$swiftctl" bpf set bpf_swift)
	mount -t bpf bpf /sys/fs/bpf || return
	ok 'bpf: swiftctl loads' "$swiftctl" bpf load bpf_swift --object "$bpf_objects/bpf_swift.bpf.o" --cgroup "$bpf_cgroup"
	bpf_hosts bpf_swift h1 h2
	iperf_server h2
	ip netns exec h1 iperf3 -c "$h2_ip4" -b 100M -t 300 >/dev/null &
	client=$!
	wait_until 10 bpf_flow_runs

	bpf_refuses 'a name that is taken' 1 bpf_swift "$swiftctl" bpf load bpf_swift --object "$bpf_objects/bpf_swift.bpf.o" --cgroup "$bpf_cgroup"
	bpf_refuses 'bits beyond the prefix' 2 '(allowed: 10.1.0.0/16)' "${set[@]}" --prefix 10.1.2.3/16 ai_milli=500
	bpf_refuses 'a prefix that is too long' 2 '(allowed: 0 to 32)' "${set[@]}" --prefix 10.0.0.0/33 ai_milli=500
	bpf_refuses 'no prefix at all' 2 all "${set[@]}" --prefix all ai_milli=500
	bpf_refuses 'a value out of range' 2 max_cwnd "${set[@]}" max_cwnd=0
	bpf_refuses 'a tunable that is none' 2 speed "${set[@]}" speed=1
	# A copy: where the checkout is, others may not look.
	local other=(setpriv --reuid 65534 --regid 65534 --clear-groups) theirs=("$work/swiftctl" "${set[@]:1}" ai_milli=500)
	chmod 711 "$work" && cp "$swiftctl" "$work/swiftctl"
	bpf_refuses 'another user' 1 root "${other[@]}" "${theirs[@]}"
	bpf_refuses "who is root in a user namespace only" 1 bpf "${other[@]}" unshare --user --map-root-user "${theirs[@]}"
	bpf_refuses 'no BTF' 1 BTF unshare --mount bash -c 'mount -t tmpfs none /sys/kernel/btf && exec "$@"' - \
		"$swiftctl" bpf swap bpf_swift --object "$bpf_objects/bpf_swift.bpf.o"

	ok 'bpf: a profile' "${set[@]}" --prefix 10.0.0.0/24 ai_milli=500
	ok 'bpf: and 4095 more' "$top/tests/bpf/fill-profiles" $pins 4096
	bpf_refuses 'one too many' 1 'no room for another profile: 4096' "${set[@]}" --prefix 10.99.99.0/24 ai_milli=500
	ok 'bpf: none was made of it' eval "[ \"\$('$swiftctl' bpf get bpf_swift --json | jq '.profiles | length')\" = 4096 ]"
	ok 'bpf: one of those there can be set' "${set[@]}" --prefix 10.0.7.0/24 ai_milli=600
	ok 'bpf: or deleted' "${set[@]}" --prefix 10.0.7.0/24 --delete
	ok 'bpf: which makes room' "${set[@]}" --prefix 10.99.99.0/24 ai_milli=500

	ends $client
	ok 'bpf: swiftctl unloads' "$swiftctl" bpf unload bpf_swift
	umount /sys/fs/bpf
}
