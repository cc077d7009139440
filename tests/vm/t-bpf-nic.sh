# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# The BPF variants at the NIC: the class of what they send, and hardware receive stamps, of a
# NIC that nic/stampnic.c makes of a veth (as t-clock.sh has them for the module).

# shellcheck source-path=SCRIPTDIR source=../bpf/lib.sh
. "$top/tests/bpf/lib.sh"
ok 'bpf: a cgroup' bpf_enter_cgroup
topo_routed 1
wires r1
in_ns h1 ping -qc 3 -i 0.05 "$h2_ip4" >/dev/null
for cc in bpf_swift_v0 bpf_timely bpf_gcn; do
	ok "bpf: $cc is registered" bpf_load $cc
	bpf_test_dscp $cc brief
	bpf_unload
done
ok 'bpf: bpf_swift is registered' bpf_load bpf_swift max_rtt_ns=1000000000 target_policy=0 \
	base_target_ns=500000000 endpoint_target_ns=500000000
bpf_test_dscp bpf_swift

nic=/sys/module/stampnic/parameters
nic_offset=1700000000000000000
nic_hour=3600000000000
cookie() { # NS: SO_NETNS_COOKIE
	in_ns "$1" python3 -ISc 'import socket; print(int.from_bytes(socket.socket().getsockopt(1, 71, 8), "little"))'
}
nic_line() { # NS DEV VALID-MS: told to the programs
	bpf_say clock "$(cookie "$1")" "$(in_ns "$1" cat "/sys/class/net/$2/ifindex")" $nic_offset 5000 2000 "$3"
}
stamps_of() { # KIND; as counted
	bpf_say stamps && awk -v kind="$1" '$1 == kind { n = $2 } END { print n }' "$work/loader.out"
}
stamps_rise() { # KIND: by 50 from here on
	local kind=$1 from
	from=$(stamps_of "$kind")
	risen() { [ "$(stamps_of "$kind")" -gt $((from + 50)) ]; }
	wait_until 60 risen
}
nic_lines() {
	nic_line h1 right 60000 && nic_line h2 left 60000
}
# The sender's ACKs have stamps of that source, and its echoes: 1 software, 2 hardware.
stamps_are() { # LOCAL REMOTE [CONDITION]
	wait_until 60 bpf_flow_with "samples > 50 && local_source == $1 && remote_source == $2 ${3:+&& $3}"
}
# An ACK is not older than what it answers, and the stamps are 3 ms early.
link_shape r1 right 50mbit 5ms 1000 && link_shape r1 left 50mbit 5ms 1000
stampnic=$top/out/kmod/$(uname -r)/stampnic/stampnic.ko
ok 'bpf: there is a NIC that stamps' insmod "$stampnic"
echo $nic_offset >$nic/offset_ns
echo 5000 >$nic/ppm
echo 3000000 >$nic/early_ns
in_ns h1 sh -c "echo right >$nic/attach"
in_ns h2 sh -c "echo left >$nic/attach"
# Another, with NAPIs (veth has them with GRO, and takes that way for what a peer without TSO
# sends), below a VLAN.
modprobe 8021q
ip link add nap netns h1 type veth peer name nap netns h2
for host in 1 2; do
	in_ns h$host ethtool -K nap gro on tso off
	ip -n h$host link set nap up
	ip -n h$host link add link nap name nap.10 type vlan id 10
	ip -n h$host addr add 10.1.10.$host/24 dev nap.10
	ip -n h$host link set nap.10 up
	link_shape h$host nap 50mbit 5ms 1000
done
in_ns h2 sh -c "echo nap >$nic/attach"
in_ns h1 ping -qc 3 -i 0.05 10.1.10.2 >/dev/null
napi=$("$top/tests/bpf/talk" bpf_swift 10.1.10.2)
ok 'bpf: and one with NAPIs' test "$napi" -gt 0
iperf_server h2
ip netns exec h1 iperf3 -c "$h2_ip4" -b 10M -t 3600 >/dev/null &
client=$!
ok 'bpf: no line: software stamps' stamps_are 1 1
ok 'bpf: and they are counted' stamps_rise stamps_no_clock
nic_line h2 left 60000
ok 'bpf: a line at one end' stamps_are 1 2
ok 'bpf: and at the other' nic_lines
ok 'bpf: hardware stamps by lines, of which 0.5 % of a clock matters' eval "sleep 1; stamps_are 2 2 'local_ns >= 2990000 && local_ns < 10000000'"
ok 'bpf: they are counted' stamps_rise stamps_hardware
echo 2 >$nic/form
ok 'bpf: what only the driver understands is not used' stamps_are 1 1
ok 'bpf: it counts as without a clock' stamps_rise stamps_no_clock
nic_lines
echo 1 >$nic/form
ok 'bpf: and times are again' stamps_are 2 2
nic_lines
echo 60000000 >$nic/early_ns
ok 'bpf: an ACK that were older than what it answers' stamps_are 1 2
ok 'bpf: counts as old' stamps_rise stamps_old
nic_lines
echo 3000000 >$nic/early_ns
echo $((nic_offset + nic_hour)) >$nic/offset_ns
ok 'bpf: a clock that was stepped forward' stamps_are 1 1
ok 'bpf: counts as future' stamps_rise stamps_future
nic_lines
echo $((nic_offset - nic_hour)) >$nic/offset_ns
ok 'bpf: and backward, as old' stamps_rise stamps_old
nic_lines
echo $nic_offset >$nic/offset_ns
ok 'bpf: set right' stamps_are 2 2
nic_line h1 right 1
nic_line h2 left 1
ok 'bpf: lines that are no longer valid' stamps_are 1 1
ok 'bpf: are counted' stamps_rise stamps_stale
ends $client
ip netns exec h1 iperf3 -c 10.1.10.2 -b 10M -t 3600 >/dev/null &
client=$!
nic_line h2 nap 60000
ok 'bpf: behind a VLAN the device that a packet came by is not the NIC' stamps_are 1 1
ok 'bpf: which counts as without a clock' stamps_rise stamps_no_clock
nic_line h2 nap 60000
ok 'bpf: the NIC'\''s NAPI is told' bpf_say napi "$napi" "$(cookie h2)" "$(in_ns h2 cat /sys/class/net/nap/ifindex)"
ok 'bpf: and tells the NIC, whose line converts' stamps_are 1 2 'endpoint_ns >= 2990000'
ok 'bpf: which is counted' stamps_rise stamps_hardware
ends $client
echo >$nic/attach
ok 'bpf: the NIC goes' rmmod stampnic
bpf_unload
ok 'bpf: it unloads' wait_until 10 not bpf_names
cleanup_jobs
bpf_leave_cgroup
