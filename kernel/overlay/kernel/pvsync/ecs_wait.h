/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_ECS_WAIT_H
#define _KERNEL_PVSYNC_ECS_WAIT_H

/* Waits for spinlocks that are told, see ecs_wait.c. */

#include <linux/types.h>

#include <asm/paravirt.h>
#include <asm/qspinlock.h>

#include <linux/pvsync/shims.h>

#include "locks.h"

#if defined(CONFIG_PVSYNC_ECS) && defined(CONFIG_PARAVIRT_SPINLOCKS)

slowpath_fn pvsync_spin_slowpath(void);
void pvsync_ecs_announce_spins(bool on);

#else

#ifdef CONFIG_PARAVIRT_SPINLOCKS
static inline slowpath_fn pvsync_spin_slowpath(void)
{
	return pvsync_get_slowpath();
}
#endif

static inline void pvsync_ecs_announce_spins(bool on) { }

#endif

#endif /* _KERNEL_PVSYNC_ECS_WAIT_H */
