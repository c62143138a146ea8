// SPDX-License-Identifier: GPL-2.0-only
/*
 * One extra schedule for a vCPU in a critical section, the scheduler's side.
 * After S. Kashyap, C. Min and T. Kim, "Scaling Guest OS Critical Sections with
 * eCS", USENIX ATC 2018, sections 3.2 and 5.
 *
 * The paper leaves out the request to switch at the tick. Here the request is
 * made as always, by the tick and by a wake-up alike, and __schedule() asks, on
 * the CPU and in the thread of the vCPU, whether to follow it: the guest's memory
 * can be read there, and preemption in the host's own code is covered as well.
 * If the vCPU stays, the request is taken back, and a timer makes it again.
 *
 * Why no other request is lost. Whoever wants the CPU queues a task and makes the
 * request with the run queue locked; if there is a request already, nobody
 * sends an interrupt for another one. So it is looked at who waits, and the
 * request is taken back, with the run queue locked:
 *
 *	put_off_switch()			wake-up, on any CPU
 *	----------------			-------------------
 *	LOCK rq					LOCK rq
 *	[L] real-time, deadline or		[S] real-time task queued
 *	    stop task queued? then no		[L] need_resched?
 *	[S] need_resched = 0			[S] need_resched = 1, interrupt
 *	UNLOCK rq				UNLOCK rq
 *
 * If the wake-up is first, the task is seen, and the vCPU goes. If it is second,
 * it finds no request and makes one, and it is looked anew who waits.
 *
 * RCU makes requests without the lock: in the tick, in its interrupts, and as a reader ends,
 * always on its own CPU and with interrupts disabled. So none comes between the steps above.
 * One that came before is taken back as well: what RCU wants is a switch or the guest,
 * either of which is a quiescent state. The vCPU is in the guest next as a rule; else the
 * switch comes at the end of the loan, and RCU waits for no longer than that.
 *
 * What is put off is a switch to other tasks of the fair class only, at most for
 * the length of the timer. Nothing is given: update_curr() charges the time to the
 * vCPU, and to the groups above it, as ever, so that EEVDF finds it ahead of its
 * share by as much and lets the others go first until they have caught up. A
 * wake-up that finds a request leaves a note that the switch need not read the
 * clock, as it follows at once. That note is taken back as well: the switch that
 * follows after the loan would charge the loan to whom it was at the expense of.
 *
 * So a loan is a debt, and who is as far ahead of its share already as a strong yield
 * lets it get (strong_yield.c) gets none, nor does a group above it. Nor do those that
 * run only when nothing else wants to: SCHED_IDLE tasks and idle groups.
 *
 * With core scheduling, a request may come from the other thread of the core, which
 * runs a task of another cookie already and relies on it. Nothing is put off then.
 */
#include <linux/export.h>
#include <linux/init.h>
#include <linux/math64.h>
#include <linux/mmu_context.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/preempt.h>

#include "../sched/sched.h"

#include <linux/pvsync/extend.h>
#include <linux/pvsync/shims.h>

DEFINE_STATIC_KEY_FALSE(pvsync_extend_key);

/* KVM's answer, which may be in a module: NULL once that goes. */
static bool (*ask_kvm)(void) __read_mostly;

/**
 * pvsync_extend_enable - let the scheduler ask from now on
 *
 * Stays: what it costs is a test per switch of a task that is no vCPU.
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
 * A task with preemption notifiers need not be a vCPU: they are for anybody. So the answer
 * goes with its module, before that is freed, for which all wait who have preemption disabled:
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
 * @prev: the running task
 *
 * True only for one that is to be preempted, not for one that goes to sleep.
 *
 * Context: as pvsync_extended().
 *
 * Return: as pvsync_extended().
 */
bool __pvsync_extended(struct task_struct *prev)
{
	bool (*ask)(void) = READ_ONCE(ask_kvm);

	return ask && pvsync_switch_is_wanted() && !READ_ONCE(prev->__state) && ask();
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
 * As far as it has been charged: who runs is at each tick, and by who wants its CPU.
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
	/* In the virtual time of its queue. */
	most = div64_ul(pvsync_lag_limit(queue, se) * NICE_0_LOAD, pvsync_weight(se));
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
 * The deadline server of the fair class counts as a running deadline task while it is queued,
 * which it is after real-time tasks have kept the class from the CPU. It has no task but those
 * of the fair class. Without the lock a hint.
 */
static unsigned int extend_queued_servers(struct rq *rq)
{
	return !data_race(RB_EMPTY_NODE(&rq->fair_server.rb_node));
}

static bool extend_only_fair_tasks_wait(struct rq *rq)
{
	return current->sched_class == &fair_sched_class &&
	       !rq->rt.rt_nr_running && rq->dl.dl_nr_running == extend_queued_servers(rq) &&
	       !(rq->stop && task_on_rq_queued(rq->stop));
}

/**
 * pvsync_put_off_switch - take the request back that the running task be switched
 *
 * Context: its thread, preemption disabled, interrupts enabled.
 *
 * Return: false if it has to go: something of another class waits, it is idle by its policy
 * or its group, one of its groups has used up its bandwidth, it is too far ahead of its share,
 * or threads of a core are scheduled together.
 */
bool pvsync_put_off_switch(void)
{
	struct rq_flags rf;
	struct rq *rq = this_rq_lock_irq(&rf);
	bool may = !sched_core_enabled(rq) && extend_only_fair_tasks_wait(rq) && extend_may_owe();

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
 * A task that sleeps, but stays queued until it has paid for what it had too much
 * of, does not. Read without a lock: a hint.
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
