/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_COUNTED_H
#define PVSYNC_TEST_COUNTED_H

/* The counters of a program with one test at a time, who clears them. */

#include <kernel.h>
#include <linux/pvsync/count.h>

static u64 counted[PVSYNC_NR_COUNTERS];

void __pvsync_add(enum pvsync_counter counter, u64 amount)
{
	counted[counter] += amount;
}

#endif
