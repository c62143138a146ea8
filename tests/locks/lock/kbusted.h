/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel's lock that is broken on purpose; every runner has to fail with it. */
#define LOCK_NAME		"kbusted"
#define LOCK_SLOWPATH		pvsync_busted_lock_slowpath
#define LOCK_IS_FIFO		1
#define LOCK_CPUS		64
#define LOCK_QUEUES_AFTER	1

#include "queued.h"

#define lock_set_tau(spins)	((void)(spins))
#define lock_set_impatience(times)	((void)(times))
