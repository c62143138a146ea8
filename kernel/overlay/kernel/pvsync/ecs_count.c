// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sections that count themselves, pvsync.ecs=count; <linux/pvsync/ecs.h> has what counts one.
 *
 * A section begins to count after it has its lock, and stops counting after it has released
 * the lock. Each time one instruction adds to, or subtracts from, a word of the CPU that the
 * section is on.
 *
 *  - Interrupts and NMIs come between instructions, and what they add they subtract
 *    before they return.
 *  - Sections that are not preemptable end on the CPU that they began on. The section of
 *    a run queue's lock begins in one task and ends in the next, on the same CPU.
 *  - Preemptable sections belong to the task, and the word follows it.
 *    __pvsync_ecs_switch() puts the word of the outgoing task away, and takes out the word
 *    of the incoming task. A task that moves to another CPU is switched away from here
 *    first and to there later. So whichever CPU executes the one instruction, it is a CPU
 *    that this task runs on, and its word is this task's word.
 *  - The host changes the words while the vCPU does not run, so never within an
 *    instruction. It changes BORROWED only.
 *
 * For some instructions a CPU has got a lock and not counted it yet, or has released it and
 * still counts it. The host knows too little then, or too much. Nothing but a chance is
 * lost.
 *
 * Mistakes
 * --------
 *
 * A section may end in another task than it began in, as an rwsem that up_read_non_owner()
 * releases. Then one task has a section too many, for as long as it lives, and the other
 * task has one too few.
 *
 * A negative word is seen as negative at the latest at the next switch of tasks, as nobody
 * waits for 2^14 locks at a time. Until then, a word that had BORROWED before the subtraction
 * looks like sections. The code sets a negative word to no section and counts the mistake.
 * The non-preemptable word has to be 1 at each switch of tasks, for the lock of the run
 * queue; the switch sets it right. A wrong claim can do no more than a lie could: the host
 * bounds both.
 *
 * Counting begins before there is a second CPU or task. Meanwhile locks are released that
 * were not counted when they were taken, so the words start from 0 after that.
 */
#include <linux/hardirq.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/minmax.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/spinlock.h>

#include <asm/paravirt.h>
#include <asm/qspinlock.h>

#include <linux/pvsync/abi.h>
#include <linux/pvsync/count.h>
#include <linux/pvsync/ecs.h>

#include "ecs_count.h"
#include "ecs_loan.h"

DEFINE_STATIC_KEY_FALSE(pvsync_ecs_count_key);
EXPORT_SYMBOL(pvsync_ecs_count_key);

/* The counts of a word without BORROWED; negative if more sections ended than began. */
static __always_inline s64 ecs_word_counts(u64 word)
{
	return (s64)(word << 1) >> 1;
}

/* All fields but the last one are sections. */
static __always_inline bool ecs_in_section(u64 word)
{
	return ecs_word_counts(word) & (PVSYNC_ECS_SPINNER - 1);
}

/* Take away @surplus, which should be none. */
static __always_inline void ecs_set_right(u64 __percpu *word, s64 surplus)
{
	if (likely(!surplus))
		return;
	this_cpu_sub(*word, surplus);
	__pvsync_count(PVSYNC_ecs_unbalanced);
}

static __always_inline void ecs_set_right_negative(u64 __percpu *word)
{
	ecs_set_right(word,
		      min_t(s64, ecs_word_counts(this_cpu_read(*word)), 0));
}

/*
 * A section has ended, and the word is negative.
 *
 * Context: any, and within the release of any lock: nothing here may take one.
 */
__visible void pvsync_ecs_left(void);
__visible void notrace pvsync_ecs_left(void)
{
	unsigned long flags;

	if (in_nmi())
		return;
	raw_local_irq_save(flags);
	ecs_set_right_negative(&pvsync_ecs.non_preemptable);
	ecs_set_right_negative(&pvsync_ecs.preemptable);
	if (!ecs_in_section(this_cpu_read(pvsync_ecs.non_preemptable)) &&
	    !ecs_in_section(this_cpu_read(pvsync_ecs.preemptable))) {
		this_cpu_and(pvsync_ecs.non_preemptable, ~PVSYNC_ECS_BORROWED);
		this_cpu_and(pvsync_ecs.preemptable, ~PVSYNC_ECS_BORROWED);
		if (this_cpu_read(pvsync_ecs.borrowed))
			pvsync_ecs_give_back();
	}
	raw_local_irq_restore(flags);
}

PV_CALLEE_SAVE_REGS_THUNK(pvsync_ecs_left);
EXPORT_SYMBOL(__raw_callee_save_pvsync_ecs_left);

/**
 * pvsync_ecs_spin - acquire a spinlock that is not free, and count the wait
 * @lock: the lock
 * @val: its value as the fast path found it
 *
 * Context: as arch_spin_lock(): preemption disabled, interrupts as they are.
 */
void notrace __lockfunc pvsync_ecs_spin(struct qspinlock *lock, u32 val)
{
	pvsync_ecs_enter(non_preemptable, PVSYNC_ECS_SPINNER);
	queued_spin_lock_slowpath(lock, val);
	pvsync_ecs_enter(non_preemptable, PVSYNC_ECS_LOCK);
	pvsync_ecs_drop(non_preemptable, PVSYNC_ECS_SPINNER);
}
EXPORT_SYMBOL_GPL(pvsync_ecs_spin);

/**
 * __pvsync_ecs_switch - the word follows the task
 * @prev: the task that this CPU switches from
 * @next: the task that it switches to
 *
 * Adds the difference of the two. So BORROWED stays with the CPU whenever the host sets
 * or clears it, and an NMI may come at any time.
 *
 * Context: as pvsync_ecs_switch().
 */
void notrace __pvsync_ecs_switch(struct task_struct *prev, struct task_struct *next)
{
	u64 goes, comes = next->pvsync.ecs;

	ecs_set_right_negative(&pvsync_ecs.preemptable);
	goes = ecs_word_counts(this_cpu_read(pvsync_ecs.preemptable));
	prev->pvsync.ecs = goes;
	next->pvsync.ecs = 0;
	this_cpu_add(pvsync_ecs.preemptable, comes - goes);

	ecs_set_right(&pvsync_ecs.non_preemptable,
		      ecs_word_counts(this_cpu_read(pvsync_ecs.non_preemptable)) - PVSYNC_ECS_LOCK);
}

/**
 * pvsync_ecs_count_sections - have sections count themselves, or not
 * @on: whether they do
 *
 * A release while the key changes leaves the words as they are, or subtracts from them. The
 * words must not seem negative then.
 *
 * Context: the one CPU, interrupts disabled.
 */
void __init pvsync_ecs_count_sections(bool on)
{
	if (on == static_key_enabled(&pvsync_ecs_count_key))
		return;
	this_cpu_write(pvsync_ecs.non_preemptable, PVSYNC_ECS_IRQ);
	this_cpu_write(pvsync_ecs.preemptable, PVSYNC_ECS_RCU);
	if (on)
		static_branch_enable(&pvsync_ecs_count_key);
	else
		static_branch_disable(&pvsync_ecs_count_key);
	this_cpu_write(pvsync_ecs.non_preemptable, 0);
	this_cpu_write(pvsync_ecs.preemptable, 0);
}
