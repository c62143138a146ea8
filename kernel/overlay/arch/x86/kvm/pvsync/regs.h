/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KVM_X86_PVSYNC_REGS_H
#define _KVM_X86_PVSYNC_REGS_H

#include <linux/types.h>

struct kvm_vcpu;

u32 pvsync_exit_reason(struct kvm_vcpu *vcpu);
bool pvsync_in_kernel(struct kvm_vcpu *vcpu);
bool pvsync_takes_interrupts(struct kvm_vcpu *vcpu);
void pvsync_drop_segments(struct kvm_vcpu *vcpu);

#endif /* _KVM_X86_PVSYNC_REGS_H */
