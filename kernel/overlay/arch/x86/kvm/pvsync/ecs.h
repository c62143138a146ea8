/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KVM_X86_PVSYNC_ECS_H
#define _KVM_X86_PVSYNC_ECS_H

/*
 * Critical sections of guests: what a guest and its host tell each other about them
 * (ecs.c), and the extra time that vCPUs get for them (extend.c).
 */

#include <linux/kvm_host.h>

#include <linux/pvsync/count.h>
#include <linux/pvsync/host.h>
#include <linux/pvsync/kvm/ecs.h>

long pvsync_ecs_share(struct kvm_vcpu *vcpu, u64 a0, u64 a1, u64 a2, u64 a3);
u64 pvsync_ecs_msr(struct kvm_vcpu *vcpu);
int pvsync_ecs_set_msr(struct kvm_vcpu *vcpu, u64 data, bool by_monitor);
bool pvsync_ecs_has_interrupt(struct kvm_vcpu *vcpu);
enum pvsync_vcpu_counter pvsync_ecs_where(struct kvm_vcpu *vcpu);
enum pvsync_vcpu_counter pvsync_where(struct kvm_vcpu *vcpu);
void pvsync_ecs_load(struct kvm_vcpu *vcpu);
void pvsync_ecs_tell(struct kvm_vcpu *vcpu, bool preempted, bool overcommitted);
void pvsync_ecs_tell_loan(struct kvm_vcpu *vcpu, bool borrowed);

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

/* Whether a vCPU that is preempted there, by pvsync_ecs_where(), holds others up. */
static inline bool pvsync_holds(enum pvsync_vcpu_counter where)
{
	return where <= PVSYNC_preempt_stuck;
}

/* Whether that vCPU, if it ran on, could end this by itself. */
static inline bool pvsync_in_section(enum pvsync_vcpu_counter where)
{
	return where <= PVSYNC_preempt_mutex;
}

#endif /* _KVM_X86_PVSYNC_ECS_H */
