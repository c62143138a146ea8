/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_KVM_SWITCH_H
#define _LINUX_PVSYNC_KVM_SWITCH_H

/*
 * A vCPU's thread gets a CPU, and loses it. What follows from either is in
 * arch/x86/kvm/pvsync/switch.c.
 */

struct kvm_vcpu;

#ifdef CONFIG_PVSYNC_KVM

#include <linux/pvsync/vcpus.h>

void __pvsync_vcpu_load(struct kvm_vcpu *vcpu, int cpu);
void __pvsync_vcpu_put(struct kvm_vcpu *vcpu);

/**
 * pvsync_vcpu_load - a vCPU's thread runs on a CPU
 * @vcpu: the vCPU
 * @cpu: the CPU
 *
 * Context: thread of @vcpu, preemption disabled.
 */
static __always_inline void pvsync_vcpu_load(struct kvm_vcpu *vcpu, int cpu)
{
	if (static_branch_unlikely(&pvsync_vcpus_key))
		__pvsync_vcpu_load(vcpu, cpu);
}

/**
 * pvsync_vcpu_put - a vCPU's thread leaves its CPU, or KVM
 * @vcpu: the vCPU
 *
 * Context: thread of @vcpu, preemption disabled.
 */
static __always_inline void pvsync_vcpu_put(struct kvm_vcpu *vcpu)
{
	if (static_branch_unlikely(&pvsync_vcpus_key))
		__pvsync_vcpu_put(vcpu);
}

#else

static inline void pvsync_vcpu_load(struct kvm_vcpu *vcpu, int cpu) { }
static inline void pvsync_vcpu_put(struct kvm_vcpu *vcpu) { }

#endif /* CONFIG_PVSYNC_KVM */

#endif /* _LINUX_PVSYNC_KVM_SWITCH_H */
