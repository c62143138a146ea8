/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A lock that is wrong on purpose: it looks and then writes, keeps no order,
 * knows no waiters, and its trylock does not look at all. Every runner has to
 * fail with it.
 */
#include "../shim/shim.h"

typedef struct {
	atomic_t val;
} test_lock_t;

#define LOCK_NAME		"busted"
#define LOCK_IS_FIFO		1
#define LOCK_CPUS		64
#define LOCK_QUEUES_AFTER	1

#define lock_set_tau(spins)	((void)(spins))
#define lock_set_impatience(times)	((void)(times))

static inline void lock_acquire(test_lock_t *lock)
{
	while (atomic_read(&lock->val))
		cpu_relax();
	atomic_set(&lock->val, 1);
}

static inline int lock_try(test_lock_t *lock)
{
	atomic_set(&lock->val, 1);
	return 1;
}

#define lock_release(l)		atomic_set(&(l)->val, 0)
#define lock_is_locked(l)	atomic_read(&(l)->val)
#define lock_is_contended(l)	((void)(l), 0)
#define lock_value_unlocked(v)	(!(v).val.counter)
