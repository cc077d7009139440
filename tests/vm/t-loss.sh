# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# Loss, reordering, outages: the reactions of Algorithm 1, and that data gets through.

ok 'loss: the module loads' swift_load
topo_routed 1
wires r1
patient_hosts h1 h2
in_ns h1 ping -qc 3 -i 0.05 "$h2_ip4" >/dev/null

link_shape r1 right 50mbit 1ms 1000 loss 1%
cuts=$(counter h1 decreases_loss)
iperf_server h2 -1
rate=$(transfer h1 "$h2_ip4" 3)
ok 'loss: 1 % lost: cuts are counted' counts h1 decreases_loss -gt "$cuts"
ok 'loss: 1 % lost: data flows' test "${rate:-0}" -gt 1000000
wait

link_shape r1 right 50mbit 2ms 1000 reorder 75% 50%
iperf_server h2 -1
rate=$(transfer h1 "$h2_ip4" 3)
ok 'loss: reordered: data flows' test "${rate:-0}" -gt 1000000
ok 'loss: reordered: spurious cuts are undone' counts h1 undos -gt 0
wait

# An outage: timeouts after 0.2, 0.4, 0.8 s, the third resets the window.
link_shape r1 right 50mbit 1ms 1000
iperf_server h2 -1
ip netns exec h1 iperf3 -c "$h2_ip4" -t 3600 >/dev/null &
client=$!
wait_until 10 counts h1 flows -ge 2
sleep 1
timeouts=$(counter h1 decreases_timeout)
link_shape r1 right 50mbit 1ms 1000 loss 100%
ok 'loss: an outage: timeouts are counted' wait_until 10 counts h1 decreases_timeout -gt "$timeouts"
ok 'loss: an outage: the third in a row resets the window' wait_until 10 counts h1 window_resets -ge 1
at_minimum() { in_ns h1 "$swiftctl" flows --json | jq -e '.flows | max_by(.bytes_acked) | .fcwnd < 0.01'; }
ok 'loss: an outage: to min_cwnd' wait_until 5 at_minimum
acked() { in_ns h1 "$swiftctl" flows --json | jq '[.flows[].bytes_acked] | max'; }
was=$(acked)
again() { [ "$(acked)" -gt $((was + 100000)) ]; }
link_shape r1 right 50mbit 1ms 1000
ok 'loss: an outage: and after it data flows again' wait_until 30 again
kill $client
wait
ok 'loss: nobody is left behind' wait_until 30 counts h1 flows -eq 0
