# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# With nothing set: 16 flows, opened in fours into the others' queue, share a link; and, beside
# CUBIC in a class of its own, what they get of it.

ok 'shares: the module loads' swift_load
topo_routed 1
wires r1
for ns in h1 h2; do in_ns $ns sysctl -qw net.ipv4.tcp_congestion_control=swift; done
in_ns h1 ping -qc 3 -i 0.05 "$h2_ip4" >/dev/null
modprobe -a sch_ets cls_flower

tc -n r1 qdisc replace dev right root handle 1: tbf rate 100mbit burst 10kb limit 1mb
ok 'shares: 16 flows run' shares_run swift
shares_show
ok "shares: Jain's index is at least 0.9" shares_jain 0.9
ok 'shares: and the link is full' shares_sum 85
ok 'shares: none of them went to the guard' counts h1 guarded_flows_total -eq 0

# The room of the target is half a millisecond, two packets of 50 Mbit/s: a class that so often
# has none to send when its turn comes gets less than its half of so slow a link.
tc -n r1 qdisc replace dev right parent 1:1 handle 2: ets bands 2 quanta 1514 1514 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
tc -n r1 qdisc replace dev right parent 2:1 pfifo limit 300
tc -n r1 qdisc replace dev right parent 2:2 pfifo limit 300
tc -n r1 filter add dev right parent 2: protocol ip flower ip_proto tcp dst_port 5205 classid 2:2
ok 'shares: 16 flows beside CUBIC in a class of its own' shares_run swift beside
shares_show
ok "shares: Jain's index is at least 0.9, too" shares_jain 0.9
ok 'shares: and CUBIC does not starve them' shares_sum 20
ok 'shares: nobody is left behind' wait_until 60 counts h1 flows -eq 0
