/* SPDX-License-Identifier: GPL-2.0-only */
/* The ticket lock as in Linux before 4.2: two counters, one atomic addition. */
#include "shim/shim.h"

#define LOCK_NAME "plain ticket"

typedef struct {
	union {
		atomic_t val;
		struct {
			u16 head, tail;
		};
	};
} test_lock_t;

static __always_inline void lock_acquire(test_lock_t *lock)
{
	u32 old = atomic_fetch_add_acquire(0x10000, &lock->val);
	u16 ticket = old >> 16;

	if (likely((u16)old == ticket))
		return;
	while (smp_load_acquire(&lock->head) != ticket)
		cpu_relax();
}

static __always_inline void lock_release(test_lock_t *lock)
{
	smp_store_release(&lock->head, lock->head + 1);
}
