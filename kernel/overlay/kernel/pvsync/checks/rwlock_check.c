// SPDX-License-Identifier: GPL-2.0-only
/*
 * Looks at what the head of an rwlock's queue tells the host (pvsync.ecs=): it waits, and is in
 * no section, although it has the spinlock of the queue.
 *
 * One CPU has the lock most of the time. Another CPU takes it for writing and for reading in
 * turn, with interrupts off, so that nothing but the wait is in its record. While that CPU
 * waits as the head, the first CPU looks at that record.
 */
#define pr_fmt(fmt) "pvsync: rwlock heads: " fmt

#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/spinlock.h>

#include <linux/pvsync/abi.h>
#include <linux/pvsync/ecs.h>

#include "each_cpu.h"

/* Looks at one wait, a millisecond each. */
#define LOOKS	8

static unsigned int seconds = 2;
module_param(seconds, uint, 0444);
MODULE_PARM_DESC(seconds, "how long to look");

static DEFINE_RWLOCK(lock);
static unsigned int owner, head;
static unsigned long end, looks, waiting, owning;

static bool rwlock_check_counts(u64 word, u64 unit)
{
	return (word & ~PVSYNC_ECS_BORROWED) / unit & PVSYNC_ECS_FIELD;
}

static void rwlock_check_look(void)
{
	u64 word = READ_ONCE(per_cpu(pvsync_ecs.non_preemptable, head));
	bool owns = rwlock_check_counts(word, PVSYNC_ECS_LOCK) ||
		    rwlock_check_counts(word, PVSYNC_ECS_READ);

	looks++;
	owning += owns;
	waiting += !owns && rwlock_check_counts(word, PVSYNC_ECS_SPINNER);
}

static void rwlock_check_own(void)
{
	unsigned int i;

	while (time_before(jiffies, end)) {
		write_lock(&lock);
		mdelay(1);
		/* A head stays there until the lock is released. */
		for (i = 0; i < LOOKS && arch_spin_is_locked(&lock.raw_lock.wait_lock); i++) {
			mdelay(1);
			rwlock_check_look();
		}
		write_unlock(&lock);
		cond_resched();
	}
}

static void rwlock_check_wait(void)
{
	while (time_before(jiffies, end)) {
		write_lock_irq(&lock);
		write_unlock_irq(&lock);
		cond_resched();
		read_lock_irq(&lock);
		read_unlock_irq(&lock);
		cond_resched();
	}
}

/* The thread that calls this is bound to its CPU. */
static void rwlock_check_own_or_wait(void)
{
	if (smp_processor_id() == owner)
		rwlock_check_own();
	else
		rwlock_check_wait();
}

static int __init rwlock_check_init(void)
{
	owner = cpumask_first(cpu_online_mask);
	head = cpumask_next(owner, cpu_online_mask);
	if (head >= nr_cpu_ids)
		return -ENODEV;
	end = jiffies + seconds * HZ;
	pvsync_on_each_cpu(rwlock_check_own_or_wait, 2);
	pr_warn("%lu looks, %lu waiting, %lu owning\n", looks, waiting, owning);
	return 0;
}

static void __exit rwlock_check_exit(void)
{
}

module_init(rwlock_check_init);
module_exit(rwlock_check_exit);
MODULE_DESCRIPTION("Looks at what heads of rwlock queues tell the host");
MODULE_LICENSE("GPL");
