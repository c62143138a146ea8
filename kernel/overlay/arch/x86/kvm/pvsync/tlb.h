/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KVM_X86_PVSYNC_TLB_H
#define _KVM_X86_PVSYNC_TLB_H

/* The hypercall that has vCPUs flush, see tlb.c. */

#include <linux/kvm_host.h>

#include <linux/pvsync/kvm/tlb.h>

bool pvsync_tlb_offered(struct kvm_vcpu *vcpu);
long pvsync_tlb_shootdown(struct kvm_vcpu *me, u64 low, u64 high, u64 where, u64 what);

#endif /* _KVM_X86_PVSYNC_TLB_H */
