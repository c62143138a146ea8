/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_X86_PVSYNC_SPINLOCK_H
#define _ASM_X86_PVSYNC_SPINLOCK_H

/*
 * Spinlocks and rwlocks as <linux/spinlock.h> gets to see them.
 *
 * With CONFIG_PVSYNC_LOCK_STAT each acquisition of a spinlock is counted, also
 * by the fast path, and each wait is timed, whichever slow path it is in. With
 * CONFIG_PVSYNC_ECS_COUNT the host is told which vCPU has a lock and which
 * waits for a spinlock. For waits for rwlocks see <linux/pvsync/rwlock.h>.
 * Without either option nothing differs from <asm/qspinlock.h> and
 * <asm/qrwlock.h>.
 */
#if defined(CONFIG_PVSYNC_LOCK_STAT) || defined(CONFIG_PVSYNC_ECS_COUNT)

#include <linux/pvsync/ecs.h>
#include <linux/pvsync/lock_stat.h>

static __always_inline void pvsync_spin_lock(arch_spinlock_t *lock)
{
	int val = 0;

	if (pvsync_lock_stat_on())
		pvsync_counted_lock(lock);
	else if (likely(atomic_try_cmpxchg_acquire(&lock->val, &val,
						   _Q_LOCKED_VAL)))
		pvsync_ecs_enter(non_preemptable, PVSYNC_ECS_LOCK);
	else
		pvsync_ecs_spin(lock, val);
}

static __always_inline int pvsync_spin_trylock(arch_spinlock_t *lock)
{
	if (!queued_spin_trylock(lock))
		return 0;
	pvsync_count(PVSYNC_lock_acquisitions);
	pvsync_ecs_enter(non_preemptable, PVSYNC_ECS_LOCK);
	return 1;
}

#undef arch_spin_lock
#undef arch_spin_trylock
#define arch_spin_lock(l)		pvsync_spin_lock(l)
#define arch_spin_trylock(l)		pvsync_spin_trylock(l)

#endif /* CONFIG_PVSYNC_LOCK_STAT || CONFIG_PVSYNC_ECS_COUNT */

#ifdef CONFIG_PVSYNC_ECS_COUNT

/* Included here, as the macros below replace what it defines. */
#include <asm/qrwlock.h>

static __always_inline void pvsync_spin_unlock(arch_spinlock_t *lock)
{
	queued_spin_unlock(lock);
	pvsync_ecs_leave(non_preemptable, PVSYNC_ECS_LOCK);
}

static __always_inline void pvsync_read_lock(arch_rwlock_t *lock)
{
	queued_read_lock(lock);
	pvsync_ecs_enter(non_preemptable, PVSYNC_ECS_READ);
}

static __always_inline int pvsync_read_trylock(arch_rwlock_t *lock)
{
	if (!queued_read_trylock(lock))
		return 0;
	pvsync_ecs_enter(non_preemptable, PVSYNC_ECS_READ);
	return 1;
}

static __always_inline void pvsync_read_unlock(arch_rwlock_t *lock)
{
	queued_read_unlock(lock);
	pvsync_ecs_leave(non_preemptable, PVSYNC_ECS_READ);
}

static __always_inline void pvsync_write_lock(arch_rwlock_t *lock)
{
	queued_write_lock(lock);
	pvsync_ecs_enter(non_preemptable, PVSYNC_ECS_LOCK);
}

static __always_inline int pvsync_write_trylock(arch_rwlock_t *lock)
{
	if (!queued_write_trylock(lock))
		return 0;
	pvsync_ecs_enter(non_preemptable, PVSYNC_ECS_LOCK);
	return 1;
}

static __always_inline void pvsync_write_unlock(arch_rwlock_t *lock)
{
	queued_write_unlock(lock);
	pvsync_ecs_leave(non_preemptable, PVSYNC_ECS_LOCK);
}

#undef arch_spin_unlock
#undef arch_read_lock
#undef arch_read_trylock
#undef arch_read_unlock
#undef arch_write_lock
#undef arch_write_trylock
#undef arch_write_unlock
#define arch_spin_unlock(l)		pvsync_spin_unlock(l)
#define arch_read_lock(l)		pvsync_read_lock(l)
#define arch_read_trylock(l)		pvsync_read_trylock(l)
#define arch_read_unlock(l)		pvsync_read_unlock(l)
#define arch_write_lock(l)		pvsync_write_lock(l)
#define arch_write_trylock(l)		pvsync_write_trylock(l)
#define arch_write_unlock(l)		pvsync_write_unlock(l)

#endif /* CONFIG_PVSYNC_ECS_COUNT */

#endif /* _ASM_X86_PVSYNC_SPINLOCK_H */
