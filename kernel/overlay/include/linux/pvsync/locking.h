/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_LOCKING_H
#define _LINUX_PVSYNC_LOCKING_H

/* What mutexes and rwsems call: kernel/locking/mutex.c and rwsem.c. */

#include <linux/pvsync/ecs.h>
#include <linux/pvsync/park.h>

#endif /* _LINUX_PVSYNC_LOCKING_H */
