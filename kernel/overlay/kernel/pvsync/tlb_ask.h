/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_TLB_ASK_H
#define _KERNEL_PVSYNC_TLB_ASK_H

/* One hypercall has the host flush, see tlb_ask.c. */

#include <linux/bits.h>
#include <linux/cpumask.h>
#include <linux/percpu.h>
#include <linux/types.h>

#include <linux/pvsync/abi.h>

/**
 * struct pvsync_tlb_group - targets of one hypercall
 * @named: a bit for each, from @base on
 * @base: APIC ID of the first bit
 * @where: base and number of pages as the host wants them
 * @what: the pages as the host wants them
 * @awaited: CPUs that the host's answers have named so far
 */
struct pvsync_tlb_group {
	unsigned long	named[PVSYNC_TLB_TARGETS / BITS_PER_LONG];
	u32		base;
	u64		where;
	u64		what;
	struct cpumask	*awaited;
};

/* CPUs that the host has not said to be past what it emulates, for the duration of a flush. */
DECLARE_PER_CPU(struct cpumask, pvsync_tlb_awaited);

bool pvsync_tlb_ask_host(struct pvsync_tlb_group *group);
bool pvsync_tlb_name_cpu(struct pvsync_tlb_group *group, int cpu);
void pvsync_tlb_count_awaited(const struct pvsync_tlb_group *group);

/* Context: a flush by this CPU, which the task does not leave before the flush is over. */
static inline struct pvsync_tlb_group pvsync_tlb_empty_group(void)
{
	struct pvsync_tlb_group group = { .awaited = this_cpu_ptr(&pvsync_tlb_awaited) };

	cpumask_clear(group.awaited);
	return group;
}

#endif /* _KERNEL_PVSYNC_TLB_ASK_H */
