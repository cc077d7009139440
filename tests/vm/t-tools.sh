# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# swiftctl on a host: enable, disable and what was there before; errors and exit status.

exits() { # STATUS COMMAND...; and says no more than one line
	local want=$1 said status
	shift
	said=$("$@" 2>&1 >/dev/null)
	status=$?
	echo "exit status $status: $said"
	[ $status = "$want" ] && [ "$(wc -l <<<"$said")" = 1 ] && [ -n "$said" ]
}
nobody() { setpriv --reuid 65534 --clear-groups "$@"; }
snapshot() {
	sysctl net.ipv4.tcp_congestion_control net.ipv4.tcp_allowed_congestion_control net.core.default_qdisc
	tc qdisc show
	ls -d /sys/module/tcp_swift 2>/dev/null
}

ip link add real0 numtxqueues 1 type veth peer name real1
ip link set real0 up
ip link set real1 up
sysctl -qw net.core.default_qdisc=pfifo_fast

ok 'tools: an unknown flag is one line and status 2' exits 2 "$swiftctl" flows --no-such-flag
ok 'tools: an unknown verb is one line and status 2' exits 2 "$swiftctl" no-such-verb
ok 'tools: flows without the module: one line, status 1' exits 1 "$swiftctl" flows
ok 'tools: enable without root: one line, status 1' exits 1 nobody "$swiftctl" enable --module "$module"
ok 'tools: a tunable out of range is refused before anything is done' exits 2 "$swiftctl" enable --module "$module" --set beta_milli=1001

snapshot >"$work/before"
dry() { "$swiftctl" enable --module "$module" --echo --set base_target_ns=60000 --dry-run; }
ok 'tools: --dry-run says what it would do' eval 'dry | grep -q base_target_ns=60000'
ok 'tools: and does nothing' eval 'snapshot | diff "$work/before" -'
ok 'tools: enable' "$swiftctl" enable --module "$module" --echo --set base_target_ns=60000
ok 'tools: swift is the default' test "$(sysctl -n net.ipv4.tcp_congestion_control)" = swift
ok 'tools: the echo is on' test "$(sysctl -n net.ipv4.tcp_swift.echo)" = 1
ok 'tools: the tunable is set' test "$(sysctl -n net.ipv4.tcp_swift.base_target_ns)" = 60000
ok 'tools: enable twice is no harm' "$swiftctl" enable --module "$module" --echo
ok 'tools: no flow yet: status 0' "$swiftctl" flows
ok 'tools: doctor sees the module' eval '"$swiftctl" doctor --json | jq -e ".findings | length > 5"'
ok 'tools: disable' "$swiftctl" disable
ok 'tools: all is as it was' eval 'snapshot | diff "$work/before" -'
ip link del real0
