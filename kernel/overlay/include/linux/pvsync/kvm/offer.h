/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_KVM_OFFER_H
#define _LINUX_PVSYNC_KVM_OFFER_H

/*
 * What a VM has of pvsync: its monitor enables it, and its guest finds it by CPUID and uses it by
 * MSRs. The mechanism is in arch/x86/kvm/pvsync/offer.c.
 */

#include <linux/errno.h>
#include <linux/types.h>

struct kvm;
struct kvm_enable_cap;
struct kvm_vcpu;
struct msr_data;

#ifdef CONFIG_PVSYNC_KVM

int pvsync_check_extension(long ext);
int pvsync_enable_cap(struct kvm *kvm, const struct kvm_enable_cap *cap);
void pvsync_cpuid(struct kvm_vcpu *vcpu, u32 function, u32 *eax, u32 *ebx, u32 *ecx, u32 *edx);
int pvsync_get_msr(struct kvm_vcpu *vcpu, struct msr_data *msr);
int pvsync_set_msr(struct kvm_vcpu *vcpu, const struct msr_data *msr);

#else

/* What stock KVM has in their place, of which only KVM's own files know the name. */
#define pvsync_get_msr(vcpu, msr)	KVM_MSR_RET_UNSUPPORTED
#define pvsync_set_msr(vcpu, msr)	KVM_MSR_RET_UNSUPPORTED

static inline int pvsync_check_extension(long ext)
{
	return 0;
}

static inline int pvsync_enable_cap(struct kvm *kvm, const struct kvm_enable_cap *cap)
{
	return -EINVAL;
}

static inline void pvsync_cpuid(struct kvm_vcpu *vcpu, u32 function, u32 *eax, u32 *ebx,
				u32 *ecx, u32 *edx)
{
}

#endif /* CONFIG_PVSYNC_KVM */

#endif /* _LINUX_PVSYNC_KVM_OFFER_H */
