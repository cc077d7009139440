# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# Coming and going in any order: thousands of live sockets, namespaces that vanish,
# load and unload under traffic.

crowd() { # NS SECONDS SOCKETS; that many connections over the namespace's loopback
	: >"$work/crowd" # the last one's word is not this one's
	ip netns exec "$1" /usr/bin/python3 -ISc '
import resource, socket, sys, time
n = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (3 * n, 3 * n))
listener = socket.create_server(("127.0.0.1", 7777), backlog=n)
pairs = []
for i in range(n):
    client = socket.create_connection(("127.0.0.1", 7777))
    pairs.append((client, listener.accept()[0]))
    client.send(b"x" * 1000)
print("up", flush=True)
end = time.time() + float(sys.argv[2])
while time.time() < end:
    for client, server in pairs:
        client.send(b"y" * 500)
        server.recv(2000)
        time.sleep(0.001)  # the CPU is for others, too
' "$3" "$2" >"$work/crowd" &
}

ok 'lifetime: the module loads' swift_load
ip netns add many
ip -n many link set lo up
in_ns many sysctl -qw net.ipv4.tcp_congestion_control=swift net.ipv4.tcp_swift.echo=1 \
	net.ipv4.tcp_swift.max_rtt_ns=2000000000
crowd many 600 2000
crowd=$!
ok 'lifetime: 2000 connections' wait_until 120 grep -q up "$work/crowd"
ok 'lifetime: 4000 flows are counted' counts many flows -eq 4000
ok 'lifetime: the module stays while they live' not swift_unload
in_ns many sysctl -qw net.ipv4.tcp_swift.base_target_ns=70000 net.ipv4.tcp_swift.echo=0
in_ns many sysctl -qw net.ipv4.tcp_swift.echo=1
ends $crowd
ok 'lifetime: their count returns to nothing' wait_until 60 counts many flows -eq 0
ok 'lifetime: a default keeps the module, too' not swift_unload
in_ns many sysctl -qw net.ipv4.tcp_congestion_control=cubic
ok 'lifetime: then it unloads' wait_until 60 swift_unload
ok 'lifetime: and its sysctls are gone' not test -e /proc/sys/net/ipv4/tcp_swift

# A namespace that dies with flows in it.
swift_load
ip netns add doomed
ip -n doomed link set lo up
in_ns doomed sysctl -qw net.ipv4.tcp_congestion_control=swift net.ipv4.tcp_swift.echo=1 \
	net.ipv4.tcp_swift.max_rtt_ns=2000000000
crowd doomed 600 50
crowd=$!
wait_until 60 grep -q up "$work/crowd"
ip netns del doomed
ends $crowd
ok 'lifetime: a namespace goes with its flows' wait_until 60 swift_unload

# Storm: load and unload while connections come and go that do not care.
crowd many 600 100
crowd=$!
storm() {
	local i
	for ((i = 0; i < 20; i++)); do
		swift_load || return
		in_ns many sysctl -qw net.ipv4.tcp_swift.echo=$((i & 1)) || return
		wait_until 10 swift_unload || return
	done
}
ok 'lifetime: 20 loads and unloads beside live traffic' storm
ok 'lifetime: and the traffic lives' kill -0 $crowd
ends $crowd
