// SPDX-License-Identifier: GPL-2.0-only
/*
 * BROKEN ON PURPOSE, do not use: makes the fault that its parameter names, once. It shows
 * whether this kernel notices the fault, and whether somebody notices that report. The
 * faults harm nothing but what this module has itself.
 */
#define pr_fmt(fmt) "pvsync: " fmt

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

static char *kind = "";
module_param(kind, charp, 0444);
MODULE_PARM_DESC(kind, "which fault, see the table in the source");

static DEFINE_SPINLOCK(first);
static DEFINE_SPINLOCK(second);
static DEFINE_MUTEX(sleeps);
static int __rcu *guarded;

/* Each order on its own is harmless; together two CPUs could wait for each other. */
static void provoke_lock_order(void)
{
	spin_lock(&first);
	spin_lock(&second);
	spin_unlock(&second);
	spin_unlock(&first);

	spin_lock(&second);
	spin_lock(&first);
	spin_unlock(&first);
	spin_unlock(&second);
}

/* Taken with interrupts enabled, and in what could have been one. */
static void provoke_lock_state(void)
{
	spin_lock(&first);
	spin_unlock(&first);

	local_irq_disable();
	lockdep_hardirq_enter();
	spin_lock(&first);
	spin_unlock(&first);
	lockdep_hardirq_exit();
	local_irq_enable();
}

static void provoke_no_reader(void)
{
	int *seen = rcu_dereference(guarded);

	pr_info("read without being a reader: %d\n", seen ? *seen : 0);
}

static void provoke_atomic_sleep(void)
{
	spin_lock(&first);
	mutex_lock(&sleeps);
	mutex_unlock(&sleeps);
	spin_unlock(&first);
}

/* The allocator rounds up to 64 bytes: what lies behind the last one is nobody's. */
static void provoke_out_of_bounds(void)
{
	volatile u8 *bytes = kmalloc(61, GFP_KERNEL);

	if (bytes)
		bytes[61] = 1;
	kfree((void *)bytes);
}

static void provoke_use_after_free(void)
{
	volatile u8 *bytes = kmalloc(64, GFP_KERNEL);

	kfree((void *)bytes);
	if (bytes)
		pr_info("read of what is freed: %u\n", bytes[0]);
}

static unsigned long raced;
static unsigned long race_ends;

static noinline void provoke_race_on(void)
{
	while (time_before(jiffies, READ_ONCE(race_ends))) {
		raced++;
		cond_resched();
	}
}

static int provoke_race_thread(void *done)
{
	provoke_race_on();
	complete(done);
	return 0;
}

static void provoke_race(void)
{
	DECLARE_COMPLETION_ONSTACK(done);
	struct task_struct *other;

	WRITE_ONCE(race_ends, jiffies + 10 * HZ);
	other = kthread_run(provoke_race_thread, &done, "pvsync-race");
	if (IS_ERR(other))
		return;
	provoke_race_on();
	wait_for_completion(&done);
}

static const struct {
	const char	*kind;
	void		(*make)(void);
} faults[] = {
	{ "order",	provoke_lock_order },	/* lockdep: locks in both orders */
	{ "state",	provoke_lock_state },	/* lockdep: interrupts may come while it is held */
	{ "reader",	provoke_no_reader },	/* lockdep: rcu_dereference() outside of a reader */
	{ "sleeper",	provoke_atomic_sleep },	/* sleeps with a spinlock held */
	{ "bounds",	provoke_out_of_bounds },	/* KASAN: written behind its end */
	{ "freed",	provoke_use_after_free },	/* KASAN: read after it was freed */
	{ "race",	provoke_race },		/* KCSAN: two threads, plain accesses */
};

static int __init provoke_init(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		if (strcmp(kind, faults[i].kind))
			continue;
		pr_warn("provoked on purpose: %s\n", kind);
		faults[i].make();
		return 0;
	}
	return -EINVAL;
}

static void __exit provoke_exit(void)
{
}

module_init(provoke_init);
module_exit(provoke_exit);
MODULE_DESCRIPTION("Faults on purpose, to test that they are found");
MODULE_LICENSE("GPL");
