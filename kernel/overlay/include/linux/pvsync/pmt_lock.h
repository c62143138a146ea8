/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_PMT_LOCK_H
#define _LINUX_PVSYNC_PMT_LOCK_H

/*
 * Preemptable ticket spinlock, after J. Ouyang and J. R. Lange, "Preemptable
 * Ticket Spinlocks: Improving Consolidated Performance in the Cloud",
 * VEE 2013, sections 4 and 5.1.
 *
 * A ticket lock whose order yields to time. A waiter that is n requests away
 * from its turn waits n * tau (equation 1) and then competes for the lock. So a
 * waiter whose vCPU does not run holds the others up for tau and not for a time
 * slice. tau = 0 makes a plain spinlock, tau = infinite a ticket lock (section
 * 4.2).
 *
 * It is a slow path for struct qspinlock. Free, owned without waiters, lock,
 * trylock and unlock are the same there and here, so the kernel's own inline
 * code stays in charge of them:
 *
 *	lock, trylock	0 -> 1 if the word is 0: one atomic cmpxchg
 *	unlock		a store of 0 to the locked byte, nothing atomic
 *	is_locked, value_unlocked	the word is not 0, is 0
 *	is_contended	bits outside of the locked byte
 *
 * A lock that is contended for the first time after the choice of the algorithm
 * never shows either algorithm a state that it does not know. Only the meaning
 * of the upper 24 bits differs, and nobody but a slow path reads them:
 *
 *   31             20 19              8 7          0
 *  +-----------------+-----------------+------------+
 *  |     granted     |     waiters     |   locked   |
 *  +-----------------+-----------------+------------+
 *
 * locked	the byte is not 0 while somebody owns the lock (the field
 *		"lock" of the paper); the owner alone clears it. It is
 *		PVSYNC_LOCKED, or, with locks whose waiters sleep, PVSYNC_SLOW;
 *		see pv_lock.c
 * waiters	tickets handed out to waiters that have not got the lock yet
 * granted	waiters that have got the lock since the lock last had no
 *		waiters, modulo 2^12
 *
 * The paper's two counters follow, modulo 2^12:
 *
 *	num_request = granted + waiters		the next ticket
 *	num_grant   = granted - locked		if tickets count waiters only
 *
 * A waiter advances granted when it takes the lock and not when it releases the
 * lock. So the position of equation 2, n = ticket - num_grant, is the paper's
 * at every instant: the waiters before, and the owner if there is one.
 *
 * "granted" means something only to waiters. The last waiter sets the word to 1
 * when it takes the lock. That starts the count anew, and it makes the word of
 * a released lock without waiters 0.
 *
 * States and transitions, in (granted, waiters, locked), modulo 2^12:
 *
 *        lock, trylock             join: ticket = g + w
 *   0,0,0 ----------> 0,0,1   g,w,l -------------------> g,w+1,l
 *
 *        unlock                    take, w > 1               take, w == 1
 *   g,w,1 ------> g,w,0       g,w,0 -----------> g+1,w-1,1  g,1,0 ------> 0,0,1
 *
 * A waiter is in one of two phases and never goes back:
 *
 *   ordered	n > 0 and not yet timed out: it does not touch the word. Each
 *		change of n re-arms its timeout to the new n * tau.
 *   competing	n == 0, overtaken, or timed out: it takes the lock as soon as
 *		it finds it not locked.
 *
 * The three guarantees of section 4.3 follow:
 *
 *  1. Waiters that have not reached their timeout are served in ticket order:
 *     without a timeout only n == 0 leaves the ordered phase.
 *  2. Waiters that have reached it have priority over waiters that have not.
 *     With x timed-out waiters ahead, an ordered waiter has n >= x and waits n
 *     * tau after the last change of n. In that time all x can own the lock for
 *     tau each. An arrival cannot slip in: the fast path and trylock want the
 *     word 0, and it is not 0 while anybody waits.
 *  3. Competing waiters have equal chances: they run the same loop on one byte.
 *
 * Impatience, which is not in the paper. A timeout runs while the lock is owned
 * and while it is free. While the lock is owned, a waiter loses nothing by
 * keeping to the order. While the lock is free, the waiter whose turn it is
 * takes it within a few iterations. If its vCPU does not run, or is in an
 * interrupt handler, the lock idles for tau at each hand-over until that waiter
 * looks again. So an iteration that finds the lock free takes pvsync_impatience
 * off the timeout instead of 1. n * tau stays the bound, and with 1 it is the
 * paper's lock.
 *
 * Guarantees 1 and 3 hold as above. A release re-arms a timeout and a take does
 * not. So guarantee 2 needs more: tau must cover impatience times a hand-over,
 * and the time that an owner holds the lock. With pv-pmt a woken sleeper often
 * starts too late. Then ordered waiters time out and overtake it, and guarantee
 * 2 does not hold for sleepers.
 *
 * Overtaken, and the wrap: an ordered waiter has ticket - granted < waiters. A
 * waiter that was overtaken k times beyond its turn has ticket - granted == -k.
 * That is 4096 - k, and at least "waiters" until it has been overtaken 4096 -
 * waiters times. Then it looks like an ordered waiter for as many grants as
 * there are waiters. It waits for these grants or for n * tau as any arrival
 * does, and competes: always exclusive, never stuck. With an infinite tau
 * nobody is ever overtaken. (tau must not become infinite while there are
 * waiters.)
 *
 * The counters do not run into each other: "waiters" stays below 4,096 (see
 * pvsync_pmt_join()), and what carries out of "granted" falls off the word.
 */

#include <linux/types.h>
#include <linux/atomic.h>
#include <linux/compiler.h>
#include <asm-generic/qspinlock_types.h>

#define PVSYNC_LOCKED		0x00000001U
#define PVSYNC_SLOW		0x00000003U
#define PVSYNC_LOCKED_MASK	0x000000ffU
#define PVSYNC_WAITER		0x00000100U
#define PVSYNC_WAITERS_SHIFT	8
#define PVSYNC_GRANT		0x00100000U
#define PVSYNC_GRANT_SHIFT	20
#define PVSYNC_COUNT_MASK	0x00000fffU

/* Never times out: a ticket lock. */
#define PVSYNC_TAU_INF		U32_MAX

/* The timeout of one position, in iterations of the waiting loop. */
extern u32 pvsync_tau_spins;
/*
 * What an iteration takes off the timeout while the lock is free; 1 or more.
 * Only early parameters and initcalls change it.
 */
#define PVSYNC_IMPATIENCE	16
extern u32 pvsync_impatience;

static __always_inline u32 pvsync_waiters(u32 val)
{
	return (val >> PVSYNC_WAITERS_SHIFT) & PVSYNC_COUNT_MASK;
}

static __always_inline u32 pvsync_granted(u32 val)
{
	return val >> PVSYNC_GRANT_SHIFT;
}

/**
 * pvsync_next_ticket - the ticket of a waiter that joins
 * @val: value of the lock word before the join
 */
static __always_inline u32 pvsync_next_ticket(u32 val)
{
	return (pvsync_granted(val) + pvsync_waiters(val)) & PVSYNC_COUNT_MASK;
}

/**
 * pvsync_position - n of equation 2: requests to be released before a turn
 * @val: value of the lock word
 * @ticket: a ticket that waits for it
 *
 * Return: the waiters in front and the owner, if there is one; 0 when it is the
 * ticket's turn, and negative when it was overtaken.
 */
static __always_inline int pvsync_position(u32 val, u32 ticket)
{
	u32 ahead = (ticket - pvsync_granted(val)) & PVSYNC_COUNT_MASK;

	if (ahead >= pvsync_waiters(val))
		return -1;
	return ahead + !!(val & PVSYNC_LOCKED_MASK);
}

/**
 * pvsync_timeout - iterations for which a position keeps to the order
 * @tau: timeout of one position, not infinite
 * @position: n of equation 1; without a wait when it is negative
 */
static __always_inline u64 pvsync_timeout(u32 tau, int position)
{
	return (u64)tau * position;
}

/**
 * pvsync_taken - value of the lock word when a waiter takes the lock
 * @val: its value before, not locked
 */
static __always_inline u32 pvsync_taken(u32 val)
{
	if (pvsync_waiters(val) == 1)
		return PVSYNC_LOCKED;
	return val + PVSYNC_GRANT - PVSYNC_WAITER + PVSYNC_LOCKED;
}

void pvsync_pmt_lock_slowpath(struct qspinlock *lock, u32 val);
void pvsync_ticket_lock_slowpath(struct qspinlock *lock, u32 val);

#endif /* _LINUX_PVSYNC_PMT_LOCK_H */
