/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_COUNT_H
#define _LINUX_PVSYNC_COUNT_H

/* The counters of pvsync, shown in debugfs as pvsync/counters. */

#include <linux/types.h>

#define PVSYNC_COUNTER(name, about)	PVSYNC_##name,

enum pvsync_counter {
#define PVSYNC_COUNTERS_OF_OTHERS
#include <linux/pvsync/counters.h>
#undef PVSYNC_COUNTERS_OF_OTHERS
	PVSYNC_NR_OF_OTHERS
};

/* Counters that the host has for each vCPU. Their numbers follow those of the others. */
enum pvsync_vcpu_counter {
	PVSYNC_BEFORE_VCPUS = PVSYNC_NR_OF_OTHERS - 1,
#define PVSYNC_COUNTERS_OF_VCPUS
#include <linux/pvsync/counters.h>
#undef PVSYNC_COUNTERS_OF_VCPUS
	PVSYNC_NR_COUNTERS
};

#undef PVSYNC_COUNTER

#define PVSYNC_FIRST_OF_VCPUS	((int)PVSYNC_NR_OF_OTHERS)
#define PVSYNC_NR_OF_VCPUS	(PVSYNC_NR_COUNTERS - PVSYNC_FIRST_OF_VCPUS)

void __pvsync_add(enum pvsync_counter counter, u64 amount);
const char *pvsync_counter_name(enum pvsync_counter counter);

static __always_inline void __pvsync_count(enum pvsync_counter counter)
{
	__pvsync_add(counter, 1);
}

#endif /* _LINUX_PVSYNC_COUNT_H */
