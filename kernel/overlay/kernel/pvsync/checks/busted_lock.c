// SPDX-License-Identifier: GPL-2.0-only
/*
 * BROKEN ON PURPOSE, do not use: a lock that gives up waiting and goes ahead.
 * It exists to prove that the lab notices a broken lock.
 */
#include <linux/atomic.h>

#include <asm/processor.h>
#include <asm/qspinlock.h>

#include "../locks.h"

/* Long enough that a guest boots, short enough that contention breaks it. */
#define BUSTED_SPINS	1000

/**
 * pvsync_busted_lock_slowpath - wait a little for a lock, then take it anyway
 * @lock: the lock
 * @val: its value as the fast path found it
 *
 * Context: preemption disabled; spins.
 */
void pvsync_busted_lock_slowpath(struct qspinlock *lock, u32 val)
{
	int spins = BUSTED_SPINS;

	while (spins--) {
		int old = 0;

		if (atomic_try_cmpxchg_acquire(&lock->val, &old, _Q_LOCKED_VAL))
			return;
		cpu_relax();
	}
}
