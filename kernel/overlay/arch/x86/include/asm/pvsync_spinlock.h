/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_X86_PVSYNC_SPINLOCK_H
#define _ASM_X86_PVSYNC_SPINLOCK_H

/*
 * Counts every acquisition, also those that the fast path takes, and times
 * every wait, whichever slow path it is in. Nothing is different from
 * <asm/qspinlock.h> without CONFIG_PVSYNC_LOCK_STAT.
 */
#ifdef CONFIG_PVSYNC_LOCK_STAT

#include <linux/pvsync/lock_stat.h>

static __always_inline void pvsync_spin_lock(arch_spinlock_t *lock)
{
	if (pvsync_lock_stat_on())
		pvsync_counted_lock(lock);
	else
		queued_spin_lock(lock);
}

static __always_inline int pvsync_spin_trylock(arch_spinlock_t *lock)
{
	if (!queued_spin_trylock(lock))
		return 0;
	pvsync_count(PVSYNC_lock_acquisitions);
	return 1;
}

#undef arch_spin_lock
#undef arch_spin_trylock
#define arch_spin_lock(l)		pvsync_spin_lock(l)
#define arch_spin_trylock(l)		pvsync_spin_trylock(l)

#endif /* CONFIG_PVSYNC_LOCK_STAT */

#endif /* _ASM_X86_PVSYNC_SPINLOCK_H */
