/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_FRIEBEL_H
#define _LINUX_PVSYNC_FRIEBEL_H

/*
 * Which vCPU runs instead of one that spins. After T. Friebel and S. Biemueller, "How to
 * Deal with Lock Holder Preemption", Xen Summit 2008, section 3. It is another vCPU of the
 * same guest, "preferring VCPUs preempted in kernel mode because they are likely to be
 * preempted lock-holders". Self-contained, so that tests in user space compile the same
 * bytes.
 *
 * The paper does not say which of these vCPUs. Here it is the vCPU that has waited longest
 * for a CPU. So a preempted holder comes before the vCPUs that have spun for its lock since.
 * These come in the order in which they gave up, and with fair locks they get the lock in
 * that order. To go round by index instead may run against that order for as long as the
 * convoy lasts. Then each hand-over of a ticket lock takes as many yields as there are
 * waiters.
 *
 * A search looks at all siblings once for each choice, and once more where it goes on
 * from kernel mode to the rest. Time stamps say how far it has come, so it does not choose a
 * vCPU again that the scheduler refused.
 */

#include <linux/limits.h>
#include <linux/types.h>

/**
 * struct pvsync_friebel - how far a search has come, all zero at first
 * @rest: vCPUs preempted in kernel mode have had their turn
 * @over: the rest have had their turn as well
 * @after: time stamp of the last choice among the vCPUs whose turn it is; 0 before a choice
 * @first: the earliest time stamp after @after among the vCPUs looked at; U64_MAX if there
 *	is none
 */
struct pvsync_friebel {
	bool	rest;
	bool	over;
	u64	after;
	u64	first;
};

/**
 * pvsync_friebel_begin - all siblings are about to be looked at
 * @search: the search
 *
 * Return: false if all have had their turn.
 */
static inline bool pvsync_friebel_begin(struct pvsync_friebel *search)
{
	search->first = U64_MAX;
	return !search->over;
}

/**
 * pvsync_friebel_better - a sibling is looked at that waits for a CPU
 * @search: the search
 * @since: time stamp of when it lost its CPU; 0 if it never had one
 * @in_kernel: it was preempted in kernel mode
 *
 * A search chooses one of several siblings with the same time stamp.
 *
 * Return: true if it is to run before all others that were looked at.
 */
static inline bool pvsync_friebel_better(struct pvsync_friebel *search, u64 since, bool in_kernel)
{
	if (in_kernel == search->rest || since <= search->after || since >= search->first)
		return false;
	search->first = since;
	return true;
}

/**
 * pvsync_friebel_end - all siblings have been looked at
 * @search: the search
 *
 * Return: true if the last sibling that was better is the choice; if not, the turn of the
 * rest comes, unless they have had it.
 */
static inline bool pvsync_friebel_end(struct pvsync_friebel *search)
{
	if (search->first != U64_MAX) {
		search->after = search->first;
		return true;
	}
	search->over = search->rest;
	search->rest = true;
	search->after = 0;
	return false;
}

#endif /* _LINUX_PVSYNC_FRIEBEL_H */
