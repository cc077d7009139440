# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What every script here needs: messages, errors, and apt-get with one retry.
# Sourced, never run.

me=${0##*/}

say() { printf '%s: %s\n' "$me" "$*" >&2; }
die() { say "$*"; exit 1; }
usage_error() { say "$* (see $me --help)"; exit 2; }

# The comment block at the top of the script is its help text.
help_text() { sed -n '/^#:/s/^#: \{0,1\}//p' "$0"; }

# Runs apt-get; on failure refreshes the package lists and tries once more:
# that mends both a network hiccup and lists older than the archive.
apt_retry() {
	"$@" && return
	[ "$(id -u)" = 0 ] || return 1
	say "failed; trying once more with fresh package lists"
	sleep 2
	apt-get -qq update >&2 && "$@"
}
