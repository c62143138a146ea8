/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_HELP_H
#define _LINUX_PVSYNC_HELP_H

/*
 * Helping, the guest's side: a waiter that has spun for long tells the host.
 * After T. Friebel and S. Biemueller, "How to Deal with Lock Holder
 * Preemption", Xen Summit 2008, section 3.
 */

#include <linux/types.h>

#include <asm/processor.h>

/**
 * struct pvsync_wait_time - how long a CPU has been waiting for a lock
 * @last: time stamp of the last look
 * @spun: cycles since the wait began, or since the host was asked
 */
struct pvsync_wait_time {
	u64	last;
	u64	spun;
};

#ifdef CONFIG_PVSYNC_HELP

#include <linux/jump_label.h>

DECLARE_STATIC_KEY_FALSE(pvsync_help_key);
void pvsync_help_spin(void);
void __pvsync_help_wait_begins(struct pvsync_wait_time *outer);
void __pvsync_help_wait_ends(const struct pvsync_wait_time *outer);

/**
 * pvsync_relax - one iteration of a loop that waits for a spinlock
 *
 * Calls cpu_relax(), and from time to time the host once the wait is long.
 *
 * Context: within one of the slow paths of help.c: preemption disabled,
 * interrupts as they are, NMI included.
 */
static __always_inline void pvsync_relax(void)
{
	cpu_relax();
	if (static_branch_unlikely(&pvsync_help_key))
		pvsync_help_spin();
}

/**
 * pvsync_help_wait_begins - a wait begins whose loops call pvsync_relax()
 * @outer: where to keep the time of a wait that this one interrupts
 *
 * Context: as pvsync_relax().
 */
static __always_inline void
pvsync_help_wait_begins(struct pvsync_wait_time *outer)
{
	if (static_branch_unlikely(&pvsync_help_key))
		__pvsync_help_wait_begins(outer);
	else
		*outer = (struct pvsync_wait_time) { };
}

/**
 * pvsync_help_wait_ends - the wait is over
 * @outer: as pvsync_help_wait_begins() left it
 *
 * Context: as pvsync_relax().
 */
static __always_inline void
pvsync_help_wait_ends(const struct pvsync_wait_time *outer)
{
	if (static_branch_unlikely(&pvsync_help_key))
		__pvsync_help_wait_ends(outer);
}

#else

static __always_inline void
pvsync_help_wait_begins(struct pvsync_wait_time *outer) { }
static __always_inline void
pvsync_help_wait_ends(const struct pvsync_wait_time *outer) { }

static __always_inline void pvsync_relax(void)
{
	cpu_relax();
}

#endif /* CONFIG_PVSYNC_HELP */

#endif /* _LINUX_PVSYNC_HELP_H */
