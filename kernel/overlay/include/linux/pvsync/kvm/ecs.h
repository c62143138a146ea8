/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_KVM_ECS_H
#define _LINUX_PVSYNC_KVM_ECS_H

/*
 * Critical sections of a guest: what a vCPU shares with the host, and what the host has told
 * the guest. The mechanism is in arch/x86/kvm/pvsync: record.c, section.c, share.c.
 */

#include <linux/kvm_types.h>
#include <linux/types.h>

struct kvm_vcpu;

#ifdef CONFIG_PVSYNC_KVM

#include <linux/pvsync/abi.h>

/**
 * struct pvsync_told - what a guest was last told of a vCPU
 * @preempted: as in struct pvsync_ecs
 * @overcommitted: as in struct pvsync_ecs
 * @borrowed: as in struct pvsync_ecs
 */
struct pvsync_told {
	u32		preempted;
	u32		overcommitted;
	u32		borrowed;
};

/**
 * struct pvsync_shared - what a vCPU shares with the host
 * @form: of its claims, as in PVSYNC_ECS_FORM_MASK; 0 if it shares nothing
 * @record: where its struct pvsync_ecs is
 * @preempt_count: where its preempt count is; as the next four, for PVSYNC_ECS_FREE only
 * @task: where its pointer to the running task is, if the guest has told
 * @layout: of its preempt count
 * @memory: where the guest maps its memory
 * @nesting: where a task has its nesting of RCU readers
 * @told: what the record is to say
 * @written: the record says what @told has
 * @asked: the arguments of the call that shared all this, or the same by the MSR
 * @by_msr: the guest shares by MSR_PVSYNC_ECS, whose value is the first of @asked
 */
struct pvsync_shared {
	u8			form;
	struct gfn_to_hva_cache	record;
	struct gfn_to_hva_cache	preempt_count;
	struct gfn_to_hva_cache	task;
	struct pvsync_ecs_layout layout;
	u64			memory;
	u64			nesting;
	struct pvsync_told	told;
	bool			written;
	u64			asked[4];
	bool			by_msr;
};

void pvsync_ecs_forget(struct kvm_vcpu *vcpu);

#else

static inline void pvsync_ecs_forget(struct kvm_vcpu *vcpu) { }

#endif /* CONFIG_PVSYNC_KVM */

#endif /* _LINUX_PVSYNC_KVM_ECS_H */
