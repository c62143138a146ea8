/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_ECS_COUNT_H
#define _KERNEL_PVSYNC_ECS_COUNT_H

/* Sections that count themselves, see ecs_count.c. */

#include <linux/types.h>

#ifdef CONFIG_PVSYNC_ECS_COUNT
void pvsync_ecs_count_sections(bool on);
#else
static inline void pvsync_ecs_count_sections(bool on) { }
#endif

#endif /* _KERNEL_PVSYNC_ECS_COUNT_H */
