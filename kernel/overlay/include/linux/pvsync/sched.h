/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_SCHED_H
#define _LINUX_PVSYNC_SCHED_H

/* What kernel/sched/core.c calls. */

#include <linux/pvsync/ecs.h>
#include <linux/pvsync/extend.h>
#include <linux/pvsync/wake.h>

/**
 * pvsync_skip_schedule - may the running task stay, without a choice of the next one?
 *
 * A host lends its vCPUs time here, and a guest gives back what it has borrowed.
 *
 * Context: the very beginning of __schedule(): preemption disabled, and interrupts enabled
 * if the caller is right.
 *
 * Return: true if it stays; the request to switch is gone then, and will come again.
 */
static __always_inline bool pvsync_skip_schedule(void)
{
	if (pvsync_extended())
		return true;
	pvsync_ecs_reschedule();
	return false;
}

#endif /* _LINUX_PVSYNC_SCHED_H */
