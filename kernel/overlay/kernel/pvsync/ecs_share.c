// SPDX-License-Identifier: GPL-2.0-only
/*
 * When a CPU shares its record with the host: from the time that it is up until it goes down,
 * but not across sleep and reboot.
 */
#define pr_fmt(fmt) "pvsync: " fmt

#include <linux/atomic.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/notifier.h>
#include <linux/percpu.h>
#include <linux/platform_device.h>
#include <linux/pm.h>
#include <linux/printk.h>
#include <linux/reboot.h>
#include <linux/smp.h>
#include <linux/timer.h>

#include "ecs_record.h"
#include "ecs_share.h"

/* While it is false, CPUs share nothing. Soon after it becomes true, all CPUs share. */
static bool sharing = true;

/* Whether the host has the record of this CPU, as the host said last. */
static DEFINE_PER_CPU(bool, taken);

/* The log says that a record is not taken. Atomic, as CPUs may share at the same tick. */
static atomic_t unheard = ATOMIC_INIT(0);

/**
 * pvsync_ecs_all_taken - whether the host has the records of all CPUs
 *
 * Context: any; CPUs that come or go meanwhile may be missed.
 *
 * Return: true if it has.
 */
bool pvsync_ecs_all_taken(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu) {
		if (!READ_ONCE(per_cpu(taken, cpu)))
			return false;
	}
	return true;
}

/* A line when the first record is refused, and one when the last is taken again. */
static void ecs_say_whether_heard(long answer)
{
	if (answer && !atomic_xchg(&unheard, 1))
		pr_warn("critical sections go unheard: the host does not take the record of a CPU (%ld)\n",
			answer);
	else if (!answer && atomic_read(&unheard) && pvsync_ecs_all_taken() &&
		 atomic_xchg(&unheard, 0))
		pr_info("critical sections are heard again\n");
}

/*
 * Disables interrupts. So this CPU either sees the store of ecs_set_sharing(false), or
 * ecs_unshare_cpu() runs here afterwards.
 */
static void ecs_share_cpu(void *unused)
{
	unsigned long flags;
	long answer = 0;

	local_irq_save(flags);
	if (READ_ONCE(sharing)) {
		answer = pvsync_ecs_share_record();
		this_cpu_write(taken, !answer);
	}
	if (answer)
		pvsync_ecs_clear_told();
	local_irq_restore(flags);
	ecs_say_whether_heard(answer);
}

static void ecs_unshare_cpu(void *unused)
{
	this_cpu_write(taken, false);
	pvsync_ecs_unshare_record();
}

/* No CPU may go down meanwhile: it would miss the call, and share on. */
static void ecs_set_sharing(bool on)
{
	cpus_read_lock();
	WRITE_ONCE(sharing, on);
	on_each_cpu(on ? ecs_share_cpu : ecs_unshare_cpu, NULL, 1);
	cpus_read_unlock();
}

/*
 * A guest that is saved goes on under another host, or in another process of the same host.
 * Neither knows of the guest's records, and nobody tells the guest. So each CPU shares its
 * record again at times, when it is awake anyway and has a tick. A host that has the record
 * already leaves all as it is.
 */
#define SHARE_AGAIN	(10 * HZ)

static DEFINE_PER_CPU(struct timer_list, share_timer);

static void ecs_share_again(struct timer_list *timer)
{
	ecs_share_cpu(NULL);
	mod_timer(timer, jiffies + SHARE_AGAIN);
}

static int ecs_cpu_up(unsigned int cpu)
{
	struct timer_list *timer = this_cpu_ptr(&share_timer);

	ecs_share_cpu(NULL);
	timer_setup(timer, ecs_share_again, TIMER_PINNED | TIMER_DEFERRABLE);
	mod_timer(timer, jiffies + SHARE_AGAIN);
	return 0;
}

static int ecs_cpu_down(unsigned int cpu)
{
	timer_shutdown_sync(this_cpu_ptr(&share_timer));
	ecs_unshare_cpu(NULL);
	return 0;
}

/* The next kernel does not know that the host writes to its memory. */
static int ecs_unshare_at_reboot(struct notifier_block *nb, unsigned long code,
				 void *unused)
{
	ecs_set_sharing(false);
	return NOTIFY_DONE;
}

static struct notifier_block reboot_nb = {
	.notifier_call = ecs_unshare_at_reboot,
};

/*
 * A restored guest may have been saved under another host. And a guest may jump to another
 * kernel for a while, which no notifier tells. The kernel tells devices of both, so there is
 * a device. The callbacks of CPU hotplug see to CPUs that go down.
 */
static int ecs_freeze_sharing(struct device *dev)
{
	ecs_set_sharing(false);
	return 0;
}

static int ecs_thaw_sharing(struct device *dev)
{
	ecs_set_sharing(true);
	return 0;
}

static DEFINE_SIMPLE_DEV_PM_OPS(sleep_ops, ecs_freeze_sharing,
				ecs_thaw_sharing);

static struct platform_driver sleep_driver = {
	.driver = {
		.name	= "pvsync-ecs",
		.pm	= pm_sleep_ptr(&sleep_ops),
		.suppress_bind_attrs = true,
	},
};

static int __init ecs_see_sleep(void)
{
	struct platform_device *device;
	int error = platform_driver_register(&sleep_driver);

	if (error)
		return error;
	device = platform_device_register_simple(sleep_driver.driver.name, PLATFORM_DEVID_NONE,
						 NULL, 0);
	return PTR_ERR_OR_ZERO(device);
}

/**
 * pvsync_ecs_start_sharing - have each CPU share its record
 *
 * Context: may sleep.
 *
 * Return: 0, or a negative error.
 */
int __init pvsync_ecs_start_sharing(void)
{
	int error = ecs_see_sleep();

	if (error) {
		pr_warn("critical sections go unheard: error %d\n", error);
		return error;
	}
	register_reboot_notifier(&reboot_nb);
	return cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "pvsync/ecs:online",
				 ecs_cpu_up, ecs_cpu_down);
}
