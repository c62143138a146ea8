/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_PV_FAKE_H
#define PVSYNC_PV_FAKE_H

/* What pv_sleepers.h takes from the kernel besides the shim: CPUs, their sets, a hash. */

#include "../shim/shim.h"

#define ____cacheline_aligned_in_smp	__aligned(64)

#define DEFINE_PER_CPU_SHARED_ALIGNED(type, name)				\
	struct { __typeof__(type) of; } __aligned(64) name[CONFIG_NR_CPUS]
#define per_cpu_ptr(name, cpu)		(&(*(name))[cpu].of)

#define BITS_PER_LONG	64
#define CPU_WORDS	((CONFIG_NR_CPUS + BITS_PER_LONG - 1) / BITS_PER_LONG)

struct cpumask {
	unsigned long bits[CPU_WORDS];
};

static inline void cpumask_set_cpu(int cpu, struct cpumask *mask)
{
	PVSYNC_FAULT(PVSYNC_RMW, sizeof(long));
	__atomic_fetch_or(&mask->bits[cpu / BITS_PER_LONG], 1UL << cpu % BITS_PER_LONG,
			  __ATOMIC_SEQ_CST);
}

static inline void cpumask_clear_cpu(int cpu, struct cpumask *mask)
{
	PVSYNC_FAULT(PVSYNC_RMW, sizeof(long));
	__atomic_fetch_and(&mask->bits[cpu / BITS_PER_LONG], ~(1UL << cpu % BITS_PER_LONG),
			   __ATOMIC_SEQ_CST);
}

/* The first CPU of a set from @cpu on; CONFIG_NR_CPUS if there is none. */
static inline int cpumask_from(int cpu, const struct cpumask *mask)
{
	while (cpu < CONFIG_NR_CPUS) {
		unsigned long rest = __atomic_load_n(&mask->bits[cpu / BITS_PER_LONG],
						     __ATOMIC_RELAXED) >> cpu % BITS_PER_LONG;

		if (rest)
			return cpu + __builtin_ctzl(rest);
		cpu = (cpu / BITS_PER_LONG + 1) * BITS_PER_LONG;
	}
	return CONFIG_NR_CPUS;
}

#define for_each_cpu(cpu, mask)						\
	for ((cpu) = cpumask_from(0, mask); (cpu) < CONFIG_NR_CPUS;	\
	     (cpu) = cpumask_from((cpu) + 1, mask))

static inline u32 hash_ptr(const void *ptr, unsigned int bits)
{
	return (u64)(uintptr_t)ptr * 0x61C8864680B583EBull >> (64 - bits);
}

static inline u32 reciprocal_scale(u32 val, u32 ep_ro)
{
	return (u64)val * ep_ro >> 32;
}

#endif
