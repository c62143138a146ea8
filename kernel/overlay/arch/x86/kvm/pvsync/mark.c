// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which vCPUs that lose their CPU are marked as preempted in the steal time record of
 * their guest (pvsync.mark).
 *
 * A guest that finds the mark does not wait for the vCPU. Its spinning waiters go to sleep
 * or yield, and it leaves a flush of translations to the vCPU's next entry. KVM sets the mark
 * only if the vCPU left the guest by an interrupt of the host. Otherwise the emulator may be
 * in the midst of an instruction, with an address of the guest looked up. A vCPU that unmaps
 * this address would free the page without waiting:
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
 * A preempted vCPU without a mark seems to run. Other vCPUs spin on for its locks. They send
 * it shootdowns, and wait for these until its next turn. So pvsync.mark also marks vCPUs
 * after exits that KVM handles without the emulator.
 *
 * yield: This value marks vCPUs that yield. A yield comes from an intercepted PAUSE, or from
 * a hypercall of KVM, pvsync, Hyper-V or Xen that says that the vCPU waits. After either, KVM
 * has only to set a result in a register and the instruction pointer, or to exit for a
 * debugger.
 *
 * exit: This value also marks vCPUs that are preempted after an exit that
 * mark_harmless_exit() accepts. It looks at the last exit alone. From one exit to the next
 * entry, a vCPU's thread handles this exit, finishes it after an exit to user mode, and
 * prepares the entry. The preparation takes physical addresses of the guest: of records,
 * pages of roots, SMRAM. There is one exception: KVM emulates the interrupts of real mode,
 * and a hypervisor in the guest has interrupts of its own. mark_get_exit() leaves out both.
 *
 * What at_instruction_boundary tells KVM is true of this switch alone. pvsync_unmark()
 * clears it when the thread runs again, as KVM clears it only at the begin of the next
 * round from entry to exit. A thread that is preempted on the way into the guest is past
 * that point, and KVM may have to emulate the vCPU's next exit.
 *
 * KVM writes the mark itself. Stock KVM writes it after interrupts only, so never in the
 * midst of two things that it does later:
 *
 *  - KVM takes the mark away on the way into the guest. If the guest's memory has changed,
 *    KVM looks up the record anew. With the look-up half done, the record's address may be
 *    wrong: see mark_record_is_found().
 *  - KVM notes written pages in the vCPU's ring, if the monitor wants that. It can note only
 *    one page at a time, and handling an exit may write. So VMs with rings have no such marks.
 *
 * KVM must take the mark away before the vCPU goes on, as others leave flushes to the vCPU.
 * It cannot do so in a record that the guest has just disowned by a write to
 * MSR_KVM_STEAL_TIME, so no mark follows such an exit. A vCPU that halts has no mark either:
 * it is idle, not preempted, and the guest's scheduler should know. With the local APIC in
 * user mode KVM does not know that a vCPU halts. SVM may also not say how long an instruction
 * is, or KVM may not record it, as it does only where guests may nest. Then the thread can be
 * preempted between the exit and its halt.
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

/* Whether an exit for an access to an MSR is about the MSR with the record's address. */
static bool mark_moves_record(struct kvm_vcpu *vcpu)
{
	return (u32)kvm_rcx_read(vcpu) == MSR_KVM_STEAL_TIME;
}

/*
 * Accesses to MSRs, CPUID, PAUSE and HLT take registers and give registers. An MSR that tells
 * KVM where something is holds a physical address. HLT counts only where KVM knows of the halt
 * at once. Hypercalls have physical addresses, too. Those of Xen have others, but a VM with Xen
 * hypercalls has another record, which KVM does not mark. For interrupts and interrupt windows
 * there is nothing to handle.
 *
 * Where the processor virtualizes the APIC (AVIC, APICv), it leaves what it cannot do to KVM, such
 * as an interrupt for a vCPU without a CPU. Those exits listed here are traps: the instruction is
 * over, and KVM reads the APIC's registers. Other accesses to the APIC are faults, which KVM
 * emulates.
 */
static bool mark_harmless_svm(struct kvm_vcpu *vcpu, u32 reason)
{
	switch (reason) {
	case SVM_EXIT_INTR:
	case SVM_EXIT_VINTR:
	case SVM_EXIT_CPUID:
	case SVM_EXIT_PAUSE:
	case SVM_EXIT_VMMCALL:
	case SVM_EXIT_AVIC_INCOMPLETE_IPI:
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
	case EXIT_REASON_APIC_WRITE:
	case EXIT_REASON_EOI_INDUCED:
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
 * Whether all that KVM knows of the steal time record is about the same memory, and about the
 * memory that the guest has at this moment. kvm_gfn_to_hva_cache_init() stores one field after
 * the other, and this thread may be preempted in between:
 *
 *	generation	new	new	new
 *	memslot		old	new	new
 *	hva		old	old	new, of the page, then of the record in it
 *
 * KVM compares the generation. If memory changes after this check, the generation differs
 * when KVM compares it, and KVM writes nothing.
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

/* The reason of the last exit. Return: whether the last exit alone decides. */
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
 * Where the processor does not say how long an instruction is, KVM reads the instruction once
 * more at its end. A kernel's text stays. A page of user space may go between the look at the
 * page tables and the read, if the guest does not wait for the flush.
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
 * tables. The list of exits is the one of the marks, whatever pvsync.mark is. Xen's hypercalls
 * do have such addresses. A VM that makes these cannot make pvsync's, and only pvsync's
 * shootdowns ask this question.
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

/* Whether an exit is for an access to memory or to a port, which KVM emulates. */
static bool mark_is_access(u32 reason)
{
	if (boot_cpu_has(X86_FEATURE_SVM))
		return reason == SVM_EXIT_NPF || reason == SVM_EXIT_IOIO;
	return reason == EXIT_REASON_EPT_VIOLATION || reason == EXIT_REASON_EPT_MISCONFIG ||
	       reason == EXIT_REASON_IO_INSTRUCTION;
}

/* Warn if KVM takes the vCPU to be between two instructions after such an exit. */
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
 * If so, this tells KVM that the vCPU is between two instructions.
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
 * The guest's record says that the vCPU is preempted until KVM takes the mark away, on the
 * way into the guest. At that point KVM does the flushes that were left to the vCPU.
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
