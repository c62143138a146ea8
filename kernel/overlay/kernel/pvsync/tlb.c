// SPDX-License-Identifier: GPL-2.0-only
/*
 * TLB shootdown, the guest's side: pvsync.tlb= chooses how other CPUs are made
 * to flush.
 *
 *   ipi	interrupts, as on hardware; the caller waits for every handler
 *   kvmtlb	KVM's own: as ipi, but CPUs that the host has marked as preempted
 *		flush when they run again, and the caller does not wait for them
 *   shoot4u	one hypercall; the host flushes, and the caller waits for no CPU but those
 *		of which the host may be emulating an instruction. After J. Ouyang,
 *		J. R. Lange and H. Zheng, "Shoot4U", VEE 2016, section 4
 *   mixed	kvmtlb for CPUs that the host has marked as preempted, which costs a
 *		note in shared memory instead of an exit, and shoot4u for the rest
 *
 * mixed may find a CPU marked that runs again before its note is made. That CPU gets an
 * interrupt, and the caller waits for it; it has just got its CPU.
 *
 * Emulated instructions. The host may have translated an address for an instruction that
 * it emulates for a CPU, and use the address after the flush. Its answer names the CPUs
 * that it does not know to be past such an instruction. The caller interrupts these CPUs,
 * as with ipi or kvmtlb. The handlers run in the guest only, so after the instruction. A
 * named CPU that the host marks as preempted meanwhile needs no interrupt: the mark says
 * that the CPU is not in the midst of an instruction. Nor does a CPU that has switched to a
 * kernel thread, since it has done so by a later instruction.
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
 * Kernel addresses. flush_tlb_kernel_range() and flush_tlb_all() ask for a full
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
 *
 * CPUs that come up have flushed all. CPUs that went down have left every address
 * space, and flushing them does no harm.
 */
#define pr_fmt(fmt) "pvsync: " fmt

#include <linux/cpumask.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/irq_work.h>
#include <linux/kvm_para.h>
#include <linux/mm.h>
#include <linux/seq_file.h>
#include <linux/smp.h>

#include <asm/paravirt.h>
#include <asm/smp.h>
#include <asm/tlb.h>
#include <asm/tlbflush.h>

#include <linux/pvsync/abi.h>
#include <linux/pvsync/count.h>
#include <linux/pvsync/shims.h>
#include <linux/pvsync/tlb.h>

#include "guest.h"
#include "in_force.h"
#include "tlb.h"

DEFINE_STATIC_KEY_FALSE(pvsync_tlb_key);

const char * const pvsync_tlb_names[] = {
	[PVSYNC_TLB_IPI]	= "ipi",
	[PVSYNC_TLB_KVMTLB]	= "kvmtlb",
	[PVSYNC_TLB_SHOOT4U]	= "shoot4u",
	[PVSYNC_TLB_MIXED]	= "mixed",
};

typedef void (*flush_fn)(const struct cpumask *cpumask, const struct flush_tlb_info *info);

/* As tlb_single_page_flush_ceiling, which is private to arch/x86/mm. */
#define MAX_LOCAL_PAGES	33UL

/* What the kernel chose by itself. */
static flush_fn stock_flush __ro_after_init;

static enum pvsync_tlb_mechanism mechanism __read_mostly;

/* The mechanism while the host flushes; the stock one if the host did not offer it at boot. */
static enum pvsync_tlb_mechanism mechanism_if_offered __ro_after_init;

/* CPUs marked as preempted, for the duration of a flush by this one. */
static DEFINE_PER_CPU(struct cpumask, marked_cpus);

/* CPUs that the host has not said to be past what it emulates, for the duration of a flush. */
static DEFINE_PER_CPU(struct cpumask, awaited_cpus);

/* This CPU is in the kernel's own flush of kernel addresses, and times it. */
static DEFINE_PER_CPU(bool, stock_kernel_flush);

/* This CPU flushes for a page table of kernel addresses that is freed at once. */
static DEFINE_PER_CPU(bool, table_freed);

static bool tlb_by_hypercall(enum pvsync_tlb_mechanism by)
{
	return by == PVSYNC_TLB_SHOOT4U || by == PVSYNC_TLB_MIXED;
}

static enum pvsync_tlb_mechanism tlb_stock_mechanism(void)
{
	return stock_flush == native_flush_tlb_multi ? PVSYNC_TLB_IPI : PVSYNC_TLB_KVMTLB;
}

/**
 * struct group - targets of one hypercall
 * @named: a bit for each, from @base on
 * @base: APIC ID of the first bit
 * @where: base and number of pages as the host wants them
 * @what: the pages as the host wants them
 * @awaited: CPUs that the host's answers have named so far
 */
struct group {
	unsigned long	named[PVSYNC_TLB_TARGETS / BITS_PER_LONG];
	u32		base;
	u64		where;
	u64		what;
	struct cpumask	*awaited;
};

/* Context: a flush by this CPU, which the task does not leave before the flush is over. */
static struct group tlb_empty_group(void)
{
	struct group group = { .awaited = this_cpu_ptr(&awaited_cpus) };

	cpumask_clear(group.awaited);
	return group;
}

/* The answer that made this guest give up. */
static long refusal;

static void tlb_shootdown_refused(struct irq_work *work)
{
	pr_warn("the host does not flush translations any more, %s does it from now on: answer %ld\n",
		pvsync_tlb_names[READ_ONCE(mechanism)], READ_ONCE(refusal));
}

static struct irq_work shootdown_refused_work = IRQ_WORK_INIT(tlb_shootdown_refused);

/* The host has no pvsync, as after a migration, or refuses. */
static void tlb_give_up(long answer)
{
	if (!tlb_by_hypercall(xchg(&mechanism, tlb_stock_mechanism())))
		return;
	WRITE_ONCE(refusal, answer);
	irq_work_queue(&shootdown_refused_work);
}

/* One bit of the answer may stand for several CPUs: the caller awaits all of them then. */
static void tlb_note_awaited(struct group *group, u64 answer)
{
	unsigned int n;
	int cpu;

	for_each_online_cpu(cpu) {
		n = per_cpu(x86_cpu_to_apicid, cpu) - group->base;
		if (n < PVSYNC_TLB_TARGETS && test_bit(n, group->named) &&
		    answer & BIT_ULL(n % PVSYNC_TLB_AWAIT_BITS))
			cpumask_set_cpu(cpu, group->awaited);
	}
}

static bool tlb_ask_host(struct group *group)
{
	long answer;

	if (bitmap_empty(group->named, PVSYNC_TLB_TARGETS))
		return true;
	answer = kvm_hypercall4(PVSYNC_HC_TLB, group->named[0], group->named[1],
				group->where | group->base, group->what);
	if (answer < 0) {
		tlb_give_up(answer);
		return false;
	}
	if (answer)
		tlb_note_awaited(group, answer);
	__pvsync_count(PVSYNC_tlb_hypercalls);
	bitmap_zero(group->named, PVSYNC_TLB_TARGETS);
	return true;
}

/* Name @cpu to the host, and ask it first if @cpu is too far from the others. */
static bool tlb_name_cpu(struct group *group, int cpu)
{
	u32 id = per_cpu(x86_cpu_to_apicid, cpu);
	u32 base = round_down(id, PVSYNC_TLB_TARGETS);

	if (base != group->base) {
		if (!tlb_ask_host(group))
			return false;
		group->base = base;
	}
	__set_bit(id - base, group->named);
	return true;
}

static void tlb_count_awaited(const struct group *group)
{
	__pvsync_add(PVSYNC_tlb_interrupted, cpumask_weight(group->awaited));
}

static void tlb_set_range(struct group *group,
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
	struct group group = tlb_empty_group();
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
		else if (!tlb_name_cpu(&group, cpu))
			return false;
	}
	if (!cpumask_empty(marked))
		stock_flush(marked, info);
	if (!tlb_ask_host(&group))
		return false;
	if (!cpumask_empty(group.awaited)) {
		tlb_count_awaited(&group);
		stock_flush(group.awaited, info);
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
	if (tlb_by_hypercall(by)) {
		if (!pvsync_flush_is_stock(info) &&
		    tlb_shoot4u(cpumask, info, by == PVSYNC_TLB_MIXED))
			return by;
		by = tlb_stock_mechanism();
	}
	if (by == PVSYNC_TLB_IPI)
		native_flush_tlb_multi(cpumask, info);
	else
		stock_flush(cpumask, info);
	return by;
}

static void pvsync_flush_tlb_multi(const struct cpumask *cpumask,
				   const struct flush_tlb_info *info)
{
	enum pvsync_tlb_mechanism by = READ_ONCE(mechanism);
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
	struct group group = tlb_empty_group();
	int cpu, me = smp_processor_id();

	if (!tlb_by_hypercall(READ_ONCE(mechanism)) ||
	    __this_cpu_read(table_freed))
		return false;
	for_each_online_cpu(cpu) {
		if (cpu != me && !tlb_name_cpu(&group, cpu))
			return false;
	}
	if (!tlb_ask_host(&group))
		return false;
	if (!cpumask_empty(group.awaited)) {
		tlb_count_awaited(&group);
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
	enum pvsync_tlb_mechanism by = READ_ONCE(mechanism);
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

static void __init tlb_start_shoot4u(void)
{
	const char *reason = pvsync_host_lacks(PVSYNC_FEATURE_TLB);

	if (reason) {
		pr_info("pvsync.tlb=%s is %s here: %s\n", pvsync_tlb_names[mechanism],
			pvsync_tlb_names[tlb_stock_mechanism()], reason);
		mechanism = mechanism_if_offered = tlb_stock_mechanism();
		return;
	}
	if (mechanism == PVSYNC_TLB_MIXED && tlb_stock_mechanism() != PVSYNC_TLB_KVMTLB) {
		mechanism = PVSYNC_TLB_SHOOT4U;
		pr_info("pvsync.tlb=mixed is shoot4u here: the host offers no notes\n");
	}
	mechanism_if_offered = mechanism;
	/* See "Freed page tables" above. */
	pvsync_free_tables_by_rcu();
}

static void __init tlb_start_kvmtlb(void)
{
	if (tlb_stock_mechanism() == PVSYNC_TLB_KVMTLB)
		return;
	mechanism = PVSYNC_TLB_IPI;
	pr_info("pvsync.tlb=kvmtlb is ipi here: the host does not offer it\n");
}

/*
 * __setup() runs after the kernel's own choice, which follows the early parameters, and
 * before the alternatives turn that choice into a direct call. There is one CPU. The last
 * pvsync.tlb= counts.
 */
static int __init tlb_parse_mechanism(char *arg)
{
	int wanted = match_string(pvsync_tlb_names, ARRAY_SIZE(pvsync_tlb_names), arg);

	if (wanted < 0) {
		pr_warn("pvsync.tlb=%s is not known, nothing changes; use ipi, kvmtlb, shoot4u or mixed\n",
			arg);
		return 1;
	}
	if (!stock_flush)
		stock_flush = pv_ops.mmu.flush_tlb_multi;
	mechanism = mechanism_if_offered = wanted;
	if (tlb_by_hypercall(wanted))
		tlb_start_shoot4u();
	else if (wanted == PVSYNC_TLB_KVMTLB)
		tlb_start_kvmtlb();
	pv_ops.mmu.flush_tlb_multi = pvsync_flush_tlb_multi;
	static_branch_enable(&pvsync_tlb_key);
	pr_info("TLB shootdown: %s\n", pvsync_tlb_names[mechanism]);
	return 1;
}
__setup("pvsync.tlb=", tlb_parse_mechanism);

/**
 * pvsync_tlb_is_offered - the host offers to flush, or does not
 * @offered: whether it does
 *
 * A host that has refused with another answer than -KVM_ENOSYS would refuse again.
 *
 * Context: may sleep, boot is over.
 */
void pvsync_tlb_is_offered(bool offered)
{
	if (!tlb_by_hypercall(mechanism_if_offered))
		return;
	if (!offered) {
		tlb_give_up(-KVM_ENOSYS);
	} else if (!tlb_by_hypercall(READ_ONCE(mechanism)) && READ_ONCE(refusal) == -KVM_ENOSYS) {
		WRITE_ONCE(mechanism, mechanism_if_offered);
		pr_info("the host flushes translations again: %s\n",
			pvsync_tlb_names[mechanism_if_offered]);
	}
}

static const char *tlb_in_force(void)
{
	flush_fn flush = pv_ops.mmu.flush_tlb_multi;

	if (flush == pvsync_flush_tlb_multi)
		return pvsync_tlb_names[READ_ONCE(mechanism)];
	if (flush == native_flush_tlb_multi)
		return pvsync_tlb_names[PVSYNC_TLB_IPI];
	return kvm_para_available() ? pvsync_tlb_names[PVSYNC_TLB_KVMTLB] : "other";
}

/**
 * pvsync_tlb_in_force - show who flushes other CPUs' translations
 * @seq: where to
 *
 * Context: may sleep.
 */
void pvsync_tlb_in_force(struct seq_file *seq)
{
	seq_printf(seq, "tlb %s\n", tlb_in_force());
}
