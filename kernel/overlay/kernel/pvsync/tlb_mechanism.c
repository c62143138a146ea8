// SPDX-License-Identifier: GPL-2.0-only
/* Who flushes other CPUs' translations, and what becomes of it when the host does not. */
#define pr_fmt(fmt) "pvsync: " fmt

#include <linux/cache.h>
#include <linux/irq_work.h>
#include <linux/kvm_para.h>
#include <linux/printk.h>

#include <linux/pvsync/abi.h>

#include "guest.h"
#include "tlb_mechanism.h"

const char * const pvsync_tlb_names[] = {
	[PVSYNC_TLB_IPI]	= "ipi",
	[PVSYNC_TLB_KVMTLB]	= "kvmtlb",
	[PVSYNC_TLB_SHOOT4U]	= "shoot4u",
	[PVSYNC_TLB_MIXED]	= "mixed",
};

/* What the kernel chose by itself. */
pvsync_flush_fn pvsync_stock_flush __ro_after_init;

/* The mechanism in force. */
enum pvsync_tlb_mechanism pvsync_tlb_chosen __read_mostly;

/* The mechanism while the host flushes; the stock one if the host did not offer it at boot. */
enum pvsync_tlb_mechanism pvsync_tlb_if_offered __ro_after_init;

/* The answer that made this guest give up. */
static long refusal;

static void tlb_shootdown_refused(struct irq_work *work)
{
	pr_warn("the host does not flush translations any more, %s does it from now on: answer %ld\n",
		pvsync_tlb_names[READ_ONCE(pvsync_tlb_chosen)], READ_ONCE(refusal));
}

static struct irq_work shootdown_refused_work = IRQ_WORK_INIT(tlb_shootdown_refused);

/**
 * pvsync_tlb_give_up - the host has no pvsync, as after a migration, or refuses
 * @answer: its answer to the hypercall
 *
 * The kernel's own mechanism flushes from then on.
 *
 * Context: any but NMIs.
 */
void pvsync_tlb_give_up(long answer)
{
	if (!pvsync_tlb_by_hypercall(xchg(&pvsync_tlb_chosen, pvsync_tlb_stock())))
		return;
	WRITE_ONCE(refusal, answer);
	irq_work_queue(&shootdown_refused_work);
}

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
	if (!pvsync_tlb_by_hypercall(pvsync_tlb_if_offered))
		return;
	if (!offered) {
		pvsync_tlb_give_up(-KVM_ENOSYS);
	} else if (!pvsync_tlb_by_hypercall(READ_ONCE(pvsync_tlb_chosen)) &&
		   READ_ONCE(refusal) == -KVM_ENOSYS) {
		WRITE_ONCE(pvsync_tlb_chosen, pvsync_tlb_if_offered);
		pr_info("the host flushes translations again: %s\n",
			pvsync_tlb_names[pvsync_tlb_if_offered]);
	}
}
