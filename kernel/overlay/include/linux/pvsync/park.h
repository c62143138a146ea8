/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_PARK_H
#define _LINUX_PVSYNC_PARK_H

/*
 * Waiters of mutexes and rwsems that keep the CPU if nobody else wants it, see
 * kernel/pvsync/park.c.
 */

struct task_struct;

#ifdef CONFIG_PVSYNC_PARK

#include <linux/jump_label.h>

DECLARE_STATIC_KEY_FALSE(pvsync_park_stat_key);
void pvsync_park(void);
void __pvsync_park_waking(struct task_struct *task);

static __always_inline void pvsync_park_waking(struct task_struct *task)
{
	if (static_branch_unlikely(&pvsync_park_stat_key))
		__pvsync_park_waking(task);
}

#else

#define pvsync_park()	schedule_preempt_disabled()

#define pvsync_park_waking(task)	do { } while (0)

#endif /* CONFIG_PVSYNC_PARK */

#endif /* _LINUX_PVSYNC_PARK_H */
