// SPDX-License-Identifier: GPL-2.0-only
/*
 * Slow paths of the preemptable ticket lock and of the ticket lock. The
 * algorithm, the lock word and the guarantees are described in
 * <linux/pvsync/pmt_lock.h>.
 *
 * This file is also compiled in user space by the project's tests and
 * benchmarks, as it is: no kernel facility but the headers below.
 */
#include <linux/types.h>
#include <linux/atomic.h>
#include <linux/compiler.h>
#include <asm/processor.h>
#include <linux/pvsync/lock_stat.h>
#include <linux/pvsync/pmt_lock.h>

/*
 * A paper lock times out after about 2 us; this is in force only until the
 * boot CPU has found out what one iteration costs, see pvsync_locks_init().
 */
u32 pvsync_tau_spins = 64;

/**
 * pvsync_pmt_join - become a waiter
 * @lock: the lock
 *
 * g,w,l -> g,w+1,l, relaxed: it takes nothing yet.
 *
 * The field holds 4,095 waiters. On fewer CPUs than that it cannot overflow, as
 * a CPU waits for one lock at a time. With 4,096 CPUs all of them wait in the
 * one moment after a release in which the releaser asks again before anybody
 * takes the lock; with more CPUs, whenever they like. Then the one too many
 * stays outside until there is room, unordered with others like it.
 *
 * Return: value of the word with the join in it; the ticket is
 * pvsync_next_ticket() of the value without.
 */
static __always_inline u32 pvsync_pmt_join(struct qspinlock *lock)
{
	u32 val;

	if (CONFIG_NR_CPUS <= PVSYNC_COUNT_MASK)
		return atomic_add_return_relaxed(PVSYNC_WAITER, &lock->val);

	val = atomic_read(&lock->val);
	for (;;) {
		int old = val;

		if (pvsync_waiters(val) == PVSYNC_COUNT_MASK) {
			cpu_relax();
			val = atomic_read(&lock->val);
			continue;
		}
		if (atomic_try_cmpxchg_relaxed(&lock->val, &old,
					       val + PVSYNC_WAITER))
			return val + PVSYNC_WAITER;
		val = old;
	}
}

/**
 * pvsync_pmt_wait_turn - the ordered phase
 * @lock: the lock
 * @val: its value with our join in it
 * @tau: timeout of one position, in iterations
 * @spins: iterations of this wait, for the counters
 *
 * Nothing is written here, so a waiter that is preempted in this phase, for
 * however long, delays the others by tau per position and no more.
 *
 * The timeout counts iterations and not time: the time during which the waiter
 * itself was preempted does not use it up.
 *
 * Return: the value of the word that ended the phase.
 */
static __always_inline u32 pvsync_pmt_wait_turn(struct qspinlock *lock, u32 val,
						u32 tau, u32 *spins)
{
	u32 ticket = pvsync_next_ticket(val - PVSYNC_WAITER);
	int position = pvsync_position(val, ticket);
	u64 left = pvsync_timeout(tau, position);
	int armed = position;

	while (position) {
		if (position < 0) {
			pvsync_count(PVSYNC_lock_overtaken);
			break;
		}
		if (position != armed) {
			armed = position;
			left = pvsync_timeout(tau, position);
		}
		if (tau != PVSYNC_TAU_INF && !left--) {
			pvsync_count(PVSYNC_lock_timeouts);
			break;
		}
		pvsync_count_spin(spins, val & PVSYNC_LOCKED_MASK);
		cpu_relax();
		val = atomic_read(&lock->val);
		position = pvsync_position(val, ticket);
	}
	return val;
}

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
 * The exchange fails when another waiter was faster or when one joined; either
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
		cpu_relax();
		val = atomic_read(&lock->val);
	}
}

static __always_inline void pvsync_wait(struct qspinlock *lock, u32 tau)
{
	u32 spins = 0;
	u32 val;

	pvsync_count(PVSYNC_lock_contended);
	val = pvsync_pmt_join(lock);
	val = pvsync_pmt_wait_turn(lock, val, tau, &spins);
	pvsync_pmt_compete(lock, val, &spins);
}

/**
 * pvsync_pmt_lock_slowpath - acquire a preemptable ticket lock that is not free
 * @lock: the lock
 * @val: its value as the fast path found it
 *
 * Context: preemption disabled, interrupts as they are; spins.
 */
void pvsync_pmt_lock_slowpath(struct qspinlock *lock, u32 val)
{
	pvsync_wait(lock, READ_ONCE(pvsync_tau_spins));
}

/**
 * pvsync_ticket_lock_slowpath - acquire a ticket lock that is not free
 * @lock: the lock
 * @val: its value as the fast path found it
 *
 * The preemptable ticket lock that nobody times out of: strictly first come,
 * first served, the lock that the paper compares with. As tau is a constant
 * here, the compiler leaves nothing of the timeout.
 *
 * Context: preemption disabled, interrupts as they are; spins.
 */
void pvsync_ticket_lock_slowpath(struct qspinlock *lock, u32 val)
{
	pvsync_wait(lock, PVSYNC_TAU_INF);
}
