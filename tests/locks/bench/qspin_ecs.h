/* SPDX-License-Identifier: GPL-2.0-only */
/* The queued spinlock whose holders count themselves: pvsync.ecs=count. */
#define CONFIG_PVSYNC_ECS
#define CONFIG_PVSYNC_ECS_COUNT

#include "lock/qspin.h"

#undef LOCK_NAME
#define LOCK_NAME	"qspin ecs"

/* As after the kernel has patched its code: no flag to look at. */
#include "shim/linux/jump_label.h"
#undef static_branch_unlikely
#define static_branch_unlikely(key)	true

#include <linux/pvsync/ecs.h>

__thread struct pvsync_ecs pvsync_ecs;

/* Never called: nobody lends time here. */
void __raw_callee_save_pvsync_ecs_left(void);
void __raw_callee_save_pvsync_ecs_left(void)
{
	__builtin_trap();
}

static __always_inline void counted_acquire(test_lock_t *lock)
{
	lock_acquire(lock);
	pvsync_ecs_enter(non_preemptable, PVSYNC_ECS_LOCK);
}

static __always_inline void counted_release(test_lock_t *lock)
{
	lock_release(lock);
	pvsync_ecs_leave(non_preemptable, PVSYNC_ECS_LOCK);
}

#undef lock_acquire
#undef lock_release
#define lock_acquire	counted_acquire
#define lock_release	counted_release
