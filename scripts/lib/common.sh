# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What every script here needs: messages, errors, and an apt-get that is patient.
# Sourced, never run.

me=${0##*/}

say() { printf '%s: %s\n' "$me" "$*" >&2; }
die() { say "$*"; exit 1; }
usage_error() { say "$* (see $me --help)"; exit 2; }
number() { # OPTION VALUE LOW HIGH
	[[ $2 =~ ^(0|[1-9][0-9]{0,8})$ ]] && [ "$2" -ge "$3" ] && [ "$2" -le "$4" ] ||
		usage_error "$1 wants a number from $3 to $4, not '$2'"
}

# The comment block at the top of the script is its help text.
help_text() { sed -n '/^#:/s/^#: \{0,1\}//p' "$0"; }

# Runs apt-get. While another apt is at work (a new machine upgrades itself, for minutes), waits, and
# says so, once: apt's own waiting knows only dpkg's lock, says so each second, and then not who has it.
# On failure refreshes the package lists and tries once more: that mends both a network hiccup and lists
# older than the archive.
apt_retry() { # apt-get ARG...
	apt_patient "$@" && return
	[ "$(id -u)" = 0 ] || return 1
	say "failed; trying once more with fresh package lists"
	sleep 2
	apt_patient apt-get -qq update >&2 && apt_patient "$@"
}

apt_lock_wait_s=3600

apt_patient() { # apt-get ARG...
	local errors said='' end=$((SECONDS + apt_lock_wait_s)) status
	errors=$(mktemp) || return
	while :; do
		"$1" -o DPkg::Lock::Timeout=0 "${@:2}" 2>"$errors"
		status=$?
		if [ $status = 0 ] || ! grep -qE 'Could not get lock|Unable to (acquire|lock)' "$errors"; then
			break
		fi
		[ $SECONDS -lt $end ] || { say "another apt is at work for $apt_lock_wait_s s already; giving up"; break; }
		[ -n "$said" ] || say "another apt is at work; waiting for it to end ($(sed -nE 's/.*(held by process [^)]*\)).*/\1/p' "$errors" | head -n 1))"
		said=yes
		sleep 2
	done
	[ -z "$said" ] || [ $status != 0 ] || say "going on"
	cat "$errors" >&2
	rm "$errors"
	return $status
}
