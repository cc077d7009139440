# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What tests inside a guest share: TAP (see scripts/lib/tap.sh), networks of
# namespaces, iperf3. Source it first:  . tests/vm/lib.sh

# shellcheck source-path=SCRIPTDIR source=../../scripts/lib/tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib/tap.sh"

work=$(mktemp -d)
# Seconds for `timeout`, after which a command hangs: long enough for any machine, short enough
# that the test which hangs is named before its suite ends for its silence. On a clock of
# instructions ten minutes go by while the host looks for a file for half a second.
# shellcheck disable=SC2034 # for the test
patience=600
[ -z "${VM_ICOUNT:-}" ] || patience=36000
# Ends background processes and waits until they have ended. iperf3's handler of SIGTERM jumps out of whatever
# it interrupts, which may hold a lock: now and then it waits for that one for ever.
ends() { # PID...
	local pid
	kill "$@" 2>/dev/null
	for pid; do
		wait_until 10 eval "! kill -0 $pid 2>/dev/null" && continue
		diag "killed, as it does not want to end: $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)"
		kill -KILL "$pid"
	done
	wait "$@" 2>/dev/null
}

# Namespaces and background jobs end with the test.
cleanup() {
	local ns
	# shellcheck disable=SC2046 # a list of ids
	ends $(jobs -p)
	for ns in $(ip netns list 2>/dev/null | cut -d' ' -f1); do ip netns del "$ns"; done
	rm -rf "$work"
}
trap cleanup EXIT

# topo_pair:           h1 right ---- left h2
#
# topo_routed 2:       h1 right ---- left r1 right ---- left r2 right ---- left h2
#   link number               0                    1                    2
#
# A device is called by where it leads. On link i the left end is 10.0.i.1 and
# fd00:i::1, the right end 10.0.i.2 and fd00:i::2. h1_ip4, h1_ip6, h2_ip4 and
# h2_ip6 are set to the hosts' addresses.
topo_pair() { topo_routed 0; }

topo_routed() { # ROUTERS
	local routers=$1 nodes=(h1) i link ns
	for ((i = 1; i <= routers; i++)); do nodes+=("r$i"); done
	nodes+=(h2)

	for ns in "${nodes[@]}"; do
		ip netns add "$ns" || return
		# No duplicate address detection: addresses can be used at once.
		in_ns "$ns" sysctl -qw net.ipv6.conf.{all,default}.accept_dad=0 \
			net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 || return
		ip -n "$ns" link set lo up || return
	done
	for ((i = 0; i <= routers; i++)); do
		ip link add right netns "${nodes[i]}" type veth peer name left netns "${nodes[i + 1]}" || return
		topo_address "${nodes[i]}" right "$i" 1 && topo_address "${nodes[i + 1]}" left "$i" 2 || return
	done
	# Node i lies between links i-1 and i: further links on either side go
	# through the neighbour there.
	for ((i = 0; i < ${#nodes[@]}; i++)); do
		for ((link = 0; link <= routers; link++)); do
			if ((link > i)); then
				topo_route "${nodes[i]}" "$link" "$i" 2
			elif ((link < i - 1)); then
				topo_route "${nodes[i]}" "$link" $((i - 1)) 1
			fi || return
		done
	done
	# shellcheck disable=SC2034 # for the test
	h1_ip4=10.0.0.1 h1_ip6=fd00:0::1 h2_ip4=10.0.$routers.2 h2_ip6=fd00:$routers::2
}

topo_address() { # NS DEV LINK END
	ip -n "$1" addr add "10.0.$3.$4/24" dev "$2" &&
		ip -n "$1" addr add "fd00:$3::$4/64" dev "$2" nodad &&
		ip -n "$1" link set "$2" up
}

topo_route() { # NS TO-LINK VIA-LINK VIA-END
	ip -n "$1" route add "10.0.$2.0/24" via "10.0.$3.$4" &&
		ip -n "$1" route add "fd00:$2::/64" via "fd00:$3::$4"
}

# Cases in Python, of one process (cases.py):  cases_of edges.py && ok 'a case' case_of its_name
cases_of() { # FILE
	mkfifo "$work/cases.in" "$work/cases.out" || return
	"$(dirname "${BASH_SOURCE[0]}")/cases.py" "$1" "$work/cases.said" "$patience" \
		<"$work/cases.in" >"$work/cases.out" &
	exec {cases_in}>"$work/cases.in" {cases_out}<"$work/cases.out"
	rm "$work/cases.in" "$work/cases.out"
}

case_of() { # ARGUMENT...
	local status
	: >"$work/cases.said"
	echo "$*" >&"$cases_in"
	read -r status <&"$cases_out" || { echo 'cases.py ended'; return 1; }
	cat "$work/cases.said"
	return "${status#-}"
}

in_ns() { # NS COMMAND [ARG...]
	ip netns exec "$@"
}

# One direction of a link: bandwidth, delay, and a queue of LIMIT packets, which
# counts those under way as well. Further arguments go to netem (loss 1%, ...).
link_shape() { # NS DEV RATE DELAY LIMIT [NETEM-ARG...]
	local ns=$1 dev=$2 rate=$3 delay=$4 limit=$5
	shift 5
	tc -n "$ns" qdisc replace dev "$dev" root netem rate "$rate" delay "$delay" limit "$limit" "$@"
}

# Somebody on the path rewrites the option of pure ACKs (IPv4 20 + TCP 20 + timestamps 12:
# the option is at 52: kind, length, ExID; at 56 flags and hops, at 57 the delay).
meddle() { # MUNGE...
	tc -n r1 filter add dev right ingress pref 9 protocol ip u32 match ip protocol 6 0xff \
		match u8 253 0xff at 52 action pedit "$@" pipe action csum ip and tcp
}
honest() { tc -n r1 filter del dev right ingress pref 9; }

listening() { # NS PORT
	in_ns "$1" ss -Hltn "sport = :$2" | grep -q .
}

# Starts tcpdump and returns once it listens: $dump is its process, $work/tcpdump what it says, which must
# not be the last one's: the redirection of a background command is the child's, and may come late.
dump_starts() { # NS TCPDUMP-ARG...
	: >"$work/tcpdump"
	ip netns exec "$1" tcpdump "${@:2}" >"$work/dump" 2>"$work/tcpdump" &
	# shellcheck disable=SC2034 # for the test
	dump=$!
	wait_until 20 grep -q 'listening on' "$work/tcpdump"
}

# Starts a server and returns once it listens (default port 5201).
iperf_server() { # NS [IPERF3-ARG...]
	local ns=$1 port=5201 arg previous=''
	shift
	for arg; do
		case $previous in -p | --port) port=$arg ;; esac
		previous=$arg
	done
	# Not through in_ns: a function in the background is a shell, and killing it would
	# leave the server behind. It ends after a day without data, not after two minutes: these --icount skips
	# while somebody waits for the host.
	ip netns exec "$ns" iperf3 -s --rcv-timeout 86400000 "$@" >>"$work/iperf3-$ns-$port.log" 2>&1 &
	wait_until 20 listening "$ns" "$port" || { diag "iperf3 in $ns does not listen on $port"; return 1; }
}

# Runs a client and prints iperf3's JSON; its error is the exit status.
#   iperf_client h1 -c "$h2_ip4" -t 2 -C swift | jq .end.sum_received.bits_per_second
iperf_client() { # NS IPERF3-ARG...
	in_ns "$1" iperf3 --json "${@:2}"
}

# Sixteen flows from h1 to h2, which open in fours into what the others have queued, and, if
# wanted, four of CUBIC to port 5205: 3 s. The Mbit/s of each of the sixteen in the last two of
# these are in $work/shares.
shares_run() { # CC [beside]
	local group port cc clients=()
	rm -f "$work"/shares-*.json
	for group in 1 2 3 4 ${2:+cubic}; do
		port=5205 cc=cubic
		[ "$group" = cubic ] || port=520$group cc=$1
		iperf_server h2 -1 -p $port || return
		ip netns exec h1 timeout $patience iperf3 -J -i 0.1 -t 3 -c "$h2_ip4" -p $port -C "$cc" -P 4 \
			>"$work/shares-$group.json" &
		clients+=($!)
	done
	wait "${clients[@]}"
	jq -c '[.intervals[10:28] | map(.streams | map(.bits_per_second)) | transpose[] | add / length / 1e6]' \
		"$work"/shares-[1-4].json | jq -cs add >"$work/shares" || return
	jq -e 'length == 16' "$work/shares"
}
shares_show() { diag "Mbit/s of each: $(jq -c 'map(. * 100 | round / 100) | sort' "$work/shares")"; }
shares_jain() { # AT-LEAST
	jq -e "add * add / (length * (map(. * .) | add)) >= $1" "$work/shares"
}
shares_sum() { # AT-LEAST
	jq -e "add >= $1" "$work/shares"
}
