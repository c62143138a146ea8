// SPDX-License-Identifier: GPL-2.0-only
/*
 * One extra schedule for a vCPU in a critical section, the scheduler's side.
 * After S. Kashyap, C. Min and T. Kim, "Scaling Guest OS Critical Sections with
 * eCS", USENIX ATC 2018, sections 3.2 and 5.
 *
 * The paper leaves out the request to switch at the tick. Here the tick and a wake-up make
 * the request as always. __schedule() asks whether to follow it, on the CPU and in the thread
 * of the vCPU. The guest's memory can be read there, and preemption in the host's own code
 * is covered as well. If the vCPU stays, pvsync takes the request back, and a timer makes it
 * again.
 *
 * __schedule() asks first of all, before it traces its entry and counts itself: without a
 * switch, for others nothing has happened. Tools that check the order of the scheduler's
 * tracepoints, such as the monitors of kernel/trace/rv, see none of it. schedule_debug()
 * comes later. So pvsync leaves alone callers that it would complain of.
 *
 * Why no other request is lost. Whoever wants the CPU queues a task and makes the
 * request with the run queue locked. If there is a request already, nobody sends an
 * interrupt for another one. So pvsync looks at the waiting tasks, and takes the request
 * back, with the run queue locked:
 *
 *	put_off_switch()			wake-up, on any CPU
 *	----------------			-------------------
 *	LOCK rq					LOCK rq
 *	[L] real-time, deadline or		[S] real-time task queued
 *	    stop task queued? then no		[L] need_resched?
 *	[S] need_resched = 0			[S] need_resched = 1, interrupt
 *	UNLOCK rq				UNLOCK rq
 *
 * If the wake-up is first, put_off_switch() sees the task, and the vCPU goes. If the wake-up
 * is second, it finds no request and makes one, and __schedule() asks anew.
 *
 * RCU makes requests without the lock: in the tick, in its interrupts, and as a reader ends,
 * always on its own CPU and with interrupts disabled. So none comes between the steps above.
 * pvsync takes back a request that RCU made before as well. What RCU wants is a switch or the
 * guest, either of which is a quiescent state. The vCPU is in the guest next as a rule. Else
 * the switch comes at the end of the loan, and RCU waits for no longer than that.
 *
 * pvsync puts off a switch to other tasks of the fair class only, at most for the length of
 * the timer. Nothing is given: update_curr() charges the time to the vCPU, and to the groups
 * above it, as always. So EEVDF finds the vCPU ahead of its share by as much, and lets the
 * others go first until they have caught up. A wake-up that finds a request leaves a note
 * that the switch need not read the clock, as the switch follows at once. pvsync takes that
 * note back as well. The switch after the loan would otherwise charge the loan to a task at
 * whose expense it was.
 *
 * So a loan is a debt. An entity that is as far ahead of its share as a strong yield lets it
 * get (strong_yield.c) gets no loan, nor does a group above it. SCHED_IDLE tasks and idle
 * groups get none either: they run only when nothing else wants to.
 *
 * With core scheduling, a request may come from the other thread of the core. That thread
 * runs a task of another cookie already and relies on the request. pvsync puts nothing off
 * then.
 *
 * A vCPU that sched_ext runs gets no loan: its slices and its preemption are the BPF
 * scheduler's, whose queues pvsync does not know.
 */
#define pr_fmt(fmt) "pvsync: " fmt

#include <linux/export.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/mmu_context.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/preempt.h>
#include <linux/printk.h>

#include "../sched/sched.h"

#include <linux/pvsync/extend.h>
#include <linux/pvsync/shims.h>

#include "lag.h"

DEFINE_STATIC_KEY_FALSE(pvsync_extend_key);

/* KVM's answer, which may be in a module; NULL once that module goes. */
static bool (*ask_kvm)(void) __read_mostly;

/**
 * pvsync_extend_enable - let the scheduler ask
 *
 * Cannot be undone. It costs a test for each switch of a task that is no vCPU.
 *
 * Context: may sleep.
 */
void pvsync_extend_enable(void)
{
	static_branch_enable(&pvsync_extend_key);
}

/**
 * pvsync_extend_by - say who answers
 * @ask: called in the thread of a vCPU that is to lose its CPU, with preemption
 *	disabled; returns whether it has put that off by pvsync_put_off_switch()
 *
 * Context: any.
 */
void pvsync_extend_by(bool (*ask)(void))
{
	WRITE_ONCE(ask_kvm, ask);
}
EXPORT_SYMBOL_GPL(pvsync_extend_by);

/*
 * A task with preemption notifiers need not be a vCPU: anybody may use them. So the answer
 * goes with its module. The module is freed after a grace period, which waits for every CPU
 * that has preemption disabled:
 *
 *	__schedule()			unloading
 *	------------			---------
 *	preemption disabled		[S] ask_kvm = NULL
 *	[L] ask_kvm			synchronize_rcu(), in free_module()
 *	    call			free
 *	preemption enabled
 */
static int extend_module_goes(struct notifier_block *nb, unsigned long state, void *data)
{
	bool (*ask)(void) = READ_ONCE(ask_kvm);

	if (state == MODULE_STATE_GOING && ask && within_module((unsigned long)ask, data))
		WRITE_ONCE(ask_kvm, NULL);
	return NOTIFY_DONE;
}

static struct notifier_block module_nb = {
	.notifier_call = extend_module_goes,
};

static int __init pvsync_extend_init(void)
{
	return register_module_notifier(&module_nb);
}
core_initcall(pvsync_extend_init);

/**
 * __pvsync_extended - pvsync_extended(), for a task that may be a vCPU
 *
 * True only for one that is to be preempted, not for one that goes to sleep. Never true where
 * __schedule() must not be called, such as with interrupts disabled.
 *
 * Context: as pvsync_extended().
 *
 * Return: as pvsync_extended().
 */
bool __pvsync_extended(void)
{
	bool (*ask)(void) = READ_ONCE(ask_kvm);

	return ask && pvsync_switch_is_wanted() && !READ_ONCE(current->__state) &&
	       !in_atomic_preempt_off() && !irqs_disabled() && ask();
}

/**
 * pvsync_under_scx - does a BPF scheduler run this vCPU? Says once what that means
 *
 * With SCX_OPS_SWITCH_PARTIAL it runs the tasks of SCHED_EXT alone, and pvsync works as always
 * for others. A class may change meanwhile, so this is a hint.
 *
 * Context: thread of a vCPU, no run queue locked.
 *
 * Return: true if it does.
 */
bool pvsync_under_scx(void)
{
	if (!task_on_scx(current))
		return false;
	pr_info_once("sched_ext runs vCPUs: pvsync.extend lends these no time, and their directed yields are what ops.yield makes of them, whatever pvsync.yield is; without ops.yield they fail\n");
	return true;
}

/* Whether bandwidth control has taken, or is about to take, its CPU from @cfs_rq. */
static bool extend_out_of_bandwidth(struct cfs_rq *cfs_rq)
{
#ifdef CONFIG_CFS_BANDWIDTH
	return cfs_rq->throttle_count ||
	       (cfs_rq->runtime_enabled && cfs_rq->runtime_remaining <= 0);
#else
	return false;
#endif
}

static bool extend_is_idle_group(struct cfs_rq *cfs_rq)
{
#ifdef CONFIG_FAIR_GROUP_SCHED
	return cfs_rq->idle > 0;
#else
	return false;
#endif
}

static struct sched_entity *extend_group_of(struct sched_entity *se)
{
#ifdef CONFIG_FAIR_GROUP_SCHED
	return se->parent;
#else
	return NULL;
#endif
}

/**
 * pvsync_far_ahead - is an entity ahead of its share by more than the scheduler keeps in mind?
 * @cfs_rq: its queue
 * @se: the entity
 *
 * Counts what @se has been charged with so far: at each tick while it runs, and by each
 * task that wants its CPU.
 *
 * Context: the run queue is locked.
 *
 * Return: true if it is: by more than the scheduler's own limit of lag.
 */
bool pvsync_far_ahead(struct cfs_rq *cfs_rq, struct sched_entity *se)
{
	struct cfs_rq *queue = pvsync_vruntime_queue(cfs_rq);
	s64 most;

	if (!pvsync_has_vruntime(se))
		return false;
	most = pvsync_vtime(pvsync_lag_limit(queue, se), se);
	return (s64)(se->vruntime - avg_vruntime(queue)) > most;
}

/* Whether the running task, of the fair class, and the groups above it may get into debt. */
static bool extend_may_owe(void)
{
	struct sched_entity *se;

	if (task_has_idle_policy(current))
		return false;
	for (se = &current->se; se; se = extend_group_of(se)) {
		struct cfs_rq *cfs_rq = cfs_rq_of(se);

		if (extend_is_idle_group(cfs_rq) ||
		    extend_out_of_bandwidth(cfs_rq) ||
		    pvsync_far_ahead(cfs_rq, se))
			return false;
	}
	return true;
}

/*
 * The deadline server of the fair class counts as a running deadline task while it is queued.
 * It is queued after real-time tasks have kept the class from the CPU, and it has no tasks but
 * the fair class's.
 */
static unsigned int extend_queued_servers(struct rq *rq)
{
	/* Without the lock this is a hint. */
	return !data_race(RB_EMPTY_NODE(&rq->fair_server.rb_node));
}

static bool extend_only_fair_tasks_wait(struct rq *rq)
{
	return current->sched_class == &fair_sched_class &&
	       !rq->rt.rt_nr_running && rq->dl.dl_nr_running == extend_queued_servers(rq) &&
	       !(rq->stop && task_on_rq_queued(rq->stop));
}

/**
 * pvsync_put_off_switch - take back the request to switch the running task
 *
 * Context: its thread, preemption disabled, interrupts enabled.
 *
 * Return: false if the task has to go, for one of these reasons:
 *  - sched_ext runs the task;
 *  - something of another class waits;
 *  - the task is idle by its policy or its group;
 *  - one of its groups has used up its bandwidth;
 *  - it is too far ahead of its share;
 *  - threads of a core are scheduled together.
 */
bool pvsync_put_off_switch(void)
{
	struct rq_flags rf;
	struct rq *rq;
	bool may;

	if (pvsync_under_scx())
		return false;

	rq = this_rq_lock_irq(&rf);
	may = !sched_core_enabled(rq) && extend_only_fair_tasks_wait(rq) && extend_may_owe();
	if (may) {
		clear_tsk_need_resched(current);
		clear_preempt_need_resched();
		rq_clock_cancel_skipupdate(rq);
	}
	rq_unlock_irq(rq, &rf);
	return may;
}
EXPORT_SYMBOL_GPL(pvsync_put_off_switch);

/**
 * pvsync_cpu_wanted - does another task want this CPU?
 *
 * A task does not if it sleeps, but stays queued until it has paid for running more than its
 * share. Reads without a lock: a hint.
 *
 * Context: preemption disabled.
 */
bool pvsync_cpu_wanted(void)
{
	struct rq *rq = this_rq();

	return READ_ONCE(rq->nr_running) >
	       pvsync_nr_delayed(rq) + pvsync_nr_counted(extend_queued_servers(rq)) + 1;
}
EXPORT_SYMBOL_GPL(pvsync_cpu_wanted);
