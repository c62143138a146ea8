/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_ECS_H
#define _KERNEL_PVSYNC_ECS_H

#include <asm/paravirt.h>
#include <asm/qspinlock.h>

#include <linux/pvsync/shims.h>

#include "locks.h"

#ifdef CONFIG_PVSYNC_ECS

const char *pvsync_ecs_share_anyway(bool wanted);

#else

static inline const char *pvsync_ecs_share_anyway(bool wanted)
{
	return wanted ? "this kernel is built without it" : NULL;
}

#endif

#if defined(CONFIG_PVSYNC_ECS) && defined(CONFIG_PARAVIRT_SPINLOCKS)

slowpath_fn pvsync_spin_slowpath(void);

#elif defined(CONFIG_PARAVIRT_SPINLOCKS)

static inline slowpath_fn pvsync_spin_slowpath(void)
{
	return pvsync_get_slowpath();
}

#endif

#endif /* _KERNEL_PVSYNC_ECS_H */
