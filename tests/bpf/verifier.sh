# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The record of the verifier's work, tests/bpf/verifier.txt, for this kernel and the clang that built an object.
# Wants $top.

# The most that the verifier may do, 110 % of the record: verifier_most OBJECT-FILE OBJECT [PROGRAM]; nothing
# where there is no record. Without PROGRAM, a line for each of the object's.
verifier_most() {
	local clang
	clang=$(grep -aom1 'clang version [0-9]*' "$1")
	awk -v c="${clang##* }" -v k="$(uname -r | cut -d. -f1,2)" -v o="$2" -v p="${3:-}" \
		'$1 == c && $2 == k && $3 == o && (p == "" || $4 == p) { print int($5 * 1.1) }' "$top/tests/bpf/verifier.txt"
}
