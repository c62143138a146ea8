// SPDX-License-Identifier: GPL-2.0-only
/*
 * Helping, the guest's side: pvsync.help=, the slow paths of spinlocks whose
 * waiters ask for help, and the hypercall. After T. Friebel and S. Biemueller,
 * "How to Deal with Lock Holder Preemption", Xen Summit 2008, section 3. A
 * waiter that has waited for 2^16 cycles tells the host, which runs another
 * vCPU of this guest instead.
 *
 * There is one difference from the paper: only time in which the waiter ran
 * counts. A waiter that was itself preempted finds a clock far ahead, which
 * says nothing about the owner. It looks at the lock again and gives the owner
 * the rest of the time.
 */
#define pr_fmt(fmt) "pvsync: " fmt

#include <linux/atomic.h>
#include <linux/init.h>
#include <linux/irq_work.h>
#include <linux/jump_label.h>
#include <linux/kernel.h>
#include <linux/kvm_para.h>
#include <linux/percpu.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>

#include <asm/msr.h>
#include <asm/qspinlock.h>

#include <trace/events/lock.h>

#include <linux/pvsync/abi.h>
#include <linux/pvsync/help.h>
#include <linux/pvsync/lock_stat.h>
#include <linux/pvsync/pmt_lock.h>

#include "guest.h"
#include "in_force.h"
#include "locks.h"

DEFINE_STATIC_KEY_FALSE(pvsync_help_key);

/*
 * Nearly all waits without preemption were over after this many cycles (figure
 * 1 of the paper).
 */
#define HELP_CYCLES	(1U << 16)
#define HELP_NEVER	U64_MAX

static u64 help_cycles __read_mostly = HELP_NEVER;

/* The value of help_cycles while the host helps; set at boot. */
static u64 cycles_if_offered __ro_after_init;

static DEFINE_PER_CPU(struct pvsync_wait_time, wait_time);

static void help_refused(struct irq_work *work)
{
	pr_warn("the host does not help any more, long waits spin\n");
}

static struct irq_work help_refused_work = IRQ_WORK_INIT(help_refused);

/*
 * An interrupt between the reads only makes the wait seem a little shorter.
 *
 * Context: any, and within the wait for a lock: nothing here may take one.
 */
static void help_ask_host(void)
{
	if (!kvm_hypercall1(PVSYNC_HC_HELP, 0)) {
		pvsync_count(PVSYNC_help_calls);
		return;
	}
	/* The host has no pvsync, as after a migration, or refuses. */
	if (xchg(&help_cycles, HELP_NEVER) != HELP_NEVER)
		irq_work_queue(&help_refused_work);
}

/**
 * pvsync_help_spin - account one iteration of a wait, and ask for help if long
 *
 * Context: as pvsync_relax().
 */
noinline void notrace pvsync_help_spin(void)
{
	struct pvsync_wait_time *wait = this_cpu_ptr(&wait_time);
	u64 limit = READ_ONCE(help_cycles);
	u64 now = rdtsc();
	u64 step = now - wait->last;

	wait->last = now;
	/* So long a step is a preemption or an interrupt, no iteration. */
	if (step >= max_t(u64, limit, HELP_CYCLES))
		return;
	wait->spun += step;
	if (wait->spun < limit)
		return;
	help_ask_host();
	wait->spun = 0;
	wait->last = rdtsc();
}

/**
 * __pvsync_help_wait_begins - time a wait
 * @outer: where to keep the time of a wait that this one interrupts
 *
 * Waits nest (task, softirq, hardirq, NMI). Each has its own time, and the
 * interrupted wait goes on where it was.
 *
 * Context: as pvsync_relax().
 */
void notrace __pvsync_help_wait_begins(struct pvsync_wait_time *outer)
{
	struct pvsync_wait_time *wait = this_cpu_ptr(&wait_time);

	*outer = *wait;
	wait->spun = 0;
	wait->last = rdtsc();
}

/**
 * __pvsync_help_wait_ends - go on with the wait that was interrupted
 * @outer: as __pvsync_help_wait_begins() left it
 *
 * Context: as pvsync_relax().
 */
void notrace __pvsync_help_wait_ends(const struct pvsync_wait_time *outer)
{
	*this_cpu_ptr(&wait_time) = *outer;
}

static __always_inline void
help_time_slowpath(struct qspinlock *lock, u32 val,
		   void (*slowpath)(struct qspinlock *lock, u32 val))
{
	struct pvsync_wait_time outer;

	__pvsync_help_wait_begins(&outer);
	slowpath(lock, val);
	__pvsync_help_wait_ends(&outer);
}

/**
 * pvsync_helped_qspinlock_slowpath - native queued spinlock, helped
 * @lock: the lock
 * @val: its value as the fast path found it
 *
 * Context: preemption disabled, interrupts as they are; spins.
 */
void __lockfunc
pvsync_helped_qspinlock_slowpath(struct qspinlock *lock, u32 val)
{
	help_time_slowpath(lock, val, pvsync_helped_native_slowpath);
}

/**
 * pvsync_helped_ticket_slowpath - ticket lock, helped
 * @lock: the lock
 * @val: its value as the fast path found it
 *
 * Context: preemption disabled, interrupts as they are; spins.
 */
void __lockfunc pvsync_helped_ticket_slowpath(struct qspinlock *lock, u32 val)
{
	help_time_slowpath(lock, val, pvsync_ticket_lock_slowpath);
}

/**
 * pvsync_helped_pmt_slowpath - preemptable ticket lock, helped
 * @lock: the lock
 * @val: its value as the fast path found it
 *
 * Context: preemption disabled, interrupts as they are; spins.
 */
void __lockfunc pvsync_helped_pmt_slowpath(struct qspinlock *lock, u32 val)
{
	help_time_slowpath(lock, val, pvsync_pmt_lock_slowpath);
}

static __always_inline void help_test_and_set(struct qspinlock *lock, u32 val)
{
	trace_contention_begin(lock, LCB_F_SPIN);
	while (!queued_spin_trylock(lock))
		pvsync_relax();
	trace_contention_end(lock, 0);
}

/**
 * pvsync_helped_tas_slowpath - test-and-set lock, helped
 * @lock: the lock
 * @val: its value as the fast path found it
 *
 * As virt_spin_lock(), whose loop is inline in the kernel's slow path.
 *
 * Context: preemption disabled, interrupts as they are; spins.
 */
void __lockfunc pvsync_helped_tas_slowpath(struct qspinlock *lock, u32 val)
{
	help_time_slowpath(lock, val, help_test_and_set);
}

/**
 * pvsync_help_start - let waiters ask for help
 * @cycles: a wait is long after this many cycles of the time stamp counter; 0
 *	for 2^16, or more where the same work takes more cycles
 * @slowness: time that some work takes here, divided by the time that it takes
 *	on the paper's processors, in 1/1024
 *
 * A second call with another number changes the number, unless the host has
 * refused since.
 *
 * Context: may sleep.
 *
 * Return: the cycles, 0 if the host has refused.
 */
u64 __init pvsync_help_start(u64 cycles, u64 slowness)
{
	u64 before = READ_ONCE(help_cycles);

	if (!cycles)
		cycles = max_t(u64, HELP_CYCLES, HELP_CYCLES * slowness / 1024);
	cycles_if_offered = cycles;
	if (!static_key_enabled(&pvsync_help_key)) {
		WRITE_ONCE(help_cycles, cycles);
		static_branch_enable(&pvsync_help_key);
		return cycles;
	}
	/* Waiters ask already: help_ask_host() may store HELP_NEVER now. */
	if (before == HELP_NEVER ||
	    cmpxchg(&help_cycles, before, cycles) != before)
		return 0;
	return cycles;
}

/**
 * pvsync_help_offered - the host offers help, or does not
 * @offered: whether it does
 *
 * Context: may sleep, boot is over.
 */
void pvsync_help_offered(bool offered)
{
	if (!cycles_if_offered)
		return;
	if (!offered) {
		if (xchg(&help_cycles, HELP_NEVER) != HELP_NEVER)
			help_refused(NULL);
	} else if (cmpxchg(&help_cycles, HELP_NEVER, cycles_if_offered) ==
		   HELP_NEVER) {
		pr_info("the host helps again, it is asked after %llu cycles of spinning\n",
			cycles_if_offered);
	}
}

/**
 * pvsync_help_in_force - show after how many cycles a waiter asks, if it does
 * @seq: where to
 *
 * Context: may sleep.
 */
void pvsync_help_in_force(struct seq_file *seq)
{
	u64 cycles = READ_ONCE(help_cycles);

	if (static_key_enabled(&pvsync_help_key) && cycles != HELP_NEVER)
		seq_printf(seq, "help %llu\n", cycles);
	else
		seq_puts(seq, "help off\n");
}
