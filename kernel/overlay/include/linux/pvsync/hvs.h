/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_HVS_H
#define _LINUX_PVSYNC_HVS_H

/*
 * Which vCPU runs instead of one that spins: the lists and orders of HVS. After
 * J. Shan, X. Ding and N. Gehani, "APPLES: Efficiently Handling Spin-lock
 * Synchronization on Virtualized Platforms", IEEE TPDS 28(7), 2017, sections 3.2
 * and 3.3. Self-contained, so that tests in user space compile the same bytes.
 *
 * A vCPU that loses its CPU joins a list of its VM, and leaves it when it gets one:
 *
 *	lock waiters		lost it because they spun for a whole window, or gave it
 *				to another one themselves
 *	section			in a critical section, as the guest itself says
 *	resource waiters	all others
 *	yielded			of these, those that had been chosen since they were
 *				last here
 *
 * New ones join at one end, so each list is in the order of the paper's time
 * stamps, and neither joining, leaving nor choosing depends on how many vCPUs there
 * are. A policy is an order of the lists, and for each the end to begin at.
 *
 * A chosen vCPU has mostly had more than its share of the CPU, and is soon preempted
 * again. As the resource waiter with the latest time stamp it would be chosen again,
 * though it holds nobody up, and so on (section 3.3): hence the last list. A vCPU that
 * was chosen but has not got a CPU yet stays in its list, at the far end, so that
 * vCPUs which spin at the same time choose different ones.
 */

#include <linux/types.h>

/* The lists; PVSYNC_NO_LIST is that of vCPUs which wait for nothing. */
enum pvsync_list_of {
	PVSYNC_NO_LIST,
	PVSYNC_RESOURCE,
	PVSYNC_LOCK,
	PVSYNC_YIELDED,
	PVSYNC_SECTION,
	PVSYNC_NR_LISTS
};

/* The policies. */
enum pvsync_order {
	PVSYNC_HVS,
	PVSYNC_CPTH_R,
	PVSYNC_CPTH_L,
	PVSYNC_CCH,
	PVSYNC_ECS_FIRST,
	PVSYNC_NR_ORDERS
};

/**
 * struct pvsync_waiter - a vCPU's place in the lists, all zero at first
 * @older: the one that joined before it
 * @newer: the one that joined after it
 * @list: its list
 * @chosen: it was chosen, and has not been preempted as a resource waiter since
 */
struct pvsync_waiter {
	struct pvsync_waiter	*older;
	struct pvsync_waiter	*newer;
	u8			list;
	bool			chosen;
};

/**
 * struct pvsync_list - a list
 * @oldest: who joined first, NULL if it is empty
 * @newest: who joined last
 */
struct pvsync_list {
	struct pvsync_waiter	*oldest;
	struct pvsync_waiter	*newest;
};

/**
 * struct pvsync_waiters - the lists of a VM, all zero at first
 * @lists: by enum pvsync_list_of
 *
 * Whoever changes them, or a member of one, excludes all others.
 */
struct pvsync_waiters {
	struct pvsync_list	lists[PVSYNC_NR_LISTS];
};

/**
 * struct pvsync_turn - a list in the order of a policy
 * @list: which
 * @newest: begin with the newest
 */
struct pvsync_turn {
	u8	list;
	bool	newest;
};

#define PVSYNC_TURNS	(PVSYNC_NR_LISTS - 1)

/* Choices of a search, at most. */
#define PVSYNC_TRIES	3

/**
 * struct pvsync_tried - what a search has chosen so far, all zero at first
 * @waiters: the vCPUs
 * @nr: how many
 */
struct pvsync_tried {
	const struct pvsync_waiter	*waiters[PVSYNC_TRIES];
	unsigned int			nr;
};

static inline void pvsync_list_add(struct pvsync_list *list, struct pvsync_waiter *waiter,
				   bool as_newest)
{
	waiter->older = as_newest ? list->newest : NULL;
	waiter->newer = as_newest ? NULL : list->oldest;
	if (waiter->older)
		waiter->older->newer = waiter;
	else
		list->oldest = waiter;
	if (waiter->newer)
		waiter->newer->older = waiter;
	else
		list->newest = waiter;
}

static inline void pvsync_list_del(struct pvsync_list *list, struct pvsync_waiter *waiter)
{
	if (waiter->older)
		waiter->older->newer = waiter->newer;
	else
		list->oldest = waiter->newer;
	if (waiter->newer)
		waiter->newer->older = waiter->older;
	else
		list->newest = waiter->older;
}

/**
 * pvsync_leave - a vCPU has got a CPU
 * @all: the lists of its VM
 * @waiter: the vCPU, whether it is in one or not
 */
static inline void pvsync_leave(struct pvsync_waiters *all, struct pvsync_waiter *waiter)
{
	if (waiter->list == PVSYNC_NO_LIST)
		return;
	pvsync_list_del(&all->lists[waiter->list], waiter);
	waiter->list = PVSYNC_NO_LIST;
}

/**
 * pvsync_list_for - the list of a vCPU that loses its CPU, and wants one
 * @order: the policy
 * @spinning: the host handles a sign of its spinning
 * @yields: it gives the CPU to another one
 * @waiter: its guest says that it waits for a lock
 * @section: its guest says that it is in a critical section, and could leave it
 *
 * Return: PVSYNC_LOCK, PVSYNC_RESOURCE or, if the policy asks guests, PVSYNC_SECTION.
 */
static inline enum pvsync_list_of pvsync_list_for(enum pvsync_order order, bool spinning,
						  bool yields, bool waiter, bool section)
{
	if (spinning || yields)
		return PVSYNC_LOCK;
	if (order != PVSYNC_ECS_FIRST)
		return PVSYNC_RESOURCE;
	if (waiter)
		return PVSYNC_LOCK;
	return section ? PVSYNC_SECTION : PVSYNC_RESOURCE;
}

/**
 * pvsync_join - a vCPU has lost its CPU, and waits for one
 * @all: the lists of its VM
 * @waiter: the vCPU
 * @why: PVSYNC_RESOURCE, PVSYNC_LOCK or PVSYNC_SECTION
 */
static inline void pvsync_join(struct pvsync_waiters *all, struct pvsync_waiter *waiter,
			       enum pvsync_list_of why)
{
	pvsync_leave(all, waiter);
	if (why == PVSYNC_RESOURCE && waiter->chosen) {
		why = PVSYNC_YIELDED;
		waiter->chosen = false;
	}
	waiter->list = why;
	pvsync_list_add(&all->lists[why], waiter, true);
}

static inline bool pvsync_was_tried(const struct pvsync_tried *tried,
				    const struct pvsync_waiter *waiter)
{
	unsigned int i;

	for (i = 0; i < tried->nr; i++) {
		if (tried->waiters[i] == waiter)
			return true;
	}
	return false;
}

/* The first of a list for this search, past a few at most; NULL if it has tried them all. */
static inline struct pvsync_waiter *pvsync_first_untried(const struct pvsync_list *list,
							 bool newest,
							 const struct pvsync_tried *tried)
{
	struct pvsync_waiter *waiter = newest ? list->newest : list->oldest;

	while (waiter && pvsync_was_tried(tried, waiter))
		waiter = newest ? waiter->older : waiter->newer;
	return waiter;
}

/**
 * pvsync_choose_waiter - the vCPU to run instead of one that spins
 * @all: the lists of the VM
 * @order: the policy
 * @tried: what this search has chosen so far; the vCPU is added
 * @from: the list that it was chosen from, PVSYNC_NO_LIST if there is none
 *
 * To be called again, with the same @tried, if the scheduler refuses it: whom it cannot run
 * now, as its group has used up its bandwidth, must not keep the other lists from their
 * turns. It counts as chosen all the same, as in the paper, which marks whom it selects: the
 * mark has to be there before the vCPU can run, and who takes it back after a refusal may
 * take that of another vCPU's choice.
 *
 * Return: the vCPU, or NULL if none waits that was not tried, or PVSYNC_TRIES were.
 */
static inline struct pvsync_waiter *pvsync_choose_waiter(struct pvsync_waiters *all,
							 enum pvsync_order order,
							 struct pvsync_tried *tried,
							 enum pvsync_list_of *from)
{
	/*
	 * The paper knows no sections: what is in that list was put there while another
	 * policy was in force.
	 */
	static const struct pvsync_turn orders[PVSYNC_NR_ORDERS][PVSYNC_TURNS] = {
		[PVSYNC_HVS] = {
			{ PVSYNC_RESOURCE, true }, { PVSYNC_LOCK, false },
			{ PVSYNC_YIELDED, false }, { PVSYNC_SECTION, false },
		},
		[PVSYNC_CPTH_R] = {
			{ PVSYNC_RESOURCE, false }, { PVSYNC_LOCK, false },
			{ PVSYNC_YIELDED, false }, { PVSYNC_SECTION, false },
		},
		[PVSYNC_CPTH_L] = {
			{ PVSYNC_RESOURCE, true }, { PVSYNC_LOCK, true },
			{ PVSYNC_YIELDED, false }, { PVSYNC_SECTION, false },
		},
		[PVSYNC_CCH] = {
			{ PVSYNC_LOCK, false }, { PVSYNC_RESOURCE, true },
			{ PVSYNC_YIELDED, false }, { PVSYNC_SECTION, false },
		},
		[PVSYNC_ECS_FIRST] = {
			{ PVSYNC_SECTION, false }, { PVSYNC_RESOURCE, true },
			{ PVSYNC_LOCK, false }, { PVSYNC_YIELDED, false },
		},
	};
	unsigned int i;

	for (i = 0; i < PVSYNC_TURNS && tried->nr < PVSYNC_TRIES; i++) {
		const struct pvsync_turn *turn = &orders[order][i];
		struct pvsync_list *list = &all->lists[turn->list];
		struct pvsync_waiter *waiter = pvsync_first_untried(list, turn->newest, tried);

		if (!waiter)
			continue;
		pvsync_list_del(list, waiter);
		pvsync_list_add(list, waiter, !turn->newest);
		waiter->chosen = true;
		tried->waiters[tried->nr++] = waiter;
		*from = turn->list;
		return waiter;
	}
	*from = PVSYNC_NO_LIST;
	return NULL;
}

#endif /* _LINUX_PVSYNC_HVS_H */
