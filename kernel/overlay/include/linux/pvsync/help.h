/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_HELP_H
#define _LINUX_PVSYNC_HELP_H

/*
 * Helping, the guest's side: a waiter that has spun for long tells the host,
 * after T. Friebel and S. Biemueller, "How to Deal with Lock Holder
 * Preemption", Xen Summit 2008, section 3.
 */

#include <asm/processor.h>

#ifdef CONFIG_PVSYNC_HELP

#include <linux/jump_label.h>

DECLARE_STATIC_KEY_FALSE(pvsync_help_key);
void pvsync_help_spin(void);

/**
 * pvsync_relax - one iteration of a loop that waits for a spinlock
 *
 * cpu_relax(), and from time to time a hypercall once the wait is long.
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

#else

static __always_inline void pvsync_relax(void)
{
	cpu_relax();
}

#endif /* CONFIG_PVSYNC_HELP */

#endif /* _LINUX_PVSYNC_HELP_H */
