/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_EXTEND_H
#define _LINUX_PVSYNC_EXTEND_H

/* What the scheduler asks of pvsync before it takes the CPU from a vCPU. */

#include <linux/jump_label.h>
#include <linux/sched.h>

struct cfs_rq;

#ifdef CONFIG_PVSYNC_KVM

DECLARE_STATIC_KEY_FALSE(pvsync_extend_key);

void pvsync_extend_enable(void);
void pvsync_extend_by(bool (*ask)(void));
bool pvsync_put_off_switch(void);
bool pvsync_cpu_wanted(void);
bool pvsync_far_ahead(struct cfs_rq *cfs_rq, struct sched_entity *se);
bool __pvsync_extended(void);
bool pvsync_under_scx(void);

/**
 * pvsync_extended - may the running task stay for now?
 *
 * Context: as pvsync_skip_schedule().
 *
 * Return: true if it stays; the request to switch is gone then, and will come again.
 */
static __always_inline bool pvsync_extended(void)
{
#ifdef CONFIG_PREEMPT_NOTIFIERS
	return static_branch_unlikely(&pvsync_extend_key) &&
	       !hlist_empty(&current->preempt_notifiers) && __pvsync_extended();
#else
	return false;
#endif
}

#else

static __always_inline bool pvsync_extended(void)
{
	return false;
}

#endif /* CONFIG_PVSYNC_KVM */

#endif /* _LINUX_PVSYNC_EXTEND_H */
