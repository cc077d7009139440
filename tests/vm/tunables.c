// SPDX-License-Identifier: GPL-2.0
/* Prints the table of tunables, for tests that are not C: name default minimum maximum. */
#include <stdio.h>

#include "../../kmod/core/swift_params.h"

int main(void)
{
#define SWIFT_X(name, def, lo, hi, doc) printf("%s %d %d %d\n", #name, (int)(def), lo, hi);
	SWIFT_TUNABLES(SWIFT_X)
#undef SWIFT_X
	return 0;
}
