// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flushes of kernel addresses. flush_tlb_kernel_range() and flush_tlb_all() ask for a full
 * flush, global translations included. The host's flush spans all PCIDs, so
 * invalidate_other is not needed. Interrupts still make two kinds of flushes:
 *
 *  - Flushes that come with other work for a CPU (cpa_flush() of some pages, text_poke()).
 *  - The flush of vmalloc when it puts a huge page in the place of a table
 *    (pud_free_pmd_page(), pmd_free_pte_page()). vmalloc frees the table at once, and the
 *    interrupt waits for walkers that have interrupts disabled. Both functions say so, by
 *    pvsync_flush_freed_table().
 *
 * KVM has no notes for kernel addresses: kvmtlb leaves them to interrupts.
 */
#include <linux/cpumask.h>
#include <linux/export.h>
#include <linux/percpu.h>
#include <linux/smp.h>

#include <asm/tlbflush.h>

#include <linux/pvsync/count.h>
#include <linux/pvsync/tlb.h>

#include "tlb_ask.h"
#include "tlb_kernel.h"
#include "tlb_mechanism.h"
#include "tlb_stat.h"

/* As tlb_single_page_flush_ceiling, which is private to arch/x86/mm. */
#define MAX_LOCAL_PAGES	33UL

/* This CPU is in the kernel's own flush of kernel addresses, and times it. */
static DEFINE_PER_CPU(bool, stock_kernel_flush);

/* This CPU flushes for a page table of kernel addresses that is freed at once. */
static DEFINE_PER_CPU(bool, table_freed);

static void tlb_flush_kernel_here(unsigned long start, unsigned long end)
{
	unsigned long addr, flags;

	local_irq_save(flags);
	if (end == TLB_FLUSH_ALL || end - start > MAX_LOCAL_PAGES << PAGE_SHIFT) {
		__flush_tlb_all();
	} else {
		for (addr = start; addr < end; addr += PAGE_SIZE)
			flush_tlb_one_kernel(addr);
	}
	local_irq_restore(flags);
}

/* The host has flushed this CPU. A CPU that takes this interrupt runs in the guest. */
static void tlb_is_in_guest(void *unused)
{
}

/* Return: whether the host did it. Context: preemption disabled, interrupts enabled. */
static bool tlb_shoot4u_kernel(unsigned long start, unsigned long end)
{
	struct pvsync_tlb_group group = pvsync_tlb_empty_group();
	int cpu, me = smp_processor_id();

	if (!pvsync_tlb_by_hypercall(READ_ONCE(pvsync_tlb_chosen)) ||
	    __this_cpu_read(table_freed))
		return false;
	for_each_online_cpu(cpu) {
		if (cpu != me && !pvsync_tlb_name_cpu(&group, cpu))
			return false;
	}
	if (!pvsync_tlb_ask_host(&group))
		return false;
	if (!cpumask_empty(group.awaited)) {
		pvsync_tlb_count_awaited(&group);
		smp_call_function_many(group.awaited, tlb_is_in_guest, NULL,
				       true);
	}
	tlb_flush_kernel_here(start, end);
	return true;
}

/*
 * The host flushes or, where it does not, the kernel's own interrupts. The kernel's function
 * asks pvsync once more before it sends them, and pvsync tells it to go on.
 */
static void tlb_flush_kernel_timed(unsigned long start, unsigned long end)
{
	enum pvsync_tlb_mechanism by = READ_ONCE(pvsync_tlb_chosen);
	struct pvsync_tlb_timer timer;

	__pvsync_count(PVSYNC_tlb_flushes);
	pvsync_tlb_timer_start(&timer);
	if (!tlb_shoot4u_kernel(start, end)) {
		by = PVSYNC_TLB_IPI;
		__this_cpu_write(stock_kernel_flush, true);
		flush_tlb_kernel_range(start, end);
		__this_cpu_write(stock_kernel_flush, false);
	}
	pvsync_tlb_timer_stop(&timer, by);
}

/**
 * __pvsync_flush_tlb_kernel - flush kernel addresses of all CPUs
 * @start: first address
 * @end: end of the range, TLB_FLUSH_ALL for all
 *
 * The host flushes, if that is the choice. While flushes are timed, this function flushes
 * in any case.
 *
 * Context: as flush_tlb_kernel_range(): interrupts enabled.
 *
 * Return: whether it is done; if not, some CPUs may have flushed.
 */
bool __pvsync_flush_tlb_kernel(unsigned long start, unsigned long end)
{
	bool done = false;

	preempt_disable();
	if (!static_branch_unlikely(&pvsync_tlb_stat_key) || num_online_cpus() == 1) {
		done = tlb_shoot4u_kernel(start, end);
	} else if (!__this_cpu_read(stock_kernel_flush)) {
		tlb_flush_kernel_timed(start, end);
		done = true;
	}
	preempt_enable();
	return done;
}

/**
 * __pvsync_flush_freed_table - flush kernel addresses of all CPUs for a table that is freed
 * @addr: address that the table was for
 *
 * Leaves the flush to interrupts, which wait for walkers that have interrupts disabled.
 *
 * Context: as flush_tlb_kernel_range(): interrupts enabled.
 */
void __pvsync_flush_freed_table(unsigned long addr)
{
	preempt_disable();
	__this_cpu_write(table_freed, true);
	flush_tlb_kernel_range(addr, addr + PAGE_SIZE - 1);
	__this_cpu_write(table_freed, false);
	preempt_enable();
}

#if IS_ENABLED(CONFIG_PVSYNC_TLB_CHECK)
/**
 * pvsync_flush_kernel - flush kernel addresses of all CPUs as the kernel does it
 * @start: first address
 * @end: end of the range, TLB_FLUSH_ALL for all
 *
 * For a module that tests the flush: the kernel does not export its own functions.
 *
 * Context: as flush_tlb_kernel_range(): interrupts enabled.
 */
void pvsync_flush_kernel(unsigned long start, unsigned long end)
{
	if (end == TLB_FLUSH_ALL)
		flush_tlb_all();
	else
		flush_tlb_kernel_range(start, end);
}
EXPORT_SYMBOL_GPL(pvsync_flush_kernel);
#endif
