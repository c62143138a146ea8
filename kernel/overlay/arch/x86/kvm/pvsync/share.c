// SPDX-License-Identifier: GPL-2.0-only
/*
 * How a guest shares a record of critical sections: by a hypercall or an MSR, what of that is
 * refused, and how it ends. See <linux/pvsync/abi.h> for what a guest passes.
 *
 * A record that is another one, or none, ends the loan of its vCPU.
 */
#define pr_fmt(fmt) "kvm: pvsync: " fmt

#include <linux/atomic.h>
#include <linux/kvm_host.h>
#include <linux/kvm_para.h>
#include <linux/preempt.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/string.h>

#include <linux/pvsync/abi.h>

#include "loan.h"
#include "record.h"
#include "share.h"

/* This warns once for each VM, as each of its vCPUs asks, and asks again. */
static void ecs_say_refused(struct kvm_vcpu *vcpu, const char *reason)
{
	if (!xchg(&vcpu->kvm->arch.pvsync.ecs_refused, true))
		pr_warn_ratelimited("process %d: a guest's record of critical sections is refused: %s\n",
				    task_tgid_nr(current), reason);
}

/* A reserved field may mean something to a later guest, which then needs a later host. */
static bool ecs_understands_layout(const struct pvsync_ecs_layout *layout, u32 version)
{
	return layout->version == version && !layout->reserved &&
	       !(layout->interrupt & layout->section) && !(layout->nesting & ~layout->section) &&
	       layout->wait && !(layout->wait & ~layout->nesting);
}

/*
 * A guest that shares by the MSR has the addresses in the record. So the monitor saves one
 * number, and restores it in whatever order.
 *
 * Context: may sleep; KVM's memory slots stay.
 */
static bool ecs_read_layout(struct kvm_vcpu *vcpu, struct pvsync_shared *next)
{
	u64 *addresses = &next->asked[1];
	struct pvsync_ecs record;

	if (kvm_read_guest_cached(vcpu->kvm, &next->record, &record, PVSYNC_ECS_TOLD) ||
	    !ecs_understands_layout(&record.layout,
				    next->by_msr ? PVSYNC_ECS_LAYOUT_MSR : PVSYNC_ECS_LAYOUT))
		return false;
	next->layout = record.layout;
	if (next->by_msr)
		memcpy(addresses, record.addresses, sizeof(record.addresses));
	else if (memchr_inv(record.addresses, 0, sizeof(record.addresses)))
		return false;
	return true;
}

static bool ecs_map_free_form(struct kvm_vcpu *vcpu, struct pvsync_shared *next)
{
	u64 a1 = next->asked[1], a2 = next->asked[2], a3 = next->asked[3];

	if (!a1 || !pvsync_ecs_map(vcpu, &next->preempt_count, a1, sizeof(u32)))
		return false;
	if (!a2)
		return !a3;
	next->memory = a3 & ~PVSYNC_ECS_TASK_MASK;
	next->nesting = a3 & PVSYNC_ECS_TASK_MASK;
	return IS_ALIGNED(next->nesting, sizeof(s32)) &&
	       pvsync_ecs_map(vcpu, &next->task, a2, sizeof(u64));
}

/*
 * Find what is to be shared by what was asked for, and change nothing else.
 *
 * Return: why it is refused; NULL if it is not. If the record without what it refers to could
 * be shared, @next says so by its form all the same.
 */
static const char *ecs_prepare(struct kvm_vcpu *vcpu, struct pvsync_shared *next)
{
	const u64 *asked = next->asked;
	u8 form = asked[0] & PVSYNC_ECS_FORM_MASK;

	if (!pvsync_ecs_map(vcpu, &next->record, asked[0] - form, PVSYNC_ECS_SIZE))
		return "it is not in the guest's memory";
	switch (form) {
	case PVSYNC_ECS_COUNT:
	case PVSYNC_ECS_SILENT:
		if (asked[1] || asked[2] || asked[3])
			return "its form takes no other address";
		break;
	case PVSYNC_ECS_FREE:
		next->form = PVSYNC_ECS_SILENT;
		if (!ecs_read_layout(vcpu, next))
			return "the layout of its preempt count is not understood";
		if (!ecs_map_free_form(vcpu, next))
			return "what it refers to is not in the guest's memory";
		break;
	default:
		return "its form is not known";
	}
	next->form = form;
	return NULL;
}

/*
 * The record may have words of an earlier host, or of this one before a CPU went down. What
 * it was told is 0 in @next, and not written yet.
 */
static void ecs_adopt(struct kvm_vcpu *vcpu, const struct pvsync_shared *next)
{
	preempt_disable();
	pvsync_ecs_forget(vcpu);
	pvsync_loan_init(vcpu);
	vcpu->arch.pvsync.ecs = *next;
	preempt_enable();
	pvsync_ecs_tell_again(vcpu);
}

/**
 * pvsync_ecs_share - a vCPU shares a record, another one, or none any more
 * @vcpu: the vCPU
 * @a0: see <linux/pvsync/abi.h>
 * @a1: see there
 * @a2: see there
 * @a3: see there
 *
 * Guests ask again now and then, in case that another host runs them by then. On the same
 * host all stays as it is, a loan included.
 *
 * Context: thread of @vcpu, may sleep.
 *
 * Return: 0, or -KVM_EINVAL for arguments that have no meaning, memory that the guest
 * does not have, or a layout that this host does not know; nothing is shared then.
 */
long pvsync_ecs_share(struct kvm_vcpu *vcpu, u64 a0, u64 a1, u64 a2, u64 a3)
{
	const struct pvsync_shared *ecs = &vcpu->arch.pvsync.ecs;
	struct pvsync_shared next = { .asked = { a0, a1, a2, a3 } };
	const char *reason;

	if (ecs->form && !ecs->by_msr && !memcmp(ecs->asked, next.asked, sizeof(next.asked))) {
		pvsync_ecs_tell_again(vcpu);
		return 0;
	}
	pvsync_ecs_forget(vcpu);
	if (!a0 && !a1 && !a2 && !a3)
		return 0;
	reason = ecs_prepare(vcpu, &next);
	if (reason) {
		ecs_say_refused(vcpu, reason);
		return -KVM_EINVAL;
	}
	ecs_adopt(vcpu, &next);
	return 0;
}

/**
 * pvsync_ecs_msr - the value of MSR_PVSYNC_ECS
 * @vcpu: the vCPU
 *
 * Context: thread of @vcpu.
 *
 * Return: what was written to it last and taken; 0 if nothing is shared by it.
 */
u64 pvsync_ecs_msr(struct kvm_vcpu *vcpu)
{
	const struct pvsync_shared *ecs = &vcpu->arch.pvsync.ecs;

	return ecs->form && ecs->by_msr ? ecs->asked[0] : 0;
}

/**
 * pvsync_ecs_set_msr - write to MSR_PVSYNC_ECS
 * @vcpu: the vCPU
 * @data: the value
 * @by_monitor: it is the monitor that writes
 *
 * The same value again changes nothing, as with pvsync_ecs_share().
 *
 * A monitor may restore a value before the record is in memory, or after the guest has written
 * something else there. A guest must not make its own restore fail by that. So the monitor's
 * value is taken, and the record claims nothing until the guest writes to the MSR again. An
 * address without memory is refused all the same, as of a device's window that has moved.
 *
 * Context: thread of @vcpu, may sleep.
 *
 * Return: 0, or 1 for a value that is refused; all is as before then.
 */
int pvsync_ecs_set_msr(struct kvm_vcpu *vcpu, u64 data, bool by_monitor)
{
	struct pvsync_shared next = { .asked = { data }, .by_msr = true };
	const char *reason;

	if (!data) {
		pvsync_ecs_forget(vcpu);
		return 0;
	}
	if (pvsync_ecs_msr(vcpu) == data &&
	    vcpu->arch.pvsync.ecs.form == (data & PVSYNC_ECS_FORM_MASK)) {
		pvsync_ecs_tell_again(vcpu);
		return 0;
	}
	reason = ecs_prepare(vcpu, &next);
	if (reason && !(by_monitor && next.form)) {
		ecs_say_refused(vcpu, reason);
		return 1;
	}
	ecs_adopt(vcpu, &next);
	return 0;
}

/**
 * pvsync_ecs_forget - a vCPU ceases to share a record
 * @vcpu: the vCPU; a reset calls this, too, as the memory is another system's then
 *
 * Context: thread of @vcpu, or nobody runs it.
 */
void pvsync_ecs_forget(struct kvm_vcpu *vcpu)
{
	preempt_disable();
	pvsync_loan_drop(vcpu);
	vcpu->arch.pvsync.ecs.form = 0;
	preempt_enable();
}
