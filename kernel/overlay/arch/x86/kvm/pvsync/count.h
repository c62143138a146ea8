/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KVM_X86_PVSYNC_COUNT_H
#define _KVM_X86_PVSYNC_COUNT_H

#include <linux/build_bug.h>
#include <linux/kvm_host.h>

#include <linux/pvsync/count.h>

/* PVSYNC_FIRST_OF_VCPUS is the first name in kvm_stat.h, and nothing comes after these. */
static_assert(offsetof(struct kvm_vcpu_stat, pvsync_counters[PVSYNC_NR_OF_VCPUS]) ==
	      sizeof(struct kvm_vcpu_stat));

/**
 * pvsync_count_for - add to a counter, both of a vCPU and of all
 * @vcpu: the vCPU
 * @counter: which, from PVSYNC_FIRST_OF_VCPUS on
 * @amount: how much
 *
 * Context: thread of @vcpu.
 */
static inline void pvsync_count_for(struct kvm_vcpu *vcpu, enum pvsync_counter counter, u64 amount)
{
	vcpu->stat.pvsync_counters[counter - PVSYNC_FIRST_OF_VCPUS] += amount;
	__pvsync_add(counter, amount);
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
