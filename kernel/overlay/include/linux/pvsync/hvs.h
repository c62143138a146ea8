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
 *	yielded			resource waiters that have been chosen since they were
 *				last in this list
 *
 * A policy is an order of the lists, and for each the end to begin at: the latest or the
 * earliest of the paper's time stamps. Lists are not linked. Each vCPU has its list and its
 * stamp in one word, its place. A vCPU that chooses looks at the places of all vCPUs. So to
 * join or to leave is one step on a word of the vCPU's own. No word is shared by all vCPUs
 * where they lose and get their CPUs.
 *
 * A chosen vCPU has mostly had more than its share of the CPU, and is soon preempted
 * again. As the resource waiter with the latest time stamp it would be chosen again,
 * though it holds nobody up, and so on (section 3.3). The last list prevents that. A vCPU
 * that was chosen but has not got a CPU yet stays in its list, at the far end. So vCPUs
 * which spin at the same time choose different ones.
 */

#include <linux/atomic.h>
#include <linux/types.h>

/* The lists; PVSYNC_NO_LIST is the list of vCPUs which wait for nothing. */
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

/* A place: its list, whether the vCPU was chosen, and above these bits its time stamp. */
#define PVSYNC_PLACE_LIST	7
#define PVSYNC_PLACE_CHOSEN	8
#define PVSYNC_PLACE_STAMP	4	/* bits below it */

/**
 * struct pvsync_waiter - a vCPU that waits for a CPU, or does not; all zero at first
 * @place: see PVSYNC_PLACE_LIST. Chosen says that the vCPU was chosen, and has not been
 *	preempted as a resource waiter since. The stamp is when it joined or was chosen
 *	since, ns. It is negative if the vCPU went to the far end of a list whose latest
 *	are first
 *
 * All that happens to it happens to this word::
 *
 *	thread of the vCPU		a vCPU that spins
 *	------------------		-----------------
 *	[S]   list, stamp
 *					[L]   place, of each vCPU
 *					[RmW] the best one's, if it is as it was
 *						-> chosen, far end
 *	[RmW] no list; chosen or not
 *	[S]   list by chosen, stamp
 *
 * Either the vCPU is seen as chosen when it joins the next time, or it had left before and
 * the change fails. If two choose it at once, one fails and looks once more. While it is in
 * no list, its own thread alone writes to it.
 */
struct pvsync_waiter {
	atomic64_t	place;
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

static inline enum pvsync_list_of pvsync_place_list(s64 place)
{
	return place & PVSYNC_PLACE_LIST;
}

static inline s64 pvsync_place_of(enum pvsync_list_of list, bool chosen, s64 stamp)
{
	return (u64)stamp << PVSYNC_PLACE_STAMP | (chosen ? PVSYNC_PLACE_CHOSEN : 0) | list;
}

/**
 * pvsync_leave - a vCPU has got a CPU
 * @waiter: the vCPU, whether it is in a list or not
 *
 * Context: its own thread.
 */
static inline void pvsync_leave(struct pvsync_waiter *waiter)
{
	if (pvsync_place_list(atomic64_read(&waiter->place)) != PVSYNC_NO_LIST)
		atomic64_and(PVSYNC_PLACE_CHOSEN, &waiter->place);
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
 * @waiter: the vCPU, in no list
 * @why: PVSYNC_RESOURCE, PVSYNC_LOCK or PVSYNC_SECTION
 * @now: the time, ns, not 0; below 2^59. The clocks of two CPUs may differ by a little.
 *	Then the order of vCPUs that joined at about the same time may differ as well
 *
 * Context: its own thread.
 */
static inline void pvsync_join(struct pvsync_waiter *waiter, enum pvsync_list_of why, s64 now)
{
	bool chosen = atomic64_read(&waiter->place) & PVSYNC_PLACE_CHOSEN;

	if (why == PVSYNC_RESOURCE && chosen) {
		why = PVSYNC_YIELDED;
		chosen = false;
	}
	atomic64_set(&waiter->place, pvsync_place_of(why, chosen, now));
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

/* The lists in the order of a policy. */
static inline const struct pvsync_turn *pvsync_turns_of(enum pvsync_order order)
{
	/*
	 * The paper knows no sections: a vCPU in that list joined it while another policy
	 * was in force.
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

	return orders[order];
}

static inline unsigned int pvsync_turn_of(const struct pvsync_turn *turns,
					  enum pvsync_list_of list)
{
	unsigned int turn = 0;

	while (turn < PVSYNC_TURNS - 1 && turns[turn].list != list)
		turn++;
	return turn;
}

/**
 * struct pvsync_first - the first vCPU, so far, in the order of a policy
 * @waiter: the vCPU; NULL at first, and if there is none
 * @place: its place when it was looked at
 * @turn: the turn of its list
 */
struct pvsync_first {
	struct pvsync_waiter	*waiter;
	s64			place;
	unsigned int		turn;
};

/* In the order of a policy, @place comes before the place of @first. */
static inline bool pvsync_comes_before(const struct pvsync_first *first,
				       const struct pvsync_turn *turns, unsigned int turn,
				       s64 place)
{
	s64 stamp = place >> PVSYNC_PLACE_STAMP, best = first->place >> PVSYNC_PLACE_STAMP;

	if (!first->waiter || turn != first->turn)
		return !first->waiter || turn < first->turn;
	return turns[turn].newest ? stamp > best : stamp < best;
}

/**
 * pvsync_look_at - look at a vCPU for a choice
 * @first: the best vCPU so far; @waiter takes its place if it is better
 * @order: the policy
 * @tried: what this search has chosen so far; it passes these by, and all after PVSYNC_TRIES
 * @waiter: the vCPU, whether it waits or not
 */
static inline void pvsync_look_at(struct pvsync_first *first, enum pvsync_order order,
				  const struct pvsync_tried *tried, struct pvsync_waiter *waiter)
{
	const struct pvsync_turn *turns = pvsync_turns_of(order);
	s64 place = atomic64_read(&waiter->place);
	enum pvsync_list_of list = pvsync_place_list(place);
	unsigned int turn;

	if (list == PVSYNC_NO_LIST || tried->nr == PVSYNC_TRIES || pvsync_was_tried(tried, waiter))
		return;
	turn = pvsync_turn_of(turns, list);
	if (pvsync_comes_before(first, turns, turn, place))
		*first = (struct pvsync_first) { waiter, place, turn };
}

/**
 * pvsync_choose_first - choose the vCPU that came first, to run instead of one that spins
 * @first: the vCPU, after all of the VM were looked at
 * @order: the policy
 * @tried: what this search has chosen so far; the vCPU is added
 * @now: the time, as for pvsync_join()
 *
 * If the scheduler refuses the vCPU, look at all again with the same @tried, and call this
 * again. The scheduler cannot run a vCPU now whose group has used up its bandwidth, and that
 * vCPU must not keep the other lists from their turns. It counts as chosen all the same, as
 * in the paper, which marks each vCPU that it selects. The mark has to be there before the
 * vCPU can run. To take it back after a refusal may take back the mark of another vCPU's
 * choice.
 *
 * Return: false if its place has changed since it was looked at, with nothing done.
 */
static inline bool pvsync_choose_first(const struct pvsync_first *first, enum pvsync_order order,
				       struct pvsync_tried *tried, s64 now)
{
	bool newest = pvsync_turns_of(order)[first->turn].newest;
	enum pvsync_list_of list = pvsync_place_list(first->place);
	s64 place = first->place;

	if (!atomic64_try_cmpxchg(&first->waiter->place, &place,
				  pvsync_place_of(list, true, newest ? -now : now)))
		return false;
	tried->waiters[tried->nr++] = first->waiter;
	return true;
}

#endif /* _LINUX_PVSYNC_HVS_H */
