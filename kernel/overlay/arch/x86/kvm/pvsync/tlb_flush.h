/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KVM_X86_PVSYNC_TLB_FLUSH_H
#define _KVM_X86_PVSYNC_TLB_FLUSH_H

/* What others have asked a vCPU to flush, see tlb_flush.c. */

#include <linux/bit_spinlock.h>

#include <linux/pvsync/kvm/tlb.h>

/* Pages that a vCPU flushes one by one; with more to do, it flushes all. */
#define PVSYNC_TLB_MAX_PAGES	33

/* Takes bit 0 of the lock. A thread holds it for some dozen instructions, no interrupt does. */
static inline void pvsync_tlb_lock(struct pvsync_tlb *tlb) __acquires(bitlock)
{
	bit_spin_lock(0, &tlb->lock);
}

static inline void pvsync_tlb_unlock(struct pvsync_tlb *tlb) __releases(bitlock)
{
	bit_spin_unlock(0, &tlb->lock);
}

/* Add @range to what has to be flushed. Return: whether there was something already. */
static inline bool pvsync_tlb_note_range(struct pvsync_tlb_list *list,
					 const struct pvsync_tlb_range *range)
{
	bool merged = list->all || list->nr;

	if (list->all)
		return merged;
	if (!range->pages || range->pages > PVSYNC_TLB_MAX_PAGES - list->pages ||
	    list->nr == PVSYNC_TLB_RANGES) {
		list->all = true;
		return merged;
	}
	list->ranges[list->nr++] = *range;
	list->pages += range->pages;
	return merged;
}

#endif /* _KVM_X86_PVSYNC_TLB_FLUSH_H */
