/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_TASK_H
#define _LINUX_PVSYNC_TASK_H

#include <linux/types.h>

/**
 * struct pvsync_task - pvsync's part of a task; empty without the mechanisms
 * @ecs: preemptable critical sections that the task is in, while it has no CPU, as in
 *	struct pvsync_ecs without BORROWED. It is 0 while the task has a CPU, so that no
 *	child inherits it
 * @woken: when the task, asleep in pvsync_park(), was woken, ns; 0 or 1 if it is not
 *	asleep, or not woken; see park.c
 * @vcpu_woken: when a vCPU's thread that has gone to sleep since it lost its CPU was
 *	woken, ns; 0 if it was not
 */
struct pvsync_task {
#ifdef CONFIG_PVSYNC_ECS_COUNT
	u64	ecs;
#endif
#ifdef CONFIG_PVSYNC_PARK
	u64	woken;
#endif
#ifdef CONFIG_PVSYNC_KVM
	u64	vcpu_woken;
#endif
};

#endif /* _LINUX_PVSYNC_TASK_H */
