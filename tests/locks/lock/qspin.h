/* SPDX-License-Identifier: GPL-2.0-only */
/* The base kernel's own queued spinlock, byte for byte; see ../qspin. */
#define LOCK_NAME		"qspin"
#define LOCK_IS_FIFO		1
#define LOCK_CPUS		64
#define LOCK_QUEUES_AFTER	4

#include "queued.h"

#define lock_set_tau(spins)	((void)(spins))
#define lock_set_impatience(times)	((void)(times))
