// SPDX-License-Identifier: GPL-2.0-only
/*
 * HVS as a BPF program. After J. Shan, X. Ding and N. Gehani, "APPLES: Efficiently Handling
 * Spin-lock Synchronization on Virtualized Platforms", IEEE TPDS 28(7), 2017, sections 3.2 and
 * 3.3: resource waiters, the latest first; then lock waiters, the earliest first; then resource
 * waiters that had been chosen before they were preempted.
 *
 * A resource waiter that was chosen and has not run yet comes after all others of its kind. A
 * vCPU whose guest says that it is in a section counts as a resource waiter, as in the paper,
 * which asks no guest.
 */
#include "policy.h"

#define CLASS	62	/* the bits of a rank above a time */
#define LATER	61

static u64 rank_of(const struct pvsync_bpf_vcpu *vcpu)
{
	switch (vcpu->list) {
	case LOCK:
		return 1ULL << CLASS | vcpu->since;
	case YIELDED:
		return 2ULL << CLASS | vcpu->since;
	default:
		return vcpu->flags & CHOSEN ? 1ULL << LATER | vcpu->since :
					      (1ULL << LATER) - 1 - vcpu->since;
	}
}

static int look(u32 index, struct search *search)
{
	struct pvsync_bpf_vcpu vcpu = { };
	u64 rank;

	if (index == search->ctx->me || pvsync_bpf_look(search->ctx, index, &vcpu) ||
	    vcpu.list == NO_LIST || vcpu.flags & TRIED)
		return 0;
	rank = rank_of(&vcpu);
	if (rank < search->rank) {
		search->rank = rank;
		search->best = index;
	}
	return 0;
}

SEC("struct_ops/choose")
s32 choose(u64 *args)
{
	return best_of_all(args, look);
}

POLICY(hvs);
