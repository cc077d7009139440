# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# TAP from bash, on the host and in guests. Sourced, never run:
#
#   plan 3                                  # optional; else `finish` prints it
#   ok 'the module loads' insmod kmod/tcp_swift.ko
#   ok 'no drops' [ "$drops" = 0 ]
#   skip 'needs two CPUs' 'this guest has one'
#   finish                                  # always last; its absence is a failure

# What a test prints, in a file without a name: gone however the script ends.
tap_output=$(mktemp) && exec {tap_fd}<>"$tap_output" && rm "$tap_output"
tap_output=/dev/fd/$tap_fd

# A pipe that nobody writes to: `read -t` on it waits without a process.
exec {tap_never}<> <(:)

tap_count=0 tap_failed=0 tap_planned=''

plan() { tap_planned=$1; echo "1..$1"; }
diag() { printf '%s\n' "$*" | sed 's/^/# /'; }

# Runs COMMAND in this shell; what it printed is shown only when it fails.
ok() { # DESCRIPTION COMMAND [ARG...]
	local description=$1 status
	shift
	tap_count=$((tap_count + 1))
	"$@" >"$tap_output" 2>&1
	status=$?
	if [ $status = 0 ]; then
		echo "ok $tap_count - $description"
	else
		tap_failed=$((tap_failed + 1))
		echo "not ok $tap_count - $description"
		diag "exit status $status of: $*"
		sed 's/^/# /' "$tap_output"
	fi
	return $status
}

# For what takes minutes: as ok, but COMMAND runs in a subshell, and what it prints is shown as
# it comes, behind a bar, so that silence is a hang.
ok_aloud() { # DESCRIPTION COMMAND [ARG...]
	local tap_status tap_said
	"${@:2}" 2>&1 | tee "$tap_output" | sed -u 's/^/| /'
	tap_status=${PIPESTATUS[0]}
	tap_said=$(tail -n 40 "$tap_output")
	tap_ended() { echo "$tap_said"; return "$tap_status"; }
	ok "$1" tap_ended
}

# COMMAND prints tests of its own: they are ours, as they come, with our numbers and no plan of
# their own. Fails if one of them did; is a failure if COMMAND ends badly for no such reason.
take() { # COMMAND [ARG...]
	local line before=$tap_failed tap_status
	while IFS= read -r line; do
		case $line in
		'ok '* | 'not ok '*)
			tap_count=$((tap_count + 1))
			[[ $line = ok* ]] || tap_failed=$((tap_failed + 1))
			[[ $line =~ ^((not )?ok)( [0-9]+)?( -)?\ (.*)$ ]]
			echo "${BASH_REMATCH[1]} $tap_count - ${BASH_REMATCH[5]}" ;;
		1..*) ;;
		*) printf '%s\n' "$line" ;;
		esac
	done < <("$@")
	wait $!
	tap_status=$?
	[ $tap_failed = "$before" ] || return 1
	tap_ended() { return "$tap_status"; }
	[ $tap_status = 0 ] || ok "the end of: $*" tap_ended
}

not() { ! "$@"; }

skip() { # DESCRIPTION REASON
	tap_count=$((tap_count + 1))
	echo "ok $tap_count - $1 # SKIP $2"
}

finish() {
	[ -n "$tap_planned" ] || echo "1..$tap_count"
	exit $((tap_failed > 0))
}

# Polls, so that tests neither sleep too long nor too short. SECONDS is what it may take on a
# quiet machine: it ends a hang and judges no speed. A busy machine, or a guest whose clock runs
# ahead while it waits for its files, is given six times that; and one look more where a look
# took all of it.
wait_until() { # SECONDS COMMAND [ARG...]
	local end=$((${EPOCHREALTIME/./} + $1 * 6000000)) began
	shift
	while began=${EPOCHREALTIME/./}; ! "$@" >/dev/null 2>&1; do
		[ "$began" -lt "$end" ] || return 1
		read -rt 0.05 -u "$tap_never"
	done
	return 0
}
