/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_IPI_H
#define _LINUX_PVSYNC_IPI_H

/*
 * A CPU waits for others to run a function: what kernel/smp.c calls. The host is told of the
 * wait (see kernel/pvsync/ecs.c). The caller may ask the host to run CPUs that the host has
 * preempted (see kernel/pvsync/ipi.c).
 */

#include <linux/types.h>

#include <linux/pvsync/ecs.h>
#include <linux/pvsync/shims.h>

/* A caller that may be switched away from waits as a task, in the word that follows the task. */
static __always_inline void pvsync_call_wait_begins(bool stays)
{
	if (stays)
		pvsync_ecs_wait_begins();
	else
		pvsync_ecs_enter(preemptable, PVSYNC_ECS_WAITER);
}

#ifdef CONFIG_PVSYNC_IPI

#include <linux/cpumask.h>
#include <linux/jump_label.h>
#include <linux/smp.h>

DECLARE_STATIC_KEY_FALSE(pvsync_ipi_key);
void __pvsync_ipi_wait(call_single_data_t __percpu *calls, const struct cpumask *cpus);

static __always_inline bool pvsync_ipi_wait_begins(call_single_data_t __percpu *calls,
						   const struct cpumask *cpus)
{
	const bool stays = pvsync_call_wait_stays();

	pvsync_call_wait_begins(stays);
	if (static_branch_unlikely(&pvsync_ipi_key))
		__pvsync_ipi_wait(calls, cpus);
	return stays;
}

#else

/* A macro leaves nothing of its arguments. */
#define pvsync_ipi_wait_begins(calls, cpus)					\
({										\
	const bool stays__ = pvsync_call_wait_stays();				\
										\
	pvsync_call_wait_begins(stays__);					\
	stays__;								\
})

#endif /* CONFIG_PVSYNC_IPI */

#if defined(CONFIG_PVSYNC_IPI) || defined(CONFIG_PVSYNC_ECS)

static __always_inline void pvsync_ipi_wait_ends(const bool *stays)
{
	if (*stays)
		pvsync_ecs_wait_ends();
	else
		pvsync_ecs_drop(preemptable, PVSYNC_ECS_WAITER);
}

/**
 * pvsync_ipi_waits - the rest of this block waits for other CPUs to run a function
 * @calls: what they were asked to run, per CPU
 * @cpus: which CPUs
 *
 * Has to be the first line of the block.
 *
 * Context: smp_call_function_many_cond(): task, interrupts enabled; preemption as
 * pvsync_call_wait_stays() says.
 */
#define pvsync_ipi_waits(calls, cpus)						\
	const bool waits__ __cleanup(pvsync_ipi_wait_ends) __maybe_unused =	\
		pvsync_ipi_wait_begins(calls, cpus)

#else

#define pvsync_ipi_waits(calls, cpus)	do { } while (0)

#endif

#endif /* _LINUX_PVSYNC_IPI_H */
