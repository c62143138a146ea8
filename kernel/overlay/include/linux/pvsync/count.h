/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_COUNT_H
#define _LINUX_PVSYNC_COUNT_H

/* The counters of pvsync, shown in debugfs as pvsync/counters. */

#include <linux/types.h>

enum pvsync_counter {
#define PVSYNC_COUNTER(name, about)	PVSYNC_##name,
#include <linux/pvsync/counters.h>
#undef PVSYNC_COUNTER
	PVSYNC_NR_COUNTERS
};

/* Those that the host has for each vCPU. */
#define PVSYNC_FIRST_OF_VCPUS	PVSYNC_spin_events
#define PVSYNC_NR_OF_VCPUS	(PVSYNC_NR_COUNTERS - PVSYNC_FIRST_OF_VCPUS)

void __pvsync_add(enum pvsync_counter counter, u64 amount);
const char *pvsync_counter_name(enum pvsync_counter counter);

static __always_inline void __pvsync_count(enum pvsync_counter counter)
{
	__pvsync_add(counter, 1);
}

#endif /* _LINUX_PVSYNC_COUNT_H */
