// SPDX-License-Identifier: GPL-2.0-only
/* Looks for ever. */
#include "policy.h"

SEC("struct_ops/choose")
s32 choose(u64 *args)
{
	struct pvsync_yield_ctx *ctx = (void *)args[0];
	struct pvsync_bpf_vcpu vcpu = { };

	while (!(vcpu.flags & READY))
		pvsync_bpf_look(ctx, 0, &vcpu);
	return 0;
}

POLICY(endless);
