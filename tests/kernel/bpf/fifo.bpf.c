// SPDX-License-Identifier: GPL-2.0-only
/* A scheduler that is the kernel's default in all. It has no ops.yield(). */
#include "scx.h"

LICENSE;

SEC(".struct_ops")
struct sched_ext_ops fifo = {
	.name	= "fifo",
};
