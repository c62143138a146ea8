// SPDX-License-Identifier: GPL-2.0-only
/*
 * What critical sections cost that have nothing in them: table 4 of S. Kashyap,
 * C. Min and T. Kim, "Scaling Guest OS Critical Sections with eCS", USENIX
 * ATC 2018. One CPU passes each kind for some time, and then all CPUs pass it
 * through the same lock. The module is also a driver that uses the calls of the
 * paper's table 1.
 */
#define pr_fmt(fmt) "pvsync: " fmt

#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/rwsem.h>
#include <linux/smp.h>
#include <linux/spinlock.h>

#include <linux/pvsync/ecs.h>

#include "each_cpu.h"

/* Passes between two looks at the clock: a thread is late by so many at most. */
#define BATCH	256

static unsigned int ms = 200;
module_param(ms, uint, 0444);
MODULE_PARM_DESC(ms, "how long each kind is passed, twice, in milliseconds");

static DEFINE_RAW_SPINLOCK(a_spinlock);
static DEFINE_RWLOCK(a_rwlock);
static DEFINE_MUTEX(a_mutex);
static DECLARE_RWSEM(a_rwsem);

/* The thread that calls these is bound to its CPU. */
#define PASS(name, enter, leave)				\
static void name(void)						\
{								\
	const int cpu __maybe_unused = raw_smp_processor_id();	\
	unsigned int i;						\
								\
	for (i = 0; i < BATCH; i++) {				\
		enter;						\
		barrier();					\
		leave;						\
	}							\
}

PASS(section_pass_nothing, barrier(), barrier())
PASS(section_pass_spinlock, raw_spin_lock(&a_spinlock), raw_spin_unlock(&a_spinlock))
PASS(section_pass_read, read_lock(&a_rwlock), read_unlock(&a_rwlock))
PASS(section_pass_write, write_lock(&a_rwlock), write_unlock(&a_rwlock))
PASS(section_pass_mutex, mutex_lock(&a_mutex), mutex_unlock(&a_mutex))
PASS(section_pass_down_read, down_read(&a_rwsem), up_read(&a_rwsem))
PASS(section_pass_down_write, down_write(&a_rwsem), up_write(&a_rwsem))
PASS(section_pass_rcu, rcu_read_lock(), rcu_read_unlock())
PASS(section_pass_preemptable, activate_preemptable_ecs(cpu), deactivate_preemptable_ecs(cpu))
PASS(section_pass_calls, activate_non_preemptable_ecs(cpu), deactivate_non_preemptable_ecs(cpu))

static void section_pass_non_preemptable(void)
{
	preempt_disable();
	section_pass_calls();
	preempt_enable();
}

static const struct {
	const char	*kind;
	void		(*pass)(void);
} sections[] = {
	{ "nothing",		section_pass_nothing },	/* the loop alone */
	{ "non-preemptable",	section_pass_non_preemptable },	/* the paper's calls alone */
	{ "preemptable",	section_pass_preemptable },
	{ "spinlock",		section_pass_spinlock },
	{ "rwlock-read",	section_pass_read },
	{ "rwlock-write",	section_pass_write },
	{ "mutex",		section_pass_mutex },
	{ "rwsem-read",		section_pass_down_read },
	{ "rwsem-write",	section_pass_down_write },
	{ "rcu",		section_pass_rcu },
};

/* Of the kind whose turn it is; the threads add to the sums at their ends. */
static void (*pass)(void);
static atomic64_t passes;
static atomic64_t spent_ns;

static void section_pass_for_a_time(void)
{
	ktime_t begun = ktime_get(), now, end = ktime_add_ms(begun, ms);
	u64 mine = 0;

	do {
		pass();
		mine += BATCH;
		cond_resched();
		now = ktime_get();
	} while (ktime_before(now, end));

	atomic64_add(mine, &passes);
	atomic64_add(ktime_to_ns(ktime_sub(now, begun)), &spent_ns);
}

static void section_measure_cost(unsigned int which, unsigned int cpus)
{
	u64 tenths, tenth;

	pass = sections[which].pass;
	atomic64_set(&passes, 0);
	atomic64_set(&spent_ns, 0);
	pvsync_on_each_cpu(section_pass_for_a_time, cpus);
	if (!atomic64_read(&passes))	/* no thread could be made */
		return;

	tenths = div64_u64(10 * atomic64_read(&spent_ns), atomic64_read(&passes));
	tenths = div64_u64_rem(tenths, 10, &tenth);
	pr_info("section cost: %s, CPUs %u: %llu.%llu ns\n", sections[which].kind, cpus,
		tenths, tenth);
}

static int __init section_cost_init(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sections); i++) {
		section_measure_cost(i, 1);
		if (num_online_cpus() > 1)
			section_measure_cost(i, num_online_cpus());
	}
	return 0;
}

static void __exit section_cost_exit(void)
{
}

module_init(section_cost_init);
module_exit(section_cost_exit);
MODULE_DESCRIPTION("Time that empty critical sections take");
MODULE_LICENSE("GPL");
