// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a waiter of a mutex or an rwsem does when it has queued itself and would
 * go to sleep: pvsync.park=. After S. Kashyap, C. Min and T. Kim, "Scaling
 * Guest OS Critical Sections with eCS", USENIX ATC 2018, section 4, LWP and BWW
 * problem: to wake a CPU that has gone idle takes exits of both CPUs.
 *
 *   stock	it sleeps
 *   schdspin	it spins while it is the only task of its CPU, then sleeps
 *   eschdspin	as schdspin, but it does not spin while something else wants the
 *		host's CPU, as far as the host has told
 *
 * It waits for its own wake-up and for nothing else, so the locks need no
 * change:
 *
 *	waiter				waker
 *	------				-----
 *	[S] state = SLEEPS		[S]   the lock, or a signal
 *	    MB				      MB
 *	[L] the lock, signals		[RmW] state: SLEEPS -> RUNNING,
 *	[L] state, spins until RUNNING	      with pi_lock
 *
 * The right side, and the left side up to the last line, are what sleeping
 * needs. The kernel has them anyway. A waker finds a task that has its CPU, is
 * queued and sleeps, as it finds any task that has not got to schedule() yet.
 * It sets the state, and sends nothing.
 *
 * A waiter that stops spinning before it has been woken goes to schedule(),
 * which reads the state under the lock of the run queue. A wake-up before that
 * read keeps the waiter awake, and a wake-up after it wakes the waiter. Signals
 * wake like locks, if the state allows it. The caller looks for the lock and
 * for signals when pvsync_park() returns, whatever ended the wait.
 *
 * A task that sleeps lets others go on, and a task that spins must do so as
 * well:
 *
 *  - Other tasks of the CPU: preemption is enabled while the waiter spins, as
 *    in schedule(), and it does not spin if there are any.
 *  - The workers of a workqueue, and of io_uring: another worker takes over
 *    when one sleeps. They always sleep.
 *  - Block requests that a task has collected, which the owner may wait for:
 *    the kernel submits them when the task sleeps. So a task that collects
 *    requests always sleeps.
 *  - RCU: preemption is enabled, so the tick finds a task that is no reader.
 *    Where that says nothing, the tick asks for a switch. The waiter tells
 *    Tasks RCU that its spin is as good as a voluntary switch.
 *
 * In debugfs, pvsync/park_stat is 1 while wake-ups are timed, else 0: how long
 * tasks that slept take from their wake-up to their CPU (park_wakeups,
 * park_wakeup_ns).
 */
#define pr_fmt(fmt) "pvsync: " fmt

#include <linux/init.h>
#include <linux/jump_label.h>
#include <linux/kernel.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/debug.h>
#include <linux/sched/stat.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/string.h>

#include <linux/pvsync/count.h>
#include <linux/pvsync/ecs.h>
#include <linux/pvsync/park.h>

#include "counters.h"
#include "ecs.h"
#include "guest.h"
#include "in_force.h"

DEFINE_STATIC_KEY_FALSE(pvsync_park_stat_key);
static DEFINE_STATIC_KEY_FALSE(spin_key);

enum park_strategy {
	PARK_STOCK,
	PARK_SCHDSPIN,
	PARK_ESCHDSPIN,
};

static const char * const strategy_names[] = {
	[PARK_STOCK]		= "stock",
	[PARK_SCHDSPIN]		= "schdspin",
	[PARK_ESCHDSPIN]	= "eschdspin",
};

static enum park_strategy strategy __read_mostly = PARK_STOCK;

/* Values of task_struct::pvsync.woken that are not a time. */
#define NOT_ASLEEP	0
#define ASLEEP		1

/* The task may be on another CPU after each line, which does no harm. */
static bool park_cpu_is_ours(void)
{
	if (need_resched() || !single_task_running())
		return false;
	return strategy != PARK_ESCHDSPIN ||
	       !is_pcpu_overcommitted(raw_smp_processor_id());
}

static bool park_must_sleep(void)
{
	return current->plug || current->flags & (PF_WQ_WORKER | PF_IO_WORKER);
}

/* Return: whether the task has been woken. */
static bool __sched park_spin(void)
{
	while (get_current_state() != TASK_RUNNING) {
		if (!park_cpu_is_ours())
			return false;
		rcu_tasks_qs(current, false);
		cpu_relax();
	}
	return true;
}

static bool __sched park_spin_preemptibly(void)
{
	bool woken;

	if (park_must_sleep())
		return false;
	sched_preempt_enable_no_resched();
	woken = pvsync_ecs_waits(park_spin());
	preempt_disable();
	return woken;
}

static void __sched park_sleep_timed(void)
{
	u64 woken;

	WRITE_ONCE(current->pvsync.woken, ASLEEP);
	schedule_preempt_disabled();
	woken = READ_ONCE(current->pvsync.woken);
	WRITE_ONCE(current->pvsync.woken, NOT_ASLEEP);
	if (woken == ASLEEP)
		return;
	__pvsync_count(PVSYNC_park_wakeups);
	/* The waker took its time on the clock of another CPU. */
	__pvsync_add(PVSYNC_park_wakeup_ns,
		     max_t(s64, local_clock() - woken, 0));
}

/**
 * pvsync_park - wait until this task is woken, as schedule_preempt_disabled()
 *
 * May return without a wake-up, as schedule_preempt_disabled() may.
 *
 * Context: task that could sleep but for preemption, which is disabled once.
 * The task has set its state, and has then looked at what it waits for.
 */
void __sched pvsync_park(void)
{
	if (static_branch_unlikely(&spin_key) && park_spin_preemptibly()) {
		__pvsync_count(PVSYNC_park_spun);
		return;
	}
	__pvsync_count(PVSYNC_park_slept);
	if (static_branch_unlikely(&pvsync_park_stat_key))
		park_sleep_timed();
	else
		schedule_preempt_disabled();
}

/**
 * __pvsync_park_waking - note when a task that sleeps here is woken
 * @task: the task
 *
 * Context: as pvsync_waking(), so there is one waker at a time, and @task sees
 * what the waker writes when @task runs.
 */
void __pvsync_park_waking(struct task_struct *task)
{
	if (READ_ONCE(task->pvsync.woken) == ASLEEP)
		WRITE_ONCE(task->pvsync.woken, local_clock());
}

/* There is one CPU yet. The last pvsync.park= counts. */
static int __init park_parse_strategy(char *arg)
{
	int wanted = match_string(strategy_names, ARRAY_SIZE(strategy_names),
				  arg);
	const char *reason;

	if (wanted < 0) {
		pr_warn("pvsync.park=%s is not known, nothing changes; use stock, schdspin or eschdspin\n",
			arg);
		return 1;
	}
	reason = pvsync_ecs_share_anyway(wanted == PARK_ESCHDSPIN);
	if (reason) {
		pr_info("pvsync.park=%s is stock here: %s\n", arg, reason);
		wanted = PARK_STOCK;
	}
	strategy = wanted;
	if (strategy == PARK_STOCK)
		static_branch_disable(&spin_key);
	else
		static_branch_enable(&spin_key);
	pr_info("waiters of mutexes and rwsems: %s\n", strategy_names[strategy]);
	return 1;
}
__setup("pvsync.park=", park_parse_strategy);

/**
 * pvsync_park_offered - the host says what wants its CPUs, or does not
 * @offered: whether it says so
 *
 * Without it, eschdspin would spin whatever the host has to do.
 *
 * Context: may sleep, boot is over.
 */
void pvsync_park_offered(bool offered)
{
	if (strategy != PARK_ESCHDSPIN ||
	    offered == static_key_enabled(&spin_key))
		return;
	if (offered) {
		static_branch_enable(&spin_key);
		pr_info("waiters of mutexes and rwsems: eschdspin again\n");
	} else {
		static_branch_disable(&spin_key);
		pr_warn("pvsync.park=eschdspin is stock from now on: the host does not offer it any more\n");
	}
}

/**
 * pvsync_park_in_force - show what waiters of mutexes and rwsems do
 * @seq: where to
 *
 * Context: may sleep.
 */
void pvsync_park_in_force(struct seq_file *seq)
{
	enum park_strategy now = static_key_enabled(&spin_key) ? strategy :
								 PARK_STOCK;

	seq_printf(seq, "park %s\n", strategy_names[now]);
}

static int __init pvsync_park_init(void)
{
	pvsync_create_switch("park_stat", pvsync_debugfs(),
			     &pvsync_park_stat_key);
	return 0;
}
late_initcall(pvsync_park_init);
