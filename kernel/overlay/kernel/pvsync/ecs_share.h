/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_ECS_SHARE_H
#define _KERNEL_PVSYNC_ECS_SHARE_H

/* When a CPU shares its record, see ecs_share.c. */

#include <linux/types.h>

bool pvsync_ecs_all_taken(void);
int pvsync_ecs_start_sharing(void);

#endif /* _KERNEL_PVSYNC_ECS_SHARE_H */
