/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_KVM_HYPERCALL_H
#define _LINUX_PVSYNC_KVM_HYPERCALL_H

/*
 * The entry for a guest's hypercalls to pvsync. The calls are in <linux/pvsync/abi.h>, and
 * arch/x86/kvm/pvsync/hypercall.c answers them.
 */

struct kvm_vcpu;

#ifdef CONFIG_PVSYNC_KVM

unsigned long pvsync_hypercall(struct kvm_vcpu *vcpu, unsigned long nr, unsigned long a0,
			       unsigned long a1, unsigned long a2, unsigned long a3);

#else

#define pvsync_hypercall(vcpu, nr, a0, a1, a2, a3)	(-KVM_ENOSYS)

#endif /* CONFIG_PVSYNC_KVM */

#endif /* _LINUX_PVSYNC_KVM_HYPERCALL_H */
