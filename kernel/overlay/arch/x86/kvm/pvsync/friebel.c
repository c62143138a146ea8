// SPDX-License-Identifier: GPL-2.0-only
/*
 * The policy of T. Friebel and S. Biemueller, "How to Deal with Lock Holder
 * Preemption", Xen Summit 2008, section 3: run another vCPU of the same guest,
 * "preferring VCPUs preempted in kernel mode because they are likely to be
 * preempted lock-holders".
 */
#include "spin.h"

static bool preempted_in_kernel(struct kvm_vcpu *vcpu)
{
	return READ_ONCE(vcpu->preempted) && kvm_arch_vcpu_preempted_in_kernel(vcpu);
}

/**
 * pvsync_friebel_pick - a sibling that waits for a CPU, those in kernel mode first
 * @me: the vCPU that spins
 * @search: see pvsync_pick_fn; the first pass is for kernel mode, the second for
 *	the rest, each starts behind the vCPU that was helped last
 *
 * Return: as pvsync_pick_fn.
 */
struct kvm_vcpu *pvsync_friebel_pick(struct kvm_vcpu *me, struct pvsync_search *search)
{
	unsigned long vcpus = atomic_read(&me->kvm->online_vcpus);

	while (search->step < 2 * vcpus) {
		bool first_pass = search->step < vcpus;
		struct kvm_vcpu *vcpu;

		vcpu = kvm_get_vcpu(me->kvm, (search->from + search->step++) % vcpus);
		if (!vcpu || vcpu == me)
			continue;
		pvsync_candidate(me);
		if (READ_ONCE(vcpu->ready) && preempted_in_kernel(vcpu) == first_pass)
			return vcpu;
	}
	return NULL;
}
