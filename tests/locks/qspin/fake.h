/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_QSPIN_FAKE_H
#define PVSYNC_TEST_QSPIN_FAKE_H

/*
 * Just enough of a kernel for kernel/locking/qspinlock.c: per-CPU variables are
 * arrays, and a runner says which CPU its thread or coroutine is.
 */

#include "../shim/shim.h"

#define QSPIN_CPUS	64

/* Defined by the runner; the answer must not change while a lock is waited for. */
int qspin_cpu(void);

#define smp_processor_id()	qspin_cpu()

/*
 * As in the kernel, the variables themselves stand in a section that only gives
 * offsets, and each CPU has a copy of it (zero, like them).
 */
#define DEFINE_PER_CPU_ALIGNED(type, name)					\
	__typeof__(type) name __attribute__((__section__("qspin_percpu"), __aligned__(64)))

extern char __start_qspin_percpu[];
extern char qspin_areas[QSPIN_CPUS][1024];

#define per_cpu_ptr(ptr, cpu)							\
	((__typeof__(ptr))(qspin_areas[cpu] + ((char *)(ptr) - __start_qspin_percpu)))
#define this_cpu_ptr(ptr)	per_cpu_ptr(ptr, smp_processor_id())
#define __this_cpu_dec(var)	((void)(*this_cpu_ptr(&(var)) -= 1))

#define prefetchw(p)	__builtin_prefetch(p, 1)

#endif /* PVSYNC_TEST_QSPIN_FAKE_H */
