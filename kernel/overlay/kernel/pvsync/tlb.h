/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_TLB_H
#define _KERNEL_PVSYNC_TLB_H

#include <linux/jump_label.h>
#include <linux/types.h>

/* How other CPUs are made to flush; the values of pvsync.tlb=. */
enum pvsync_tlb_mechanism {
	PVSYNC_TLB_IPI,
	PVSYNC_TLB_KVMTLB,
	PVSYNC_TLB_SHOOT4U,
	PVSYNC_TLB_MIXED,
	PVSYNC_NR_TLB_MECHANISMS
};

extern const char * const pvsync_tlb_names[PVSYNC_NR_TLB_MECHANISMS];

/**
 * struct pvsync_tlb_timer - the start of a flush
 * @wall: time, ns
 * @stolen: time that the host has not run this CPU, ns
 */
struct pvsync_tlb_timer {
	u64	wall;
	u64	stolen;
};

DECLARE_STATIC_KEY_FALSE(pvsync_tlb_stat_key);

void pvsync_tlb_timer_start(struct pvsync_tlb_timer *timer);
void pvsync_tlb_timer_stop(const struct pvsync_tlb_timer *timer,
			   enum pvsync_tlb_mechanism mechanism);

void pvsync_flush_kernel(unsigned long start, unsigned long end);

#endif /* _KERNEL_PVSYNC_TLB_H */
