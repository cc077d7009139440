# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034
# swiftctl probe on a stock kernel, through a router that delays: what counts as fabric and
# what as host, software stamps, loss, errors. The module is not needed.

probe_in() { ip netns exec "$1" timeout $patience "$swiftctl" probe "${@:2}"; }
responding() { in_ns "$1" ss -Hlun "sport = :$2" | grep -q .; }
responder() { # NS [ARG...]; its id in $responder
	local ns=$1
	shift
	ip netns exec "$ns" "$swiftctl" probe --respond "$@" >"$work/responder-$ns.log" 2>&1 &
	responder=$!
	wait_until 10 responding "$ns" 21335
}
delays() { # ROUTER-MS PROBER-MS RESPONDER-MS, each way of the router
	tc -n r1 qdisc replace dev left root netem delay "$1ms" limit 1000 &&
		tc -n r1 qdisc replace dev right root netem delay "$1ms" limit 1000 &&
		tc -n h1 qdisc replace dev right root netem delay "$2ms" limit 1000 &&
		tc -n h2 qdisc replace dev left root netem delay "$3ms" limit 1000
}
# What the last JSON says, in a jq condition.
says() { jq -e "$1" "$work/probe.json" || { jq -c . "$work/probe.json"; return 1; }; }
# NS STATUS ARG...: the exit status, with the JSON kept.
measures() {
	local ns=$1 want=$2 status
	shift 2
	probe_in "$ns" --json "$@" >"$work/probe.json"
	status=$?
	[ $status = "$want" ] || { echo "exit status $status, wanted $want"; return 1; }
}
one_line_and() { # STATUS WORDS ARG...
	local want=$1 words=$2 said status
	shift 2
	said=$(probe_in h1 "$@" 2>&1 >/dev/null)
	status=$?
	echo "exit status $status: $said"
	[ $status = "$want" ] && [ "$(wc -l <<<"$said")" = 1 ] && [[ $said == *"$words"* ]]
}

topo_routed 1
ok 'probe: the responder starts, on both families' responder h2
in_ns h1 ping -qc 1 "$h2_ip4" >/dev/null
in_ns h1 ping -qc 1 "$h2_ip6" >/dev/null

# A delay is counted where it is. The smallest of many: an emulated machine adds its own.
delays 5 0 0
ok 'probe: 10 ms in the router' measures h1 0 "$h2_ip4" "$h2_ip6" --count 100 --interval 5
ok 'probe: are the fabric, over IPv4' says '.targets[0].fabric_rtt_ns | .n >= 95 and .min >= 10000000 and .min < 14000000'
ok 'probe: and over IPv6' says '.targets[1].fabric_rtt_ns | .n >= 95 and .min >= 10000000 and .min < 14000000'
ok 'probe: and no host' says 'all(.targets[]; .local_tx_qdisc_ns.min < 1000000 and .remote_turnaround_ns.min < 3000000)'
ok 'probe: software stamps are named' says 'all(.targets[]; .stamps == {local: "sw", remote: "sw", tx: "sw", rx: "sw"})'
ok 'probe: nothing is lost or left over' says 'all(.targets[]; .sent == 100 and .lost == 0 and .in_flight == 0 and .implausible == 0)'
delays 0 4 0
ok 'probe: 4 ms in the qdisc here' measures h1 0 "$h2_ip4" --count 100 --interval 5
ok 'probe: are the qdisc' says '.targets[0].local_tx_qdisc_ns | .min >= 4000000 and .min < 7000000'
ok 'probe: and not the fabric' says '.targets[0].fabric_rtt_ns.min < 3000000'
delays 0 0 4
ok 'probe: 4 ms in the qdisc there' measures h1 0 "$h2_ip6" --count 100 --interval 5
ok 'probe: are the turnaround' says '.targets[0].remote_turnaround_ns | .min >= 4000000 and .min < 8000000'
ok 'probe: and not the fabric' says '.targets[0].fabric_rtt_ns.min < 3000000'
delays 1 0 0

tc -n r1 qdisc replace dev right root netem loss 30% limit 1000
ok 'probe: 30 % loss' measures h1 0 "$h2_ip4" --count 200 --interval 2 --timeout 200
ok 'probe: is counted' says '.targets[0] | .lost > 20 and .lost < 110 and .sent == 200'
ok 'probe: and the turnarounds of the rest arrive' says '.targets[0] | .fabric_rtt_ns.n >= 0.9 * (.sent - .lost)'
tc -n r1 qdisc replace dev right root netem duplicate 100% limit 1000
ok 'probe: packets that come twice' measures h1 0 "$h2_ip4" --count 50 --interval 5
ok 'probe: count once' says '.targets[0] | .sent == 50 and .lost == 0 and .duplicates > 25'
delays 0 0 0

printf '# the rack\n%s\n[%s]:21335 # over IPv6\n' "$h2_ip4" "$h2_ip6" >"$work/targets"
ok 'probe: a file of targets' measures h1 0 --targets "$work/targets" --count 20 --interval 5 --size 1400 --dscp 46
ok 'probe: has both' says '[.targets[].sent] == [20, 20] and .size_bytes == 1400 and .dscp == 46'
in_ns h1 tc qdisc replace dev right clsact
in_ns h1 tc filter add dev right ingress protocol ip u32 match ip tos 0xb8 0xfc action pass
ok 'probe: the reply has the class of the probe' eval 'probe_in h1 "$h2_ip4" --count 10 --interval 5 --dscp 46 >/dev/null &&
	in_ns h1 tc -s filter show dev right ingress | grep -q "Sent [1-9]"'

printf '%s\nhost:99999\n' "$h2_ip4" >"$work/targets"
ok 'probe: a wrong line of the file has its number' one_line_and 2 "$work/targets:2: port of host: '99999'" --targets "$work/targets"
ok 'probe: a port that nobody listens on' one_line_and 1 "no reply from $h2_ip4:9" "$h2_ip4:9" --count 3 --interval 5 --timeout 50
ok 'probe: is named in the JSON' eval 'measures h1 1 "$h2_ip4:9" --count 3 --interval 5 --timeout 50 && says ".targets[0].error | test(\"nobody listens\")"'
ok 'probe: no such host' one_line_and 1 "cannot look up 'no.such.invalid'" no.such.invalid
ok 'probe: no such interface' one_line_and 1 "no such interface: 'nowhere0'" "$h2_ip4" --iface nowhere0
ok 'probe: --stamp on a device that cannot' one_line_and 1 'right cannot stamp' "$h2_ip4" --iface right --stamp
ok 'probe: a second responder on the port' eval 'said=$(probe_in h2 --respond 2>&1); [ $? = 1 ] && [[ $said == *"Address already in use"* ]]'

# The responder says what it refuses, and answers nobody with more than was sent.
in_ns h1 python3 -ISc '
import socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(1)
to = (sys.argv[1], 21335)
head = struct.pack(">4sBBBBQII", b"SwPr", 1, 1, 0, 0, 7, 0, 0)
for bad in (b"", b"x" * 72, head, head[:5] + b"\2" + head[6:] + bytes(48), head[:4] + b"\2" + head[5:] + bytes(48)):
    s.sendto(bad, to)
for size in (72, 73, 1000):
    s.sendto(head + bytes(size - 24), to)
    answer = s.recv(2000)
    assert len(answer) == size and answer[5] == 2, (size, len(answer))
try:
    s.recv(2000)
    sys.exit("one answer too many")
except TimeoutError:
    pass
' "$h2_ip4" >"$work/python.log" 2>&1
asked=$?
ok 'probe: an answer is as long as the question, rubbish gets none' eval 'cat "$work/python.log"; [ $asked = 0 ]'
refused() { cat "$work/responder-h2.log"; local why; for why in 'not a probe' 'too short' 'of another version' 'of an unexpected type'; do grep -q "refused:.* $why" "$work/responder-h2.log" || return; done; }
ok 'probe: the responder tells of it' wait_until 5 refused

# Ends, of the prober and of the responder.
# (A background job ignores SIGINT; and in_ns would be a shell around it.)
ip netns exec h1 "$swiftctl" probe "$h2_ip4" --json --watch 0.5 >"$work/probe.json" &
watching=$!
ok 'probe: --watch prints object after object' wait_until 20 eval '[ "$(wc -l <"$work/probe.json")" -ge 3 ]'
kill -TERM $responder
wait $responder
ok 'probe: the responder ends in peace' test $? = 0
ok 'probe: and says what it did' grep -q '^answered [1-9][0-9]* probes, refused 5$' "$work/responder-h2.log"
all_lost() { tail -n 1 "$work/probe.json" | jq -e '.targets[0] | .sent > 5 and .lost == .sent'; }
ok 'probe: then all is lost' wait_until 20 all_lost
kill -TERM $watching
wait $watching
ok 'probe: a target that did answer is status 0' test $? = 0
ok 'probe: every line is JSON' eval 'jq -e .schema "$work/probe.json" >/dev/null'

udp_received() { in_ns h2 awk '$1 == "Udp:" && $2 ~ /^[0-9]/ { print $2 }' /proc/net/snmp; }
half_way() { test "$(udp_received)" -gt $((before + 30)); }
ok 'probe: a responder again' responder h2
before=$(udp_received)
probe_in h1 --json "$h2_ip4" --count 400 --interval 5 --timeout 300 >"$work/probe.json" &
probing=$!
ok 'probe: in the middle of a run' wait_until 20 half_way
kill -KILL $responder
wait $responder 2>/dev/null
wait $probing
ok 'probe: it dies, and the run goes on' test $? = 0
ok 'probe: costs the rest' says '.targets[0] | .sent == 400 and .lost > 20 and .lost < 400 and .fabric_rtt_ns.n > 10'
ok 'probe: unprivileged on both sides' eval '
	ip netns exec h2 setpriv --reuid 65534 --clear-groups "$swiftctl" probe --respond --bind "$h2_ip4" >/dev/null 2>&1 & responder=$!
	wait_until 10 responding h2 21335 &&
	ip netns exec h1 setpriv --reuid 65534 --clear-groups timeout $patience "$swiftctl" probe "$h2_ip4" --count 10 --interval 5'
kill $responder
wait $responder 2>/dev/null

# swiftd's probes, always on and signed. One queue, that of the router's end towards h1: for the router itself it
# is a host's, for h2 behind it the network's. The same list on all of them, themselves in it.
swiftd=${SWIFTD:-$top/out/build/userspace/swiftd}
swiftds=()
printf '10.0.0.1 rack-1\n10.0.0.2 rack-r\n%s rack-2\n' "$h2_ip4" >"$work/peers"
echo '0123456789abcdef0123' >"$work/key"
echo 'another-key-of-ours!' >"$work/wrong-key"
mesh_of() { # NS; its swiftd, with a page
	cat >"$work/swiftd-$1.toml" <<-TOML
		[http]
		listen = ["127.0.0.1:9464"]
		[collect]
		interval_s = 60
		netns = "own"
		[probe]
		listen = ["0.0.0.0:21335"]
		peers_file = "$work/peers"
		key_file = "$work/key"
		rate_pps = 20
		sample = 2
		timeout_ms = 2000
		window_s = 10
		fabric_limit_us = 20000
		host_limit_us = 20000
	TOML
	ip netns exec "$1" "$swiftd" --config "$work/swiftd-$1.toml" 2>"$work/swiftd-$1.log" &
	swiftds+=($!)
	wait_until 30 responding "$1" 21335 || { cat "$work/swiftd-$1.log"; return 1; }
}
mesh_says() { # FILTER; of h1's page
	in_ns h1 curl -sS -f -m 20 http://127.0.0.1:9464/api/v1/probes >"$work/probes.json" && jq -e "$1" "$work/probes.json" >/dev/null
}
# To ask costs an emulated machine more than to wait.
mesh_says_or_later() { mesh_says "$1" || ! sleep 0.5; }
mesh_becomes() { # FILTER
	wait_until 60 mesh_says_or_later "$1" && return
	jq -c . "$work/probes.json"
	tail -n 5 "$work/swiftd-h1.log"
	return 1
}
for ns in h2 r1 h1; do ok "probe: swiftd in $ns" mesh_of $ns; done
ok 'probe: it knows its own rack, and does not probe itself' mesh_becomes '.rack == "rack-1" and .signed and .total == 2'
ok 'probe: nobody is slow' mesh_becomes 'all(.pairs[]; .verdict.state == "good")'
tc -n r1 qdisc replace dev left root netem delay 60ms limit 1000
ok 'probe: the queue is the network for who is behind it, the host for whose it is' mesh_becomes \
	'[.pairs[] | {(.peer_rack): [.verdict.state, .verdict.limit]}] | add == {"rack-2": ["slow", "fabric"], "rack-r": ["slow", "host"]}'
ok 'probe: and the delay is about that' mesh_becomes 'all(.pairs[]; if .peer_rack == "rack-2" then .fabric_ns.p50 else .remote_host_ns.p50 end | . >= 60000000 and . < 80000000)'
ok 'probe: in words' eval 'jq -r ".pairs[].verdict.text" "$work/probes.json" | sort >"$work/said"; cat "$work/said"
	grep -q "^fabric-bound: the path to rack rack-2 takes 6.* ms (more than 20.0 ms)" "$work/said" && grep -q "^host-bound: hosts in rack rack-r add 6.* ms" "$work/said"'
tc -n r1 qdisc replace dev left root netem delay 0ms limit 1000
ok 'probe: swiftctl is answered with the key' eval 'measures h1 0 "$h2_ip4" --key-file "$work/key" --count 10 --interval 5 && says ".targets[0].lost == 0 and .size_bytes == 112"'
ok 'probe: not with another' eval 'measures h1 1 "$h2_ip4" --key-file "$work/wrong-key" --count 5 --interval 5 --timeout 200'
ok 'probe: nor without' eval 'measures h1 1 "$h2_ip4" --count 5 --interval 5 --timeout 200'
refused_by_key() {
	in_ns h2 curl -sS -f -m 20 http://127.0.0.1:9464/api/v1/probes >"$work/refused.json"
	jq -e '.refused | .signature == 5 and .unsigned == 5 and .replay == 0 and .time == 0' "$work/refused.json" || { jq -c .refused "$work/refused.json"; return 1; }
}
ok 'probe: which are counted' wait_until 10 refused_by_key
ok 'probe: and said' grep -Eq 'probe: not answered: [1-5] (not signed|signed by another key)' "$work/swiftd-h2.log"
kill "${swiftds[0]}"
wait "${swiftds[0]}"
ok 'probe: a swiftd that leaves does so in peace' test $? = 0
ok 'probe: and is silent then' mesh_becomes 'any(.pairs[]; .peer_rack == "rack-2" and .verdict.state == "silent")'
kill "${swiftds[@]:1}"
wait "${swiftds[@]:1}"
