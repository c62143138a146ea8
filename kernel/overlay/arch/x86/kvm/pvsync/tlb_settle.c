// SPDX-License-Identifier: GPL-2.0-only
/*
 * When a vCPU that is asked to flush is past what the host emulated for it.
 *
 * The host emulates some instructions. The target's thread may have translated an
 * address, or keep the address that an exit came with, and use it after the call:
 *
 *	caller					target's thread, emulating
 *	------					--------------------------
 *						address -> page
 *	[guest] entry of the page table = none
 *	shootdown(): it is OUTSIDE_GUEST_MODE
 *	[guest] frees the page
 *						writes to the page
 *
 * No flush helps, and a caller that waited here would wait for the scheduler. So the
 * answer says which targets are not known to be past such an emulation. The guest sends
 * these an interrupt and waits until they have taken it, which they do in the guest. The
 * caller makes the request and waits until the interrupts are taken. Then it knows that a
 * target is past the emulation if it sees one of these:
 *
 * - The target has come to serve the request (done). It was on its way into the guest,
 *   and whatever it emulated before is over.
 * - KVM handles the target's last exit in registers and physical memory (settled). mark.c
 *   has the list of such exits, and says why. Only the target's own thread knows its last
 *   exit. The thread tells it when it leaves the guest with a request to serve, when it
 *   loses its CPU, and when it makes a shootdown hypercall itself.
 * - The target's last exit was for an interrupt of the host (at_instruction_boundary), by
 *   KVM's own account. KVM's flush of preempted vCPUs rests on the same account.
 * - The target has halted, which is the end of an instruction.
 *
 *	caller, shootdown()			target's thread
 *	-------------------			---------------
 *	[guest] entry of the page table = none
 *						[S]   settled = true; likewise the others
 *	[RmW] bit in requests			      MB, on entry; the guest runs
 *	      MB				[S]   settled = false
 *	[L]   mode: OUTSIDE_GUEST_MODE		      WMB
 *	      or its interrupt is taken		[S]   mode = OUTSIDE_GUEST_MODE
 *	      MB				      interrupts on
 *	[L]   settled				[L]   entry of the page table, emulating
 *
 * The target's thread takes settled, the boundary and the halt back before the vCPU
 * enters the guest or, at the latest, before anybody sees the vCPU outside again. If the
 * caller's load finds true, the thread stored it for an exit of this kind, after all
 * that it emulated before. MB and the look at requests come between this store and the
 * next emulation. So that emulation finds the new entry, and no exit comes with an
 * address from the old one. The vCPU may have been in the guest when the caller looked at
 * its mode. Then its next exit is known when the interrupt is taken: an exit that came
 * just before, with an address from the old translation, is not settled.
 *
 * The target stores done under the lock, with release, and the caller loads it with
 * acquire. Requests from before have numbers up to done, later ones have numbers above.
 */
#include <linux/kvm_host.h>

#include <linux/pvsync/kvm/tlb.h>

#include "spin.h"
#include "tlb_settle.h"

/**
 * pvsync_settle_exit - a vCPU has left the guest: tell whether this exit is settled
 * @vcpu: the vCPU, still IN_GUEST_MODE
 *
 * Context: interrupts disabled, before the vCPU's mode says that it is outside.
 */
void pvsync_settle_exit(struct kvm_vcpu *vcpu)
{
	pvsync_settle_vcpu(vcpu, kvm_test_request(KVM_REQ_PVSYNC_TLB, vcpu) &&
			   pvsync_in_registers(vcpu));
	/* The store to settled comes before the store to the mode. */
	smp_wmb();
}

/**
 * pvsync_settle_put - a vCPU's thread loses its CPU, maybe in the midst of an instruction
 * @vcpu: the vCPU
 *
 * In a VM without shootdowns nobody reads what this would tell.
 *
 * Context: thread of @vcpu, preemption disabled, before the vendor's part lets go of it.
 */
void pvsync_settle_put(struct kvm_vcpu *vcpu)
{
	if (READ_ONCE(vcpu->kvm->arch.pvsync.shoots))
		pvsync_settle_vcpu(vcpu, pvsync_in_registers(vcpu));
}
