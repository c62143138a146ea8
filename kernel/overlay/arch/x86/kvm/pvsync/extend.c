// SPDX-License-Identifier: GPL-2.0-only
/*
 * Extra time for vCPUs in critical sections, and what vCPUs do when they are
 * preempted. After "Scaling Guest OS Critical Sections with eCS", section 3.2.
 *
 *	state		a switch is asked for		the thread leaves its CPU
 *	-----		---------------------		-------------------------
 *	no loan		in a section: loan,		(nothing)
 *			timer, no switch
 *			else: switch
 *	loan		time left, and in a section	no loan
 *			or with an interrupt to take:
 *			timer, no switch
 *			else: no loan, switch
 *
 * So there is one loan per boundary of the schedule, whatever the guest claims. The next
 * loan comes only after the scheduler has had its choice. A loan may end as the vCPU goes
 * to its monitor or ceases to share a record. It asks for a switch then, as no timer is
 * left to make the request that it put off. The timer asks for a switch at the end of the
 * loan's time, so the loan ends then at the latest. It ends earlier by the guest's own
 * PVSYNC_HC_GIVE_BACK, or if somebody else asks for a switch when the vCPU has left its
 * section. While the vCPU is in a section, the loan puts off requests of a tick or a
 * wake-up, for what is left of its time: the bound is the same.
 *
 * Other vCPUs see that this one runs, and send it interrupts that they wait for. A vCPU
 * that waited for the lock that this one has just released goes on, unmaps something, and
 * wants its translations flushed. So borrowed time does not end while this vCPU has an
 * interrupt to take. If it stays for an interrupt after it has given back, the host tells
 * it of its loan again, and it gives back once more. When it loses its CPU, other vCPUs
 * have to see that, see pvsync_give_back().
 *
 * With the free form, RCU readers and interrupts end without a word. By the end of the
 * loan the vCPU may well be in its next section. So the timer comes in short steps
 * (pvsync.extend_look_us). Each step is a request to switch, at which the thread looks
 * whether the vCPU has left its section.
 *
 * The thread of the vCPU does all of this, with preemption disabled. The timer runs on
 * the same CPU, in an interrupt, and reads only which vCPU runs. The thread cancels the
 * timer on that CPU, where the timer's handler cannot run meanwhile, before it leaves.
 *
 * With pvsync.extend=kernel a section is all that a vCPU does in its guest's kernel, until it
 * is back in user mode. This is the first approach of "How to Deal with Lock Holder
 * Preemption", after Uhlig et al. It asks nothing of the guest, and tells it nothing. Such a
 * loan ends without a word, so its timer comes in steps, too. The paper delays the preemption
 * without a limit; here the bounds of all loans hold.
 *
 * A vCPU may borrow a share of its own run time, pvsync.extend_cap. Run time of the VM's
 * other vCPUs does not count, so vCPUs that hardly run, or never, give it nothing to
 * borrow. The periods of the account are of run time as well. A loan may take the account
 * beyond the cap, as the last one of a period does. The next periods carry the excess.
 *
 * A BPF program may refuse a loan that all of this allows (bpf_extend.c).
 */
#include <linux/hrtimer.h>
#include <linux/irqflags.h>
#include <linux/kvm_host.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>

#include <trace/events/pvsync.h>

#include <linux/pvsync/abi.h>
#include <linux/pvsync/extend.h>
#include <linux/pvsync/kvm/loan.h>
#include <linux/pvsync/shims.h>

#include PVSYNC_KVM_REGS_H

#include "bpf.h"
#include "count.h"
#include "loan.h"
#include "record.h"
#include "regs.h"
#include "section.h"

/* Run time of a vCPU over which its account adds up what it has borrowed, ns. */
#define PERIOD	(100 * NSEC_PER_MSEC)

/* As any request to switch, this one is made with interrupts disabled. */
static void loan_reschedule(void)
{
	unsigned long flags;

	local_irq_save(flags);
	set_tsk_need_resched(current);
	set_preempt_need_resched();
	local_irq_restore(flags);
}

/**
 * pvsync_where - what a vCPU is doing, as pvsync_ecs_where()
 * @vcpu: the vCPU
 *
 * A guest gives back when it has left its sections. It is in no section until it runs again,
 * whatever its record says, unless it has an interrupt to take. With the free form the guest is
 * in its scheduler at that point, with preemption disabled.
 *
 * Context: thread of @vcpu, preemption disabled.
 *
 * Return: as pvsync_ecs_where().
 */
enum pvsync_vcpu_counter pvsync_where(struct kvm_vcpu *vcpu)
{
	if (!vcpu->arch.pvsync.loan.returned)
		return pvsync_ecs_where(vcpu);
	return pvsync_ecs_has_interrupt(vcpu) ? PVSYNC_preempt_irq : PVSYNC_preempt_kernel;
}

/* Whether a section is whatever the guest's kernel does, of which the guest says nothing. */
static bool loan_is_for_kernel(struct kvm_vcpu *vcpu)
{
	return pvsync_extend_of(vcpu->kvm) == PVSYNC_EXTEND_KERNEL;
}

/* A guest's guest is in the user mode of the kernel that runs it, as in pvsync_ecs_where(). */
static bool loan_in_kernel(struct kvm_vcpu *vcpu)
{
	return vcpu->arch.mp_state == KVM_MP_STATE_RUNNABLE && !is_guest_mode(vcpu) &&
	       pvsync_in_kernel(vcpu);
}

static enum hrtimer_restart loan_is_over(struct hrtimer *timer)
{
	struct kvm_vcpu *vcpu = container_of(timer, struct kvm_vcpu, arch.pvsync.loan.timer);

	if (kvm_get_running_vcpu() == vcpu)
		loan_reschedule();
	return HRTIMER_NORESTART;
}

/**
 * pvsync_loan_init - make it possible to lend to a vCPU
 * @vcpu: the vCPU
 *
 * Context: thread of @vcpu, with preemption enabled or not.
 */
void pvsync_loan_init(struct kvm_vcpu *vcpu)
{
	struct pvsync_loan *loan = &vcpu->arch.pvsync.loan;

	if (pvsync_timer_is_set_up(&loan->timer))
		return;
	pvsync_timer_setup(&loan->timer, loan_is_over, CLOCK_MONOTONIC,
			   HRTIMER_MODE_REL_PINNED_HARD);
}

/**
 * pvsync_account_load - a thread runs a vCPU
 * @vcpu: the vCPU
 *
 * Another thread may have run the vCPU before, and run times of two threads are not comparable.
 * So between ioctls the account keeps how much of its period has run. The begin of the period
 * by this thread's clock may be before 0. Differences are right all the same.
 *
 * Context: thread of @vcpu, preemption disabled.
 */
void pvsync_account_load(struct kvm_vcpu *vcpu)
{
	struct pvsync_loan *loan = &vcpu->arch.pvsync.loan;

	if (!vcpu->scheduled_out)
		loan->period = current->se.sum_exec_runtime - loan->ran;
}

/**
 * pvsync_account_put - a thread ceases to run a vCPU
 * @vcpu: the vCPU
 *
 * Context: thread of @vcpu, preemption disabled.
 */
void pvsync_account_put(struct kvm_vcpu *vcpu)
{
	struct pvsync_loan *loan = &vcpu->arch.pvsync.loan;

	if (!vcpu->scheduled_out)
		loan->ran = current->se.sum_exec_runtime - loan->period;
}

/* The scheduler brings the run time up to date at each tick, which is exact enough. */
static bool loan_may_borrow(struct kvm_vcpu *vcpu)
{
	struct pvsync_loan *loan = &vcpu->arch.pvsync.loan;
	u64 most = div_u64(PERIOD * pvsync_extend_cap_of(vcpu->kvm), 1000);
	u64 periods = div_u64(current->se.sum_exec_runtime - loan->period, PERIOD);

	loan->period += periods * PERIOD;
	loan->borrowed -= min(loan->borrowed, periods * most);
	return loan->borrowed < most;
}

/*
 * Without high resolution timers a loan ends at a tick, which may be long after. A vCPU without
 * a record has no timer until its thread has got a CPU once since a host parameter was set.
 */
static bool loan_ends_in_time(struct kvm_vcpu *vcpu)
{
	return pvsync_timer_is_set_up(&vcpu->arch.pvsync.loan.timer) &&
	       hrtimer_resolution <= pvsync_extend_us_of(vcpu->kvm) * NSEC_PER_USEC;
}

/* Time left of a loan, ns; an admin may have changed the length meanwhile. */
static s64 loan_time_left(struct kvm_vcpu *vcpu, u64 now)
{
	return pvsync_extend_us_of(vcpu->kvm) * NSEC_PER_USEC -
	       (now - vcpu->arch.pvsync.loan.since);
}

static void loan_set_timer(struct kvm_vcpu *vcpu, s64 ns)
{
	hrtimer_start(&vcpu->arch.pvsync.loan.timer, ns_to_ktime(ns),
		      HRTIMER_MODE_REL_PINNED_HARD);
}

/* With a shorter step than this, a vCPU would do little but exit. */
#define MIN_LOOK	(10 * NSEC_PER_USEC)

/* Time until the end of the loan, or until the next look whether the vCPU may go, ns. */
static s64 loan_next_look(struct kvm_vcpu *vcpu, u64 now)
{
	u64 look = READ_ONCE(pvsync_extend_look_us) * NSEC_PER_USEC;
	s64 left = loan_time_left(vcpu, now);

	return look ? min_t(s64, left, max_t(u64, look, MIN_LOOK)) : left;
}

/* Whether sections end without a word of the guest. */
static bool loan_ends_silently(struct kvm_vcpu *vcpu)
{
	return loan_is_for_kernel(vcpu) || vcpu->arch.pvsync.ecs.form == PVSYNC_ECS_FREE;
}

/* Time until the vCPU may have left its section without a word, or must have left it, ns. */
static s64 loan_section_time(struct kvm_vcpu *vcpu, u64 now)
{
	if (loan_ends_silently(vcpu))
		return loan_next_look(vcpu, now);
	return loan_time_left(vcpu, now);
}

static void loan_tell_guest(struct kvm_vcpu *vcpu)
{
	if (!loan_is_for_kernel(vcpu))
		pvsync_ecs_tell_loan(vcpu, true);
}

static void loan_begin(struct kvm_vcpu *vcpu, u64 now)
{
	struct pvsync_loan *loan = &vcpu->arch.pvsync.loan;

	loan->since = now;
	loan->granted = true;
	loan->returned = false;
	pvsync_count_for(vcpu, PVSYNC_extend_granted, 1);
	if (trace_pvsync_lent_enabled())
		trace_pvsync_lent(vcpu, loan_time_left(vcpu, now));
	loan_tell_guest(vcpu);
	loan_set_timer(vcpu, loan_section_time(vcpu, now));
}

/* Whether a vCPU that loses its CPU there holds others up, as far as the host can tell. */
static bool loan_holds(struct kvm_vcpu *vcpu)
{
	return loan_is_for_kernel(vcpu) ? loan_in_kernel(vcpu) : pvsync_holds(pvsync_where(vcpu));
}

/**
 * pvsync_loan_end - end a vCPU's loan, if it has one, with a switch to follow
 * @vcpu: the vCPU
 *
 * Context: thread of @vcpu, preemption disabled, on the CPU of the loan.
 */
void pvsync_loan_end(struct kvm_vcpu *vcpu)
{
	struct pvsync_loan *loan = &vcpu->arch.pvsync.loan;
	bool left;
	u64 ns;

	if (!loan->granted)
		return;
	hrtimer_try_to_cancel(&loan->timer);
	loan->granted = false;
	ns = local_clock() - loan->since;
	left = !loan_holds(vcpu);
	pvsync_ecs_tell_loan(vcpu, false);

	loan->borrowed += ns;
	pvsync_bpf_note_lent(vcpu, ns);
	pvsync_count_for(vcpu, PVSYNC_extend_ns, ns);
	pvsync_count_for(vcpu, left ? PVSYNC_extend_avoided : PVSYNC_extend_expired, 1);
	if (loan->returned)
		pvsync_count_for(vcpu, PVSYNC_extend_returned, 1);
	trace_pvsync_loan_ended(vcpu, ns, left, loan->returned);
}

/**
 * pvsync_loan_drop - end a vCPU's loan, if it has one, with its thread going on
 * @vcpu: the vCPU
 *
 * The loan has put a request to switch off. Its timer, which would make the request again, is
 * gone, so this asks for the switch. Until the switch there is no other loan, whatever record
 * the guest shares meanwhile.
 *
 * Context: thread of @vcpu, preemption disabled, on the CPU of the loan.
 */
void pvsync_loan_drop(struct kvm_vcpu *vcpu)
{
	if (!vcpu->arch.pvsync.loan.granted)
		return;
	pvsync_loan_end(vcpu);
	vcpu->arch.pvsync.loan.dropped = true;
	loan_reschedule();
}

/**
 * pvsync_give_back - a guest has left its critical sections on borrowed time
 * @vcpu: the vCPU, in this hypercall
 *
 * Without a loan nothing happens: the loan may have ended just before.
 *
 * KVM's steal time record says that a vCPU is preempted only if the vCPU left the guest between
 * two instructions, by KVM's own account. In the midst of an emulation the host uses
 * translations of the guest that other vCPUs would not flush then. Without the mark, other
 * vCPUs send this one their shootdowns, and wait until its next turn, often with a lock. After
 * this hypercall KVM has only to set its result and the instruction pointer. It uses no
 * translation from before for either, so the instruction counts as over.
 *
 * Context: thread of @vcpu.
 */
void pvsync_give_back(struct kvm_vcpu *vcpu)
{
	preempt_disable();
	if (vcpu->arch.pvsync.loan.granted) {
		vcpu->arch.pvsync.loan.returned = true;
		vcpu->arch.at_instruction_boundary = true;
		loan_reschedule();
	}
	preempt_enable();
}

static bool loan_is_in_section(struct kvm_vcpu *vcpu)
{
	switch (pvsync_extend_of(vcpu->kvm)) {
	case PVSYNC_EXTEND_ECS:
		return vcpu->arch.pvsync.ecs.form && pvsync_in_section(pvsync_where(vcpu));
	case PVSYNC_EXTEND_KERNEL:
		return loan_in_kernel(vcpu);
	default:
		return false;
	}
}

/* Reads registers only of a vCPU that runs, not while the monitor sets the registers. */
static bool loan_is_wanted(struct kvm_vcpu *vcpu)
{
	return vcpu->wants_to_run && !vcpu->arch.pvsync.yielding && loan_is_in_section(vcpu);
}

/* Sections that end without a word may have done so, and others may have begun. */
static bool loan_is_still_in_section(struct kvm_vcpu *vcpu)
{
	return !vcpu->arch.pvsync.loan.returned &&
	       (!loan_ends_silently(vcpu) || READ_ONCE(pvsync_extend_look_us));
}

static bool loan_keep(struct kvm_vcpu *vcpu, u64 now)
{
	struct pvsync_loan *loan = &vcpu->arch.pvsync.loan;

	if (loan_time_left(vcpu, now) <= 0 || !loan_is_wanted(vcpu) ||
	    !(loan_is_still_in_section(vcpu) ||
	      pvsync_ecs_has_interrupt(vcpu)) ||
	    !pvsync_put_off_switch())
		return false;
	if (loan->returned) {
		loan->returned = false;
		loan_tell_guest(vcpu);
		loan_set_timer(vcpu, loan_section_time(vcpu, now));
	} else {
		loan_set_timer(vcpu, loan_next_look(vcpu, now));
	}
	return true;
}

/**
 * pvsync_extend - a vCPU is to lose its CPU: may it stay for now?
 *
 * Context: thread of the vCPU, about to enter __schedule(), preemption disabled, interrupts
 * enabled.
 *
 * Return: true if it stays.
 */
bool pvsync_extend(void)
{
	struct kvm_vcpu *vcpu = kvm_get_running_vcpu();
	u64 now = local_clock();

	if (!vcpu)
		return false;
	if (vcpu->arch.pvsync.loan.granted) {
		if (loan_keep(vcpu, now))
			return true;
		pvsync_loan_end(vcpu);
		return false;
	}
	if (vcpu->arch.pvsync.loan.dropped)
		return false;
	vcpu->arch.pvsync.loan.returned = false;
	if (!loan_is_wanted(vcpu))
		return false;
	if (!loan_may_borrow(vcpu)) {
		pvsync_count_for(vcpu, PVSYNC_extend_capped, 1);
		return false;
	}
	if (pvsync_bpf_refuses(vcpu))
		return false;
	if (!loan_ends_in_time(vcpu) || !pvsync_put_off_switch()) {
		pvsync_count_for(vcpu, PVSYNC_extend_denied, 1);
		return false;
	}
	loan_begin(vcpu, now);
	return true;
}
