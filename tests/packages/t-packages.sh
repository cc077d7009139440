#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The packages where they are to work: in a guest, on a Debian of its own (/dev/vda) whose
# systemd runs. The quick start word for word, from `apt install` to `apt purge`; in between a flow,
# the service, an upgrade meanwhile, tuning. Started by tests/packages/run under scripts/vm.
set -uo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd -P)
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$top/tests/packages/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../docs/lib.sh
. "$top/tests/docs/lib.sh"
release=$(uname -r)

modprobe ext4 && mount -t ext4 /dev/vda $new || exit 1
mount_kernel_files || exit 1
# The postinst takes a module that is built already, if it finds one there (dkms(8), mktarball).
mkdir -p $new/usr/share/tcp-swift-dkms
cp "$PACKAGES_DEBS/built-$release.tar.gz" $new/usr/share/tcp-swift-dkms/tcp-swift-0.1.0.dkms.tar.gz || exit 1

headers_package || exit 1

# systemd is process 1 of a PID namespace. All that the tests do there is done inside of it.
env -i PATH="$PATH" container=tests unshare --pid --fork --mount --mount-proc=$new/proc \
	chroot $new /lib/systemd/systemd --unit=multi-user.target >/dev/null 2>&1 &
booted() { systemd=$(pgrep -o -x systemd) && inside systemctl is-system-running | grep -qE 'running|degraded'; }
inside() {
	nsenter --target "$systemd" --mount --pid --root --wdns=/ env -i HOME=/root LC_ALL=C.UTF-8 \
		PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"
}
ok 'guest: systemd runs' wait_until 120 booted
diag "booted after $(cut -d. -f1 /proc/uptime) s: $(inside systemctl --failed --plain --no-legend)"

snapshot() {
	sysctl net.ipv4.tcp_congestion_control net.ipv4.tcp_allowed_congestion_control net.core.default_qdisc
	tc qdisc show dev eth0
	stamping
	ls -d /sys/module/tcp_swift /sys/fs/bpf/tcp_swift/* 2>/dev/null
}
# What the NIC stamps, as its driver says: flags, tx, rx.
stamping() {
	python3 - <<-'PY'
		import array, fcntl, socket, struct
		SIOCGHWTSTAMP = 0x89b1
		config = array.array("B", bytes(12))
		request = struct.pack("16sQ16x", b"eth0", config.buffer_info()[0])
		fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), SIOCGHWTSTAMP, request)
		print("stamping:", *struct.unpack("iii", config.tobytes()))
	PY
}
sysctl -qw net.core.default_qdisc=pfifo_fast
modprobe e1000e && wait_until 30 ip link set eth0 up || exit 1 # a NIC with a clock, of the emulator
snapshot >/tmp/snapshot
files >/tmp/before

# What the page tells a newcomer to type, as it stands there.
folder=/tmp
typed() { inside bash -euc "cd $folder; $(cd "$top" && doc_block "$1" "$2")"; }
folder=/debs/1
ok 'guest: quick start: install' eval 'typed quick-start install < <(yes)'
folder=/tmp
diag "installed after $(cut -d. -f1 /proc/uptime) s"
ok 'guest: dkms has built the module' built_for "$release" 0.1.0
ok 'guest: and started nothing' not inside systemctl is-active swiftd
shows() { typed quick-start "$1" | tee /tmp/shown | grep -Eq "$2"; }
for name in load namespaces choose target server; do
	ok "guest: quick start: $name" typed quick-start $name
done
wait_until 30 eval "inside ip netns exec right ss -Hltn sport = 5201 | grep -q ."
ok 'guest: quick start: client' typed quick-start client
ok 'guest: quick start: flows, with fabric and host delay' wait_until 60 shows flows '10\.77\.0\.2:5201.* sw/sw'
diag "$(cat /tmp/shown)"
ok 'guest: quick start: top' wait_until 60 shows top '10\.77\.0\.0/24'
ok 'guest: quick start: verdict' wait_until 60 shows verdict '10\.77\.0\.0/24'
diag "$(cat /tmp/shown)"
ok 'guest: quick start: back' typed quick-start back
gone() { [ ! -d /sys/module/tcp_swift ] || { inside swiftctl disable; inside rmmod tcp_swift; }; } # as the page says
ok 'guest: quick start: the module goes' wait_until 60 gone
snapshot >/tmp/after
ok 'guest: quick start: all is as it was' diff /tmp/snapshot /tmp/after

ok 'guest: quick start: dry-run' typed quick-start dry-run
snapshot >/tmp/after
ok 'guest: quick start: a dry run changes nothing' diff /tmp/snapshot /tmp/after
doctor() { typed quick-start doctor >/tmp/shown || [ $? = 1 ]; } # 1: a finding is a failure, here that nothing is loaded
ok 'guest: quick start: doctor' eval 'doctor && grep -q "^fail *module" /tmp/shown'
ok 'guest: quick start: enable' typed quick-start enable
ok 'guest: quick start: Swift is the default, fq the discipline' eval '[ "$(sysctl -n net.ipv4.tcp_congestion_control)" = swift ] &&
	tc qdisc show dev eth0 | grep -q "^qdisc fq "'
ok 'guest: quick start: doctor finds no failure now' typed quick-start doctor
ok 'guest: quick start: disable' typed quick-start disable
snapshot >/tmp/after
ok 'guest: quick start: all is as it was, once more' diff /tmp/snapshot /tmp/after

ok 'guest: enable' inside swiftctl enable --echo --iface eth0 --set max_rtt_ns=1000000000
ok 'guest: the module is that of DKMS' eval 'inside modinfo -F filename tcp_swift | grep -q /updates/dkms/'
ok 'guest: it is the default' test "$(sysctl -n net.ipv4.tcp_congestion_control)" = swift

for ns in a b; do
	ip netns add $ns
	ip -n $ns link set lo up
done
ip -n a link add eth0 type veth peer name eth0 netns b
ip -n a addr add 10.9.0.1/24 dev eth0
ip -n b addr add 10.9.0.2/24 dev eth0
for ns in a b; do
	ip -n $ns link set eth0 up
	ip netns exec $ns sysctl -qw net.ipv4.tcp_congestion_control=swift net.ipv4.tcp_swift.echo=1 \
		net.ipv4.tcp_swift.max_rtt_ns=1000000000
done
ip netns exec b iperf3 -s -1 >/dev/null 2>&1 &
server=$!
wait_until 30 eval 'ip netns exec b ss -Hltn sport = 5201 | grep -q .'
ip netns exec a iperf3 -c 10.9.0.2 -t 1000 -b 20M >/dev/null 2>&1 &
client=$!
flow() {
	ip netns exec a chroot $new /usr/sbin/swiftctl flows --json |
		jq -e '.flows | map(select(.cc == "swift" and .fabric_ns > 0)) | length >= 1'
}
ok 'guest: swiftctl flows shows the flow and its fabric delay' wait_until 60 flow
ok 'guest: a variant loads from where the package put it' inside swiftctl bpf load bpf_timely
ok 'guest: and another' inside swiftctl bpf load bpf_swift --set max_rtt_ns=1000000000

ok 'guest: the service starts' inside systemctl start swiftd
active() { inside systemctl is-active swiftd; }
pid_of() { inside systemctl show --value -p MainPID swiftd; }
metrics() { inside curl -sf http://127.0.0.1:9464/metrics; }
ok 'guest: it says it is ready, and serves' eval 'active && metrics | grep -q ^swift'
ok 'guest: systemd calls its exposure OK' inside systemd-analyze security --threshold=30 swiftd.service
was=$(pid_of)
sed -i 's/^interval_s = .*/interval_s = 0.5/' $new/etc/swiftd.toml
ok 'guest: it reloads' eval 'inside systemctl reload swiftd && active && [ "$(pid_of)" = "$was" ]'
ok 'guest: and has the new value' wait_until 60 eval 'inside curl -sf http://127.0.0.1:9464/api/v1/config |
	jq -e ".options[] | select(.name == \"collect.interval_s\") | .value == 0.5"'
inside kill -KILL "$was"
ok 'guest: killed, it comes again' wait_until 60 eval 'active && p=$(pid_of) && [ "$p" != 0 ] && [ "$p" != "$was" ] && metrics'
was=$(pid_of)

ok 'guest: upgrade of the tools, meanwhile' inside sh -c 'dpkg -i --force-confold /debs/2/swift-tools_*.deb'
ok 'guest: the flow goes on' flow
ok 'guest: swift is the default as before' test "$(sysctl -n net.ipv4.tcp_congestion_control)" = swift
ok 'guest: swiftd was restarted' eval '[ "$(pid_of)" != "$was" ]'
ok 'guest: it serves' wait_until 60 metrics

# --- Tuned: the module here and in another namespace, a variant; and the way back ----------------------

# Far from any path, so that it is not what was there: the way back has to be taken.
tune() { inside swiftctl tune --apply --min-us 5000 --max-us 1000000 --learn 2 --interval 0.5 --duration 1 "$@"; }
stream() { # PORT ARG...; over loopback, of the namespace where it is run
	local port=$1
	shift
	"${there[@]}" iperf3 -s -p "$port" >/dev/null 2>&1 &
	streams+=" $!"
	wait_until 30 eval '"${there[@]}" ss -Hltn sport = '"$port"' | grep -q .' || return
	"${there[@]}" iperf3 -c 127.0.0.1 -p "$port" -t 1000 -b 20M "$@" >/dev/null 2>&1 &
	streams+=" $!"
}
targets() { # [COMMAND...], that enters a namespace
	"$@" sysctl net.ipv4.tcp_swift.target_policy net.ipv4.tcp_swift.base_target_ns net.ipv4.tcp_swift.hop_target_ns
}
variant() { inside swiftctl bpf get bpf_swift --json | jq -S .; }
streams=''
inside ip netns add tuned
other=(inside ip netns exec tuned)
"${other[@]}" ip link set lo up
"${other[@]}" sysctl -qw net.ipv4.tcp_congestion_control=swift net.ipv4.tcp_swift.max_rtt_ns=1000000000
targets >/tmp/targets
targets "${other[@]}" >/tmp/targets-other
variant >/tmp/variant

there=()
stream 5202
stream 5203 -C bpf_swift
there=("${other[@]}")
stream 5204
ok 'guest: tune' wait_until 60 tune
ok 'guest: the target is another' not eval 'targets | diff /tmp/targets -'
ok 'guest: tune another namespace' wait_until 60 tune --netns tuned
ok 'guest: its target is another' not eval 'targets "${other[@]}" | diff /tmp/targets-other -'
ok 'guest: tune a variant' wait_until 60 tune --bpf bpf_swift
ok 'guest: and one destination of it' wait_until 60 tune --bpf bpf_swift --dst 127.0.0.0/8
ok 'guest: its targets are others' not eval 'variant | diff /tmp/variant -'
records() { inside ls /var/lib/tcp_swift | grep -c '^tune-.*\.json$'; }
ok 'guest: four targets are tuned' test "$(records)" = 4
ok 'guest: undo says what it would do' eval 'inside /usr/lib/tcp_swift/undo --dry-run >/tmp/shown && [ "$(records)" = 4 ]'
ok 'guest: with each variant, and the settings' eval 'grep -qx "swiftctl tune --undo --bpf bpf_swift --dst 127.0.0.0/8" /tmp/shown &&
	grep -qx "swiftctl bpf unload bpf_timely" /tmp/shown && grep -qx "swiftctl disable" /tmp/shown'
ok 'guest: undo of the targets' inside /usr/lib/tcp_swift/undo targets
undone() {
	targets | diff /tmp/targets - && targets "${other[@]}" | diff /tmp/targets-other - && [ "$(records)" = 0 ] &&
		# A destination's own values stay, as those of all.
		diff <(jq .tunables /tmp/variant) <(variant | jq .tunables)
}
ok 'guest: all targets are as before' undone
ok 'guest: tune, for the removal' wait_until 60 tune
ok 'guest: tune a variant, for the removal' wait_until 60 tune --bpf bpf_swift

# A feeder of the NIC's clock that is killed leaves its stamping on.
feeder=$(inside sh -c 'swiftctl clock run --iface eth0 >/dev/null 2>&1 & echo $!')
ok "guest: the NIC's clock is fed" wait_until 30 eval '[ "$(stamping)" = "stamping: 0 1 1" ]'
inside kill -KILL "$feeder"
ok 'guest: its feeder was killed: the NIC stamps on' eval '[ "$(stamping)" = "stamping: 0 1 1" ]'

# Ended at once, as the page does: what closes without its peer tries for minutes.
for ns in b a; do ip netns exec $ns ss -Kt; done >/dev/null
{ ss -Kt; "${other[@]}" ss -Kt; } >/dev/null
inside sh -c 'ip netns pids tuned | xargs -r kill'
# shellcheck disable=SC2086 # ids
{
	kill $client $server $streams
	wait $client $server $streams
} 2>/dev/null
ip netns del a
ip netns del b
inside ip netns del tuned
unused() { [ "$(cat /sys/module/tcp_swift/refcnt)" -le 2 ]; } # but for the default, and swiftd's port
ok 'guest: the flows end' wait_until 60 unused
ok 'guest: variants are there' test "$(grep -oE 'bpf_(swift|timely)' /proc/sys/net/ipv4/tcp_available_congestion_control | wc -l)" = 2
purge() { typed quick-start purge < <(yes) 2>&1 | tee /tmp/shown; }
ok 'guest: quick start: purge' purge
tr '\r' '\n' </tmp/shown | sed '/^$/d; /(Reading database/d; s/^/# /'
ok 'guest: the target was put back' grep -q "^net.ipv4.tcp_swift: target_policy=$(awk 'NR == 1 { print $3 }' /tmp/targets) base_target_ns=$(
	awk 'NR == 2 { print $3 }' /tmp/targets) .*, as before" /tmp/shown
ok "guest: and the variant's" grep -q '^bpf_swift: target_policy=.*, as before' /tmp/shown
ok 'guest: all went well' not grep -E 'could not|stays? |^undo:' /tmp/shown
ok 'guest: swiftd has ended' not metrics
ok 'guest: the variants are gone' eval '! grep bpf_ /proc/sys/net/ipv4/tcp_available_congestion_control'
snapshot >/tmp/after
ok 'guest: sysctls, qdiscs and stamping are as before, module and programs are gone' diff /tmp/snapshot /tmp/after
ok 'guest: no state is left' eval '! inside ls -d /run/tcp_swift /var/lib/tcp_swift'
ok 'guest: no file is left' eval 'files | diff /tmp/before -'
finish
