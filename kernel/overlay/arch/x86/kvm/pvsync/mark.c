// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which vCPUs that lose their CPU are marked as preempted in the steal time record of
 * their guest (pvsync.mark).
 *
 * A guest that finds the mark does not wait for the vCPU: its spinning waiters go to sleep
 * or yield, and a flush of translations is left to be done before the vCPU's next entry. KVM
 * sets it only if the vCPU left the guest by an interrupt of the host. With an instruction
 * half emulated, the emulator may have looked up an address of the guest's that is unmapped
 * then, and whoever unmaps it would free the page without waiting:
 *
 *	thread of the vCPU, emulating		vCPU that unmaps
 *	-----------------------------		----------------
 *	address -> page
 *	preempted: mark
 *						page table entry -> none
 *						marked: leave the flush to it
 *						free the page
 *	goes on, writes to the page
 *
 * All other vCPUs go without a mark, and seem to run: others spin on for their locks, and
 * send them shootdowns that they wait for until their next turn. So this is about exits
 * that are handled without the emulator.
 *
 * yield: vCPUs that yield. A yield comes from a PAUSE that is intercepted, or from a
 * hypercall that says that the vCPU waits, KVM's, pvsync's, Hyper-V's or Xen's. What these
 * leave to be done is a result in a register and the instruction pointer, or an exit for a
 * debugger.
 *
 * exit: these, and vCPUs that are preempted after an exit of mark_harmless_exit(), which says why.
 * The last exit is all that has to be looked at. What is done in a vCPU's thread from one
 * exit to the next entry is to handle this exit, to finish it after one to user mode, and to
 * get ready for the entry, which takes the guest's physical addresses only: records, pages
 * of roots, SMRAM, but for one thing: the interrupts of real mode are emulated, and a
 * hypervisor in the guest has its own. Those are left out.
 *
 * What KVM is told, by at_instruction_boundary, is true of this switch alone, and is taken back
 * when the thread runs again (pvsync_unmark()): KVM itself does so at the begin of the next
 * round from entry to exit only. A thread that is preempted on the way into the guest is past
 * that, and what its vCPU leaves the guest for next may have to be emulated.
 *
 * The mark itself is written by KVM, which has it written after interrupts only, so never
 * in the midst of two things that it does later:
 *
 *  - It takes the mark away on the way into the guest, and looks up anew where the record
 *    is if the guest's memory has changed. Half looked up, it may be elsewhere: see
 *    mark_record_is_found().
 *  - It notes written pages in the vCPU's ring, if the monitor wants that. Only one at a time
 *    can be noted, and handling an exit may write. So VMs with rings have no such marks.
 *
 * And it must be taken away before the vCPU goes on, as others leave flushes to it: not with
 * a record that the guest has just disowned, MSR_KVM_STEAL_TIME being written. Nor is a vCPU
 * that halts marked: it is not preempted but idle, and the guest's scheduler should know.
 * With the local APIC in user mode KVM does not know that, and without a processor that says
 * how long an instruction is (which KVM has written down only where guests may nest) it
 * can be preempted between the exit and its halt.
 */
#include <linux/kvm_host.h>

#include <asm/cpufeature.h>
#include <asm/svm.h>
#include <asm/vmx.h>

#include <linux/pvsync/shims.h>

#include "../cpuid.h"
#include PVSYNC_KVM_REGS_H
#include "../lapic.h"
#include "../x86.h"

#include "regs.h"
#include "spin.h"

/* Of an access to an MSR. */
static bool mark_moves_record(struct kvm_vcpu *vcpu)
{
	return (u32)kvm_rcx_read(vcpu) == MSR_KVM_STEAL_TIME;
}

/*
 * Registers in, registers out: MSRs, of which those that tell KVM where something is have
 * physical addresses; CPUID; pausing, and halting where KVM knows of it at once. A hypercall
 * has physical addresses, too; Xen's do not, but VMs with these have another record, which is
 * not marked. Nothing to do: interrupts, windows for them.
 */
static bool mark_harmless_svm(struct kvm_vcpu *vcpu, u32 reason)
{
	switch (reason) {
	case SVM_EXIT_INTR:
	case SVM_EXIT_VINTR:
	case SVM_EXIT_CPUID:
	case SVM_EXIT_PAUSE:
	case SVM_EXIT_VMMCALL:
		return true;
	case SVM_EXIT_HLT:
		return lapic_in_kernel(vcpu) && kvm_cpu_cap_has(X86_FEATURE_NRIPS);
	case SVM_EXIT_MSR:
		return !mark_moves_record(vcpu);
	default:
		return false;
	}
}

static bool mark_harmless_vmx(struct kvm_vcpu *vcpu, u32 reason)
{
	switch (reason) {
	case EXIT_REASON_EXTERNAL_INTERRUPT:
	case EXIT_REASON_INTERRUPT_WINDOW:
	case EXIT_REASON_CPUID:
	case EXIT_REASON_PAUSE_INSTRUCTION:
	case EXIT_REASON_MSR_READ:
	case EXIT_REASON_VMCALL:
	case EXIT_REASON_PREEMPTION_TIMER:
		return true;
	case EXIT_REASON_HLT:
		return lapic_in_kernel(vcpu);
	case EXIT_REASON_MSR_WRITE:
		return !mark_moves_record(vcpu);
	default:
		return false;
	}
}

/*
 * Whether all that KVM knows of the steal time record is of the same memory, and of what
 * the guest has now. kvm_gfn_to_hva_cache_init() stores one after the other, and this thread
 * may be preempted in between:
 *
 *	generation	new	new	new
 *	memslot		old	new	new
 *	hva		old	old	new, of the page, then of the record in it
 *
 * The generation is what KVM compares. If memory changes after this, that is not the same
 * any more when KVM compares it, and nothing is written.
 */
static bool mark_record_is_found(struct kvm_vcpu *vcpu)
{
	const struct gfn_to_hva_cache *record = &vcpu->arch.st.cache;
	gfn_t gfn = gpa_to_gfn(record->gpa);
	int idx = srcu_read_lock(&vcpu->kvm->srcu);
	struct kvm_memory_slot *slot = gfn_to_memslot(vcpu->kvm, gfn);
	bool found = slot && slot == record->memslot &&
		     record->hva == gfn_to_hva_memslot(slot, gfn) + offset_in_page(record->gpa);

	srcu_read_unlock(&vcpu->kvm->srcu, idx);
	return found;
}

/* The reason of the last exit, if that is all that has to be looked at. */
static bool mark_get_exit(struct kvm_vcpu *vcpu, u32 *reason)
{
	if (is_guest_mode(vcpu) || !is_protmode(vcpu))
		return false;
	*reason = pvsync_exit_reason(vcpu);
	return true;
}

static bool mark_is_harmless(struct kvm_vcpu *vcpu, u32 reason)
{
	return boot_cpu_has(X86_FEATURE_SVM) ? mark_harmless_svm(vcpu, reason) :
					       mark_harmless_vmx(vcpu, reason);
}

static bool mark_harmless_exit(struct kvm_vcpu *vcpu)
{
	u32 reason;

	if (vcpu->kvm->dirty_ring_size || !mark_record_is_found(vcpu) ||
	    !mark_get_exit(vcpu, &reason))
		return false;
	return vcpu->arch.mp_state == KVM_MP_STATE_RUNNABLE && mark_is_harmless(vcpu, reason);
}

/*
 * Where the processor does not say how long an instruction is, it is read once more when it
 * is over. Where a kernel runs, its text stays; a page of user space may go between the look
 * at the page tables and the read, if the flush is not waited for.
 */
static bool mark_length_is_certain(struct kvm_vcpu *vcpu)
{
	return !boot_cpu_has(X86_FEATURE_SVM) || kvm_cpu_cap_has(X86_FEATURE_NRIPS) ||
	       pvsync_in_kernel(vcpu);
}

/**
 * pvsync_in_registers - whether the last exit is handled in registers and physical memory
 * @vcpu: the vCPU
 *
 * If so, nothing that its thread does until the next exit uses an address of the guest's page
 * tables. The list is that of the marks, whatever pvsync.mark is. Xen's hypercalls do have
 * such addresses; a VM that makes these does not come to those of pvsync, who asks.
 *
 * Context: thread of @vcpu, any.
 */
bool pvsync_in_registers(struct kvm_vcpu *vcpu)
{
	u32 reason;

	return mark_length_is_certain(vcpu) && mark_get_exit(vcpu, &reason) &&
	       mark_is_harmless(vcpu, reason);
}

static bool mark_is_possible(struct kvm_vcpu *vcpu)
{
	unsigned int mark = pvsync_mark_of(vcpu->kvm);

	if (mark == PVSYNC_MARK_KVM || !mark_length_is_certain(vcpu))
		return false;
	return vcpu->arch.pvsync.yielding ||
	       (mark >= PVSYNC_MARK_EXIT && mark_harmless_exit(vcpu));
}

#ifdef CONFIG_PVSYNC_DEBUG_TLB

/* Accesses to memory or ports, which are emulated. */
static bool mark_is_access(u32 reason)
{
	if (boot_cpu_has(X86_FEATURE_SVM))
		return reason == SVM_EXIT_NPF || reason == SVM_EXIT_IOIO;
	return reason == EXIT_REASON_EPT_VIOLATION || reason == EXIT_REASON_EPT_MISCONFIG ||
	       reason == EXIT_REASON_IO_INSTRUCTION;
}

/* Warn if KVM takes it for one between two instructions after such an exit. */
static void mark_assert_not_emulated(struct kvm_vcpu *vcpu)
{
	u32 reason;

	if (!vcpu->arch.at_instruction_boundary)
		return;
	reason = pvsync_exit_reason(vcpu);
	WARN_ONCE(mark_is_access(reason), "pvsync: vCPU %d to be marked after exit %#x\n",
		  vcpu->vcpu_id, reason);
}

#else

static void mark_assert_not_emulated(struct kvm_vcpu *vcpu) { }

#endif /* CONFIG_PVSYNC_DEBUG_TLB */

/**
 * pvsync_mark - a vCPU that is preempted, or yields, loses its CPU: is its guest told?
 * @vcpu: the vCPU
 *
 * If so, says to KVM that it is between two instructions.
 *
 * Context: thread of @vcpu, preemption disabled, before KVM marks it or not and before
 * the vendor's part lets go of it.
 *
 * Return: whether it is marked.
 */
bool pvsync_mark(struct kvm_vcpu *vcpu)
{
	mark_assert_not_emulated(vcpu);
	if (!vcpu->arch.at_instruction_boundary && mark_is_possible(vcpu)) {
		vcpu->arch.at_instruction_boundary = true;
		vcpu->arch.pvsync.marked = true;
	}
	if (pvsync_busted_mark()) {
		vcpu->arch.at_instruction_boundary = false;
		return true;
	}
	return vcpu->arch.at_instruction_boundary;
}

/**
 * pvsync_unmark - a vCPU's thread runs again: what was said of its switch is over
 * @vcpu: the vCPU
 *
 * The guest's record says that it is preempted until KVM takes that away, on the way into
 * the guest; flushes that were left to the vCPU are done then.
 *
 * Context: thread of @vcpu, preemption disabled.
 */
void pvsync_unmark(struct kvm_vcpu *vcpu)
{
	if (likely(!vcpu->arch.pvsync.marked))
		return;
	vcpu->arch.pvsync.marked = false;
	vcpu->arch.at_instruction_boundary = false;
}
