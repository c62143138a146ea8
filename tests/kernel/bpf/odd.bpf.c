// SPDX-License-Identifier: GPL-2.0-only
/* Refuses every loan of vCPUs with odd indices that have a spinlock. */
#include "veto.h"

SEC("struct_ops/refuse")
s32 refuse(u64 *args)
{
	struct pvsync_extend_ctx *loan = (void *)args[0];

	return loan->vcpu % 2 && loan->doing == LOCK;
}

VETO(odd);
