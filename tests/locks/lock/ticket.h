/* SPDX-License-Identifier: GPL-2.0-only */
/* The ticket lock. */
#define LOCK_NAME		"ticket"
#define LOCK_SLOWPATH		pvsync_ticket_lock_slowpath
#define LOCK_IS_FIFO		1
#if CONFIG_NR_CPUS < 4096
#define LOCK_CPUS		CONFIG_NR_CPUS
#else
#define LOCK_CPUS		4096
#endif
#define LOCK_QUEUES_AFTER	1

#include "queued.h"
#include <linux/pvsync/pmt_lock.h>

#define lock_set_tau(spins)	((void)(spins))
#define lock_set_impatience(times)	((void)(times))
