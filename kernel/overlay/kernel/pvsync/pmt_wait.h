/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_PMT_WAIT_H
#define _KERNEL_PVSYNC_PMT_WAIT_H

/*
 * What all waiters of the ticket locks do first, whether they spin for the lock
 * afterwards (pmt_lock.c) or sleep (pv_lock.c): draw a ticket and keep to the
 * order. The lock word is described in <linux/pvsync/pmt_lock.h>.
 *
 * The project's tests also compile this file in user space.
 */
#include <linux/types.h>
#include <linux/atomic.h>
#include <linux/compiler.h>
#include <linux/pvsync/help.h>
#include <linux/pvsync/lock_stat.h>
#include <linux/pvsync/pmt_lock.h>

/**
 * pvsync_pmt_join - become a waiter
 * @lock: the lock
 *
 * g,w,l -> g,w+1,l, relaxed: it takes nothing yet.
 *
 * The field holds 4,095 waiters. On fewer CPUs than 4,096 it cannot overflow,
 * as a CPU waits for one lock at a time. With 4,096 CPUs all of them can wait
 * in one moment only: after a release, when the releaser asks again before
 * anybody takes the lock. With more CPUs, they can at any time. Then each
 * waiter too many stays outside until there is room, unordered with others like
 * it.
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
			pvsync_relax();
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
 * itself was preempted does not use it up. An iteration that finds the lock
 * free counts as pvsync_impatience of them, see <linux/pvsync/pmt_lock.h>.
 *
 * Return: the value of the word that ended the phase.
 */
static __always_inline u32 pvsync_pmt_wait_turn(struct qspinlock *lock, u32 val,
						u32 tau, u32 *spins)
{
	u32 ticket = pvsync_next_ticket(val - PVSYNC_WAITER);
	int position = pvsync_position(val, ticket);
	const u32 impatience = pvsync_impatience;
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
		if (tau != PVSYNC_TAU_INF) {
			u32 cost = val & PVSYNC_LOCKED_MASK ? 1 : impatience;

			if (left < cost) {
				pvsync_count(PVSYNC_lock_timeouts);
				break;
			}
			left -= cost;
		}
		pvsync_count_spin(spins, val & PVSYNC_LOCKED_MASK);
		pvsync_relax();
		val = atomic_read(&lock->val);
		position = pvsync_position(val, ticket);
	}
	return val;
}

#endif /* _KERNEL_PVSYNC_PMT_WAIT_H */
