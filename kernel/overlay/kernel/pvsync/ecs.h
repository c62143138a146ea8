/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_ECS_H
#define _KERNEL_PVSYNC_ECS_H

#ifdef CONFIG_PVSYNC_ECS

const char *pvsync_ecs_share_anyway(void);

#else

static inline const char *pvsync_ecs_share_anyway(void)
{
	return "this kernel is built without it";
}

#endif

#endif /* _KERNEL_PVSYNC_ECS_H */
