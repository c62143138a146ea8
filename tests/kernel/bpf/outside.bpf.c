// SPDX-License-Identifier: GPL-2.0-only
/* Chooses what is no vCPU. */
#include "policy.h"

SEC("struct_ops/choose")
s32 choose(u64 *args)
{
	struct pvsync_yield_ctx *ctx = (void *)args[0];

	return ctx->vcpus;
}

POLICY(outside);
