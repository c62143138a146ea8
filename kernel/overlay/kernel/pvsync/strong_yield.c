// SPDX-License-Identifier: GPL-2.0-only
/*
 * Strong directed yields.
 *
 * yield_to() marks the chosen task, and each group above it, as the next buddy
 * of its queue. The pick follows that only if the buddy is eligible, that is if
 * it has not had more than its share yet. A vCPU that was preempted while it
 * held a lock mostly has: that is why it was preempted. The scheduler then drops
 * the hint without a word, and the vCPU that yielded spins on.
 *
 * A strong yield lets the buddy run although it is not eligible. Nothing is given
 * away: the scheduler charges the time to the buddy, and to the groups above it,
 * as always. The buddy gets ahead of its share, is not eligible until the others
 * have caught up, and so pays back.
 *
 * There is a bound on how far a buddy may get ahead. A buddy that has had more
 * than the scheduler's own limit of lag beyond its share is not let in again
 * (PVSYNC_yield_denied). That holds in its queue and in the queue of any group
 * above. The same limit is the reason why nothing is forgotten: the scheduler
 * keeps the lag of a task that goes to sleep up to this limit.
 *
 * A request is for one CPU and lasts for one pick. Without a pick, it ends with the
 * tick after the next one, so that a request just before a tick has a whole tick.
 *
 * sched_ext has yields of its own. A vCPU that it runs makes no request, as no pick would follow
 * it, but that of a fair task, of which it is not.
 *
 * A credit (lag_credit.c) is a request of another kind, with the same life.
 */
#include <linux/jiffies.h>
#include <linux/jump_label.h>
#include <linux/mmu_context.h>
#include <linux/percpu.h>

#include "../sched/sched.h"

#include <linux/pvsync/count.h>
#include <linux/pvsync/extend.h>
#include <linux/pvsync/strong_yield.h>

DEFINE_STATIC_KEY_FALSE(pvsync_strong_key);

/* Last jiffy in which the request of the CPU counts, 0 if there is none. */
static DEFINE_PER_CPU(unsigned long, strong_until);

/* Whether the last request of the CPU is for a credit. */
static DEFINE_PER_CPU(bool, strong_credit);

/**
 * pvsync_strong_enable - let picks look for requests
 *
 * Cannot be undone. Without requests it costs a read of one per-CPU word per pick.
 *
 * Context: may sleep.
 */
void pvsync_strong_enable(void)
{
	static_branch_enable(&pvsync_strong_key);
}

/* A reader that sees one of the two alone takes one kind of request for the other, once. */
static void strong_request(int cpu, bool credit)
{
	if (pvsync_under_scx())
		return;
	WRITE_ONCE(per_cpu(strong_credit, cpu), credit);
	WRITE_ONCE(per_cpu(strong_until, cpu), jiffies + 1 ?: 1);
}

/**
 * pvsync_strong_ask - make the yield that follows a strong one
 * @cpu: where the chosen task is queued
 *
 * Does nothing for a vCPU that sched_ext runs.
 *
 * Takes no lock. Something else may be picked on that CPU before yield_to() gets its
 * lock. That pick may use the request up for another buddy, which has the same bounds,
 * and the yield is an ordinary one.
 *
 * The request stays if yield_to() refuses: it may be another vCPU's by then, whose yield
 * was accepted. If it is not, it ends with the first pick without a buddy, or lets in
 * another hinted buddy, within the same bounds.
 *
 * Context: thread of the vCPU that yields, no run queue locked.
 */
void pvsync_strong_ask(int cpu)
{
	strong_request(cpu, false);
}
EXPORT_SYMBOL_GPL(pvsync_strong_ask);

/**
 * pvsync_credit_ask - make the yield that follows one with a credit
 * @cpu: where the chosen task is queued
 *
 * Does nothing if this is another CPU than the caller's. Else as pvsync_strong_ask().
 *
 * Context: as pvsync_strong_ask().
 */
void pvsync_credit_ask(int cpu)
{
	if (cpu == raw_smp_processor_id())
		strong_request(cpu, true);
}
EXPORT_SYMBOL_GPL(pvsync_credit_ask);

/**
 * __pvsync_strong_next - pvsync_strong_next() once there have been strong yields
 * @cfs_rq: the queue that the next entity is picked from, up to date
 * @take: takes an entity out of the tree of its queue
 * @put: puts it back
 *
 * The scheduler asks for each queue on the way down to a task. The last queue, whose
 * buddy is a task or which has none, ends the request.
 *
 * Context: the run queue is locked.
 *
 * Return: as pvsync_strong_next().
 */
bool __pvsync_strong_next(struct cfs_rq *cfs_rq, pvsync_tree_fn take, pvsync_tree_fn put)
{
	int cpu = cpu_of(rq_of(cfs_rq));
	unsigned long *until = per_cpu_ptr(&strong_until, cpu);
	struct sched_entity *se = cfs_rq->next;
	bool asked = READ_ONCE(*until) && time_before_eq(jiffies, READ_ONCE(*until));

	if (!asked)
		return false;
	if (!se || entity_is_task(se))
		WRITE_ONCE(*until, 0);
	if (!se)
		return false;

	if (READ_ONCE(per_cpu(strong_credit, cpu))) {
		pvsync_lag_credit(cfs_rq, se, take, put);
		return false;
	}
	if (!pvsync_far_ahead(cfs_rq, se))
		return true;

	WRITE_ONCE(*until, 0);
	__pvsync_count(PVSYNC_yield_denied);
	return false;
}
