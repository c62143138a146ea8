/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_LOCK_STAT_H
#define _LINUX_PVSYNC_LOCK_STAT_H

/*
 * Events of the pvsync locks, as in Table 1 of the preemptable ticket spinlock
 * paper. Without CONFIG_PVSYNC_LOCK_STAT the compiler leaves them out. With it,
 * the fast path has a no-op instruction until counting is switched on.
 *
 * The held bit of the lock word tells waiters from owners. If somebody waits
 * long for a lock that is not held, its owner released it to a waiter that does
 * not run.
 */

#include <linux/types.h>
#include <linux/pvsync/count.h>

struct qspinlock;

void pvsync_counted_lock(struct qspinlock *lock);
void pvsync_clear_waits(unsigned int cpu);

#ifdef CONFIG_PVSYNC_LOCK_STAT

#include <linux/jump_label.h>

DECLARE_STATIC_KEY_FALSE(pvsync_lock_stat_key);
extern u32 pvsync_stall_spins;

static __always_inline bool pvsync_lock_stat_on(void)
{
	return static_branch_unlikely(&pvsync_lock_stat_key);
}

static __always_inline void pvsync_count(enum pvsync_counter counter)
{
	if (pvsync_lock_stat_on())
		__pvsync_count(counter);
}

/**
 * pvsync_count_spin - note one iteration of a waiting loop
 * @spins: iterations of this wait so far, advanced by one
 * @held: the lock was held when this iteration looked
 *
 * A wait becomes a stall when it reaches the threshold, so it counts once
 * however long it lasts.
 *
 * Context: any, NMI included.
 */
static __always_inline void pvsync_count_spin(u32 *spins, bool held)
{
	if (pvsync_lock_stat_on() && ++*spins == READ_ONCE(pvsync_stall_spins))
		__pvsync_count(held ? PVSYNC_lock_stalls_holder :
				      PVSYNC_lock_stalls_waiter);
}

#else

static __always_inline bool pvsync_lock_stat_on(void)
{
	return false;
}

static __always_inline void pvsync_count(enum pvsync_counter counter)
{
}

static __always_inline void pvsync_count_spin(u32 *spins, bool held)
{
}

#endif /* CONFIG_PVSYNC_LOCK_STAT */

#endif /* _LINUX_PVSYNC_LOCK_STAT_H */
