# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# The telemetry: what the module and the variants decide is counted, all of it and nothing
# else; what comes, is swapped and goes while it watches; and nothing that stays behind.

objects=$top/out/bpf
pins=/sys/fs/bpf/tcp_swift
mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
modprobe -a tcp_dctcp 2>/dev/null

telemetry() { "$swiftctl" bpf load telemetry "$@"; }
# The number that a jq filter makes of `swiftctl delays --json`, of all namespaces or of one.
delays() { # FILTER [ARG...]
	"$swiftctl" delays --json --all-netns "${@:2}" | jq "$1"
}
delays_of() { # NS FILTER
	"$swiftctl" delays --json --netns "$1" | jq "$2"
}
judge() { # FILTER ARG...; is it true of `swiftctl delays --json ARG...`?
	"$swiftctl" delays --json "${@:2}" >"$work/delays.json" && jq -e "$1" "$work/delays.json" >/dev/null && return
	jq -c '[.samples, .missed, (.prefixes[] | [.netns, .dst_prefix, .cc, .samples, .rtt_ns.count, (.tx_nic_ns | [.count, .p50])])]' "$work/delays.json"
	return 1
}
holds() { judge "$1" --all-netns "${@:2}"; } # FILTER [ARG...]
holds_in() { judge "$2" --netns "$1" "${@:3}"; } # NS FILTER [ARG...]
says() { # TEXT COMMAND...; it fails, in one line with that text
	local text=$1
	shift
	! "$@" >"$work/said" 2>&1 && grep -q "$text" "$work/said" && [ "$(wc -l <"$work/said")" = 1 ] && return
	cat "$work/said"
	return 1
}
telemetry_programs() { bpftool prog show | grep -c 'name telemetry_'; }
no_telemetry() { [ "$(telemetry_programs)" = 0 ] && [ ! -e $pins/telemetry ] && [ ! -e $pins/telemetry~new ]; }
quiet() { # nothing is counted any more; leaves the count in $samples
	local before
	samples=$(delays .samples)
	for _ in 1 2 3 4 5 6 7 8; do
		before=$samples
		sleep 0.3
		samples=$(delays .samples)
		[ "$before" != "$samples" ] || return 0
	done
	return 1
}
module_samples() { echo $(($(counter h1 samples) + $(counter h2 samples))); }
drained() { ! in_ns h1 ss -Htn state established | grep -q . && ! in_ns h1 ss -Htn state fin-wait-1 | grep -q .; }
carry() { # CC [IPERF3-ARG...]; some traffic from h1 to h2
	iperf_server h2 -1 || return
	timeout $patience ip netns exec h1 iperf3 -c "$h2_ip4" -C "$1" "${@:2}" >"$work/iperf" 2>&1 || { cat "$work/iperf"; tail -n 3 "$work/iperf3-h2-5201.log"; return 1; }
	wait_until 20 not listening h2 5201 && wait_until 20 drained
}
carry6() { # CC [IPERF3-ARG...]
	iperf_server h2 -1 || return
	timeout $patience ip netns exec h1 iperf3 -6 -c "$h2_ip6" -C "$1" "${@:2}" >"$work/iperf" 2>&1 || { cat "$work/iperf"; tail -n 3 "$work/iperf3-h2-5201.log"; return 1; }
	wait_until 20 not listening h2 5201 && wait_until 20 drained
}

topo_pair
ok 'telemetry: not loaded, it says so' says 'not loaded' "$swiftctl" delays
ok 'telemetry: nor unloaded' says 'not loaded' "$swiftctl" bpf unload telemetry
ok 'telemetry: --dry-run' telemetry --dry-run
ok 'telemetry: which loads nothing' no_telemetry
ok 'telemetry: options out of range' says "v4-len: '33' (allowed: 0 to 32)" telemetry --v4-len 33
ok 'telemetry: an object that is none' says 'not the telemetry' "$swiftctl" bpf load telemetry --object "$objects/bpf_gcn.bpf.o"
ok 'telemetry: not for root alone' says 'needs root' setpriv --reuid 65534 --clear-groups "$swiftctl" bpf load telemetry
ok 'telemetry: nothing of this stays' no_telemetry

# --- The module -----------------------------------------------------------------------------

ok 'telemetry: loads without the module' telemetry --tx 1
ok 'telemetry: not twice' says 'loaded already' telemetry
ok 'telemetry: the list has it' eval "'$swiftctl' bpf list --json | jq -e '.telemetry.tx_one_in == 1 and (.telemetry.module_watched | not)'"
ok 'telemetry: the module loads' swift_load
ok 'telemetry: and is attached by a second load' telemetry
ok 'telemetry: the list says so' eval "'$swiftctl' bpf list --json | jq -e .telemetry.module_watched"

ok 'telemetry: other traffic' carry cubic -n 16M
ok 'telemetry: leaves the maps empty' holds '.samples == 0 and (.flows | length) == 0 and (.prefixes | length) == 0'

patient_hosts h1 h2
ok 'telemetry: swift carries traffic' carry swift -n 64M
ok 'telemetry: it comes to rest' quiet
ok 'telemetry: all samples of the module, by its own count, are there' eval "[ \$(module_samples) = \$(delays '.samples + .missed') ]"
diag "module: $(module_samples), telemetry: $(delays '.samples, .missed' | tr '\n' ' ')(missed)"
ok 'telemetry: by prefix and by flow' holds '.samples > 100 and ([.prefixes[].samples] | add) == .samples and ([.flows[].samples] | add) == .samples'
ok 'telemetry: an RTT, a target, a window and a fabric delay for each' holds 'all(.prefixes[], .flows[]; .rtt_ns.count == .samples and .target_ns.count == .samples and .window_q16.count == .samples and .fabric_ns.count == .samples)'
ok 'telemetry: their prefixes are of the default length' holds '[.prefixes[].dst_prefix] | unique == ["10.0.0.0/24"]'
ok 'telemetry: with the echo on, both hosts have their parts' holds_in h1 '.prefixes[0] | .remote_ns.count > .samples / 2 and .local_ns.count > .samples / 2 and .remote_ns.mean > 0'
ok 'telemetry: which are parts of the RTT' holds_in h1 '.prefixes[0] | .fabric_ns.sum <= .rtt_ns.sum and .endpoint_ns.count > 0'
ok 'telemetry: packets on their way to the driver' holds_in h1 '.prefixes[0].tx_host_ns.count > 100'
# veth keeps none; the other host lets go of them when it takes them in.
ok 'telemetry: which has let go of them, at once' holds_in h1 '.tx_nic_watched and (.prefixes[0] | .tx_nic_ns.count > 100 and .tx_nic_ns.count <= .tx_host_ns.count and .tx_nic_ns.p50 < 2000000)'
diag "veth: $(delays_of h1 '.prefixes[0] | [.tx_host_ns, .tx_nic_ns | [.count, .p50, .p99, .mean]]' | tr -d ' \n')"
ok 'telemetry: flows have addresses and their namespace' holds "[.flows[] | select(.remote_addr == \"$h2_ip4\" and .remote_port == 5201 and .local_addr == \"$h1_ip4\" and .netns == $(stat -Lc %i /run/netns/h1))] | length == 2"

ok 'telemetry: swift over IPv6' carry6 swift -n 16M
ok 'telemetry: under its prefix' holds '[.prefixes[] | select(.dst_prefix == "fd00::/64" and .cc == "swift" and .samples > 10)] | length == 1'
ok 'telemetry: still all of the module' eval "quiet && [ \$(module_samples) = \$(delays '.samples + .missed') ]"

# --- Network namespaces -------------------------------------------------------------------------

# h1's and h2's flows both go to 10.0.0.0/24.
samples_are_its_own() { # NS; the module counts by namespace, too
	local counted module missed
	counted=$(delays_of "$1" '[.prefixes[].samples] | add') module=$(counter "$1" samples) missed=$(delays .missed)
	diag "$1: counted $counted, module $module, missed in all $missed"
	[ "$counted" -gt 10 ] && [ "$counted" -le "$module" ] && [ $((counted + missed)) -ge "$module" ]
}
flows_are_its_own() { # NS
	holds_in "$1" "all(.flows[], .prefixes[]; .netns == $(stat -Lc %i "/run/netns/$1")) and ([.flows[].samples] | add) == ([.prefixes[].samples] | add)"
}
ok 'telemetry: the other host sends, too' carry swift -R -n 16M
ok 'telemetry: it comes to rest again' quiet
for host in h1 h2; do
	ok "telemetry: $host has the decisions of its own flows under the prefix" samples_are_its_own $host
	ok "telemetry: and flows of its namespace" flows_are_its_own $host
done
ok 'telemetry: all together are the sum' holds '([.prefixes[] | select(.dst_prefix == "10.0.0.0/24" and .cc == "swift")] | length) == 2 and ([.prefixes[].samples] | add) == .samples'
ok 'telemetry: a third namespace has none' judge '(.prefixes | length) == 0 and (.flows | length) == 0 and .samples > 0'
ok 'telemetry: which it says' eval "'$swiftctl' delays | grep -q 'in this network namespace'"
ok 'telemetry: a table of all tells them apart' eval "[ \$('$swiftctl' delays --all-netns --wide | grep -c '^10.0.0.0/24 .*\b[0-9]\{6,\} *swift ') = 2 ]"
ok 'telemetry: one that is not there' says 'no such network namespace' "$swiftctl" delays --netns h3

# --- The NIC's share -----------------------------------------------------------------------------

stampnic=$top/out/kmod/$(uname -r)/stampnic/stampnic.ko
nic=/sys/module/stampnic/parameters
[ -e "$stampnic" ] || { echo "Bail out! no $stampnic: run tests/vm/nic/build"; exit 1; }
newest() { # FILTER; is it true of the busiest flow of h1 that began since the last call of begins?
	holds_in h1 "[.flows[] | select(.first_ns > $begun_ns)] | max_by(.samples) | $1"
}
begins() { begun_ns=$(delays .monotonic_ns); }
ok 'telemetry: there is a NIC that keeps packets' insmod "$stampnic"
echo 0 >$nic/form
echo 20000 >$nic/hold_us
in_ns h1 sh -c "echo right >$nic/attach"
begins
ok 'telemetry: swift over it' carry swift -n 32M
# The bucket that 20 ms are in begins at 16.8 ms. A timer is never early; that of an emulated machine is
# late at times, by hundreds of milliseconds if others want the CPUs, but not always.
ok 'telemetry: it has each packet for 20 ms' newest '.tx_nic_ns.count > 20 and .tx_nic_ns.mean >= 20000000 and ([.tx_nic_ns.buckets[].from] | min) >= 16777216'
ok 'telemetry: and no longer, but for a late timer' newest '.tx_nic_ns | ([.buckets[] | select(.below <= 29360128).count] | add) > .count / 4'
ok 'telemetry: which are packets that were timed on their way to it' newest '.tx_nic_ns.count <= .tx_host_ns.count and .tx_host_ns.p50 < .tx_nic_ns.p50'
diag "20 ms: $(delays_of h1 "[.flows[] | select(.first_ns > $begun_ns)] | max_by(.samples) | [.tx_host_ns, .tx_nic_ns | [.count, .p50, .p99, .mean]]" | tr -d ' \n')"
ok 'telemetry: a picture of it' eval "'$swiftctl' delays --netns h1 --hist | grep -q 'nic: driver to its release'"
echo 0 >$nic/hold_us
begins
ok 'telemetry: swift over it, with nothing kept' carry swift -n 16M
ok 'telemetry: it has nothing for long' newest '.tx_nic_ns.count > 20 and .tx_nic_ns.p50 < 2000000'
# netem takes packets from TCP before the driver sees them: there is no more to know.
tc -n h1 qdisc replace dev right root netem delay 1ms
begins
ok 'telemetry: swift through netem' carry swift -n 16M
ok 'telemetry: is timed to the driver alone' newest '.tx_host_ns.count > 20 and .tx_nic_ns.count == 0'
tc -n h1 qdisc del dev right root
ok 'telemetry: the NIC goes' rmmod stampnic

# --- Variants --------------------------------------------------------------------------------

for cc in bpf_swift bpf_swift_v0 bpf_timely bpf_gcn; do
	case $cc in # as patient_hosts
	bpf_swift*) settings='--set max_rtt_ns=1000000000 --set base_target_ns=100000000 --set endpoint_target_ns=100000000' ;;
	*) settings='' ;;
	esac
	ok "telemetry: $cc loads after it" eval "'$swiftctl' bpf load $cc $settings 2>'$work/notes'; status=\$?; cat '$work/notes'; [ \$status = 0 ] && ! grep -q 'does not watch' '$work/notes'"
	ok "telemetry: $cc carries traffic" carry $cc -n 16M
	ok "telemetry: and is counted" holds "[.prefixes[] | select(.cc == \"$cc\" and .samples > 10 and .rtt_ns.count > 10 and .window_q16.count == .samples)] | length == 1"
done
ok 'telemetry: bpf_swift with its parts' holds_in h1 '.prefixes[] | select(.cc == "bpf_swift" and .dst_prefix == "10.0.0.0/24") | .fabric_ns.count == .samples and .target_ns.count == .samples and .local_ns.count > .samples / 2'
ok 'telemetry: v0 has no hosts' holds_in h1 '.prefixes[] | select(.cc == "bpf_swift_v0") | .remote_ns.count == 0 and .local_ns.count == 0 and .fabric_ns.count == .samples'
ok 'telemetry: bpf_swift over IPv6' carry6 bpf_swift -n 16M
ok 'telemetry: under its prefix, too' holds '[.prefixes[] | select(.dst_prefix == "fd00::/64" and .cc == "bpf_swift" and .samples > 10)] | length == 1'
ok 'telemetry: flows and prefixes hold the same' eval "quiet && holds '([.prefixes[].samples] | add) == .samples and ([.flows[].samples] | add) == .samples'"

# The verifier's work, as tests/bpf/lib.sh holds it for the others.
# shellcheck source-path=SCRIPTDIR source=../bpf/verifier.sh
. "$top/tests/bpf/verifier.sh"
telemetry_most() { verifier_most "$top/out/bpf/swift_telemetry.bpf.o" swift_telemetry "$@"; }
"$swiftctl" bpf list --json | jq -r '.telemetry.programs[] | "\(.name) \(.verified_insns)"' |
	sed 's/^bpf_swift~[0-9]* /telemetry_variant /' | grep '^telemetry' >"$work/counts"
while read -r program count; do
	diag "verified $program $count"
	if [ -n "$(telemetry_most)" ]; then
		ok "telemetry: $program: the verifier's work" test "$count" -le "$(telemetry_most "$program" | grep . || echo 0)"
	else skip "telemetry: $program: the verifier's work" "no record of this kernel and clang"; fi
done <"$work/counts"

before=$(delays '[.prefixes[] | select(.cc == "bpf_swift").samples] | add')
ok 'telemetry: a swap under way' "$swiftctl" bpf swap bpf_swift
ok 'telemetry: and traffic' carry bpf_swift -n 16M
ok 'telemetry: which is counted' holds "([.prefixes[] | select(.cc == \"bpf_swift\").samples] | add) > $before + 5"
ok 'telemetry: a variant unloads' "$swiftctl" bpf unload bpf_gcn
ok 'telemetry: and nothing of it is held' eval "wait_until 20 eval '! bpftool prog show | grep -q \"name gcn_\"'"

# What it costs, as the kernel measures it.
sysctl -qw kernel.bpf_stats_enabled=1
carry swift -n 16M
carry bpf_swift -n 16M
diag "cost: $("$swiftctl" bpf list --json | jq -c '[.telemetry.programs[] | select(.runs > 0) | {(.name): (.run_ns / .runs | floor)}] | add') ns a run (emulated)"
sysctl -qw kernel.bpf_stats_enabled=0

ok 'telemetry: the difference of two readings' eval "quiet; holds '.samples == 0 and (.prefixes | length) == 0' --interval 0.5"
ok 'telemetry: a table' eval "'$swiftctl' delays --netns h1 --wide | grep -q '^10.0.0.0/24 *bpf_swift '"
ok 'telemetry: by flow' eval "'$swiftctl' delays --netns h1 --by flow --dst $h2_ip4 --wide | grep -q '> $h2_ip4:5201'"
ok 'telemetry: a picture' eval "'$swiftctl' delays --netns h1 --hist | grep -q '|#'"

# --- Going --------------------------------------------------------------------------------------

for host in h1 h2; do in_ns $host sysctl -qw net.ipv4.tcp_congestion_control=cubic; done
ok 'telemetry: while it watches, the module stays' not swift_unload
ok 'telemetry: it lets go of it' "$swiftctl" bpf unload telemetry --module-only
ok 'telemetry: and the module unloads' wait_until 20 swift_unload
ok 'telemetry: the variants are watched all the same' eval "carry bpf_swift -n 16M && holds '.samples > 0'"
ok 'telemetry: it unloads' "$swiftctl" bpf unload telemetry
ok 'telemetry: no pin, program or link stays' wait_until 20 no_telemetry
# The kernel frees a map after a grace period.
no_map() { ! bpftool map show | grep -qE 'name (networks|counters|prefixes) '; }
ok 'telemetry: nor a map' wait_until 20 no_map
ok 'telemetry: variants go on' carry bpf_swift -n 16M

# Of a VLAN's device and the one below that, which has the queue: the NIC's share begins at the latter.
modprobe 8021q
for end in '1 right' '2 left'; do
	read -r host dev <<<"$end"
	ip -n h$host link add link "$dev" name vlan9 type vlan id 9
	ip -n h$host addr add 10.9.0.$host/24 dev vlan9
	ip -n h$host link set vlan9 up
done
tc -n h1 qdisc replace dev right root tbf rate 20mbit burst 15k limit 300k
ok 'telemetry: for one packet in two' telemetry --tx 2
iperf_server h2
ok 'telemetry: through a VLAN' timeout $patience ip netns exec h1 iperf3 -c 10.9.0.2 -C bpf_swift -t 2
ok 'telemetry: the queue below it is no part of the NIC' holds_in h1 '[.flows[] | select(.remote_addr == "10.9.0.2")] | max_by(.samples) | .tx_nic_ns.count > 20 and .tx_host_ns.p90 > 1000000 and .tx_nic_ns.p90 < .tx_host_ns.p90 / 2'
diag "VLAN: $(delays_of h1 '.flows | max_by(.samples) | [.tx_host_ns, .tx_nic_ns | [.count, .p50, .p90, .mean]]' | tr -d ' \n')"
tc -n h1 qdisc del dev right root
ip -n h1 link del vlan9
cleanup_jobs
ok 'telemetry: that unloads' "$swiftctl" bpf unload telemetry

# Full maps: prefixes of 32 bits, of which there is room for few.
ok 'telemetry: small maps' telemetry --prefixes 1 --flows 64 --v4-len 32 --prefix 10.0.0.0/25
ok 'telemetry: variants that were there first are watched' eval "carry bpf_swift -n 16M && holds '[.prefixes[] | select(.cc == \"bpf_swift\" and .dst_prefix == \"10.0.0.0/25\" and .samples > 10)] | length == 1'"
for last in $(seq 3 60); do ip -n h2 addr add "10.0.0.$((last + 127))/24" dev left; done
more_prefixes() {
	local last
	iperf_server h2 || return
	for last in $(seq 3 60); do
		timeout $patience ip netns exec h1 iperf3 -c "10.0.0.$((last + 127))" -C bpf_swift -n 64K >/dev/null || return
	done
}
ok 'telemetry: many destinations' more_prefixes
ok 'telemetry: are counted under "other"' holds '.samples_in_other_prefix > 0 and any(.prefixes[]; .dst_prefix == "other" and .cc == "bpf_swift" and .samples > 0)'
ok 'telemetry: and none is lost' eval "quiet && holds '([.prefixes[].samples] | add) == .samples and .samples_without_prefix == 0'"
ok 'telemetry: flows made room' holds '.flows_evicted > 0'
ok 'telemetry: which it says' eval "'$swiftctl' delays | grep -q 'full map: .* flows made room'"
ok 'telemetry: it unloads again' "$swiftctl" bpf unload telemetry
for cc in bpf_swift bpf_swift_v0 bpf_timely; do ok "telemetry: $cc unloads" "$swiftctl" bpf unload $cc; done
cleanup_jobs
ok 'telemetry: nothing is left' wait_until 20 eval "no_telemetry && [ ! -e $pins ]"
