// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads of a guest's registers where its vCPU's thread is preempted. All such reads of pvsync
 * are in this file.
 *
 * On VMX, KVM keeps what it has read of a VMCS. vcpu->arch.regs_avail says which registers KVM
 * has, and another bitmask says which fields of segments. A thread that is preempted may be in
 * the midst of changing these. KVM must not keep what pvsync reads at that point:
 *
 *	thread of the vCPU		preempted there
 *	------------------		---------------
 *	__vmx_set_segment():
 *	[S] no field is kept
 *					vmx_get_cpl():
 *					[L] VMCS, the old SS
 *					[S] SS is kept
 *	[S] VMCS, the new SS
 *	...
 *	[L] SS as it is kept, the old one, until the guest has run
 *
 * So pvsync puts availability back as it was. KVM keeps these registers only as a copy of the
 * VMCS. If one is not available, KVM reads it from the VMCS, which is never wrong.
 *
 *	segments	Unavailable before the read, and after it. Before, so that the
 *			read is of the VMCS: test_set notes a field before it is there. After,
 *			as the bitmask has the field that was read: with the next use of any
 *			segment KVM clears it, as it does after the guest has run. A thread
 *			preempted within such a use has its field in the bitmask already, or
 *			will have, and reads the VMCS or what has just been read of it.
 *	flags		As they were. While they are available nothing is written: KVM may
 *			have a new value that is not in the VMCS yet. While they are not,
 *			what was read is not used again.
 *	exit		As it was. KVM keeps the reason at each exit. The other words, which
 *			pvsync does not want, do not change until the next exit.
 *
 * This thread alone writes regs_avail, by single instructions or as a whole. So a thread that
 * is preempted before or after any of these writes goes on with its own value.
 *
 * A read may see either side of a change. It may see the old SS with a new base, or flags of
 * the exit before. While KVM enters or leaves a guest's guest, it may see that guest's flags.
 * A wrong value has only these effects:
 *
 *	pvsync_in_kernel()		what a vCPU is taken to do, so that it is counted as
 *					something else once, or is lent time or not, by its
 *					record or for its kernel; loans are bounded whatever
 *					it is
 *	pvsync_takes_interrupts()	the same
 *	both, where SVM has to read
 *	an instruction again		SVM keeps no copy, and those exits whose instruction
 *					this is about write no segment
 *	pvsync_exit_reason()		kept at the exit, before the thread can be preempted
 *
 * SVM keeps no copy of these registers: the VMCB is memory.
 *
 * Control registers need none of this: CR0.PE, CR0.PG and CR4.PCIDE are never the guest's own
 * (KVM_POSSIBLE_CR0_GUEST_BITS, _CR4_), so KVM has them at hand.
 */
#include <linux/bits.h>
#include <linux/kvm_host.h>

#include <linux/pvsync/shims.h>

#include PVSYNC_KVM_REGS_H
#include "../x86.h"

#include "regs.h"

static_assert(!(KVM_POSSIBLE_CR0_GUEST_BITS & (X86_CR0_PE | X86_CR0_PG)));
static_assert(!(KVM_POSSIBLE_CR4_GUEST_BITS & X86_CR4_PCIDE));

static void regs_set_available(struct kvm_vcpu *vcpu, unsigned long available)
{
	pvsync_regs_avail(vcpu) = available & ~BIT(PVSYNC_REG_SEGMENTS);
}

/* Return: what is to be put back by regs_set_available(). */
static unsigned long regs_reading_begins(struct kvm_vcpu *vcpu)
{
	unsigned long available = pvsync_regs_avail(vcpu);

	regs_set_available(vcpu, available);
	return available;
}

/**
 * pvsync_exit_reason - why a vCPU left the guest
 * @vcpu: the vCPU
 *
 * Context: thread of @vcpu, any, its VMCS or VMCB loaded.
 *
 * Return: the vendor's number of its last exit.
 */
u32 pvsync_exit_reason(struct kvm_vcpu *vcpu)
{
	unsigned long available = regs_reading_begins(vcpu);
	u32 reason, intr_info, error_code;
	u64 info1, info2;

	kvm_x86_call(get_exit_info)(vcpu, &reason, &info1, &info2, &intr_info, &error_code);
	regs_set_available(vcpu, available);
	return reason;
}

/**
 * pvsync_in_kernel - whether a vCPU is in its guest's kernel
 * @vcpu: the vCPU
 *
 * Context: as pvsync_exit_reason().
 *
 * Return: true if it is, or that cannot be seen.
 */
bool pvsync_in_kernel(struct kvm_vcpu *vcpu)
{
	unsigned long available = regs_reading_begins(vcpu);
	bool in_kernel = pvsync_reads_kernel_mode(vcpu);

	regs_set_available(vcpu, available);
	return in_kernel;
}

/**
 * pvsync_takes_interrupts - whether a vCPU has interrupts enabled
 * @vcpu: the vCPU
 *
 * Context: as pvsync_exit_reason().
 *
 * Return: true if it has.
 */
bool pvsync_takes_interrupts(struct kvm_vcpu *vcpu)
{
	unsigned long available = regs_reading_begins(vcpu);
	bool takes = kvm_x86_call(get_if_flag)(vcpu);

	regs_set_available(vcpu, available);
	return takes;
}

/**
 * pvsync_drop_segments - a vCPU's thread runs again: nothing is kept of segments
 * @vcpu: the vCPU
 *
 * KVM 6.12 reads SS itself when it lets go of a vCPU that is preempted, and keeps it.
 *
 * Context: thread of @vcpu, preemption disabled.
 */
void pvsync_drop_segments(struct kvm_vcpu *vcpu)
{
	regs_set_available(vcpu, pvsync_regs_avail(vcpu));
}
