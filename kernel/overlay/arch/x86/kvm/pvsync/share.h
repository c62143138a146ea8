/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KVM_X86_PVSYNC_SHARE_H
#define _KVM_X86_PVSYNC_SHARE_H

/* How a guest shares a record of critical sections, see share.c. */

#include <linux/kvm_host.h>

long pvsync_ecs_share(struct kvm_vcpu *vcpu, u64 a0, u64 a1, u64 a2, u64 a3);
u64 pvsync_ecs_msr(struct kvm_vcpu *vcpu);
int pvsync_ecs_set_msr(struct kvm_vcpu *vcpu, u64 data, bool by_monitor);

#endif /* _KVM_X86_PVSYNC_SHARE_H */
