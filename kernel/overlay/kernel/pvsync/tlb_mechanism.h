/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_TLB_MECHANISM_H
#define _KERNEL_PVSYNC_TLB_MECHANISM_H

/* How other CPUs are made to flush, see tlb_mechanism.c. */

#include <linux/types.h>

#include <asm/tlbflush.h>

struct cpumask;

/* The values of pvsync.tlb=. */
enum pvsync_tlb_mechanism {
	PVSYNC_TLB_IPI,
	PVSYNC_TLB_KVMTLB,
	PVSYNC_TLB_SHOOT4U,
	PVSYNC_TLB_MIXED,
	PVSYNC_NR_TLB_MECHANISMS
};

extern const char * const pvsync_tlb_names[PVSYNC_NR_TLB_MECHANISMS];

typedef void (*pvsync_flush_fn)(const struct cpumask *cpumask, const struct flush_tlb_info *info);

extern pvsync_flush_fn pvsync_stock_flush;
extern enum pvsync_tlb_mechanism pvsync_tlb_chosen;
extern enum pvsync_tlb_mechanism pvsync_tlb_if_offered;

void pvsync_tlb_give_up(long answer);

static inline bool pvsync_tlb_by_hypercall(enum pvsync_tlb_mechanism by)
{
	return by == PVSYNC_TLB_SHOOT4U || by == PVSYNC_TLB_MIXED;
}

static inline enum pvsync_tlb_mechanism pvsync_tlb_stock(void)
{
	return pvsync_stock_flush == native_flush_tlb_multi ? PVSYNC_TLB_IPI : PVSYNC_TLB_KVMTLB;
}

#endif /* _KERNEL_PVSYNC_TLB_MECHANISM_H */
