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

# Another network namespace, by its name and by its path, each with a memory of its own.
ip netns add pod
pod() { ip netns exec pod "$@"; }
pod_snapshot() { pod sysctl net.ipv4.tcp_congestion_control net.ipv4.tcp_swift.echo && pod tc qdisc show; }
pod ip link add eth0 numtxqueues 1 type veth peer name eth1
pod ip link set eth0 up
pod sysctl -qw net.ipv4.tcp_congestion_control=cubic
pod_snapshot >"$work/pod"
ok 'tools: a network namespace that is not there: one line, status 1' exits 1 "$swiftctl" enable --netns no-such
ok 'tools: a path that is none: one line, status 1' exits 1 "$swiftctl" enable --netns /proc/self/ns/mnt
ok 'tools: nothing of a network namespace outlasts a boot: status 2' exits 2 "$swiftctl" enable --netns pod --persist
ok 'tools: enable in a network namespace, by its name' "$swiftctl" enable --netns pod --echo --iface eth0
ok 'tools: swift is its default' test "$(pod sysctl -n net.ipv4.tcp_congestion_control)" = swift
ok 'tools: its echo is on' test "$(pod sysctl -n net.ipv4.tcp_swift.echo)" = 1
ok 'tools: its interface has fq' eval 'pod tc qdisc show dev eth0 | grep -q "qdisc fq .*root"'
ok 'tools: disable there, by its path' "$swiftctl" disable --netns /run/netns/pod
ok 'tools: all there is as it was' eval 'pod_snapshot | diff "$work/pod" -'
ok "tools: the host's default is swift as before" test "$(sysctl -n net.ipv4.tcp_congestion_control)" = swift
ok 'tools: enable there again' "$swiftctl" enable --netns /run/netns/pod --echo
pod sysctl -qw net.ipv4.tcp_congestion_control=cubic # the kernel takes its time to let the module go
ip netns del pod

# Pods that ask for it, as the kubelet and containerd make them.
pod_uid=0d2f1b3c-1111-4222-8333-444455556666
mkdir -p "$work/cgroup"
mount -t cgroup2 none "$work/cgroup"
pod_group=$work/cgroup/kubepods.slice/kubepods-pod${pod_uid//-/_}.slice/cri-containerd-$(printf 'a%.0s' {1..64}).scope
mkdir -p "$pod_group"
ip netns add cni-web
web() { ip netns exec cni-web "$@"; }
web_snapshot() { web sysctl net.ipv4.tcp_congestion_control net.ipv4.tcp_swift.echo; }
web sysctl -qw net.ipv4.tcp_congestion_control=cubic
ip netns exec cni-web sleep 100000 & # no function: it would be a shell's number
holder=$!
there() { [ "$(readlink /proc/$holder/ns/net)" = "net:[$(stat -Lc %i /run/netns/cni-web)]" ]; }
wait_until 30 there
echo $holder >"$pod_group/cgroup.procs"
web_snapshot >"$work/web"
pods_say() { # the annotation's value
	printf '{"items": [{"metadata": {"namespace": "shop", "name": "web", "uid": "%s", "annotations": {"tcp-swift/enable": "%s"}}}]}' \
		$pod_uid "$1" >"$work/pods.new" && mv "$work/pods.new" "$work/pods.json"
}
pods() { "$swiftctl" pods --list "$work/pods.json" --echo "$@"; }
web_default() { [ "$(web sysctl -n net.ipv4.tcp_congestion_control)" = "$1" ]; }
pods_say true
ok 'tools: pods: --dry-run says what it would do' eval 'pods --dry-run | grep -q tcp_congestion_control=swift'
ok 'tools: pods: and does nothing' eval 'web_snapshot | diff "$work/web" -'
ok 'tools: pods: one that asks' eval 'pods --json | jq -e ".pods[0] | .pod == \"shop/web\" and .state == \"swift\""'
ok 'tools: pods: has swift' web_default swift
ok 'tools: pods: and its echo' test "$(web sysctl -n net.ipv4.tcp_swift.echo)" = 1
pods_say false
ok 'tools: pods: one that asks no more' eval 'pods | grep -q "shop/web *taken back"'
ok 'tools: pods: has what it had' eval 'web_snapshot | diff "$work/web" -'
pods_say yes
ok 'tools: pods: another value: status 1' exits 1 "$swiftctl" pods --list "$work/pods.json"
"$swiftctl" pods --list "$work/pods.json" --echo --watch 0.2 >"$work/pods.log" 2>&1 &
watch=$!
ok 'tools: pods: refused, and it goes on' wait_until 30 grep -q 'shop/web *refused' "$work/pods.log"
pods_say true
ok 'tools: pods: --watch sees the annotation' wait_until 30 web_default swift
echo '{' >"$work/pods.json"
ok 'tools: pods: a list without sense is said' wait_until 30 grep -q 'nothing is changed meanwhile' "$work/pods.log"
ok 'tools: pods: and changes nothing' web_default swift
kill $watch
ok 'tools: pods: ends well' wait $watch
ok 'tools: pods: and leaves what was there' eval 'web_snapshot | diff "$work/web" -'
ok 'tools: pods: no memory is left' test ! -e /var/lib/tcp_swift/pods.json
kill $holder
wait $holder
ip netns del cni-web
find "$work/cgroup" -mindepth 1 -depth -type d -exec rmdir {} + 2>/dev/null
umount "$work/cgroup"
ok 'tools: disable' "$swiftctl" disable
ok 'tools: all is as it was' eval 'snapshot | diff "$work/before" -'
ip link del real0
