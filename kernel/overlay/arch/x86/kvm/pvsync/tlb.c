// SPDX-License-Identifier: GPL-2.0-only
/*
 * TLB shootdown by the host. A guest names vCPUs and addresses in one hypercall,
 * and the host sees to it that none of these vCPUs uses an old translation from
 * then on. After J. Ouyang, J. R. Lange and H. Zheng, "Shoot4U", VEE 2016, section 4.
 *
 * The paper sends an interrupt to the CPU of each target, whose handler
 * invalidates, and waits for all handlers. Here the handler does nothing. The
 * caller notes with the target what to flush, the interrupt only drives the target
 * out of the guest, and the target flushes on its own way back in. The caller has
 * less to wait for, and targets that do not run cost no interrupt. Requests of
 * several callers become one flush.
 *
 * Why no target uses an old translation once the hypercall has returned:
 *
 *	caller, shootdown()			target, vcpu_enter_guest()
 *	-------------------			--------------------------
 *	[guest] entry of the page table = new
 *	[S]   range -> list, under the lock
 *	[RmW] bit in requests			[RmW] bit in requests -> 0
 *					(1)	[L]   list, under the lock; flush
 *	      MB				[S]   mode = IN_GUEST_MODE
 *	[L]   mode				      MB
 *	      not OUTSIDE_GUEST_MODE:	(2)	[L]   requests: bit set? back to (1)
 *	      interrupt its CPU, wait	(3)	      run the guest
 *	      until it is taken		(4)	[S]   mode = OUTSIDE_GUEST_MODE
 *						      interrupts on
 *
 * Interrupts are off on the target's CPU from before its store to mode until
 * after (4). If the target's (2) does not see the bit, the caller sees a mode
 * other than OUTSIDE_GUEST_MODE, as both have a barrier between their store and
 * their load. The target's CPU does not take the interrupt before (4), and the next
 * entry goes through (1). If the caller sees OUTSIDE_GUEST_MODE, either (4) has
 * passed or the next (2) sees the bit. The caller fills the list before it sets the
 * bit. The target empties the list after it clears the bit. So a target that finds
 * its list empty has been flushed by the entry that emptied it.
 *
 * A target whose thread is preempted, sleeps or is in user mode is outside of
 * the guest, and the caller sends it no interrupt. So the caller never waits for a
 * scheduler.
 *
 * If the thread moves to another CPU and enters the guest there, KVM gives the vCPU
 * a new address space identifier or flushes all. So nothing uses the translations
 * that the vCPU left in the TLB of the first CPU. But on AMD processors KVM notices a
 * move at the entry only. A thread that flushes elsewhere and comes back before it
 * enters would meet its old translations. So the thread flushes single addresses with
 * preemption disabled, and only on the CPU where the vCPU was last in the guest. On
 * any other CPU it flushes everything. On AMD processors the vCPU's control block
 * takes a note of such a flush, and the entry itself does it, on whatever CPU.
 *
 * This file has the hypercall. tlb_flush.c keeps what a target has to flush, and flushes it.
 * tlb_settle.c knows when a target is past what the host emulated for it.
 *
 * The host does not trust the guest. The guest names at most PVSYNC_TLB_TARGETS vCPUs
 * of its own VM, in registers. If one name is unknown, the host does nothing. While KVM
 * has no map of the names, all vCPUs of the VM flush everything. The host allocates
 * nothing, every loop has a constant bound, and the caller holds no lock while it waits.
 * A flood of requests costs others an interrupt on CPUs that run this VM's vCPUs in guest
 * mode, as interrupts between its vCPUs do.
 */
#include <linux/bitmap.h>
#include <linux/kvm_host.h>
#include <linux/kvm_para.h>
#include <linux/nospec.h>
#include <linux/sched/clock.h>

#include <trace/events/pvsync.h>

#include <linux/pvsync/abi.h>
#include <linux/pvsync/host.h>
#include <linux/pvsync/shims.h>

#include PVSYNC_KVM_REGS_H
#include "../lapic.h"
#include "../x86.h"

#include "count.h"
#include "spin.h"
#include "tlb.h"
#include "tlb_flush.h"
#include "tlb_settle.h"

/**
 * struct shootdown - one hypercall
 * @range: what to flush; no pages for all
 * @named: vCPUs to flush, as the guest has named them
 * @everybody: all vCPUs flush, as KVM has no map of APIC IDs
 * @targets: vCPUs to flush, by index of the vCPU
 * @index: index of the vCPU for each bit in @named, unless @everybody is set
 * @asked: sequence number of the request for each of the first bits in @targets;
 *	@targets has more bits only if @everybody is set
 * @awaited: how many of the named vCPUs the guest has to await
 */
struct shootdown {
	struct pvsync_tlb_range	range;
	DECLARE_BITMAP(named, PVSYNC_TLB_TARGETS);
	bool			everybody;
	DECLARE_BITMAP(targets, KVM_MAX_VCPUS);
	u16			index[PVSYNC_TLB_TARGETS];
	u64			asked[PVSYNC_TLB_TARGETS];
	unsigned int		awaited;
};

/**
 * pvsync_tlb_offered - whether a guest may have its translations flushed
 * @vcpu: one of its vCPUs
 *
 * The host does not offer it with shadow paging, where a flush has to bring KVM's page
 * tables up to date as well. It needs the interrupt controllers that name the vCPUs.
 * Code of 32 bits would get half of the answer, and is not offered it either. Nor is a guest
 * whose state the host does not see: KVM flushes no translation of one that TDX protects.
 *
 * Context: thread of @vcpu.
 */
bool pvsync_tlb_offered(struct kvm_vcpu *vcpu)
{
	return READ_ONCE(pvsync_shootdown) && tdp_enabled && lapic_in_kernel(vcpu) &&
	       is_64_bit_hypercall(vcpu) && !vcpu->arch.guest_state_protected;
}

/* Context: pvsync_tlb_lock() is held. */
static void tlb_note_asked(struct shootdown *shot, unsigned int n, struct pvsync_tlb *tlb)
{
	tlb->asked++;
	if (n < ARRAY_SIZE(shot->asked))
		shot->asked[n] = tlb->asked;
}

#ifdef CONFIG_PVSYNC_DEBUG_TLB

/* A request that returns while nothing is asserted must not fail an assertion later. */
static void tlb_note_returned(struct kvm *kvm, const struct shootdown *shot)
{
	unsigned int n = 0;
	unsigned long i;

	if (!READ_ONCE(pvsync_tlb_asserted))
		return;
	for_each_set_bit(i, shot->targets, KVM_MAX_VCPUS) {
		struct pvsync_tlb *tlb = &kvm_get_vcpu(kvm, i)->arch.pvsync.tlb;
		s64 old = atomic64_read(&tlb->returned);
		s64 asked;

		if (n == ARRAY_SIZE(shot->asked))
			break;
		asked = shot->asked[n++];
		while (old < asked && !atomic64_try_cmpxchg(&tlb->returned, &old, asked))
			;
	}
}

/**
 * pvsync_assert_flushed - warn if a vCPU ran with translations it had to flush
 * @vcpu: the vCPU, just out of the guest, still IN_GUEST_MODE
 *
 * A request that came while the vCPU ran cannot have returned yet, as the caller
 * waits for an interrupt that this CPU does not take before this check. So if a
 * request has returned and is not done, the vCPU has run past the request's return.
 *
 * Context: interrupts disabled, before the vCPU's mode says that it is outside.
 */
void pvsync_assert_flushed(struct kvm_vcpu *vcpu)
{
	struct pvsync_tlb *tlb = &vcpu->arch.pvsync.tlb;
	s64 returned = atomic64_read(&tlb->returned);

	WARN_ONCE(returned > (s64)tlb->done && READ_ONCE(pvsync_tlb_asserted),
		  "pvsync: vCPU %d ran past shootdown %lld, flushed %llu\n",
		  vcpu->vcpu_id, returned, tlb->done);
}

#else

static void tlb_note_returned(struct kvm *kvm, const struct shootdown *shot) { }

#endif /* CONFIG_PVSYNC_DEBUG_TLB */

/* What the target does now; it may do something else when this returns. */
static enum pvsync_vcpu_counter tlb_state_of(struct kvm_vcpu *target)
{
	if (READ_ONCE(target->mode) != OUTSIDE_GUEST_MODE)
		return PVSYNC_tlb_running;
	if (READ_ONCE(target->ready))
		return PVSYNC_tlb_preempted;
	if (READ_ONCE(target->stat.generic.blocking))
		return PVSYNC_tlb_halted;
	return PVSYNC_tlb_in_host;
}

static bool tlb_parse_range(struct kvm_vcpu *me, u64 where, u64 what,
			    struct pvsync_tlb_range *range)
{
	u32 shift = what & PVSYNC_TLB_SIZE_MASK;
	u64 size;

	range->pages = where >> PVSYNC_TLB_PAGES_SHIFT;
	range->start = what & ~PVSYNC_TLB_SIZE_MASK;
	if (!range->pages)
		return !what;
	if (shift != PAGE_SHIFT && shift != PMD_SHIFT && shift != PUD_SHIFT)
		return false;
	/* 32 bits and 30 bits: no overflow. */
	size = (u64)range->pages << shift;
	if (range->start + size - 1 <= range->start ||
	    is_noncanonical_invlpg_address(range->start, me) ||
	    is_noncanonical_invlpg_address(range->start + size - 1, me))
		return false;
	if (shift != PAGE_SHIFT)
		range->pages = 0;
	return true;
}

/*
 * The first vCPU of a VM may run, and be in KVM's map, before its creation is over, if its
 * monitor has guessed the file descriptor. kvm_get_vcpu() does not find it at that time.
 */
static bool tlb_is_online(struct kvm_vcpu *vcpu)
{
	return vcpu->vcpu_idx < atomic_read(&vcpu->kvm->online_vcpus);
}

/*
 * KVM has no map of APIC IDs if it found no memory for one, or if two vCPUs have the same ID.
 * A guest that got an error would give up for good, so all vCPUs flush everything instead.
 * This misses a vCPU that is not online yet, as KVM's own requests to all vCPUs do.
 */
static void tlb_target_all(struct kvm *kvm, struct shootdown *shot)
{
	bitmap_set(shot->targets, 0, atomic_read(&kvm->online_vcpus));
	shot->range.pages = 0;
	shot->everybody = true;
}

static bool tlb_find_targets(struct kvm *kvm, u32 base, struct shootdown *shot)
{
	struct kvm_apic_map *map;
	bool all_known = true;
	unsigned long i;

	rcu_read_lock();
	map = rcu_dereference(kvm->arch.apic_map);
	if (!map) {
		tlb_target_all(kvm, shot);
		goto out;
	}
	for_each_set_bit(i, shot->named, PVSYNC_TLB_TARGETS) {
		u64 id = (u64)base + i;
		struct kvm_lapic *apic = NULL;

		if (id <= map->max_apic_id)
			apic = map->phys_map[array_index_nospec(id, (u64)map->max_apic_id + 1)];
		if (!apic || !tlb_is_online(apic->vcpu)) {
			all_known = false;
			break;
		}
		shot->index[i] = apic->vcpu->vcpu_idx;
		__set_bit(shot->index[i], shot->targets);
	}
out:
	rcu_read_unlock();
	return all_known;
}

static void tlb_ask_targets(struct kvm_vcpu *me, struct shootdown *shot)
{
	unsigned int n = 0;
	unsigned long i;

	for_each_set_bit(i, shot->targets, KVM_MAX_VCPUS) {
		struct kvm_vcpu *target = kvm_get_vcpu(me->kvm, i);
		struct pvsync_tlb *tlb = &target->arch.pvsync.tlb;
		bool merged;

		pvsync_count_for(me, tlb_state_of(target), 1);
		pvsync_tlb_lock(tlb);
		merged = pvsync_tlb_note_range(&tlb->list, &shot->range);
		tlb_note_asked(shot, n++, tlb);
		pvsync_tlb_unlock(tlb);
		if (merged)
			pvsync_count_for(me, PVSYNC_tlb_merged, 1);
	}
}

/*
 * The answer: the targets that the guest has to await. If all vCPUs have been asked, the host
 * does not know which vCPUs the names belong to, so the guest awaits all that it named.
 */
static long tlb_not_past(struct kvm_vcpu *me, struct shootdown *shot)
{
	unsigned long n, i;
	u64 answer = 0;

	/* Loads come after the requests and the interrupts; done has an order of its own. */
	smp_mb();
	for_each_set_bit(i, shot->named, PVSYNC_TLB_TARGETS) {
		if (!shot->everybody) {
			struct kvm_vcpu *target = kvm_get_vcpu(me->kvm, shot->index[i]);

			n = bitmap_weight(shot->targets, shot->index[i]);
			if (target == me || pvsync_tlb_is_past(target, shot->asked[n]))
				continue;
		}
		answer |= BIT_ULL(i % PVSYNC_TLB_AWAIT_BITS);
		shot->awaited++;
	}
	pvsync_count_for(me, PVSYNC_tlb_awaited, shot->awaited);
	return answer;
}

/* A clock, ns, that stands still while this thread waits for a CPU. */
static u64 tlb_ran_until_now(void)
{
	u64 ns;

	/* Both values are of one moment, as no switch comes between the reads. */
	preempt_disable();
	ns = local_clock() - current->sched_info.run_delay;
	preempt_enable();
	return ns;
}

/**
 * pvsync_tlb_shootdown - have vCPUs flush translations before they run again
 * @me: the vCPU that asks
 * @low: targets, a bit for each APIC ID from the base on
 * @high: 64 more
 * @where: the base and the number of pages, see <linux/pvsync/abi.h>
 * @what: the first page and the size of the pages
 *
 * Context: thread of @me, interrupts enabled; waits for other CPUs to take an
 * interrupt.
 *
 * Return: which targets the guest has to await, 0 for none. It is -KVM_EINVAL, with nothing
 * flushed, for a vCPU that does not exist or a range that no address space has. While KVM
 * has no map of the APIC IDs, the host does not check which vCPUs exist.
 */
long pvsync_tlb_shootdown(struct kvm_vcpu *me, u64 low, u64 high, u64 where, u64 what)
{
	struct shootdown shot = { .named = { low, high } };
	u64 start = tlb_ran_until_now();
	long answer;

	BUILD_BUG_ON(BITS_PER_TYPE(shot.named) != PVSYNC_TLB_TARGETS);

	pvsync_count_for(me, PVSYNC_tlb_calls, 1);
	if (!tlb_parse_range(me, where, what, &shot.range) ||
	    !tlb_find_targets(me->kvm, (u32)where, &shot)) {
		pvsync_count_for(me, PVSYNC_tlb_refused, 1);
		return -KVM_EINVAL;
	}
	if (!READ_ONCE(me->kvm->arch.pvsync.shoots))
		WRITE_ONCE(me->kvm->arch.pvsync.shoots, true);
	/* For vCPUs that shoot at this one meanwhile. */
	pvsync_settle_vcpu(me, pvsync_in_registers(me));
	tlb_ask_targets(me, &shot);
	if (!pvsync_busted_tlb())
		kvm_make_vcpus_request_mask(me->kvm, KVM_REQ_PVSYNC_TLB, shot.targets);
	tlb_note_returned(me->kvm, &shot);
	answer = pvsync_busted_await() ? 0 : tlb_not_past(me, &shot);
	pvsync_count_for(me, PVSYNC_tlb_ns, pvsync_time_of(start, tlb_ran_until_now(), 0));
	trace_pvsync_shootdown(me, shot.targets, shot.awaited, shot.range.pages);
	return answer;
}
