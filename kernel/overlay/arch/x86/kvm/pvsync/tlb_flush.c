// SPDX-License-Identifier: GPL-2.0-only
/*
 * A vCPU flushes what others have asked it to flush, on its way into the guest: single
 * addresses or all.
 *
 * A target flushes by address only if callers ask for no more than PVSYNC_TLB_MAX_PAGES
 * until it enters. Up to this bound Linux prefers single pages for itself
 * (tlb_single_page_flush_ceiling). INVVPID and INVLPGA cost about what INVLPG does. After
 * a full flush the guest has to load its translations again through two dimensions of
 * page tables. A target never flushes by address in these cases:
 *
 * - Huge pages: if the host maps one by smaller pages, the TLB has it in pieces. INVLPG
 *   drops all pieces for any of their addresses. The manuals do not say so of INVVPID and
 *   INVLPGA.
 * - A vCPU that runs a guest of its own: the caller means translations of the outer guest.
 *   The vCPU's address space identifier may be another one at this time.
 * - AMD processors, if the guest uses PCIDs: its kernel expects the address to go from all
 *   PCIDs, and relies on that while it switches address spaces. The manuals say so of
 *   INVVPID, but not of INVLPGA.
 *
 * A guest asks for all when it has freed page tables. A flush of one address by its
 * identifier need not drop the upper levels for other addresses, as INVLPG does.
 */
#include <linux/kvm_host.h>

#include <linux/pvsync/kvm/tlb.h>
#include <linux/pvsync/shims.h>

#include PVSYNC_KVM_REGS_H
#include "../x86.h"

#include "count.h"
#include "tlb_flush.h"

/* Whether the instructions that flush one address do what the guest expects. */
static bool tlb_is_by_address(struct kvm_vcpu *vcpu)
{
	return !boot_cpu_has(X86_FEATURE_SVM) ||
	       (pvsync_svm_flushes_by_address() && !kvm_is_cr4_bit_set(vcpu, X86_CR4_PCIDE));
}

/* Context: the CPU where @vcpu was last in the guest, which holds its translations. */
static void tlb_flush_ranges(struct kvm_vcpu *vcpu,
			     const struct pvsync_tlb_list *todo)
{
	unsigned int i;
	u32 page;

	for (i = 0; i < todo->nr; i++) {
		const struct pvsync_tlb_range *range = &todo->ranges[i];

		for (page = 0; page < range->pages; page++)
			pvsync_flush_gva(vcpu, range->start + ((u64)page << PAGE_SHIFT));
	}
	pvsync_count_for(vcpu, PVSYNC_tlb_pages, todo->pages);
}

static bool tlb_flushed_by_address(struct kvm_vcpu *vcpu, const struct pvsync_tlb_list *todo)
{
	bool here;

	if (todo->all || !tlb_is_by_address(vcpu))
		return false;
	preempt_disable();
	here = vcpu->arch.last_vmentry_cpu == smp_processor_id();
	if (here)
		tlb_flush_ranges(vcpu, todo);
	preempt_enable();
	return here;
}

/**
 * pvsync_flush_tlb - flush what other vCPUs have asked a vCPU to flush
 * @vcpu: the vCPU, after its KVM_REQ_PVSYNC_TLB was cleared
 *
 * Context: thread of @vcpu, on the way into the guest, interrupts enabled.
 */
void pvsync_flush_tlb(struct kvm_vcpu *vcpu)
{
	struct pvsync_tlb *tlb = &vcpu->arch.pvsync.tlb;
	struct pvsync_tlb_list todo;

	pvsync_tlb_lock(tlb);
	todo = tlb->list;
	tlb->list.all = false;
	tlb->list.nr = 0;
	tlb->list.pages = 0;
	/* Whoever loads this with acquire sees all that this thread has emulated so far. */
	smp_store_release(&tlb->done, tlb->asked);
	pvsync_tlb_unlock(tlb);

	if (!todo.all && !todo.nr)
		return;
	++vcpu->stat.tlb_flush;
	if (is_guest_mode(vcpu)) {
		kvm_x86_call(flush_tlb_all)(vcpu);
		pvsync_count_for(vcpu, PVSYNC_tlb_full, 1);
	} else if (!tlb_flushed_by_address(vcpu, &todo)) {
		kvm_x86_call(flush_tlb_guest)(vcpu);
		pvsync_count_for(vcpu, PVSYNC_tlb_full, 1);
	}
}
