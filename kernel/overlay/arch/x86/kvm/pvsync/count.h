/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KVM_X86_PVSYNC_COUNT_H
#define _KVM_X86_PVSYNC_COUNT_H

#include <linux/build_bug.h>
#include <linux/kvm_host.h>

#include <linux/pvsync/count.h>

/* A counter that is not of vCPUs has no place in one: pvsync_count_for() takes none. */
#if CONFIG_GCC_VERSION >= 100000 || defined(CONFIG_CC_IS_CLANG) /* older GCC has no such warning */
#pragma GCC diagnostic error "-Wenum-conversion"
#endif

/* Each name in kvm_stat.h is the array's element of that counter, and nothing comes after these. */
#define PVSYNC_COUNTER(name, about)								\
static_assert(offsetof(struct kvm_vcpu_stat, pvsync_##name) ==					\
	      offsetof(struct kvm_vcpu_stat,							\
		       pvsync_counters[PVSYNC_##name - PVSYNC_FIRST_OF_VCPUS]));
#define PVSYNC_COUNTERS_OF_VCPUS
#include <linux/pvsync/counters.h>
#undef PVSYNC_COUNTERS_OF_VCPUS
#undef PVSYNC_COUNTER
static_assert(offsetof(struct kvm_vcpu_stat, pvsync_counters[PVSYNC_NR_OF_VCPUS]) ==
	      sizeof(struct kvm_vcpu_stat));

/**
 * pvsync_count_for - add to a counter, both of a vCPU and of all
 * @vcpu: the vCPU
 * @counter: which
 * @amount: how much
 *
 * Context: thread of @vcpu.
 */
static inline void pvsync_count_for(struct kvm_vcpu *vcpu, enum pvsync_vcpu_counter counter,
				    u64 amount)
{
	vcpu->stat.pvsync_counters[counter - PVSYNC_FIRST_OF_VCPUS] += amount;
	__pvsync_add((enum pvsync_counter)counter, amount);
}

/**
 * pvsync_time_of - how long something took
 * @start: its begin, ns
 * @end: its end, ns
 * @off: time in between that does not count, ns
 *
 * Clocks of two CPUs may differ by a little.
 *
 * Context: any.
 *
 * Return: ns, not below 0.
 */
static inline u64 pvsync_time_of(u64 start, u64 end, u64 off)
{
	s64 ns = end - start - off;

	return ns > 0 ? ns : 0;
}

#endif /* _KVM_X86_PVSYNC_COUNT_H */
