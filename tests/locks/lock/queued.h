/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the locks on struct qspinlock share: the base kernel's inline functions,
 * unmodified, with LOCK_SLOWPATH for the contended case.
 */
#ifdef LOCK_SLOWPATH
#define queued_spin_lock_slowpath	LOCK_SLOWPATH
#endif
#include <asm-generic/qspinlock.h>

typedef struct qspinlock test_lock_t;

#define lock_acquire(l)		queued_spin_lock(l)
#define lock_try(l)		queued_spin_trylock(l)
#define lock_release(l)		queued_spin_unlock(l)
#define lock_is_locked(l)	queued_spin_is_locked(l)
#define lock_is_contended(l)	queued_spin_is_contended(l)
#define lock_value_unlocked(v)	queued_spin_value_unlocked(v)
