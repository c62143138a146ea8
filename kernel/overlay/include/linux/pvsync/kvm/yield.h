/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_KVM_YIELD_H
#define _LINUX_PVSYNC_KVM_YIELD_H

/*
 * Directed yields between vCPUs, and the looks at vCPUs that come before. The mechanism is in
 * arch/x86/kvm/pvsync/spin.c.
 */

#include <linux/sched.h>
#include <linux/types.h>

struct kvm_vcpu;

#ifdef CONFIG_PVSYNC_KVM

#include <linux/pvsync/vcpus.h>

int __pvsync_yield_to(struct kvm_vcpu *target, struct task_struct *task);
void __pvsync_candidate(struct kvm_vcpu *me);

/**
 * pvsync_yield_to - yield to a vCPU, as strongly as the host wants, and note it
 * @target: the vCPU
 * @task: its thread
 *
 * Context: may sleep; noted and strong only if a vCPU of the same VM runs.
 *
 * Return: as yield_to().
 */
static __always_inline int pvsync_yield_to(struct kvm_vcpu *target, struct task_struct *task)
{
	if (static_branch_unlikely(&pvsync_vcpus_key))
		return __pvsync_yield_to(target, task);
	return yield_to(task, 1);
}

/**
 * pvsync_candidate - a vCPU is looked at for a yield
 * @me: the vCPU that spins
 *
 * Context: thread of @me, within a sign of spinning.
 */
static __always_inline void pvsync_candidate(struct kvm_vcpu *me)
{
	if (static_branch_unlikely(&pvsync_vcpus_key))
		__pvsync_candidate(me);
}

#else

static inline int pvsync_yield_to(struct kvm_vcpu *target, struct task_struct *task)
{
	return yield_to(task, 1);
}

static inline void pvsync_candidate(struct kvm_vcpu *me) { }

#endif /* CONFIG_PVSYNC_KVM */

#endif /* _LINUX_PVSYNC_KVM_YIELD_H */
