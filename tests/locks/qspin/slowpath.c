// SPDX-License-Identifier: GPL-2.0-only
/*
 * The base kernel's queued spinlock. lock_events_list.h and the rest come from
 * beside it in the tree; ssize_t, struct file, loff_t and __user are only
 * named by a declaration that nobody calls.
 */
#include <sys/types.h>

struct file;
#define __user

#include <kernel/locking/qspinlock.c>

char qspin_areas[QSPIN_CPUS][1024] __aligned(64);

_Static_assert(sizeof(qnodes) <= sizeof(qspin_areas[0]), "room for a CPU's variables");

/*
 * The queue orders its nodes by smp_wmb() and by address dependencies, which
 * ThreadSanitizer does not know. What the lock guards is still checked.
 */
#ifdef SHIM_TSAN
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:queued_spin_lock_slowpath";
}
#endif
