// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether the host does anything for its vCPUs. While it does not, which is the default, a
 * no-op is all that a switch of a vCPU, a PAUSE exit, a yield or a wake-up has of pvsync.
 * pvsync_vcpus_key switches all of it on, and stays on, once
 *
 *	a policy	is chosen that is not stock KVM's, for all VMs or for one
 *	a guest		has made a hypercall of pvsync's, or shares a record by the MSR
 *
 * The key is also on while a reader wants the host's counters and the VMs' cpu_waits: debugfs
 * pvsync/vcpu_stat is 1 then, else 0. How long vCPUs wait for a CPU is for readers alone:
 * pvsync_wake_key.
 *
 * The key may change between two steps that belong together, as losing a CPU and getting
 * one. Notes of the first step say in which round it was, or the second step does without:
 *
 *	pvsync_vcpu_stat_round		read with what cpu_wait.c notes
 *	loans, lists, marks		begin with policies, after which the key stays on
 *	what a guest shares		the host tells it from the next switch on
 *	time off a CPU in a spin	not added if its begin was not noted, see spin.c
 *	yields				a hint for a counter
 */
#include <linux/debugfs.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/workqueue.h>

#include <linux/pvsync/host.h>
#include <linux/pvsync/vcpus.h>
#include <linux/pvsync/wake.h>

#include "counters.h"

DEFINE_STATIC_KEY_FALSE(pvsync_vcpus_key);
EXPORT_SYMBOL_GPL(pvsync_vcpus_key);

DEFINE_STATIC_KEY_FALSE(pvsync_wake_key);
EXPORT_SYMBOL_GPL(pvsync_wake_key);

/* How often a reader has switched the notes of waits on; 0 is no round. */
u32 pvsync_vcpu_stat_round;
EXPORT_SYMBOL_GPL(pvsync_vcpu_stat_round);

/* Guards the rest, and the keys. */
static DEFINE_MUTEX(vcpus_lock);

/* A policy or a guest has asked. */
static bool asked;

/* A reader wants to know. */
static bool counted;

static void vcpus_switch_keys(void)
{
	lockdep_assert_held(&vcpus_lock);
	if (asked || counted)
		static_branch_enable(&pvsync_vcpus_key);
	else
		static_branch_disable(&pvsync_vcpus_key);
}

/**
 * pvsync_vcpus_enable - a policy needs to know what vCPUs do
 *
 * Context: may sleep. After its return, policies learn of all that vCPUs do.
 */
void pvsync_vcpus_enable(void)
{
	mutex_lock(&vcpus_lock);
	asked = true;
	vcpus_switch_keys();
	mutex_unlock(&vcpus_lock);
}

static void vcpus_enable_keys(struct work_struct *work)
{
	pvsync_vcpus_enable();
}

static DECLARE_WORK(vcpus_work, vcpus_enable_keys);

/**
 * pvsync_vcpus_ask - pvsync_vcpus_enable(), soon
 *
 * A hypercall holds the SRCU of its VM. CPU hotplug may wait for a task that waits for that
 * SRCU. A switch of a key waits for CPU hotplug, so it cannot be made in a hypercall.
 *
 * Context: any.
 */
void pvsync_vcpus_ask(void)
{
	if (!READ_ONCE(asked))
		schedule_work(&vcpus_work);
}
EXPORT_SYMBOL_GPL(pvsync_vcpus_ask);

static int vcpu_stat_get(void *data, u64 *value)
{
	*value = READ_ONCE(counted);
	return 0;
}

static int vcpu_stat_set(void *data, u64 value)
{
	if (value > 1)
		return -EINVAL;
	mutex_lock(&vcpus_lock);
	if (value && !counted) {
		WRITE_ONCE(pvsync_vcpu_stat_round, pvsync_vcpu_stat_round + 1 ?: 1);
		static_branch_enable(&pvsync_wake_key);
	} else if (!value) {
		static_branch_disable(&pvsync_wake_key);
	}
	WRITE_ONCE(counted, value);
	vcpus_switch_keys();
	mutex_unlock(&vcpus_lock);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(vcpu_stat_fops, vcpu_stat_get, vcpu_stat_set, "%llu\n");

static int __init vcpu_stat_init(void)
{
	debugfs_create_file("vcpu_stat", 0600, pvsync_debugfs(), NULL, &vcpu_stat_fops);
	return 0;
}
late_initcall(vcpu_stat_init);

/*
 * Whether a task sleeps. A task that has had more than its share may sleep and still be
 * queued: the fair scheduler keeps it queued until it has paid for that.
 */
static bool vcpus_is_asleep(const struct task_struct *task)
{
	return !READ_ONCE(task->on_rq) || READ_ONCE(task->se.sched_delayed);
}

/**
 * __pvsync_vcpu_waking - note when a vCPU is woken
 * @task: the task that is woken; it is a vCPU's if it has preempt notifiers
 *
 * The scheduler's own account of waits has sleep in it. A task that sleeps and is still
 * queued may move to another CPU, and counts as waiting from then on until it runs again. A
 * task that was preempted on its way to sleep has waited since then.
 *
 * Context: as pvsync_waking().
 */
void __pvsync_vcpu_waking(struct task_struct *task)
{
#ifdef CONFIG_PREEMPT_NOTIFIERS
	if (!hlist_empty(&task->preempt_notifiers) && vcpus_is_asleep(task))
		WRITE_ONCE(task->pvsync.vcpu_woken, local_clock());
#endif
}

/**
 * pvsync_thread_delay_ns - for how long a vCPU's thread that waits for a CPU has done so
 * @pid: its pid, or NULL
 *
 * This is no part of KVM: KVM may be a module, and the scheduler does not tell modules.
 *
 * Context: any, @pid protected by RCU; off by a wait that begins or ends meanwhile.
 *
 * Return: ns: all its waits so far, and the present wait up to now; 0 if it does not wait.
 */
u64 pvsync_thread_delay_ns(struct pid *pid)
{
	struct task_struct *task = pid_task(pid, PIDTYPE_PID);
	u64 queued = task ? READ_ONCE(task->sched_info.last_queued) : 0;
	s64 lasts;

	if (!queued || vcpus_is_asleep(task))
		return 0;
	/* Clocks of two CPUs may differ by a little. */
	lasts = local_clock() - max(queued, READ_ONCE(task->pvsync.vcpu_woken));
	return READ_ONCE(task->sched_info.run_delay) + max_t(s64, lasts, 0);
}
EXPORT_SYMBOL_GPL(pvsync_thread_delay_ns);
