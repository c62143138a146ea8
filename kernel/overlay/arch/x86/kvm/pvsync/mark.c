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
 * debugger; if the instruction has to be read for its length, it is looked up anew, and
 * nothing but the length is used.
 *
 * exit: these, and vCPUs that are preempted after an exit of harmless_exit(), which says why.
 * The last exit is all that has to be looked at. What is done in a vCPU's thread from one
 * exit to the next entry is to handle this exit, to finish it after one to user mode, and to
 * get ready for the entry, which takes the guest's physical addresses only: records, pages
 * of roots, SMRAM, but for one thing: the interrupts of real mode are emulated, and a
 * hypervisor in the guest has its own. Those are left out.
 */
#include <linux/kvm_host.h>

#include <asm/cpufeature.h>
#include <asm/svm.h>
#include <asm/vmx.h>

#include "../x86.h"

#include "spin.h"

/*
 * Registers in, registers out: MSRs, of which those that tell KVM where something is have
 * physical addresses; CPUID; halting and pausing. A hypercall has physical addresses, too.
 * Nothing to do: interrupts, windows for them.
 */
static bool harmless_svm(u32 reason)
{
	switch (reason) {
	case SVM_EXIT_INTR:
	case SVM_EXIT_VINTR:
	case SVM_EXIT_CPUID:
	case SVM_EXIT_PAUSE:
	case SVM_EXIT_HLT:
	case SVM_EXIT_MSR:
	case SVM_EXIT_VMMCALL:
		return true;
	default:
		return false;
	}
}

static bool harmless_vmx(u32 reason)
{
	switch (reason) {
	case EXIT_REASON_EXTERNAL_INTERRUPT:
	case EXIT_REASON_INTERRUPT_WINDOW:
	case EXIT_REASON_CPUID:
	case EXIT_REASON_PAUSE_INSTRUCTION:
	case EXIT_REASON_HLT:
	case EXIT_REASON_MSR_READ:
	case EXIT_REASON_MSR_WRITE:
	case EXIT_REASON_VMCALL:
	case EXIT_REASON_PREEMPTION_TIMER:
		return true;
	default:
		return false;
	}
}

static bool harmless_exit(struct kvm_vcpu *vcpu)
{
	u32 reason, intr_info, error_code;
	u64 info1, info2;

	if (is_guest_mode(vcpu) || !is_protmode(vcpu))
		return false;
	kvm_x86_call(get_exit_info)(vcpu, &reason, &info1, &info2, &intr_info, &error_code);
	return boot_cpu_has(X86_FEATURE_SVM) ? harmless_svm(reason) : harmless_vmx(reason);
}

static bool may_be_marked(struct kvm_vcpu *vcpu)
{
	switch (pvsync_mark_of(vcpu->kvm)) {
	case PVSYNC_MARK_YIELD:
		return vcpu->arch.pvsync.yielding;
	case PVSYNC_MARK_EXIT:
		return vcpu->arch.pvsync.yielding || harmless_exit(vcpu);
	default:
		return false;
	}
}

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
	if (!vcpu->arch.at_instruction_boundary && may_be_marked(vcpu))
		vcpu->arch.at_instruction_boundary = true;
	return vcpu->arch.at_instruction_boundary;
}
