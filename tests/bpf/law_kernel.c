// SPDX-License-Identifier: GPL-2.0
/*
 * The laws as the module has them: compiled by the kernel's own build, with its compiler
 * and flags (no SSE, its memory model, its calls at function entry). The object is linked
 * into equality.cpp, which has what such code expects around it.
 */
#include <linux/types.h>

#include "law_step.h"

void kernel_swift_step(struct law_step *l);
void kernel_timely_step(struct law_step *l);
void kernel_gcn_step(struct law_step *l);
void kernel_clock_step(struct law_step *l);

void kernel_swift_step(struct law_step *l)
{
	swift_step_do(l);
}

void kernel_timely_step(struct law_step *l)
{
	timely_step_do(l);
}

void kernel_gcn_step(struct law_step *l)
{
	gcn_step_do(l);
}

void kernel_clock_step(struct law_step *l)
{
	clock_step_do(l);
}
