// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a vCPU is doing, by what its guest shares (record.c): in which critical section it
 * is, or for what it waits. This knows nothing of what the host does about it.
 *
 * In user mode a vCPU is in no section of its kernel, whatever its record says, unless it is
 * about to take an interrupt.
 */
#include <linux/kvm_host.h>
#include <linux/uaccess.h>

#include <linux/pvsync/abi.h>

#include "../lapic.h"
#include "../x86.h"

#include "record.h"
#include "regs.h"
#include "section.h"

static u64 ecs_count_of(u64 word, u64 unit)
{
	return (word & ~PVSYNC_ECS_BORROWED) / unit & PVSYNC_ECS_FIELD;
}

/* The lock, of several, that pvsync ascribes a preemption to; preempt_kernel if none. */
static enum pvsync_vcpu_counter ecs_lock_held(const struct pvsync_claim *claim)
{
	if (ecs_count_of(claim->non_preemptable, PVSYNC_ECS_LOCK))
		return PVSYNC_preempt_lock;
	if (ecs_count_of(claim->non_preemptable, PVSYNC_ECS_READ))
		return PVSYNC_preempt_reader;
	if (ecs_count_of(claim->preemptable, PVSYNC_ECS_MUTEX))
		return PVSYNC_preempt_mutex;
	if (ecs_count_of(claim->preemptable, PVSYNC_ECS_RWSEM_READ))
		return PVSYNC_preempt_reader;
	return PVSYNC_preempt_kernel;
}

/*
 * Interrupts go first: a section that they interrupted does not hold them up. A vCPU
 * that waits goes on no sooner with a longer turn, whatever it has locked. The vCPU that
 * it waits for may need this CPU.
 */
static enum pvsync_vcpu_counter ecs_counted_section(struct kvm_vcpu *vcpu)
{
	enum pvsync_vcpu_counter held;
	struct pvsync_claim claim;

	if (!pvsync_ecs_read_guest(vcpu, &vcpu->arch.pvsync.ecs.record, &claim, sizeof(claim)))
		return PVSYNC_preempt_unknown;
	if (ecs_count_of(claim.non_preemptable, PVSYNC_ECS_IRQ))
		return PVSYNC_preempt_irq;
	held = ecs_lock_held(&claim);
	if (ecs_count_of(claim.non_preemptable, PVSYNC_ECS_SPINNER) ||
	    ecs_count_of(claim.preemptable, PVSYNC_ECS_WAITER))
		return held == PVSYNC_preempt_kernel ? PVSYNC_preempt_waiter :
						       PVSYNC_preempt_stuck;
	if (held == PVSYNC_preempt_kernel && ecs_count_of(claim.preemptable, PVSYNC_ECS_RCU))
		return PVSYNC_preempt_rcu;
	return held;
}

/* Whether the running task of the guest is an RCU reader, as far as can be told. */
static bool ecs_reads_rcu(struct kvm_vcpu *vcpu)
{
	struct pvsync_shared *ecs = &vcpu->arch.pvsync.ecs;
	s32 nesting = 0;
	u64 task;
	gpa_t gpa;
	int idx;

	if (!ecs->asked[2] || !pvsync_ecs_read_guest(vcpu, &ecs->task, &task, sizeof(task)) ||
	    task < ecs->memory)
		return false;
	/* The guest may have any value there, and KVM warns of accesses across a page. */
	gpa = task - ecs->memory + ecs->nesting;
	if (!IS_ALIGNED(gpa, sizeof(nesting)))
		return false;
	/*
	 * This reads by way of the VM. The vCPU's memory slots have a cache without a
	 * lock, and the thread may be in the midst of a look-up for a fault.
	 */
	idx = srcu_read_lock(&vcpu->kvm->srcu);
	pagefault_disable();
	if (kvm_read_guest(vcpu->kvm, gpa, &nesting, sizeof(nesting)))
		nesting = 0;
	pagefault_enable();
	srcu_read_unlock(&vcpu->kvm->srcu, idx);
	return nesting > 0;
}

/*
 * This finds the section in what the guest's kernel maintains anyway, by the layout that it
 * has told. A vCPU that waits says so in the record, as it has nothing better to do. Each
 * wait counts once in the preempt count. pvsync takes a count above that for a lock.
 */
static enum pvsync_vcpu_counter ecs_found_section(struct kvm_vcpu *vcpu)
{
	struct pvsync_shared *ecs = &vcpu->arch.pvsync.ecs;
	const struct pvsync_ecs_layout *layout = &ecs->layout;
	struct pvsync_claim claim;
	u32 count;

	if (!pvsync_ecs_read_guest(vcpu, &ecs->preempt_count, &count, sizeof(count)) ||
	    !pvsync_ecs_read_guest(vcpu, &ecs->record, &claim, sizeof(claim)))
		return PVSYNC_preempt_unknown;
	if (count & layout->interrupt)
		return PVSYNC_preempt_irq;
	if (ecs_count_of(claim.non_preemptable, PVSYNC_ECS_SPINNER))
		return (count & layout->nesting) > layout->wait ? PVSYNC_preempt_stuck :
								  PVSYNC_preempt_waiter;
	if (count & layout->section)
		return PVSYNC_preempt_lock;
	if (ecs_reads_rcu(vcpu))
		return PVSYNC_preempt_rcu;
	return PVSYNC_preempt_kernel;
}

/**
 * pvsync_ecs_has_interrupt - whether a vCPU that tells its sections has an interrupt to take
 * @vcpu: the vCPU, not in the guest
 *
 * This looks at the interrupt controller that the host has for the vCPU. It does not see
 * interrupts that a processor has posted and not handed over yet. Interrupts of the guest's
 * own guest do not count.
 *
 * Context: thread of @vcpu, preemption disabled.
 *
 * Return: true if it has.
 */
bool pvsync_ecs_has_interrupt(struct kvm_vcpu *vcpu)
{
	return vcpu->arch.mp_state == KVM_MP_STATE_RUNNABLE &&
	       pvsync_ecs_has_claims(vcpu) && !is_guest_mode(vcpu) &&
	       (vcpu->arch.interrupt.injected ||
		(lapic_in_kernel(vcpu) && kvm_lapic_find_highest_irr(vcpu) >= 0));
}

/**
 * pvsync_ecs_where - what a vCPU is doing
 * @vcpu: the vCPU, not in the guest
 *
 * pvsync takes a vCPU that runs a guest of its own for a vCPU in user mode: its record is
 * about the kernel that runs that guest. A vCPU that has halted is in no section, although
 * its idle task has preemption disabled. A vCPU that has an interrupt to take counts as in
 * the handler, even in user mode. If another vCPU sent the interrupt, that vCPU waits, often
 * with a lock. There is one exception: a vCPU that itself waits, with interrupts disabled,
 * takes no interrupt before its wait is over.
 *
 * Context: thread of @vcpu, preemption disabled.
 *
 * Return: the counter of its preemption there, from PVSYNC_preempt_irq to
 * PVSYNC_preempt_unknown.
 */
enum pvsync_vcpu_counter pvsync_ecs_where(struct kvm_vcpu *vcpu)
{
	bool interrupt = pvsync_ecs_has_interrupt(vcpu);
	enum pvsync_vcpu_counter section;

	if (is_guest_mode(vcpu))
		return PVSYNC_preempt_user;
	if (interrupt && pvsync_takes_interrupts(vcpu))
		return PVSYNC_preempt_irq;
	if (!pvsync_in_kernel(vcpu))
		return PVSYNC_preempt_user;
	if (!pvsync_ecs_has_claims(vcpu))
		return PVSYNC_preempt_unknown;
	if (vcpu->arch.mp_state != KVM_MP_STATE_RUNNABLE)
		return PVSYNC_preempt_kernel;
	if (vcpu->arch.pvsync.ecs.form == PVSYNC_ECS_FREE)
		section = ecs_found_section(vcpu);
	else
		section = ecs_counted_section(vcpu);
	if (interrupt && section != PVSYNC_preempt_waiter && section != PVSYNC_preempt_stuck)
		return PVSYNC_preempt_irq;
	return section;
}
