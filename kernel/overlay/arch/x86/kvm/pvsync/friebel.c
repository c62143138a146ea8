// SPDX-License-Identifier: GPL-2.0-only
/*
 * The policy of T. Friebel and S. Biemueller, "How to Deal with Lock Holder
 * Preemption", Xen Summit 2008, section 3: run another vCPU of the same guest,
 * "preferring VCPUs preempted in kernel mode because they are likely to be
 * preempted lock-holders".
 *
 * The paper does not say which of them. It is the one that has waited longest
 * for a CPU: a preempted holder before those that have spun for its lock since,
 * and these in the order in which they gave up, which with fair locks is the
 * order in which they get it. Going round by index instead may run against that
 * order for as long as the convoy lasts, so that each hand-over of a ticket lock
 * takes as many yields as there are waiters.
 */
#include "spin.h"

static bool preempted_in_kernel(struct kvm_vcpu *vcpu)
{
	return READ_ONCE(vcpu->preempted) && kvm_arch_vcpu_preempted_in_kernel(vcpu);
}

/*
 * Of the siblings that lost their CPU after time stamp *@after, the one that did
 * so first; *@after becomes its time stamp.
 */
static struct kvm_vcpu *longest_waiting(struct kvm_vcpu *me, bool in_kernel, u64 *after)
{
	struct kvm_vcpu *vcpu, *longest = NULL;
	u64 first = U64_MAX;
	unsigned long i;

	kvm_for_each_vcpu(i, vcpu, me->kvm) {
		u64 since = READ_ONCE(vcpu->arch.last_host_tsc);

		if (vcpu == me)
			continue;
		pvsync_candidate(me);
		if (!READ_ONCE(vcpu->ready) || preempted_in_kernel(vcpu) != in_kernel)
			continue;
		if (since > *after && since < first) {
			first = since;
			longest = vcpu;
		}
	}
	*after = first;
	return longest;
}

/**
 * pvsync_friebel_pick - a sibling that waits for a CPU, those in kernel mode first
 * @me: the vCPU that spins
 * @search: see pvsync_pick_fn; the first pass is for kernel mode, the second for
 *	the rest
 *
 * Return: as pvsync_pick_fn.
 */
struct kvm_vcpu *pvsync_friebel_pick(struct kvm_vcpu *me, struct pvsync_search *search)
{
	for (; search->pass < 2; search->pass++, search->after = 0) {
		struct kvm_vcpu *vcpu = longest_waiting(me, !search->pass, &search->after);

		if (vcpu)
			return vcpu;
	}
	return NULL;
}
