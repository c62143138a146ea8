// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether a guest sees the marks of preempted vCPUs, which a host says that it gives
 * (pvsync.mark). While debugfs pvsync/mark_stat is 1, a timer of one CPU looks for the marks of
 * all others, and counts looks and marks. A broken host gives no marks, whatever it counts. Nor
 * does a host whose steal time record the guest does not have.
 *
 * The timer is deferrable: it never wakes an idle CPU, and runs along with a tick of a busy one.
 * So an idle guest stays idle, and the price is a call of vcpu_is_preempted() for each other
 * CPU in one tick of some. The timer looks at nothing while its CPU is idle or has lost its own
 * CPU.
 */
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/timer.h>

#include <linux/pvsync/count.h>

#include "counters.h"

#define EACH_MS		10

static struct timer_list looking;
static DEFINE_MUTEX(switching);
static bool looks;

static void mark_stat_look(struct timer_list *timer)
{
	unsigned int here = smp_processor_id(), cpu;

	for_each_online_cpu(cpu) {
		if (cpu == here)
			continue;
		__pvsync_count(PVSYNC_mark_looks);
		if (vcpu_is_preempted(cpu))
			__pvsync_count(PVSYNC_mark_seen);
	}
	mod_timer(timer, jiffies + msecs_to_jiffies(EACH_MS));
}

static int mark_stat_get(void *data, u64 *value)
{
	*value = READ_ONCE(looks);
	return 0;
}

static int mark_stat_set(void *data, u64 value)
{
	if (value > 1)
		return -EINVAL;
	mutex_lock(&switching);
	if (value && !looks)
		mod_timer(&looking, jiffies + msecs_to_jiffies(EACH_MS));
	else if (!value)
		timer_delete_sync(&looking);
	WRITE_ONCE(looks, value);
	mutex_unlock(&switching);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(mark_stat_fops, mark_stat_get, mark_stat_set, "%llu\n");

static int __init pvsync_mark_stat_init(void)
{
	timer_setup(&looking, mark_stat_look, TIMER_DEFERRABLE);
	debugfs_create_file("mark_stat", 0600, pvsync_debugfs(), NULL, &mark_stat_fops);
	return 0;
}
late_initcall(pvsync_mark_stat_init);
