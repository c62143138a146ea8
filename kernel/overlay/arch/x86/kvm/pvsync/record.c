// SPDX-License-Identifier: GPL-2.0-only
/*
 * The record of critical sections that a vCPU shares: how the host finds, reads and writes
 * it. After S. Kashyap, C. Min and T. Kim, "Scaling Guest OS Critical Sections with eCS",
 * USENIX ATC 2018, section 3.1. The header <linux/pvsync/abi.h> has the record, and what the
 * host also reads if the vCPU does not count. This file knows nothing of what a section is
 * (section.c), of loans (extend.c), or of how a guest asks for all this (share.c).
 *
 * The host reads what a guest maintains for itself (its preempt count, a task) by the layout
 * that the guest has told. The host never writes to it.
 *
 * The host reads the record when the vCPU is to lose its CPU. It writes the record when the
 * vCPU loses or gets a CPU, when a loan begins or ends, and in a hypercall with the record. The
 * thread of the vCPU alone does both, while the vCPU is not in the guest. Some words have two
 * writers, the guest and the host, but these never write at the same time:
 *
 *	vCPU, in the guest			thread of the vCPU, in the host
 *	------------------			-------------------------------
 *	[RmW] word, one instruction
 *	      VM exit
 *						[L] word
 *						[S] word | BORROWED
 *	      VM entry
 *	[RmW] word, sees BORROWED
 *
 * Other vCPUs of the guest only read the half that the host writes.
 *
 * The scheduler calls this, so it must not sleep. The host reaches the guest's memory
 * through the address at which the virtual machine monitor has it, with page faults
 * disabled. It leaves alone memory that is absent, read-only or taken from the guest.
 * A claim that the host cannot read is no claim. The host trusts no claim: it reads each
 * value once, any value means something, and extend.c bounds all effects.
 */
#include <linux/kvm_host.h>
#include <linux/pagemap.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include <linux/pvsync/abi.h>
#include <linux/pvsync/extend.h>

#include "../smm.h"
#include "../x86.h"

#include "record.h"

static_assert(sizeof(struct pvsync_ecs) == PVSYNC_ECS_SIZE);

/*
 * The guest's memory is memory of this process, but not while the process exits. The host
 * touches it only while the monitor has the vCPU run. At other times the monitor may set
 * registers or memory, maybe for another system.
 */
static bool ecs_is_reachable(struct kvm_vcpu *vcpu)
{
	return vcpu->arch.pvsync.ecs.form && vcpu->wants_to_run && current->mm == vcpu->kvm->mm;
}

/**
 * pvsync_ecs_has_claims - whether a vCPU's record says anything about the vCPU
 * @vcpu: the vCPU
 *
 * Context: thread of @vcpu, preemption disabled.
 *
 * Return: true if the host can reach the record, and its form has claims.
 */
bool pvsync_ecs_has_claims(struct kvm_vcpu *vcpu)
{
	return ecs_is_reachable(vcpu) && vcpu->arch.pvsync.ecs.form != PVSYNC_ECS_SILENT;
}

/**
 * pvsync_ecs_read_guest - read memory that a vCPU shares
 * @vcpu: the vCPU, not in the guest
 * @where: what to read, mapped by pvsync_ecs_map()
 * @data: takes it
 * @len: bytes
 *
 * Context: thread of @vcpu. Does not sleep.
 *
 * Return: true if it was read, which takes memory that is present.
 */
bool pvsync_ecs_read_guest(struct kvm_vcpu *vcpu, struct gfn_to_hva_cache *where, void *data,
			   unsigned long len)
{
	int idx = srcu_read_lock(&vcpu->kvm->srcu);
	bool done;

	pagefault_disable();
	done = !kvm_read_guest_cached(vcpu->kvm, where, data, len);
	pagefault_enable();
	srcu_read_unlock(&vcpu->kvm->srcu, idx);
	return done;
}

/*
 * A monitor may have writes to memory logged in a ring of the vCPU. The thread that is
 * switched may be in the midst of an entry into the ring. KVM adds entries in the thread
 * alone, and cannot be interrupted there by another entry. Nor does anything bound how
 * often the thread is switched until the monitor empties the ring. So the host does not
 * write to memory that is logged there.
 *
 * KVM may replace slots by logged ones at any time. So this looks at the very slot that it
 * writes to. The thread that asked for the log waits for this reader, and the monitor
 * copies all memory after that, with what was written before.
 */
static bool ecs_write_unlogged(struct kvm_vcpu *vcpu, struct gfn_to_hva_cache *where,
			       const void *data, unsigned int offset, unsigned long len)
{
	u8 byte;

	/* Brings @where up to date with the slots. */
	if (kvm_read_guest_offset_cached(vcpu->kvm, where, &byte, offset, sizeof(byte)))
		return false;
	return where->memslot && !kvm_slot_dirty_track_enabled(where->memslot) &&
	       !__copy_to_user((void __user *)(where->hva + offset), data, len);
}

/* Return: whether it is written. */
static bool ecs_write_guest(struct kvm_vcpu *vcpu, struct gfn_to_hva_cache *where, void *data,
			    unsigned int offset, unsigned long len)
{
	int idx = srcu_read_lock(&vcpu->kvm->srcu);
	bool done;

	pagefault_disable();
	if (vcpu->kvm->dirty_ring_size)
		done = ecs_write_unlogged(vcpu, where, data, offset, len);
	else
		done = !kvm_write_guest_offset_cached(vcpu->kvm, where, data, offset, len);
	pagefault_enable();
	srcu_read_unlock(&vcpu->kvm->srcu, idx);
	return done;
}

/**
 * pvsync_ecs_map - find the memory at an address that a guest has told
 * @vcpu: the vCPU
 * @where: takes what pvsync_ecs_read_guest() needs
 * @gpa: the guest's physical address
 * @size: bytes, a power of 2
 *
 * Context: KVM's memory slots stay, by its SRCU.
 *
 * Return: true if it is aligned, and memory of the guest.
 */
bool pvsync_ecs_map(struct kvm_vcpu *vcpu, struct gfn_to_hva_cache *where, gpa_t gpa,
		    unsigned long size)
{
	return IS_ALIGNED(gpa, size) &&
	       !kvm_gfn_to_hva_cache_init(vcpu->kvm, where, gpa, size) && where->memslot;
}

/* If a write fails, the next call writes, changed or not. */
static void ecs_tell_guest(struct kvm_vcpu *vcpu,
			   const struct pvsync_told *told)
{
	struct pvsync_shared *ecs = &vcpu->arch.pvsync.ecs;

	if (ecs->written && !memcmp(&ecs->told, told, sizeof(*told)))
		return;
	ecs->told = *told;
	ecs->written = ecs_write_guest(vcpu, &ecs->record, &ecs->told,
				       PVSYNC_ECS_TOLD, sizeof(ecs->told));
}

/*
 * Whether a system runs that may have shared the record. A monitor resets a vCPU by setting
 * its registers, which is nothing special to KVM. A system that starts after this has no
 * paging. The registers may be of a guest's guest or of the firmware's management mode, or
 * the host may not see them. Then nothing is known, and the record stays.
 */
static bool ecs_may_share(struct kvm_vcpu *vcpu)
{
	return is_paging(vcpu) || is_guest_mode(vcpu) || is_smm(vcpu) ||
	       vcpu->arch.guest_state_protected;
}

/* What the monitor sets at the begin of KVM_RUN. A hint: the monitor may write meanwhile. */
static bool ecs_is_set_without_paging(struct kvm_vcpu *vcpu)
{
	return READ_ONCE(vcpu->run->kvm_dirty_regs) & KVM_SYNC_X86_SREGS &&
	       !(READ_ONCE(vcpu->run->s.regs.sregs.cr0) & X86_CR0_PG);
}

/**
 * pvsync_ecs_load - a vCPU has got a CPU: tell its guest, if it is still the same
 * @vcpu: the vCPU, which has no loan
 *
 * This looks for a reset at the begin of an ioctl only. It sees what the ioctl before has set,
 * or what this ioctl will set itself. A thread that was switched may be in the midst of a
 * change of mode inside KVM, such as an exit of a guest's guest or from management mode. There
 * paging is off for a moment.
 *
 * Context: thread of @vcpu, preemption disabled.
 */
void pvsync_ecs_load(struct kvm_vcpu *vcpu)
{
	if (vcpu->arch.pvsync.ecs.form && !vcpu->scheduled_out &&
	    (!ecs_may_share(vcpu) || ecs_is_set_without_paging(vcpu)))
		vcpu->arch.pvsync.ecs.form = 0;
	pvsync_ecs_tell(vcpu, false, pvsync_cpu_wanted());
}

/**
 * pvsync_ecs_tell - tell a guest what has become of a vCPU
 * @vcpu: the vCPU
 * @preempted: whether the vCPU waits for a CPU
 * @overcommitted: whether something else waits for the CPU that it has
 *
 * Context: thread of @vcpu, preemption disabled.
 */
void pvsync_ecs_tell(struct kvm_vcpu *vcpu, bool preempted, bool overcommitted)
{
	struct pvsync_told told = vcpu->arch.pvsync.ecs.told;

	if (!ecs_is_reachable(vcpu))
		return;
	told.preempted = preempted;
	told.overcommitted = overcommitted;
	ecs_tell_guest(vcpu, &told);
}

/* The mark lets the guest notice it when it leaves its sections, without a look elsewhere. */
static void ecs_mark_words(struct kvm_vcpu *vcpu, bool borrowed)
{
	struct gfn_to_hva_cache *record = &vcpu->arch.pvsync.ecs.record;
	struct pvsync_claim claim;

	if (!pvsync_ecs_read_guest(vcpu, record, &claim, sizeof(claim)))
		return;
	claim.non_preemptable &= ~PVSYNC_ECS_BORROWED;
	claim.preemptable &= ~PVSYNC_ECS_BORROWED;
	if (borrowed) {
		claim.non_preemptable |= PVSYNC_ECS_BORROWED;
		claim.preemptable |= PVSYNC_ECS_BORROWED;
	}
	ecs_write_guest(vcpu, record, &claim, 0, sizeof(claim));
}

/**
 * pvsync_ecs_tell_loan - tell a guest that a vCPU runs on borrowed time, or not
 * @vcpu: the vCPU
 * @borrowed: whether it does
 *
 * The host tells it in its half of the record. It also tells a guest that counts in the guest's
 * words, where the guest looks anyway. The host writes to nothing else of a guest: what the
 * guest maintains for itself may mean anything.
 *
 * Context: thread of @vcpu, preemption disabled.
 */
void pvsync_ecs_tell_loan(struct kvm_vcpu *vcpu, bool borrowed)
{
	struct pvsync_told told = vcpu->arch.pvsync.ecs.told;

	if (!ecs_is_reachable(vcpu))
		return;
	told.borrowed = borrowed;
	ecs_tell_guest(vcpu, &told);
	if (vcpu->arch.pvsync.ecs.form == PVSYNC_ECS_COUNT)
		ecs_mark_words(vcpu, borrowed);
}

/**
 * pvsync_ecs_tell_again - tell a vCPU that asks for it that it runs
 * @vcpu: the vCPU
 *
 * This also writes what the host could not write before.
 *
 * Context: thread of @vcpu, may sleep.
 */
void pvsync_ecs_tell_again(struct kvm_vcpu *vcpu)
{
	struct pvsync_shared *ecs = &vcpu->arch.pvsync.ecs;
	struct pvsync_told told;

	/* This may fail, and changes nothing in the page but that it is there. */
	fault_in_safe_writeable((const char __user *)ecs->record.hva, 1);
	preempt_disable();
	told = ecs->told;
	told.preempted = 0;
	ecs_tell_guest(vcpu, &told);
	preempt_enable();
}
