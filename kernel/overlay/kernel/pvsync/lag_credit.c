// SPDX-License-Identifier: GPL-2.0-only
/*
 * Directed yields that credit lag to their target: pvsync.yield=credit.
 *
 * After the description of Wanpeng Li's series "sched/fair, KVM: Semantics-aware directed
 * yield for oversubscribed KVM", version 3 of 2026-06-12. It is here to be compared with
 * strong yields (strong_yield.c), which answer the same question: what if the chosen vCPU is
 * not eligible? A strong yield lets it run, and it pays back. A credit changes its virtual
 * time instead, so that it is eligible, and nobody pays.
 *
 * What of the series is here:
 *  - The pick that follows the yield walks the way that the hint marked. It credits the target
 *    and each group above it, if it is not eligible.
 *  - The credit is to more than the mere bound of eligibility, by a margin that grows with the
 *    number of entities in the queue. The scheduler's own limit of lag bounds the margin.
 *  - An entity in the tree leaves it for the change. The one that runs is changed in place,
 *    with the protection of its slice.
 *  - It is only for targets that are queued on the CPU of the vCPU that yields.
 *  - No yield is too early for a credit.
 *
 * What differs:
 *  - The description does not say how the margin grows. Here it is a tick for each entity.
 *  - The series makes the change in the yield, and here the pick makes it. yield_to() calls
 *    the scheduler itself, so that this is the next thing that the CPU does. A pick by another
 *    task in between may use the request up, as that of a strong yield.
 *
 * What is not here:
 *  - The series cancels the protection of the slice of the vCPU that yields, and forces a
 *    switch, once in 6 ms for each run queue. Here nothing is left for that to do. Each yield
 *    calls the scheduler, and the pick looks at the buddy before it looks at protection.
 *  - KVM's part: whom the series yields to, by interrupts that the host has seen. That is
 *    another parameter here, pvsync.candidate, and no value of it does that.
 */
#include <linux/export.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mmu_context.h>

#include "../sched/sched.h"

#include <linux/pvsync/count.h>
#include <linux/pvsync/strong_yield.h>

#include "lag.h"

/* Most that one credit starts from, ns: far more than any margin, and no product overflows. */
#define CREDIT_MOST	BIT(34)

/* How far ahead of the bound of eligibility the target is to be, in virtual time. */
static u64 credit_margin(struct cfs_rq *queue, struct sched_entity *se)
{
	u64 ns = (u64)pvsync_nr_queued(queue) * TICK_NSEC;

	return pvsync_vtime(min_t(u64, ns, pvsync_lag_limit(queue, se)), se);
}

static void credit_shift(struct sched_entity *se, u64 by)
{
	se->vruntime -= by;
	se->deadline -= by;
}

/**
 * pvsync_lag_credit - make an entity eligible
 * @cfs_rq: the queue that the next entity is picked from, up to date
 * @se: the entity
 * @take: takes an entity out of the tree of its queue
 * @put: puts it back
 *
 * The average moves along with the entity, by the entity's part of the weight. The shift is
 * larger for that, as in place_entity().
 *
 * Context: the run queue is locked.
 */
void pvsync_lag_credit(struct cfs_rq *cfs_rq, struct sched_entity *se,
		       pvsync_tree_fn take, pvsync_tree_fn put)
{
	struct cfs_rq *queue = pvsync_vruntime_queue(cfs_rq);
	u64 all = pvsync_queue_weight(queue), by;

	if (entity_eligible(queue, se) || pvsync_weight(se) >= all)
		return;
	by = se->vruntime + credit_margin(queue, se) - avg_vruntime(queue);
	by = mul_u64_u64_div_u64(min_t(u64, by, CREDIT_MOST), all, all - pvsync_weight(se));
	if (se == queue->curr) {
		credit_shift(se, by);
		/* While it runs, this is how far its slice is protected. */
		se->vlag -= by;
	} else {
		take(queue, se);
		credit_shift(se, by);
		put(queue, se);
	}
	__pvsync_count(PVSYNC_yield_credited);
}
