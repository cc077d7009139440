#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The packages where they are to work: in a guest, in a Debian 12 root. Install, load, a flow, an
# upgrade meanwhile, remove, purge. Started by tests/packages/run under scripts/vm.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd -P)
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$top/tests/packages/lib.sh"
release=$(uname -r)

mount_root "$cache/$release/tree" || exit 1
# The postinst takes a module that is built already, if it finds one there (dkms(8), mktarball).
mkdir -p $new/usr/share/tcp-swift-dkms
cp "$PACKAGES_DEBS/built.tar.gz" $new/usr/share/tcp-swift-dkms/tcp-swift-0.1.0.dkms.tar.gz || exit 1
files >$new/tmp/before
snapshot() {
	sysctl net.ipv4.tcp_congestion_control net.ipv4.tcp_allowed_congestion_control net.core.default_qdisc
	tc qdisc show dev real0
	ls -d /sys/module/tcp_swift /sys/fs/bpf/tcp_swift/* /run/tcp_swift 2>/dev/null
}
ip link add real0 numtxqueues 1 type veth peer name real1
ip link set real0 up
ip link set real1 up
sysctl -qw net.core.default_qdisc=pfifo_fast
snapshot >/tmp/snapshot

ok 'guest: install' install_debs 1
diag "installed after $(cut -d. -f1 /proc/uptime) s"
ok 'guest: dkms has built the module' built_for "$release" 0.1.0
ok 'guest: enable' inside swiftctl enable --echo --iface real0 --set max_rtt_ns=1000000000
ok 'guest: the module is that of DKMS' eval 'inside modinfo -F filename tcp_swift | grep -q /updates/dkms/'
ok 'guest: it is the default' test "$(sysctl -n net.ipv4.tcp_congestion_control)" = swift

for ns in a b; do
	ip netns add $ns
	ip -n $ns link set lo up
done
ip link add eth0 netns a type veth peer name eth0 netns b
ip -n a addr add 10.9.0.1/24 dev eth0
ip -n b addr add 10.9.0.2/24 dev eth0
for ns in a b; do
	ip -n $ns link set eth0 up
	ip netns exec $ns sysctl -qw net.ipv4.tcp_congestion_control=swift net.ipv4.tcp_swift.echo=1 \
		net.ipv4.tcp_swift.max_rtt_ns=1000000000
done
ip netns exec b iperf3 -s -1 >/dev/null &
server=$!
wait_until 30 eval 'ip netns exec b ss -Hltn sport = 5201 | grep -q .'
ip netns exec a iperf3 -c 10.9.0.2 -t 300 -b 20M >/dev/null &
client=$!
flow() {
	ip netns exec a chroot $new /usr/sbin/swiftctl flows --json |
		jq -e '.flows | map(select(.cc == "swift" and .fabric_ns > 0)) | length >= 1'
}
ok 'guest: swiftctl flows shows the flow and its fabric delay' wait_until 60 flow
ok 'guest: a variant loads from where the package put it' inside swiftctl bpf load bpf_timely

ok 'guest: upgrade of the tools, meanwhile' inside sh -c 'dpkg -i /debs/2/swift-tools_*.deb'
ok 'guest: the flow goes on' flow
ok 'guest: swift is the default as before' test "$(sysctl -n net.ipv4.tcp_congestion_control)" = swift

kill $client $server 2>/dev/null
wait $client $server 2>/dev/null
ip netns del a
ip netns del b
unused() { [ "$(cat /sys/module/tcp_swift/refcnt)" -le 1 ]; } # but for being the default
ok 'guest: the flow ends' wait_until 60 unused
ok 'guest: remove' inside apt-get -q -y remove swift-tools tcp-swift-dkms
snapshot >/tmp/after
ok 'guest: sysctls and qdiscs are as before, module and programs are gone' eval \
	'diff <(grep -v ^/run /tmp/snapshot) <(grep -v ^/run /tmp/after)'
ok 'guest: purge' inside apt-get -q -y purge swift-tools tcp-swift-dkms
ok 'guest: no state is left' not ls -d $new/run/tcp_swift $new/var/lib/tcp_swift
ok 'guest: no file is left' eval 'files | diff $new/tmp/before -'
finish
