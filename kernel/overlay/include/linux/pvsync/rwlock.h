/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_RWLOCK_H
#define _LINUX_PVSYNC_RWLOCK_H

/*
 * Waits for rwlocks. Only kernel/locking/qrwlock.c includes this whole header,
 * after its other headers. The header renames that file's functions, which
 * kernel/pvsync/rwlock.c calls in their place, and lets their loops ask for
 * help.
 *
 * The head of an rwlock's queue has the spinlock in it while it waits for the
 * owner. That spinlock is no section: the whole wait is PVSYNC_ECS_SPINNER.
 */

struct qrwlock;

void pvsync_native_read_lock_slowpath(struct qrwlock *lock);
void pvsync_native_write_lock_slowpath(struct qrwlock *lock);

#if defined(CONFIG_PVSYNC_RWLOCK) && !defined(_PVSYNC_RWLOCK_NAMES_ONLY)

#include <linux/pvsync/ecs.h>
#include <linux/pvsync/help.h>

static __always_inline void pvsync_queue_lock(arch_spinlock_t *lock)
{
	arch_spin_lock(lock);
	pvsync_ecs_drop(non_preemptable, PVSYNC_ECS_LOCK);
}

#undef arch_spin_lock
#undef arch_spin_unlock
#define arch_spin_lock(l)		pvsync_queue_lock(l)
#define arch_spin_unlock(l)		queued_spin_unlock(l)

#define queued_read_lock_slowpath	pvsync_native_read_lock_slowpath
#define queued_write_lock_slowpath	pvsync_native_write_lock_slowpath

/* The loops of qrwlock.c are macros, which spin by cpu_relax(). */
#define cpu_relax()			pvsync_relax()

/* kernel/pvsync/rwlock.c exports the names that others know. */
#undef EXPORT_SYMBOL
#define EXPORT_SYMBOL(symbol)

#endif /* CONFIG_PVSYNC_RWLOCK */

#endif /* _LINUX_PVSYNC_RWLOCK_H */
