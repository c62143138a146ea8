/* SPDX-License-Identifier: GPL-2.0-only */
/* The preemptable ticket lock. */
#define LOCK_NAME		"pmt"
#define LOCK_SLOWPATH		pvsync_pmt_lock_slowpath
#define LOCK_IS_FIFO		0	/* only with an infinite tau */
#if CONFIG_NR_CPUS < 4096
#define LOCK_CPUS		CONFIG_NR_CPUS
#else
#define LOCK_CPUS		4096
#endif
#define LOCK_QUEUES_AFTER	1

#include "queued.h"
#include <linux/pvsync/pmt_lock.h>

#define lock_set_tau(spins)	((void)(pvsync_tau_spins = (spins)))
#define lock_set_impatience(times)	((void)(pvsync_impatience = (times)))
