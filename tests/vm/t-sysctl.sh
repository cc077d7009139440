# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# Every sysctl: its default, both bounds, one beyond each, and what is no number. The
# table is the core's own, core/swift_params.h, as the C compiler reads it.

ok 'sysctl: the module loads' swift_load
dir=/proc/sys/net/ipv4/tcp_swift

refused() { # NAME VALUE; EINVAL, and the old value stays
	local before after message
	before=$(cat "$dir/$1")
	message=$(LC_ALL=C bash -c "printf '%s\n' '$2' > $dir/$1" 2>&1) && {
		echo "$1 took '$2'"
		return 1
	}
	after=$(cat "$dir/$1")
	[[ $message == *'Invalid argument'* && $before = "$after" ]] || {
		echo "$1 <- '$2': $message; $before became $after"
		return 1
	}
}
taken() { # NAME VALUE
	echo "$2" >"$dir/$1" && [ "$(cat "$dir/$1")" = "$2" ]
}

bounds() { # NAME DEFAULT LOW HIGH
	local name=$1 default=$2 low=$3 high=$4
	ok "sysctl: $name has its default" test "$(cat "$dir/$name")" = "$default"
	ok "sysctl: $name refuses $((high + 1))" refused "$name" $((high + 1))
	ok "sysctl: $name refuses $((low - 1))" refused "$name" $((low - 1))
	# What contradicts another tunable is tried below.
	case $name in
	fs_m*_cwnd_milli | min_cwnd_micro | max_cwnd) ;;
	*)
		ok "sysctl: $name takes $low" taken "$name" "$low"
		ok "sysctl: $name takes $high" taken "$name" "$high"
		;;
	esac
	echo "$default" >"$dir/$name"
}

table=$top/out/build/tunables.txt # name default minimum maximum
while read -r name default low high; do
	[ "$name" = target_policy ] || bounds "$name" "$default" "$low" "$high"
done <"$table"
ok 'sysctl: every tunable of the table was there' test "$(wc -l <"$table")" -ge 18
bounds max_rtt_ns 5000000 1000 2147483647
bounds dscp -1 -1 63
bounds rto_min_us 10000 0 1000000
bounds plb 0 0 1
bounds link_mbps 0 0 10000000
bounds echo 0 0 1
bounds credit 0 0 1
bounds credit_b_milli 1500 1000 16000
bounds credit_unsched_milli 1000 0 64000
bounds credit_sthr_milli 500 50 1000000
bounds credit_policy 0 0 1

ok 'sysctl: target_policy has its default' test "$(cat $dir/target_policy)" = base_rtt_plus
for word in static base_rtt base_rtt_plus; do
	ok "sysctl: target_policy takes $word" taken target_policy $word
done
for word in stati statical base_rtt_plus_and_more_than_fits_anywhere '' 0; do
	ok "sysctl: target_policy refuses '$word'" refused target_policy "$word"
done
for junk in abc '' 12ab 99999999999999999999 -- 0x; do
	ok "sysctl: base_target_ns refuses '$junk'" refused base_target_ns "$junk"
done
ok 'sysctl: fs_max below twice fs_min is refused' refused fs_min_cwnd_milli 128001
ok 'sysctl: and the other way round' refused fs_max_cwnd_milli 1
ok 'sysctl: twice is enough' taken fs_min_cwnd_milli 128000
echo 1 >$dir/fs_min_cwnd_milli
ok 'sysctl: min_cwnd up to max_cwnd' taken max_cwnd 1
ok 'sysctl: and not above' refused min_cwnd_micro 1000001
echo 4096 >$dir/max_cwnd
may_not() { not setpriv --reuid 65534 --clear-groups sh -c "echo 60000 > $dir/base_target_ns"; }
ok 'sysctl: not for ordinary users' may_not
