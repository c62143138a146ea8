/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_LAG_H
#define _KERNEL_PVSYNC_LAG_H

/* Lag of entities of the fair class, for files that have included ../sched/sched.h. */

#include <linux/math64.h>

#include <linux/pvsync/shims.h>

/* Time of an entity, ns, in the virtual time of its queue. */
static inline u64 pvsync_vtime(u64 ns, struct sched_entity *se)
{
	return div64_ul(ns * NICE_0_LOAD, pvsync_weight(se));
}

#endif /* _KERNEL_PVSYNC_LAG_H */
