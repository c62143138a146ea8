// SPDX-License-Identifier: GPL-2.0-only
/*
 * The policy of T. Friebel and S. Biemueller, "How to Deal with Lock Holder
 * Preemption", Xen Summit 2008. It prefers siblings preempted in kernel mode. The order
 * of the siblings is in <linux/pvsync/friebel.h>.
 */
#include "spin.h"

static bool friebel_preempted_in_kernel(struct kvm_vcpu *vcpu)
{
	return READ_ONCE(vcpu->preempted) && kvm_arch_vcpu_preempted_in_kernel(vcpu);
}

/* The sibling whose turn it is, NULL if there is none. */
static struct kvm_vcpu *friebel_look_at_all(struct kvm_vcpu *me, struct pvsync_friebel *search)
{
	struct kvm_vcpu *vcpu, *best = NULL;
	unsigned long i;

	kvm_for_each_vcpu(i, vcpu, me->kvm) {
		if (vcpu == me)
			continue;
		pvsync_candidate(me);
		if (READ_ONCE(vcpu->ready) &&
		    pvsync_friebel_better(search, READ_ONCE(vcpu->arch.last_host_tsc),
					  friebel_preempted_in_kernel(vcpu)))
			best = vcpu;
	}
	return best;
}

/**
 * pvsync_friebel_pick - a sibling that waits for a CPU, one in kernel mode if possible
 * @me: the vCPU that spins
 * @search: see pvsync_pick_fn
 *
 * Return: as pvsync_pick_fn.
 */
struct kvm_vcpu *pvsync_friebel_pick(struct kvm_vcpu *me, struct pvsync_search *search)
{
	while (pvsync_friebel_begin(&search->friebel)) {
		struct kvm_vcpu *best = friebel_look_at_all(me,
							    &search->friebel);

		if (pvsync_friebel_end(&search->friebel))
			return best;
	}
	return NULL;
}
