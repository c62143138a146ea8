/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _PVSYNC_TEST_SCX_H
#define _PVSYNC_TEST_SCX_H

/* What schedulers of sched_ext for tests need of the kernel's headers, and no more. */

#include "types.h"

struct task_struct;

/* What is left out is the kernel's default: one queue for all CPUs, first come, first served. */
struct sched_ext_ops {
	_Bool	(*yield)(struct task_struct *from, struct task_struct *to);
	char	name[128];
};

#endif
