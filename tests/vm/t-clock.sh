# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# NIC clocks: the netlink interface, and hardware stamps, of a NIC that nic/stampnic.c makes
# of a veth. What takes a socket is in clock.py, by the names below.

clock() { case_of "$@"; }
clock_beside() { exec timeout $patience /usr/bin/python3 -IS "$here/clock.py" "$@"; } # in the background
cases_of "$here/clock.py"
nic=/sys/module/stampnic/parameters

ok 'clock: the module loads' swift_load
modprobe -a dummy 8021q bridge bonding
stampnic=$top/out/kmod/$(uname -r)/stampnic/stampnic.ko
[ -e "$stampnic" ] || { echo "Bail out! no $stampnic: run tests/vm/nic/build"; exit 1; }
ok 'clock: there is a NIC that stamps' insmod "$stampnic"
topo_pair

ok 'clock: what is set can be read' clock set_and_get
ok 'clock: what is wrong is refused, with its name, and nothing changes' clock refusals
ok 'clock: who may' clock rights
ok 'clock: a line is its sender'\''s while it is valid' clock ownership
ok 'clock: a dump has all of this namespace, in order' clock dump
ok 'clock: a line goes with its device' clock devices_go

swift_hosts h1 h2
# Delays are to be told apart from an emulated machine's, and no window is to fall for them.
swift_set h1 base_target_ns=500000000 endpoint_target_ns=500000000
link_shape h1 right 1gbit 20ms 1000
# With GRO veth has NAPIs, as a NIC; it takes that way for what a peer without TSO sends.
in_ns h1 ethtool -K right gro on tso off
in_ns h2 ethtool -K left gro on tso off
in_ns h1 sh -c "echo right >$nic/attach"
in_ns h2 sh -c "echo left >$nic/attach"
in_ns h1 ping -qc 3 -i 0.05 "$h2_ip4" >/dev/null

ok 'clock: no hardware stamps: the software'\''s' clock without_stamps
ok 'clock: no line: the software'\''s, and counted' clock without_clock
ok 'clock: hardware stamps by a line' clock hardware
ok 'clock: stamps that the driver understands' clock hardware_of_driver
ok 'clock: a line at one end' clock one_end
ok 'clock: steps of the clock' clock steps
ok 'clock: in the future within the error' clock within_error
ok 'clock: stale, set again, deleted' clock stale
ok 'clock: the wall clock is set meanwhile' clock wall_clock

for end in h1:right:1 h2:left:2; do
	IFS=: read -r ns dev host <<<"$end"
	ip -n $ns link add link $dev name $dev.10 type vlan id 10
	ip -n $ns addr add 10.1.0.$host/24 dev $dev.10
	ip -n $ns link set $dev.10 up
done
in_ns h1 ping -qc 3 -i 0.05 10.1.0.2 >/dev/null
ok 'clock: through a VLAN' clock above 10.1.0.2
ok 'clock: NAPIs come anew' clock napi_anew
ip -n h1 addr add 10.2.0.1/24 dev right
ip -n h2 link add br0 type bridge
ip -n h2 link set left master br0
ip -n h2 addr add 10.2.0.2/24 dev br0
ip -n h2 link set br0 up
wait_until 10 in_ns h1 ping -qc 1 -W 1 10.2.0.2 >/dev/null
ok 'clock: through a bridge' clock above 10.2.0.2
ip -n h2 link del br0
ip -n h1 addr add 10.3.0.1/24 dev right
ip -n h2 link add bond0 type bond mode active-backup
ip -n h2 link set left down
ip -n h2 link set left master bond0
ip -n h2 addr add 10.3.0.2/24 dev bond0
ip -n h2 link set bond0 up
wait_until 10 in_ns h1 ping -qc 1 -W 1 10.3.0.2 >/dev/null
ok 'clock: through a bond' clock above 10.3.0.2
ip -n h2 link del bond0
ip -n h2 addr replace 10.0.0.2/24 dev left
ip -n h2 link set left up

in_ns h1 ethtool -K right gro off
in_ns h2 ethtool -K left gro off
in_ns h1 ping -qc 3 -i 0.05 "$h2_ip4" >/dev/null
ok 'clock: a device without NAPI' clock hardware
ok 'clock: a driver'\''s stamp without NAPI is not used' clock driver_without_napi

# Wrong messages beside a flow.
iperf_server h2 -1
ip netns exec h1 iperf3 -c "$h2_ip4" -t 3600 -b 20M >/dev/null &
client=$!
acked() { in_ns h1 ss -Htin state established dport = :5201 | grep -o 'bytes_acked:[0-9]*' | cut -d: -f2 | sort -n | tail -1; }
under_way() { [ "$(acked)" -gt 1000000 ]; }
wait_until 30 under_way
before=$(acked)
ok 'clock: 20000 wrong messages' clock fuzz
after=$(acked)
moves_on() { [ "$(acked)" -gt $((after + 1000000)) ]; }
ok 'clock: a flow beside them lives' test "${after:-0}" -gt "${before:-0}"
ok 'clock: and moves on' wait_until 30 moves_on
ends $client

# Devices, namespaces and the module come and go while lines are set.
in_ns h1 sysctl -qw net.ipv4.tcp_congestion_control=cubic
in_ns h2 sysctl -qw net.ipv4.tcp_congestion_control=cubic
clock_beside races 3 >"$work/races" 2>&1 &
races=$!
wait_until 20 ip netns exec race true 2>/dev/null
come_and_go() {
	local i
	for ((i = 0; i < 100; i++)); do
		kill -0 $races 2>/dev/null || return 0
		ip -n race link add r$i type dummy && ip -n race link add q$i type dummy || return
		ip -n race link set r$i netns h1 && ip -n h1 link del r$i || return
		ip -n race link del q$i || return
		[ $((i % 5)) != 4 ] || { wait_until 10 swift_unload && swift_load; } || return
	done
}
ok 'clock: devices, and the module, come and go meanwhile' come_and_go
ok 'clock: and lines are set' wait $races
diag "$(cat "$work/races")"
clock_beside hold >"$work/hold" &
wait_until 20 grep -q holding "$work/hold"
ok 'clock: the module unloads with lines set and their sender there' wait_until 10 swift_unload
ok 'clock: and loads' swift_load
cleanup_namespaces
rmmod stampnic
