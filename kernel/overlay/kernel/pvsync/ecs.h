/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_ECS_H
#define _KERNEL_PVSYNC_ECS_H

/* What is told of critical sections, see ecs.c. */

#include <linux/types.h>

#ifdef CONFIG_PVSYNC_ECS
const char *pvsync_ecs_share_anyway(bool wanted);
#else
static inline const char *pvsync_ecs_share_anyway(bool wanted)
{
	return wanted ? "this kernel is built without it" : NULL;
}
#endif

#endif /* _KERNEL_PVSYNC_ECS_H */
