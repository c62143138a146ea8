// SPDX-License-Identifier: GPL-2.0-only
/* Wants to lend for longer than the host's parameters allow. */
#include "veto.h"

SEC("struct_ops/refuse")
s32 refuse(u64 *args)
{
	struct pvsync_extend_ctx *loan = (void *)args[0];

	loan->most_us = 10000;
	return 0;
}

VETO(lends);
