/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_STRONG_YIELD_H
#define _LINUX_PVSYNC_STRONG_YIELD_H

/* Directed yields that the fair scheduler follows; see strong_yield.c and lag_credit.c. */

#include <linux/types.h>

struct cfs_rq;
struct sched_entity;

/**
 * typedef pvsync_tree_fn - take an entity out of its queue's tree, or put it into the tree
 * @cfs_rq: the queue
 * @se: the entity, which does not run
 *
 * Both are private to the fair class.
 *
 * Context: the run queue is locked.
 */
typedef void (*pvsync_tree_fn)(struct cfs_rq *cfs_rq, struct sched_entity *se);

#ifdef CONFIG_PVSYNC_KVM

#include <linux/jump_label.h>

DECLARE_STATIC_KEY_FALSE(pvsync_strong_key);
bool __pvsync_strong_next(struct cfs_rq *cfs_rq, pvsync_tree_fn take, pvsync_tree_fn put);
void pvsync_strong_enable(void);
void pvsync_strong_ask(int cpu);
void pvsync_credit_ask(int cpu);
void pvsync_lag_credit(struct cfs_rq *cfs_rq, struct sched_entity *se,
		       pvsync_tree_fn take, pvsync_tree_fn put);

/**
 * pvsync_strong_next - must the next buddy run, although it is not eligible?
 * @cfs_rq: the queue that the next entity is picked from, up to date
 *
 * A macro, for the fair class alone: only there the functions exist that change a tree.
 *
 * Context: the run queue is locked.
 *
 * Return: true if it must; then there is one. Else the buddy may be eligible by a credit.
 */
#define pvsync_strong_next(cfs_rq)				\
	(static_branch_unlikely(&pvsync_strong_key) &&		\
	 __pvsync_strong_next(cfs_rq, __dequeue_entity, __enqueue_entity))

#else

static __always_inline bool pvsync_strong_next(struct cfs_rq *cfs_rq)
{
	return false;
}

#endif /* CONFIG_PVSYNC_KVM */

#endif /* _LINUX_PVSYNC_STRONG_YIELD_H */
