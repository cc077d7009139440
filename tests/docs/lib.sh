# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The commands of the documentation: an indented block behind a line "<!-- test: NAME -->" is
# what a reader types, and what tests run, as it stands. Sourced, at the top of the checkout.

# Prints the block; fails if there is none, or two.
doc_block() { # PAGE NAME
	awk -v want="<!-- test: $2 -->" '
		$0 == want { found++; at = 1; next }
		at && /^    / { print substr($0, 5); at = 2; next }
		at && /^$/ { if (at == 2) print ""; next }
		at { at = 0 }
		END { exit found != 1 }' "Documentation/$1.md"
}

doc_blocks() { # PAGE; the names
	sed -n 's/^<!-- test: \(.*\) -->$/\1/p' "Documentation/$1.md"
}

# Runs a block in a shell of its own that stops at the first error.
doc_run() { # PAGE NAME
	local commands
	commands=$(doc_block "$1" "$2") && [ -n "$commands" ] ||
		{ echo "Documentation/$1.md has no block '$2', or two"; return 1; }
	bash -euc "$commands"
}
