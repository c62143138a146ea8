/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KVM_X86_PVSYNC_SPIN_H
#define _KVM_X86_PVSYNC_SPIN_H

/*
 * A vCPU spins for too long: the mechanism (spin.c) is told so, asks the policy
 * that is in force for a vCPU to run instead, and yields to it.
 */

#include <linux/kvm_host.h>

#include <linux/pvsync/host.h>
#include <linux/pvsync/kvm.h>

/**
 * struct pvsync_search - one search for a vCPU to yield to
 * @pass: passes over the vCPUs that are done
 * @after: where this pass has come to, in the policy's own order
 *
 * All zero at first.
 */
struct pvsync_search {
	unsigned int	pass;
	u64		after;
};

/**
 * typedef pvsync_pick_fn - a policy: the next best vCPU to yield to
 * @me: the vCPU that spins
 * @search: where the search has come to; the policy moves it on
 *
 * Called again, with the same @search, when the scheduler did not accept the
 * vCPU. What it says is a hint: any vCPU of the VM is safe, and every step has
 * to be bounded by the number of vCPUs.
 *
 * Context: thread of @me, may sleep; all other vCPUs are read without a lock.
 *
 * Return: a vCPU other than @me, or NULL if there is none.
 */
typedef struct kvm_vcpu *(*pvsync_pick_fn)(struct kvm_vcpu *me, struct pvsync_search *search);

struct kvm_vcpu *pvsync_friebel_pick(struct kvm_vcpu *me, struct pvsync_search *search);

void pvsync_spin(struct kvm_vcpu *me);
void pvsync_count_yields_to(struct kvm_vcpu *vcpu, int cpu);

static inline int pvsync_candidate_of(struct kvm *kvm)
{
	int own = READ_ONCE(kvm->arch.pvsync.candidate);

	return own ? own - 1 : READ_ONCE(pvsync_candidate_choice.now);
}

static inline int pvsync_yield_of(struct kvm *kvm)
{
	int own = READ_ONCE(kvm->arch.pvsync.yield);

	return own ? own - 1 : READ_ONCE(pvsync_yield_choice.now);
}

#endif /* _KVM_X86_PVSYNC_SPIN_H */
