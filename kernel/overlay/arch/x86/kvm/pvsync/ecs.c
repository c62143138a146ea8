// SPDX-License-Identifier: GPL-2.0-only
/*
 * Critical sections of guests: what a guest and its host tell each other about them.
 * After S. Kashyap, C. Min and T. Kim, "Scaling Guest OS Critical Sections with
 * eCS", USENIX ATC 2018, section 3.1. The header <linux/pvsync/abi.h> has the record that
 * a vCPU shares, and what the host also reads if the vCPU does not count.
 *
 * The host reads what a guest maintains for itself (its preempt count, a task) by the layout
 * that the guest has told. The host never writes to it.
 *
 * The host reads the record when the vCPU is to lose its CPU. It writes the record when the
 * vCPU loses or gets a CPU, when a loan begins or ends, and in a hypercall with the record. The
 * thread of the vCPU alone does both, while the vCPU is not in the guest. Some words have two
 * writers, the guest and the host, but these never write at the same time:
 *
 *	vCPU, in the guest			thread of the vCPU, in the host
 *	------------------			-------------------------------
 *	[RmW] word, one instruction
 *	      VM exit
 *						[L] word
 *						[S] word | BORROWED
 *	      VM entry
 *	[RmW] word, sees BORROWED
 *
 * Other vCPUs of the guest only read the half that the host writes.
 *
 * The scheduler calls this, so it must not sleep. The host reaches the guest's memory
 * through the address at which the virtual machine monitor has it, with page faults
 * disabled. It leaves alone memory that is absent, read-only or taken from the guest.
 * A claim that the host cannot read is no claim. The host trusts no claim: it reads each
 * value once, any value means something, and extend.c bounds all effects. In user mode
 * a vCPU is in no section of its kernel, whatever its record says, unless it is about
 * to take an interrupt.
 */
#define pr_fmt(fmt) "kvm: pvsync: " fmt

#include <linux/atomic.h>
#include <linux/kvm_host.h>
#include <linux/kvm_para.h>
#include <linux/pagemap.h>
#include <linux/preempt.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include <linux/pvsync/abi.h>
#include <linux/pvsync/extend.h>

#include "../lapic.h"
#include "../smm.h"
#include "../x86.h"

#include "ecs.h"
#include "regs.h"

/* The two words of the guest, at the beginning of struct pvsync_ecs. */
struct claim {
	u64	non_preemptable;
	u64	preemptable;
};

/* The host writes what it tells from this offset on. */
#define TOLD_OFFSET	offsetof(struct pvsync_ecs, preempted)

static_assert(sizeof(struct pvsync_ecs) == PVSYNC_ECS_SIZE);

/*
 * The guest's memory is memory of this process, but not while the process exits. The host
 * touches it only while the monitor has the vCPU run. At other times the monitor may set
 * registers or memory, maybe for another system.
 */
static bool ecs_is_reachable(struct kvm_vcpu *vcpu)
{
	return vcpu->arch.pvsync.ecs.form && vcpu->wants_to_run && current->mm == vcpu->kvm->mm;
}

/* Whether a vCPU's record says anything about the vCPU. */
static bool ecs_has_claims(struct kvm_vcpu *vcpu)
{
	return ecs_is_reachable(vcpu) && vcpu->arch.pvsync.ecs.form != PVSYNC_ECS_SILENT;
}

static bool ecs_read_guest(struct kvm_vcpu *vcpu, struct gfn_to_hva_cache *where, void *data,
			   unsigned long len)
{
	int idx = srcu_read_lock(&vcpu->kvm->srcu);
	bool done;

	pagefault_disable();
	done = !kvm_read_guest_cached(vcpu->kvm, where, data, len);
	pagefault_enable();
	srcu_read_unlock(&vcpu->kvm->srcu, idx);
	return done;
}

/*
 * A monitor may have writes to memory logged in a ring of the vCPU. The thread that is
 * switched may be in the midst of an entry into the ring. KVM adds entries in the thread
 * alone, and cannot be interrupted there by another entry. Nor does anything bound how
 * often the thread is switched until the monitor empties the ring. So the host does not
 * write to memory that is logged there.
 *
 * KVM may replace slots by logged ones at any time. So this looks at the very slot that it
 * writes to. The thread that asked for the log waits for this reader, and the monitor
 * copies all memory after that, with what was written before.
 */
static bool ecs_write_unlogged(struct kvm_vcpu *vcpu, struct gfn_to_hva_cache *where,
			       const void *data, unsigned int offset, unsigned long len)
{
	u8 byte;

	/* Brings @where up to date with the slots. */
	if (kvm_read_guest_offset_cached(vcpu->kvm, where, &byte, offset, sizeof(byte)))
		return false;
	return where->memslot && !kvm_slot_dirty_track_enabled(where->memslot) &&
	       !__copy_to_user((void __user *)(where->hva + offset), data, len);
}

/* Return: whether it is written. */
static bool ecs_write_guest(struct kvm_vcpu *vcpu, struct gfn_to_hva_cache *where, void *data,
			    unsigned int offset, unsigned long len)
{
	int idx = srcu_read_lock(&vcpu->kvm->srcu);
	bool done;

	pagefault_disable();
	if (vcpu->kvm->dirty_ring_size)
		done = ecs_write_unlogged(vcpu, where, data, offset, len);
	else
		done = !kvm_write_guest_offset_cached(vcpu->kvm, where, data, offset, len);
	pagefault_enable();
	srcu_read_unlock(&vcpu->kvm->srcu, idx);
	return done;
}

static u64 ecs_count_of(u64 word, u64 unit)
{
	return (word & ~PVSYNC_ECS_BORROWED) / unit & PVSYNC_ECS_FIELD;
}

/* The lock, of several, that pvsync ascribes a preemption to; preempt_kernel if none. */
static enum pvsync_vcpu_counter ecs_lock_held(const struct claim *claim)
{
	if (ecs_count_of(claim->non_preemptable, PVSYNC_ECS_LOCK))
		return PVSYNC_preempt_lock;
	if (ecs_count_of(claim->non_preemptable, PVSYNC_ECS_READ))
		return PVSYNC_preempt_reader;
	if (ecs_count_of(claim->preemptable, PVSYNC_ECS_MUTEX))
		return PVSYNC_preempt_mutex;
	if (ecs_count_of(claim->preemptable, PVSYNC_ECS_RWSEM_READ))
		return PVSYNC_preempt_reader;
	return PVSYNC_preempt_kernel;
}

/*
 * Interrupts go first: a section that they interrupted does not hold them up. A vCPU
 * that waits goes on no sooner with a longer turn, whatever it has locked. The vCPU that
 * it waits for may need this CPU.
 */
static enum pvsync_vcpu_counter ecs_counted_section(struct kvm_vcpu *vcpu)
{
	enum pvsync_vcpu_counter held;
	struct claim claim;

	if (!ecs_read_guest(vcpu, &vcpu->arch.pvsync.ecs.record, &claim, sizeof(claim)))
		return PVSYNC_preempt_unknown;
	if (ecs_count_of(claim.non_preemptable, PVSYNC_ECS_IRQ))
		return PVSYNC_preempt_irq;
	held = ecs_lock_held(&claim);
	if (ecs_count_of(claim.non_preemptable, PVSYNC_ECS_SPINNER) ||
	    ecs_count_of(claim.preemptable, PVSYNC_ECS_WAITER))
		return held == PVSYNC_preempt_kernel ? PVSYNC_preempt_waiter :
						       PVSYNC_preempt_stuck;
	if (held == PVSYNC_preempt_kernel && ecs_count_of(claim.preemptable, PVSYNC_ECS_RCU))
		return PVSYNC_preempt_rcu;
	return held;
}

/* Whether the running task of the guest is an RCU reader, as far as can be told. */
static bool ecs_reads_rcu(struct kvm_vcpu *vcpu)
{
	struct pvsync_shared *ecs = &vcpu->arch.pvsync.ecs;
	s32 nesting = 0;
	u64 task;
	gpa_t gpa;
	int idx;

	if (!ecs->asked[2] || !ecs_read_guest(vcpu, &ecs->task, &task, sizeof(task)) ||
	    task < ecs->memory)
		return false;
	/* The guest may have any value there, and KVM warns of accesses across a page. */
	gpa = task - ecs->memory + ecs->nesting;
	if (!IS_ALIGNED(gpa, sizeof(nesting)))
		return false;
	/*
	 * This reads by way of the VM. The vCPU's memory slots have a cache without a
	 * lock, and the thread may be in the midst of a look-up for a fault.
	 */
	idx = srcu_read_lock(&vcpu->kvm->srcu);
	pagefault_disable();
	if (kvm_read_guest(vcpu->kvm, gpa, &nesting, sizeof(nesting)))
		nesting = 0;
	pagefault_enable();
	srcu_read_unlock(&vcpu->kvm->srcu, idx);
	return nesting > 0;
}

/*
 * This finds the section in what the guest's kernel maintains anyway, by the layout that it
 * has told. A vCPU that waits says so in the record, as it has nothing better to do. Each
 * wait counts once in the preempt count. pvsync takes a count above that for a lock.
 */
static enum pvsync_vcpu_counter ecs_found_section(struct kvm_vcpu *vcpu)
{
	const struct pvsync_ecs_layout *layout = &vcpu->arch.pvsync.ecs.layout;
	struct claim claim;
	u32 count;

	if (!ecs_read_guest(vcpu, &vcpu->arch.pvsync.ecs.preempt_count, &count, sizeof(count)) ||
	    !ecs_read_guest(vcpu, &vcpu->arch.pvsync.ecs.record, &claim, sizeof(claim)))
		return PVSYNC_preempt_unknown;
	if (count & layout->interrupt)
		return PVSYNC_preempt_irq;
	if (ecs_count_of(claim.non_preemptable, PVSYNC_ECS_SPINNER))
		return (count & layout->nesting) > layout->wait ? PVSYNC_preempt_stuck :
								  PVSYNC_preempt_waiter;
	if (count & layout->section)
		return PVSYNC_preempt_lock;
	if (ecs_reads_rcu(vcpu))
		return PVSYNC_preempt_rcu;
	return PVSYNC_preempt_kernel;
}

/**
 * pvsync_ecs_has_interrupt - whether a vCPU that tells its sections has an interrupt to take
 * @vcpu: the vCPU, not in the guest
 *
 * This looks at the interrupt controller that the host has for the vCPU. It does not see
 * interrupts that a processor has posted and not handed over yet. Interrupts of the guest's
 * own guest do not count.
 *
 * Context: thread of @vcpu, preemption disabled.
 *
 * Return: true if it has.
 */
bool pvsync_ecs_has_interrupt(struct kvm_vcpu *vcpu)
{
	return vcpu->arch.mp_state == KVM_MP_STATE_RUNNABLE &&
	       ecs_has_claims(vcpu) && !is_guest_mode(vcpu) &&
	       (vcpu->arch.interrupt.injected ||
		(lapic_in_kernel(vcpu) && kvm_lapic_find_highest_irr(vcpu) >= 0));
}

/**
 * pvsync_ecs_where - what a vCPU is doing
 * @vcpu: the vCPU, not in the guest
 *
 * pvsync takes a vCPU that runs a guest of its own for a vCPU in user mode: its record is
 * about the kernel that runs that guest. A vCPU that has halted is in no section, although
 * its idle task has preemption disabled. A vCPU that has an interrupt to take counts as in
 * the handler, even in user mode. If another vCPU sent the interrupt, that vCPU waits, often
 * with a lock. There is one exception: a vCPU that itself waits, with interrupts disabled,
 * takes no interrupt before its wait is over.
 *
 * Context: thread of @vcpu, preemption disabled.
 *
 * Return: the counter of its preemption there, from PVSYNC_preempt_irq to
 * PVSYNC_preempt_unknown.
 */
enum pvsync_vcpu_counter pvsync_ecs_where(struct kvm_vcpu *vcpu)
{
	bool interrupt = pvsync_ecs_has_interrupt(vcpu);
	enum pvsync_vcpu_counter section;

	if (is_guest_mode(vcpu))
		return PVSYNC_preempt_user;
	if (interrupt && pvsync_takes_interrupts(vcpu))
		return PVSYNC_preempt_irq;
	if (!pvsync_in_kernel(vcpu))
		return PVSYNC_preempt_user;
	if (!ecs_has_claims(vcpu))
		return PVSYNC_preempt_unknown;
	if (vcpu->arch.mp_state != KVM_MP_STATE_RUNNABLE)
		return PVSYNC_preempt_kernel;
	if (vcpu->arch.pvsync.ecs.form == PVSYNC_ECS_FREE)
		section = ecs_found_section(vcpu);
	else
		section = ecs_counted_section(vcpu);
	if (interrupt && section != PVSYNC_preempt_waiter && section != PVSYNC_preempt_stuck)
		return PVSYNC_preempt_irq;
	return section;
}

/* If a write fails, the next call writes, changed or not. */
static void ecs_tell_guest(struct kvm_vcpu *vcpu,
			   const struct pvsync_told *told)
{
	struct pvsync_shared *ecs = &vcpu->arch.pvsync.ecs;

	if (ecs->written && !memcmp(&ecs->told, told, sizeof(*told)))
		return;
	ecs->told = *told;
	ecs->written = ecs_write_guest(vcpu, &ecs->record, &ecs->told,
				       TOLD_OFFSET, sizeof(ecs->told));
}

/*
 * Whether a system runs that may have shared the record. A monitor resets a vCPU by setting
 * its registers, which is nothing special to KVM. A system that starts after this has no
 * paging. The registers may be of a guest's guest or of the firmware's management mode, or
 * the host may not see them. Then nothing is known, and the record stays.
 */
static bool ecs_may_share(struct kvm_vcpu *vcpu)
{
	return is_paging(vcpu) || is_guest_mode(vcpu) || is_smm(vcpu) ||
	       vcpu->arch.guest_state_protected;
}

/* What the monitor sets at the begin of KVM_RUN. A hint: the monitor may write meanwhile. */
static bool ecs_is_set_without_paging(struct kvm_vcpu *vcpu)
{
	return READ_ONCE(vcpu->run->kvm_dirty_regs) & KVM_SYNC_X86_SREGS &&
	       !(READ_ONCE(vcpu->run->s.regs.sregs.cr0) & X86_CR0_PG);
}

/**
 * pvsync_ecs_load - a vCPU has got a CPU: tell its guest, if it is still the same
 * @vcpu: the vCPU, which has no loan
 *
 * This looks for a reset at the begin of an ioctl only. It sees what the ioctl before has set,
 * or what this ioctl will set itself. A thread that was switched may be in the midst of a
 * change of mode inside KVM, such as an exit of a guest's guest or from management mode. There
 * paging is off for a moment.
 *
 * Context: thread of @vcpu, preemption disabled.
 */
void pvsync_ecs_load(struct kvm_vcpu *vcpu)
{
	if (vcpu->arch.pvsync.ecs.form && !vcpu->scheduled_out &&
	    (!ecs_may_share(vcpu) || ecs_is_set_without_paging(vcpu)))
		vcpu->arch.pvsync.ecs.form = 0;
	pvsync_ecs_tell(vcpu, false, pvsync_cpu_wanted());
}

/**
 * pvsync_ecs_tell - tell a guest what has become of a vCPU
 * @vcpu: the vCPU
 * @preempted: whether the vCPU waits for a CPU
 * @overcommitted: whether something else waits for the CPU that it has
 *
 * Context: thread of @vcpu, preemption disabled.
 */
void pvsync_ecs_tell(struct kvm_vcpu *vcpu, bool preempted, bool overcommitted)
{
	struct pvsync_told told = vcpu->arch.pvsync.ecs.told;

	if (!ecs_is_reachable(vcpu))
		return;
	told.preempted = preempted;
	told.overcommitted = overcommitted;
	ecs_tell_guest(vcpu, &told);
}

/* The mark lets the guest notice it when it leaves its sections, without a look elsewhere. */
static void ecs_mark_words(struct kvm_vcpu *vcpu, bool borrowed)
{
	struct gfn_to_hva_cache *record = &vcpu->arch.pvsync.ecs.record;
	struct claim claim;

	if (!ecs_read_guest(vcpu, record, &claim, sizeof(claim)))
		return;
	claim.non_preemptable &= ~PVSYNC_ECS_BORROWED;
	claim.preemptable &= ~PVSYNC_ECS_BORROWED;
	if (borrowed) {
		claim.non_preemptable |= PVSYNC_ECS_BORROWED;
		claim.preemptable |= PVSYNC_ECS_BORROWED;
	}
	ecs_write_guest(vcpu, record, &claim, 0, sizeof(claim));
}

/**
 * pvsync_ecs_tell_loan - tell a guest that a vCPU runs on borrowed time, or not
 * @vcpu: the vCPU
 * @borrowed: whether it does
 *
 * The host tells it in its half of the record. It also tells a guest that counts in the guest's
 * words, where the guest looks anyway. The host writes to nothing else of a guest: what the
 * guest maintains for itself may mean anything.
 *
 * Context: thread of @vcpu, preemption disabled.
 */
void pvsync_ecs_tell_loan(struct kvm_vcpu *vcpu, bool borrowed)
{
	struct pvsync_told told = vcpu->arch.pvsync.ecs.told;

	if (!ecs_is_reachable(vcpu))
		return;
	told.borrowed = borrowed;
	ecs_tell_guest(vcpu, &told);
	if (vcpu->arch.pvsync.ecs.form == PVSYNC_ECS_COUNT)
		ecs_mark_words(vcpu, borrowed);
}

static bool ecs_map_record(struct kvm_vcpu *vcpu, struct gfn_to_hva_cache *where, gpa_t gpa,
			   unsigned long size)
{
	return IS_ALIGNED(gpa, size) &&
	       !kvm_gfn_to_hva_cache_init(vcpu->kvm, where, gpa, size) && where->memslot;
}

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

	if (kvm_read_guest_cached(vcpu->kvm, &next->record, &record, TOLD_OFFSET) ||
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

	if (!a1 || !ecs_map_record(vcpu, &next->preempt_count, a1, sizeof(u32)))
		return false;
	if (!a2)
		return !a3;
	next->memory = a3 & ~PVSYNC_ECS_TASK_MASK;
	next->nesting = a3 & PVSYNC_ECS_TASK_MASK;
	return IS_ALIGNED(next->nesting, sizeof(s32)) &&
	       ecs_map_record(vcpu, &next->task, a2, sizeof(u64));
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

	if (!ecs_map_record(vcpu, &next->record, asked[0] - form, PVSYNC_ECS_SIZE))
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

/* Tell a vCPU that asks for it that it runs, and write what the host could not write before. */
static void ecs_tell_again(struct kvm_vcpu *vcpu)
{
	struct pvsync_shared *ecs = &vcpu->arch.pvsync.ecs;
	struct pvsync_told told;

	/* This may fail, and changes nothing in the page but that it is there. */
	fault_in_safe_writeable((const char __user *)ecs->record.hva, 1);
	preempt_disable();
	told = ecs->told;
	told.preempted = 0;
	ecs_tell_guest(vcpu, &told);
	preempt_enable();
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
	ecs_tell_again(vcpu);
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
		ecs_tell_again(vcpu);
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
 * something else there. No guest may make its own restore fail. So the monitor's value is
 * taken, and the record claims nothing until the guest writes to the MSR again.
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
		ecs_tell_again(vcpu);
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
