// SPDX-License-Identifier: GPL-2.0-only
/* A scheduler that accepts each directed yield, and does nothing about it. */
#include "scx.h"

LICENSE;

SEC("struct_ops/yield")
int accept(u64 *args)
{
	return args[1] != 0;
}

SEC(".struct_ops")
struct sched_ext_ops willing = {
	.yield	= (void *)accept,
	.name	= "willing",
};
