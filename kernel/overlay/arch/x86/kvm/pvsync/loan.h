/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KVM_X86_PVSYNC_LOAN_H
#define _KVM_X86_PVSYNC_LOAN_H

/* The extra time that vCPUs get for their critical sections, see extend.c. */

#include <linux/kvm_host.h>

#include <linux/pvsync/count.h>
#include <linux/pvsync/host.h>

enum pvsync_vcpu_counter pvsync_where(struct kvm_vcpu *vcpu);
void pvsync_account_load(struct kvm_vcpu *vcpu);
void pvsync_account_put(struct kvm_vcpu *vcpu);
void pvsync_loan_init(struct kvm_vcpu *vcpu);
void pvsync_loan_end(struct kvm_vcpu *vcpu);
void pvsync_loan_drop(struct kvm_vcpu *vcpu);
void pvsync_give_back(struct kvm_vcpu *vcpu);
bool pvsync_extend(void);

static inline int pvsync_extend_of(struct kvm *kvm)
{
	return pvsync_choice_of(&pvsync_extend_choice, READ_ONCE(kvm->arch.pvsync.extend));
}

static inline u32 pvsync_extend_us_of(struct kvm *kvm)
{
	return pvsync_number_of(&pvsync_extend_us, READ_ONCE(kvm->arch.pvsync.extend_us));
}

static inline u32 pvsync_extend_cap_of(struct kvm *kvm)
{
	return pvsync_number_of(&pvsync_extend_cap, READ_ONCE(kvm->arch.pvsync.extend_cap));
}

#endif /* _KVM_X86_PVSYNC_LOAN_H */
