/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_LOCK_STAT_H
#define _LINUX_PVSYNC_LOCK_STAT_H

/* For explore.c: what the locks count, it is told; how long they spin, nobody is. */

#include <linux/types.h>
#include <linux/pvsync/count.h>

#define pvsync_count(counter)		model_count(counter)
#define pvsync_count_spin(spins, held)	((void)(spins))

#endif /* _LINUX_PVSYNC_LOCK_STAT_H */
