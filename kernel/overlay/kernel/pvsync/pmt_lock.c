// SPDX-License-Identifier: GPL-2.0-only
/*
 * Slow paths of the preemptable ticket lock and of the ticket lock. The
 * algorithm, the lock word and the guarantees are described in
 * <linux/pvsync/pmt_lock.h>.
 *
 * The project's tests and benchmarks also compile this file in user space, as
 * it is: no kernel facility but the headers below.
 */
#include <linux/types.h>
#include <linux/atomic.h>
#include <linux/compiler.h>
#include <linux/spinlock.h>

#include <trace/events/lock.h>

#include <linux/pvsync/help.h>
#include <linux/pvsync/lock_stat.h>
#include <linux/pvsync/pmt_lock.h>

#include "pmt_wait.h"

/*
 * The paper's locks time out after about 2 us. This value is in force only
 * until the boot CPU has measured one iteration, see pvsync_locks_init().
 */
u32 pvsync_tau_spins = 64;

/* Less where tau is few iterations, see lock_set_tau(). */
u32 pvsync_impatience __ro_after_init = PVSYNC_IMPATIENCE;

/**
 * pvsync_pmt_compete - take the lock as soon as it is not owned
 * @lock: the lock
 * @val: its value as last read, with our join in it
 * @spins: iterations of this wait, for the counters
 *
 * g,w,0 -> g+1,w-1,1, or 0,0,1 for the last waiter.
 *
 *	owner				waiter
 *	-----				------
 *	[S] critical section		[RmW] locked 0 -> 1  (acquire)
 *	[S] locked = 0	(release)	[L]   critical section
 *
 * The store is the one of native_queued_spin_unlock().
 *
 * The exchange fails when another waiter was faster or when one joined. Either
 * way it has told the new value, and somebody has made progress.
 */
static __always_inline void pvsync_pmt_compete(struct qspinlock *lock, u32 val,
					       u32 *spins)
{
	for (;;) {
		int old = val;

		if (!(val & PVSYNC_LOCKED_MASK)) {
			if (atomic_try_cmpxchg_acquire(&lock->val, &old,
						       pvsync_taken(val)))
				return;
			val = old;
			continue;
		}
		pvsync_count_spin(spins, true);
		pvsync_relax();
		val = atomic_read(&lock->val);
	}
}

static __always_inline void pvsync_wait(struct qspinlock *lock, u32 tau)
{
	u32 spins = 0;
	u32 val;

	pvsync_count(PVSYNC_lock_contended);
	/* Comes before there is a ticket, which others would wait for. */
	trace_contention_begin(lock, LCB_F_SPIN);
	val = pvsync_pmt_join(lock);
	val = pvsync_pmt_wait_turn(lock, val, tau, &spins);
	pvsync_pmt_compete(lock, val, &spins);
	trace_contention_end(lock, 0);
}

/**
 * pvsync_pmt_lock_slowpath - acquire a preemptable ticket lock that is not free
 * @lock: the lock
 * @val: its value as the fast path found it
 *
 * Context: preemption disabled, interrupts as they are; spins.
 */
void __lockfunc pvsync_pmt_lock_slowpath(struct qspinlock *lock, u32 val)
{
	pvsync_wait(lock, READ_ONCE(pvsync_tau_spins));
}

/**
 * pvsync_ticket_lock_slowpath - acquire a ticket lock that is not free
 * @lock: the lock
 * @val: its value as the fast path found it
 *
 * The preemptable ticket lock that nobody times out of: strictly first come,
 * first served. The paper compares with this lock. As tau is a constant here,
 * the compiler leaves nothing of the timeout.
 *
 * Context: preemption disabled, interrupts as they are; spins.
 */
void __lockfunc pvsync_ticket_lock_slowpath(struct qspinlock *lock, u32 val)
{
	pvsync_wait(lock, PVSYNC_TAU_INF);
}
