/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_TLB_STAT_H
#define _KERNEL_PVSYNC_TLB_STAT_H

/* How long flushes take, see tlb_stat.c. */

#include <linux/jump_label.h>
#include <linux/types.h>

#include "tlb_mechanism.h"

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

#endif /* _KERNEL_PVSYNC_TLB_STAT_H */
