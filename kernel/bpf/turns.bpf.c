// SPDX-License-Identifier: GPL-2.0-only
/*
 * Turns: the next vCPU, by index, after the one that was chosen last, that waits for a CPU. While
 * the vCPU that spins is in its kernel, those that were preempted in user mode are passed by.
 */
#include "policy.h"

static int look(u32 number, struct search *search)
{
	u32 index = (search->ctx->last + 1 + number) % search->ctx->vcpus;
	struct pvsync_bpf_vcpu vcpu = { };

	if (index == search->ctx->me || pvsync_bpf_look(search->ctx, index, &vcpu) ||
	    !(vcpu.flags & READY))
		return 0;
	if (search->ctx->in_kernel && (vcpu.flags & (PREEMPTED | IN_KERNEL)) == PREEMPTED)
		return 0;
	search->best = index;
	return 1;
}

SEC("struct_ops/choose")
s32 choose(u64 *args)
{
	return best_of_all(args, look);
}

POLICY(turns);
