// SPDX-License-Identifier: GPL-2.0-only
/*
 * Paravirtual ticket and preemptable ticket locks: waiters that have spun for
 * long halt their virtual CPU, and releases wake them. After J. Ouyang and
 * J. R. Lange, VEE 2013, section 5.2. <linux/pvsync/pmt_lock.h> describes the
 * lock, its word and its order. Of the host the locks need what KVM has for its
 * own queued locks: a halt that KVM_HC_KICK_CPU ends.
 *
 * What the word says
 * ------------------
 *
 * The locked byte has a third value, PVSYNC_SLOW: owned, and somebody may be
 * asleep. A release exchanges PVSYNC_LOCKED for 0. When it finds PVSYNC_SLOW
 * instead, it looks for sleepers. Two rules keep a lock with sleepers slow:
 *
 *   - A waiter that takes the lock while others wait for it makes it
 *     PVSYNC_SLOW, as any of them may be asleep. The last waiter, and the fast
 *     path, make it PVSYNC_LOCKED.
 *   - A waiter that goes to sleep while the lock is PVSYNC_LOCKED makes it
 *     PVSYNC_SLOW before.
 *
 * Who sleeps where
 * ----------------
 *
 * Each CPU has one slot: the lock it sleeps for, and its ticket. A release
 * finds the slot by a bit in a bucket that the lock shares with few others
 * (pv_sleepers.h). One slot is enough although waits nest (task, softirq,
 * hardirq): the CPU fills its slot and halts with interrupts off. If they were
 * on before, "sti; hlt" lets them in only when the CPU is halted, and any of
 * them ends the halt. The handler may have waited for another lock meanwhile,
 * and have changed the slot. So the interrupted waiter looks at its own lock
 * next, and fills the slot and sets the bit anew before it halts again. An NMI
 * handler that waits spins.
 *
 * Why none sleeps for ever
 * ------------------------
 *
 *	sleeper				owner
 *	-------				-----
 *	[S]   slot = lock, ticket	[RmW] locked is SLOW, not LOCKED
 *	[RmW] bucket |= CPU		[S]   locked = 0
 *	      MB (1)			      MB (2)
 *	[RmW] locked: LOCKED -> SLOW	[L]   bucket
 *	      or [L] locked is SLOW	[L]   slot
 *	      halt			      kick
 *
 *	(1) in pvsync_pv_park(), (2) in pvsync_pv_unlock_slowpath()
 *
 * The sleeper's access of the word comes before or after the owner's store of
 * 0. If it comes before, the owner found PVSYNC_SLOW and, by (1) and (2), finds
 * the bit and the slot. If it comes after, the sleeper sees a free lock. The
 * sleeper does not halt if it may take the lock. Else it is another ticket's
 * turn. The waiter with that ticket takes the lock as PVSYNC_SLOW because this
 * one waits, and the argument starts anew with that owner. In detail:
 *
 *  - A kick before the halt: the host remembers it, and the halt ends at once.
 *    Not if the VM is saved in between, see below.
 *  - A kick too many, or an interrupt: the waiter looks at the word, and parks
 *    anew if it has to.
 *  - A slot read while it changes: the releaser may see an older sleep, which
 *    was written before (1) of the newer one. The newer sleep's look at the
 *    word therefore comes after the releaser's store of 0. What the releaser
 *    sees need not be of one sleep. Where a handler parks for another lock, the
 *    slot has this lock and the handler's ticket for a moment. The CPU of such
 *    a slot waits for this lock as well, or did, but it need not be its turn.
 *    See below why that CPU is not woken in the place of another.
 *  - A bit without its slot, or with the slot of another lock: a handler has
 *    parked meanwhile, or a CPU comes or goes. The release passes over the bit.
 *  - A slot without its bit: its CPU is awake, and either sets the bit before
 *    (1) or is about to leave.
 *  - Code that waits for a lock itself between the slot and the halt, with
 *    interrupts off: only a probe or a sanitizer puts such code there. It
 *    leaves an empty slot behind. So the waiter looks at the slot last, and
 *    goes round again if the slot is empty.
 *  - CPU hotplug: a CPU that goes down waits for no lock, and slots are never
 *    freed.
 *
 * When the host forgets a kick
 * ----------------------------
 *
 * KVM's memory of a kick (pv_unhalted) is no part of the state that is saved of
 * a vCPU. KVM saves a vCPU that has halted and was kicked as one that can run,
 * see kvm_arch_vcpu_ioctl_get_mpstate(), and such a vCPU finds its halt over. A
 * vCPU that has filled its slot, was kicked, and has not halted yet runs. KVM
 * saves it as such, and the kick is gone. If the VM goes on from there, as
 * after a migration or from a snapshot, the vCPU halts without it.
 *
 * With interrupts on, the next interrupt ends the halt, and the waiter looks at
 * the word. With interrupts off, the halt lasts until an NMI or another kick.
 * There is no other kick for this lock. With the ticket lock, it is free and
 * the sleeper's turn, so nobody may take it and release it. With the
 * preemptable ticket lock, the sleeper is marked as woken, but the others go
 * on. Linux's own paravirtual locks halt alike, in kvm_wait(), and have the
 * same gap. The gap is a few instructions wide, and the guest does not know
 * when it is saved.
 *
 * An NMI between sti and hlt
 * --------------------------
 *
 * "sti; hlt" lets no interrupt in between as long as nothing else comes there:
 * the shadow of sti lasts for one instruction. An NMI's handler would use the
 * shadow up. Pending interrupts would then come after the handler and before
 * the halt. One of their handlers may use the slot, which the halt needs, and
 * what the interrupts came for would not end the halt.
 *
 * KVM injects no NMI there, see vmx_nmi_blocked() and svm_nmi_blocked(), and
 * there are no such locks without KVM (pvsync_pv_unavailable()). A processor
 * that delivers NMIs by itself may do so there. A halt with interrupts on then
 * lasts until the next one, at the latest the tick of a CPU that runs a task.
 * kvm_wait() and the idle loop halt alike. To close the gap takes an NMI
 * handler that looks at what it has interrupted.
 *
 * Whom a release wakes
 * --------------------
 *
 * With the ticket lock, it wakes the waiter whose turn it is; nobody else could
 * take the lock. If that waiter is in no slot, it is awake, or about to look at
 * the word after (1). A slot that changes may have its ticket too, so the
 * release wakes each CPU whose slot has it. If the waiter sleeps, its own slot
 * does not change, and is among these slots.
 *
 * With the preemptable ticket lock only competing waiters sleep, any of which
 * may take the lock. The paper wakes all of them. One is enough: whoever takes
 * the lock wakes another one when it releases the lock. It holds the lock as
 * PVSYNC_SLOW for as long as there are others.
 *
 * The release wakes the waiter that is furthest ahead in ticket order and has
 * not been woken yet. A woken CPU may have to wait for a real one. If somebody
 * else has the lock meanwhile, the release that follows wakes the next waiter
 * instead of the same.
 *
 * "Woken already" cannot be mistaken for a sleep that nobody ends: a kick
 * always follows the mark, and the waiter takes the mark back before (1) of the
 * next sleep. A releaser that passes over a marked slot did so before that. So
 * the next look at the word, after (1), finds what the releaser stored. Nothing
 * that could wait for the marked waiter comes between mark and kick: interrupts
 * are off, as their handlers may want a lock that it has.
 */
#include <linux/atomic.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/kprobes.h>
#include <linux/kvm_para.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/sched/clock.h>
#include <linux/smp.h>
#include <linux/spinlock.h>

#include <asm/paravirt.h>
#include <asm/smp.h>

#include <trace/events/lock.h>

#include <linux/pvsync/lock_stat.h>
#include <linux/pvsync/pmt_lock.h>
#include <linux/pvsync/shims.h>

#include "locks.h"
#include "pmt_wait.h"
#include "pv_sleepers.h"

/* Iterations before a waiter halts; the paper's threshold, section 5.2. */
u32 pvsync_halt_spins = 2048;

static bool pvsync_pv_ticket __ro_after_init;

/* All locks are of one kind: may a waiter take a lock in its turn only? */
static __always_inline bool pvsync_pv_ordered(void)
{
	return pvsync_pv_ticket ||
	       READ_ONCE(pvsync_tau_spins) == PVSYNC_TAU_INF;
}

static __always_inline bool pvsync_may_take(u32 val, u32 ticket, bool ordered)
{
	if (val & PVSYNC_LOCKED_MASK)
		return false;
	return !ordered || !pvsync_position(val, ticket);
}

/*
 * Value of the lock word when a waiter takes the lock: g+1,w-1,SLOW, or
 * 0,0,LOCKED for the last one.
 */
static __always_inline u32 pvsync_taken_slow(u32 val)
{
	u32 taken = pvsync_taken(val);

	return pvsync_waiters(taken) ? taken | PVSYNC_SLOW : taken;
}

/*
 * Make sure that the release looks for sleepers.
 *
 * Return: false when the lock can be taken and there is no reason to sleep.
 */
static bool pvsync_pv_announce(struct qspinlock *lock, u32 ticket, bool ordered)
{
	u32 val = atomic_read(&lock->val);

	for (;;) {
		int old = val;

		if (pvsync_may_take(val, ticket, ordered))
			return false;
		/* Slow already, or free and will be taken as PVSYNC_SLOW. */
		if ((val & PVSYNC_LOCKED_MASK) != PVSYNC_LOCKED)
			return true;
		if (atomic_try_cmpxchg_relaxed(&lock->val, &old,
					       val | PVSYNC_SLOW))
			return true;
		val = old;
	}
}

/* Time without the time in which the host ran something else. */
static __always_inline u64 pvsync_pv_clock(int cpu)
{
	return sched_clock_noinstr() - paravirt_steal_clock(cpu);
}

/*
 * Halt until a release of @lock, or anything else, wakes this CPU.
 *
 * Returns at once in an NMI. Lockdep and tracing are left out: they take locks
 * themselves.
 *
 * Context: preemption disabled, interrupts as they are.
 */
static void pvsync_pv_park(struct qspinlock *lock, u32 ticket, bool ordered)
{
	unsigned long flags;
	bool halted;
	u64 start;
	int cpu;

	if (in_nmi())
		return;

	raw_local_irq_save(flags);
	cpu = raw_smp_processor_id();
	/* A tracer of the clock may wait for a lock: no slot may be filled. */
	start = pvsync_lock_stat_on() ? pvsync_pv_clock(cpu) : 0;
	pvsync_sleep_begins(cpu, lock, ticket);

	/* (1), pairs with (2) in pvsync_pv_unlock_slowpath() */
	smp_mb__after_atomic();

	/* Is the slot as it was filled? See "Why none sleeps for ever". */
	halted = pvsync_pv_announce(lock, ticket, ordered) &&
		 pvsync_may_sleep(cpu, lock);
	if (halted) {
		if (raw_irqs_disabled_flags(flags)) {
			halt();
		} else {
			raw_safe_halt();
			/* Handlers have run, and may have used the slot. */
			raw_local_irq_disable();
		}
	}

	pvsync_sleep_ends(cpu, lock);
	if (halted) {
		pvsync_count(PVSYNC_lock_halts);
		if (start)
			__pvsync_add(PVSYNC_lock_halted_ns,
				     pvsync_pv_clock(cpu) - start);
	}
	raw_local_irq_restore(flags);
}
/* Between pvsync_may_sleep() and the halt nothing may wait for a lock. */
NOKPROBE_SYMBOL(pvsync_pv_park);

static __always_inline void pvsync_pv_wait(struct qspinlock *lock, u32 tau)
{
	const bool ordered = tau == PVSYNC_TAU_INF;
	u32 left = READ_ONCE(pvsync_halt_spins);
	u32 val, ticket, spins = 0;

	pvsync_count(PVSYNC_lock_contended);
	/* Comes before there is a ticket, which others would wait for. */
	trace_contention_begin(lock, LCB_F_SPIN);
	val = pvsync_pmt_join(lock);
	ticket = pvsync_next_ticket(val - PVSYNC_WAITER);
	if (!ordered)
		val = pvsync_pmt_wait_turn(lock, val, tau, &spins);

	for (;;) {
		int old = val;

		if (pvsync_may_take(val, ticket, ordered)) {
			if (atomic_try_cmpxchg_acquire(&lock->val, &old,
						       pvsync_taken_slow(val)))
				break;
			val = old;
			continue;
		}
		if (left--) {
			pvsync_count_spin(&spins, val & PVSYNC_LOCKED_MASK);
			cpu_relax();
		} else {
			pvsync_pv_park(lock, ticket, ordered);
			left = READ_ONCE(pvsync_halt_spins);
		}
		val = atomic_read(&lock->val);
	}
	trace_contention_end(lock, 0);
}

/**
 * pvsync_pv_pmt_lock_slowpath - acquire a pv-pmt lock that is not free
 * @lock: the lock
 * @val: its value as the fast path found it
 *
 * Keeps to the order for at most n * tau, spins for pvsync_halt_spins
 * iterations, then halts.
 *
 * Context: preemption disabled, interrupts as they are.
 */
void __lockfunc pvsync_pv_pmt_lock_slowpath(struct qspinlock *lock, u32 val)
{
	pvsync_pv_wait(lock, READ_ONCE(pvsync_tau_spins));
}

/**
 * pvsync_pv_ticket_lock_slowpath - acquire a pv-ticket lock that is not free
 * @lock: the lock
 * @val: its value as the fast path found it
 *
 * Spins for pvsync_halt_spins iterations, then halts; always in ticket order.
 *
 * Context: preemption disabled, interrupts as they are.
 */
void __lockfunc pvsync_pv_ticket_lock_slowpath(struct qspinlock *lock, u32 val)
{
	pvsync_pv_wait(lock, PVSYNC_TAU_INF);
}

static void pvsync_pv_kick(int cpu)
{
	unsigned long flags;

	raw_local_irq_save(flags);
	WRITE_ONCE(per_cpu_ptr(&pvsync_slots, cpu)->woken, true);
	pvsync_count(PVSYNC_lock_kicks);
	kvm_hypercall2(KVM_HC_KICK_CPU, 0, per_cpu(x86_cpu_to_apicid, cpu));
	raw_local_irq_restore(flags);
}

static noinline void pvsync_pv_unlock_slowpath(struct qspinlock *lock)
{
	u32 granted = pvsync_granted(atomic_read(&lock->val));

	/* Releases the critical section, for the acquire of the next owner. */
	smp_store_release(&lock->locked, 0);

	/*
	 * (2), pairs with (1) in pvsync_pv_park(); the lock may be gone from
	 * here.
	 */
	smp_mb();

	pvsync_wake(lock, granted, pvsync_pv_ordered(), pvsync_pv_kick);
}

__visible void __pvsync_pv_unlock(struct qspinlock *lock);

/**
 * __pvsync_pv_unlock - release a lock, and wake a sleeper if there is one
 * @lock: the lock
 *
 * ::
 *
 *	owner				next owner
 *	-----				----------
 *	[S]   critical section		[RmW] locked 0 -> 1  (acquire)
 *	[RmW] locked 1 -> 0 (release)	[L]   critical section
 *	      or, if slow, [S] 0 (release)
 *
 * Called by way of the thunk below, which saves the registers that it may
 * change.
 *
 * Context: the owner; preemption disabled, interrupts as they are.
 */
__visible void __pvsync_pv_unlock(struct qspinlock *lock)
{
	u8 locked = PVSYNC_LOCKED;

	if (likely(try_cmpxchg_release(&lock->locked, &locked, 0)))
		return;
	pvsync_pv_unlock_slowpath(lock);
}

PV_CALLEE_SAVE_REGS_THUNK(__pvsync_pv_unlock);

/**
 * pvsync_pv_unavailable - why paravirtual locks cannot be used on this machine
 *
 * Context: early parameters or later, CPUID only.
 *
 * Return: the reason, for the log; NULL if the machine can.
 */
const char * __init pvsync_pv_unavailable(void)
{
	if (!kvm_para_available() ||
	    !kvm_para_has_feature(KVM_FEATURE_PV_UNHALT))
		return "the host does not offer to wake halted vCPUs";
	if (kvm_para_has_hint(KVM_HINTS_REALTIME))
		return "the host dedicates CPUs to this guest";
	return NULL;
}

/**
 * pvsync_pv_install - make every release look for sleepers
 * @ordered: the slow path is pvsync_pv_ticket_lock_slowpath()
 *
 * Context: before the alternatives are patched, as they decide for good what a
 * release calls; one CPU, and no lock contended yet.
 */
void __init pvsync_pv_install(bool ordered)
{
	pvsync_pv_ticket = ordered;
	pvsync_set_unlock(__pvsync_pv_unlock);
}

/**
 * pvsync_pv_uninstall - let releases store a zero again
 *
 * Context: as pvsync_pv_install().
 */
void __init pvsync_pv_uninstall(void)
{
	pvsync_set_unlock(__native_queued_spin_unlock);
}
