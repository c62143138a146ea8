// SPDX-License-Identifier: GPL-2.0-only
/* Chooses vCPU 0, and vCPU 1 where vCPU 0 spins. No other vCPU gets a yield. */
#include "policy.h"

SEC("struct_ops/choose")
s32 choose(u64 *args)
{
	struct pvsync_yield_ctx *ctx = (void *)args[0];

	return !ctx->me;
}

POLICY(first);
