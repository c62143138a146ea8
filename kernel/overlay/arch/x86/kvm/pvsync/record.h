/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KVM_X86_PVSYNC_RECORD_H
#define _KVM_X86_PVSYNC_RECORD_H

/* The record of critical sections that a vCPU shares with the host, see record.c. */

#include <linux/kvm_host.h>

#include <linux/pvsync/abi.h>
#include <linux/pvsync/kvm/ecs.h>

/* The host writes what it tells from this offset of the record on. */
#define PVSYNC_ECS_TOLD		offsetof(struct pvsync_ecs, preempted)

/* The two words of the guest, at the beginning of struct pvsync_ecs. */
struct pvsync_claim {
	u64	non_preemptable;
	u64	preemptable;
};

bool pvsync_ecs_has_claims(struct kvm_vcpu *vcpu);
bool pvsync_ecs_read_guest(struct kvm_vcpu *vcpu, struct gfn_to_hva_cache *where, void *data,
			   unsigned long len);
bool pvsync_ecs_map(struct kvm_vcpu *vcpu, struct gfn_to_hva_cache *where, gpa_t gpa,
		    unsigned long size);
void pvsync_ecs_load(struct kvm_vcpu *vcpu);
void pvsync_ecs_tell(struct kvm_vcpu *vcpu, bool preempted, bool overcommitted);
void pvsync_ecs_tell_loan(struct kvm_vcpu *vcpu, bool borrowed);
void pvsync_ecs_tell_again(struct kvm_vcpu *vcpu);

#endif /* _KVM_X86_PVSYNC_RECORD_H */
