/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_WAKE_H
#define _LINUX_PVSYNC_WAKE_H

/* What pvsync notes when a task is woken. */

#include <linux/pvsync/park.h>

struct task_struct;

#ifdef CONFIG_PVSYNC_KVM

#include <linux/pvsync/vcpus.h>

void __pvsync_vcpu_waking(struct task_struct *task);

static __always_inline void pvsync_vcpu_waking(struct task_struct *task)
{
	if (static_branch_unlikely(&pvsync_wake_key))
		__pvsync_vcpu_waking(task);
}

#else

#define pvsync_vcpu_waking(task)	do { } while (0)

#endif /* CONFIG_PVSYNC_KVM */

#if defined(CONFIG_PVSYNC_PARK) || defined(CONFIG_PVSYNC_KVM)

/**
 * pvsync_waking - a task is about to be woken
 * @task: the task, not this one
 *
 * Context: try_to_wake_up(), with its pi_lock.
 */
static __always_inline void pvsync_waking(struct task_struct *task)
{
	pvsync_park_waking(task);
	pvsync_vcpu_waking(task);
}

#else

#define pvsync_waking(task)	do { } while (0)

#endif /* CONFIG_PVSYNC_PARK || CONFIG_PVSYNC_KVM */

#endif /* _LINUX_PVSYNC_WAKE_H */
