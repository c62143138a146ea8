// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flushes of user addresses, in place of native_flush_tlb_multi().
 *
 * With shoot4u the other CPUs do not run flush_tlb_func(), so none of their
 * bookkeeping in cpu_tlbstate changes. Why that is correct:
 *
 * TLB generations. ctxs[].tlb_gen says what a CPU has caught up to at least: no
 * translation in its TLB is older. A flush that the CPU does not know of leaves that
 * true. When the CPU next handles a flush, or switches to the address space, it finds
 * itself behind, flushes all of the address space and catches up. The price is that a
 * CPU's next flush of its own is a full one. The caller has advanced the generation
 * before this code runs; arch_tlbbatch_flush() did so for each page.
 *
 * Switching address spaces. A CPU that switches sets its bit in mm_cpumask(), then
 * reads the generation. A caller advances the generation, then reads the mask. Both
 * have full barriers in between. If the caller misses the bit, the CPU sees the new
 * generation and flushes. If the caller sees the bit, the host flushes the CPU wherever
 * it is in switch_mm_irqs_off(). The CPU may go on with an ASID that it found up to date
 * before. So the flush has to drop translations of all PCIDs, not of the current PCID
 * alone, and it does. The host flushes by VPID or ASID, or by address with an instruction
 * that is specified to span all PCIDs.
 *
 * Page-table isolation. The user half of an address space has PCIDs of its own. The
 * same holds for them, so invalidate_user_asid() has nothing to note.
 *
 * Lazy TLB. A lazy CPU runs a kernel thread on a borrowed address space. The caller leaves
 * it out unless page tables are freed, as native_flush_tlb_multi() does: the CPU
 * clears is_lazy, then reads the generation before it goes back. If page tables are
 * freed, the host flushes the CPU, and nobody tells the CPU to leave the address space.
 * Its CR3 still points to the top level, which outlives the last borrower. The entries of
 * the top level for the freed tables were cleared before. What led past these entries was
 * in the CPU's paging-structure cache, and the host flushes that cache.
 *
 * Freed page tables. The guest asks the host for a full flush. INVLPG empties the
 * paging-structure caches for every address, and Linux relies on that. A flush of one
 * address by its VPID or ASID only promises it for that address. Walkers without a lock
 * (gup_fast) hold freed tables off by having interrupts disabled. That holds back an
 * interrupt, but not the host. So page tables are freed by RCU from the first one on, as
 * with kvmtlb.
 *
 * Huge pages. The guest asks the host for a full flush as well. Where the host has no huge
 * page below the guest's, the TLB has pieces of the guest's page. INVLPG for any address of
 * the page drops all pieces, while a flush of one address need not drop the others. Some
 * callers flush a page of hugetlbfs as if it were small, by its first address
 * (huge_ptep_clear_flush()). So any page that could be huge is taken for a huge page.
 *
 * CPUs that come up have flushed all. CPUs that went down have left every address
 * space, and flushing them does no harm.
 */
#include <linux/cpumask.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <linux/vmstat.h>

#include <asm/paravirt.h>
#include <asm/tlbflush.h>

#include <linux/pvsync/count.h>
#include <linux/pvsync/shims.h>

#include "tlb_ask.h"
#include "tlb_mechanism.h"
#include "tlb_stat.h"
#include "tlb_user.h"

/* CPUs marked as preempted, for the duration of a flush by this one. */
static DEFINE_PER_CPU(struct cpumask, marked_cpus);

static void tlb_set_range(struct pvsync_tlb_group *group,
			  const struct flush_tlb_info *info)
{
	unsigned long start = info->start & PAGE_MASK;

	if (info->end == TLB_FLUSH_ALL || info->freed_tables || info->stride_shift != PAGE_SHIFT)
		return;
	/* The host takes no pages for all pages, and refuses that with an address. */
	if (info->end <= start)
		return;
	if (IS_ENABLED(CONFIG_HUGETLB_PAGE) && IS_ALIGNED(start, PMD_SIZE) &&
	    info->end - start <= PAGE_SIZE)
		return;
	group->where = DIV_ROUND_UP(info->end - start, PAGE_SIZE) << PVSYNC_TLB_PAGES_SHIFT;
	group->what = start | PAGE_SHIFT;
}

/*
 * Context: preemption disabled, interrupts enabled, as all of flush_tlb_multi().
 * On failure some CPUs may have been flushed, which does no harm.
 */
static bool tlb_shoot4u(const struct cpumask *cpumask, const struct flush_tlb_info *info,
			bool mixed)
{
	struct cpumask *marked = this_cpu_ptr(&marked_cpus);
	struct pvsync_tlb_group group = pvsync_tlb_empty_group();
	int cpu, me = smp_processor_id();

	cpumask_clear(marked);
	tlb_set_range(&group, info);
	/* A batch may name CPUs that went down since, and have no APIC ID. */
	for_each_cpu_and(cpu, cpumask, cpu_online_mask) {
		if (cpu == me)
			continue;
		if (!info->freed_tables && per_cpu(cpu_tlbstate_shared.is_lazy, cpu))
			continue;
		if (mixed && vcpu_is_preempted(cpu))
			cpumask_set_cpu(cpu, marked);
		else if (!pvsync_tlb_name_cpu(&group, cpu))
			return false;
	}
	if (!cpumask_empty(marked))
		pvsync_stock_flush(marked, info);
	if (!pvsync_tlb_ask_host(&group))
		return false;
	if (!cpumask_empty(group.awaited)) {
		pvsync_tlb_count_awaited(&group);
		pvsync_stock_flush(group.awaited, info);
	}
	if (cpumask_test_cpu(me, cpumask))
		native_flush_tlb_multi(cpumask_of(me), info);
	else
		count_vm_tlb_event(NR_TLB_REMOTE_FLUSH);
	return true;
}

/* Return: the mechanism that flushed: the stock one once the host has refused. */
static enum pvsync_tlb_mechanism tlb_flush_by_mechanism(enum pvsync_tlb_mechanism by,
							const struct cpumask *cpumask,
							const struct flush_tlb_info *info)
{
	if (pvsync_tlb_by_hypercall(by)) {
		if (!pvsync_flush_is_stock(info) &&
		    tlb_shoot4u(cpumask, info, by == PVSYNC_TLB_MIXED))
			return by;
		by = pvsync_tlb_stock();
	}
	if (by == PVSYNC_TLB_IPI)
		native_flush_tlb_multi(cpumask, info);
	else
		pvsync_stock_flush(cpumask, info);
	return by;
}

/**
 * pvsync_flush_tlb_multi - flush user addresses of CPUs, by the mechanism in force
 * @cpumask: the CPUs
 * @info: what to flush
 *
 * Context: as native_flush_tlb_multi(): preemption disabled, interrupts enabled.
 */
void pvsync_flush_tlb_multi(const struct cpumask *cpumask, const struct flush_tlb_info *info)
{
	enum pvsync_tlb_mechanism by = READ_ONCE(pvsync_tlb_chosen);
	struct pvsync_tlb_timer timer;

	pvsync_flush_stays();
	if (!static_branch_unlikely(&pvsync_tlb_stat_key)) {
		tlb_flush_by_mechanism(by, cpumask, info);
		return;
	}
	__pvsync_count(PVSYNC_tlb_flushes);
	pvsync_tlb_timer_start(&timer);
	by = tlb_flush_by_mechanism(by, cpumask, info);
	pvsync_tlb_timer_stop(&timer, by);
}
