/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_TLB_H
#define _LINUX_PVSYNC_TLB_H

/* TLB shootdown by the host: what arch/x86/mm/tlb.c calls. See kernel/pvsync/tlb_kernel.c. */

#include <linux/types.h>

#include <asm/page.h>
#include <asm/tlbflush.h>

#ifdef CONFIG_PVSYNC_TLB

#include <linux/jump_label.h>

/* True once pvsync.tlb= has chosen a mechanism. */
DECLARE_STATIC_KEY_FALSE(pvsync_tlb_key);
bool __pvsync_flush_tlb_kernel(unsigned long start, unsigned long end);
void __pvsync_flush_freed_table(unsigned long addr);

/**
 * pvsync_flush_tlb_kernel - flush kernel addresses of all CPUs, or let the kernel do it
 * @start: first address
 * @end: end of the range, TLB_FLUSH_ALL for all
 *
 * Context: as flush_tlb_kernel_range(): interrupts enabled.
 *
 * Return: whether it is done; if not, some CPUs may have flushed.
 */
static __always_inline bool pvsync_flush_tlb_kernel(unsigned long start, unsigned long end)
{
	return static_branch_unlikely(&pvsync_tlb_key) &&
	       __pvsync_flush_tlb_kernel(start, end);
}

/**
 * pvsync_flush_freed_table - flush kernel addresses of all CPUs for a table that is freed at once
 * @addr: address that the table was for
 *
 * The host must not flush. Walkers that disable interrupts have to hold the flush off, and they
 * cannot hold off the host.
 *
 * Context: as flush_tlb_kernel_range(): interrupts enabled.
 */
static __always_inline void pvsync_flush_freed_table(unsigned long addr)
{
	if (static_branch_unlikely(&pvsync_tlb_key))
		__pvsync_flush_freed_table(addr);
	else
		flush_tlb_kernel_range(addr, addr + PAGE_SIZE - 1);
}

#else

static __always_inline bool pvsync_flush_tlb_kernel(unsigned long start, unsigned long end)
{
	return false;
}

static __always_inline void pvsync_flush_freed_table(unsigned long addr)
{
	flush_tlb_kernel_range(addr, addr + PAGE_SIZE - 1);
}

#endif /* CONFIG_PVSYNC_TLB */

#endif /* _LINUX_PVSYNC_TLB_H */
