/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KVM_X86_PVSYNC_TLB_SETTLE_H
#define _KVM_X86_PVSYNC_TLB_SETTLE_H

/* Whether the host may be emulating an instruction for a vCPU, see tlb_settle.c. */

#include <linux/kvm_host.h>

#include <linux/pvsync/kvm/tlb.h>

void pvsync_settle_put(struct kvm_vcpu *vcpu);

static inline void pvsync_settle_vcpu(struct kvm_vcpu *vcpu, bool settled)
{
	WRITE_ONCE(vcpu->arch.pvsync.tlb.settled, settled);
}

/* Whether the emulation for @target from before the request is over, see tlb_settle.c. */
static inline bool pvsync_tlb_is_past(struct kvm_vcpu *target, u64 asked)
{
	const struct pvsync_tlb *tlb = &target->arch.pvsync.tlb;

	return smp_load_acquire(&tlb->done) >= asked || READ_ONCE(tlb->settled) ||
	       READ_ONCE(target->arch.at_instruction_boundary) ||
	       READ_ONCE(target->arch.mp_state) == KVM_MP_STATE_HALTED;
}

#endif /* _KVM_X86_PVSYNC_TLB_SETTLE_H */
