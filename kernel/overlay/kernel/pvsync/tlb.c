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
 * This file has the choice, and tlb_mechanism.c the mechanism in force. tlb_stat.c times
 * flushes. tlb_ask.c makes the hypercall. tlb_user.c and tlb_kernel.c have the flushes, and
 * say why the host may make them.
 */
#define pr_fmt(fmt) "pvsync: " fmt

#include <linux/init.h>
#include <linux/kvm_para.h>
#include <linux/seq_file.h>
#include <linux/string.h>

#include <asm/paravirt.h>
#include <asm/tlb.h>
#include <asm/tlbflush.h>

#include <linux/pvsync/abi.h>
#include <linux/pvsync/shims.h>
#include <linux/pvsync/tlb.h>

#include "guest.h"
#include "in_force.h"
#include "tlb_mechanism.h"
#include "tlb_user.h"

DEFINE_STATIC_KEY_FALSE(pvsync_tlb_key);

static void __init tlb_start_shoot4u(void)
{
	const char *reason = pvsync_host_lacks(PVSYNC_FEATURE_TLB);

	if (reason) {
		pr_info("pvsync.tlb=%s is %s here: %s\n", pvsync_tlb_names[pvsync_tlb_chosen],
			pvsync_tlb_names[pvsync_tlb_stock()], reason);
		pvsync_tlb_if_offered = pvsync_tlb_stock();
		pvsync_tlb_chosen = pvsync_tlb_if_offered;
		return;
	}
	if (pvsync_tlb_chosen == PVSYNC_TLB_MIXED && pvsync_tlb_stock() != PVSYNC_TLB_KVMTLB) {
		pvsync_tlb_chosen = PVSYNC_TLB_SHOOT4U;
		pr_info("pvsync.tlb=mixed is shoot4u here: the host offers no notes\n");
	}
	pvsync_tlb_if_offered = pvsync_tlb_chosen;
	/* See "Freed page tables" in tlb_user.c. */
	pvsync_free_tables_by_rcu();
}

static void __init tlb_start_kvmtlb(void)
{
	if (pvsync_tlb_stock() == PVSYNC_TLB_KVMTLB)
		return;
	pvsync_tlb_chosen = PVSYNC_TLB_IPI;
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
	if (!pvsync_stock_flush)
		pvsync_stock_flush = pv_ops.mmu.flush_tlb_multi;
	pvsync_tlb_if_offered = wanted;
	pvsync_tlb_chosen = wanted;
	if (pvsync_tlb_by_hypercall(wanted))
		tlb_start_shoot4u();
	else if (wanted == PVSYNC_TLB_KVMTLB)
		tlb_start_kvmtlb();
	pv_ops.mmu.flush_tlb_multi = pvsync_flush_tlb_multi;
	static_branch_enable(&pvsync_tlb_key);
	pr_info("TLB shootdown: %s\n", pvsync_tlb_names[pvsync_tlb_chosen]);
	return 1;
}
__setup("pvsync.tlb=", tlb_parse_mechanism);

static const char *tlb_in_force(void)
{
	pvsync_flush_fn flush = pv_ops.mmu.flush_tlb_multi;

	if (flush == pvsync_flush_tlb_multi)
		return pvsync_tlb_names[READ_ONCE(pvsync_tlb_chosen)];
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
