// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waits for rwlocks: the host is told of them (pvsync.ecs=), and long waits ask
 * it for help (pvsync.help=). The waits themselves are those of
 * kernel/locking/qrwlock.c, with the changes of <linux/pvsync/rwlock.h>.
 *
 * A waiter of an rwlock queues up for the spinlock in it. The waiters behind
 * the head wait as for any spinlock: pvsync.lock= says whether they are
 * overtaken, halt or ask for help. The head has that spinlock, and waits for
 * readers or a writer to leave:
 *
 *  - It counts as a waiter, like the waiters behind it: if it keeps its CPU, it
 *    goes on no sooner.
 *  - It asks for help where waiters of spinlocks do.
 *  - Nobody overtakes it. The waiters behind it could take the rwlock no sooner
 *    than the head, unless the head is preempted when the lock gets free. And a
 *    waiter that takes the lock past the queue takes it from a writer that the
 *    lock has promised to be the next.
 *  - It does not halt, with pv-ticket and pv-pmt either. A release of an rwlock
 *    is inline code of the kernel, and for readers a subtraction. It looks for
 *    no sleeper, so nobody would wake the head. Where the processor has a pause
 *    filter, the filter ends the head's spin.
 *
 * Readers in interrupts wait outside the queue, in the same way as the head.
 */
#include <linux/export.h>
#include <linux/spinlock.h>

#include <linux/pvsync/ecs.h>
#include <linux/pvsync/help.h>

#define _PVSYNC_RWLOCK_NAMES_ONLY
#include <linux/pvsync/rwlock.h>

static __always_inline void rwlock_wait(struct qrwlock *lock,
					void (*slowpath)(struct qrwlock *lock))
{
	struct pvsync_wait_time outer;

	pvsync_ecs_wait_begins();
	pvsync_help_wait_begins(&outer);
	slowpath(lock);
	pvsync_help_wait_ends(&outer);
	pvsync_ecs_wait_ends();
}

/**
 * queued_read_lock_slowpath - acquire an rwlock that has a writer for reading
 * @lock: the lock
 *
 * Context: as read_lock(): preemption disabled, interrupts as they are; spins.
 */
void __lockfunc queued_read_lock_slowpath(struct qrwlock *lock)
{
	rwlock_wait(lock, pvsync_native_read_lock_slowpath);
}
EXPORT_SYMBOL(queued_read_lock_slowpath);

/**
 * queued_write_lock_slowpath - acquire an rwlock that is not free for writing
 * @lock: the lock
 *
 * Context: as write_lock(): preemption disabled, interrupts as they are; spins.
 */
void __lockfunc queued_write_lock_slowpath(struct qrwlock *lock)
{
	rwlock_wait(lock, pvsync_native_write_lock_slowpath);
}
EXPORT_SYMBOL(queued_write_lock_slowpath);
