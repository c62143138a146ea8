// SPDX-License-Identifier: GPL-2.0-only
/* Writes to what it is only to read. */
#include "policy.h"

SEC("struct_ops/choose")
s32 choose(u64 *args)
{
	struct pvsync_yield_ctx *ctx = (void *)args[0];

	ctx->vcpus = 1;
	return CHOOSE_STOCK;
}

POLICY(writes);
