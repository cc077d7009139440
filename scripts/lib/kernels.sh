# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# scripts/kernels.txt, the table of kernel lines, for scripts. Sourced after common.sh.
# What runs where is tests/check's to read.
# shellcheck disable=SC2034 # used by who sources this

declare -A kernel_suites kernel_package kernel_built_in
kernel_lines='' kernel_default_lines=''

read_kernels() { # FILE
	local line suites package built_in check runs more number=0
	while read -r line suites package built_in check runs more; do
		number=$((number + 1))
		case $line in '' | '#'*) continue ;; esac
		[ -n "$runs" ] && [ -z "$more" ] && [[ $check =~ ^(yes|no)$ ]] ||
			die "$1:$number: expected LINE SUITES PACKAGE BUILT-IN yes|no SUITES-OF-TESTS"
		[ -z "${kernel_package[$line]:-}" ] || die "$1:$number: line '$line' is there already"
		kernel_suites[$line]=$suites kernel_package[$line]=$package kernel_built_in[$line]=$built_in
		kernel_lines+="${kernel_lines:+ }$line"
		[ "$check" = no ] || kernel_default_lines+="${kernel_default_lines:+ }$line"
	done <"$1" || die "cannot read $1"
}
read_kernels "${BASH_SOURCE[0]%/lib/*}/kernels.txt"
