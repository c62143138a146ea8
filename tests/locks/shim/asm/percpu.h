/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_PERCPU_H
#define PVSYNC_TEST_PERCPU_H

#include "../shim.h"

/*
 * A variable of a CPU is one of a thread here: both are a segment register and an
 * offset, %gs in the kernel and %fs here, and the instructions are the same.
 */
#define DECLARE_PER_CPU_ALIGNED(type, name)	extern __thread type name
#define per_cpu(var, cpu)			(var)
#define __my_cpu_var(var)			(var)
#define __percpu_arg(operand)			"%" #operand

#define this_cpu_add(var, value)	\
	__asm__ __volatile__("addq %1, %0" : "+m" (var) : "er" (value) : "cc", "memory")
#define this_cpu_sub(var, value)	\
	__asm__ __volatile__("subq %1, %0" : "+m" (var) : "er" (value) : "cc", "memory")

#endif
