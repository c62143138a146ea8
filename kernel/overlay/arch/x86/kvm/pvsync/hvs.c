// SPDX-License-Identifier: GPL-2.0-only
/*
 * HVS, its three counters, and the policy that believes what guests say of their
 * critical sections. After J. Shan, X. Ding and N. Gehani, "APPLES: Efficiently
 * Handling Spin-lock Synchronization on Virtualized Platforms", IEEE TPDS 28(7), 2017,
 * sections 3.2, 3.3 and 4.4; the lists and orders are in <linux/pvsync/hvs.h>.
 *
 * vCPUs join and leave the lists where they lose and get their CPUs, in VMs that use lists.
 * Either is one step on a word of the vCPU's own, with no lock. A vCPU that chooses looks at
 * all vCPUs of the VM.
 *
 * As in the paper, the lists have the vCPUs that were preempted. A vCPU that had halted and
 * was woken is on no list until it has run.
 */
#include <linux/kvm_host.h>
#include <linux/sched/clock.h>

#include "count.h"
#include "loan.h"
#include "section.h"
#include "spin.h"

static const enum pvsync_vcpu_counter pick_counters[] = {
	[PVSYNC_NO_LIST]	= PVSYNC_pick_none,
	[PVSYNC_RESOURCE]	= PVSYNC_pick_resource,
	[PVSYNC_LOCK]		= PVSYNC_pick_lock,
	[PVSYNC_YIELDED]	= PVSYNC_pick_yielded,
	[PVSYNC_SECTION]	= PVSYNC_pick_section,
};

static_assert(PVSYNC_CANDIDATE_HVS + PVSYNC_NR_ORDERS == PVSYNC_CANDIDATE_ECS + 1);
static_assert(PVSYNC_CANDIDATE_HVS + PVSYNC_CPTH_R == PVSYNC_CANDIDATE_CPTH_R);
static_assert(PVSYNC_CANDIDATE_HVS + PVSYNC_CPTH_L == PVSYNC_CANDIDATE_CPTH_L);
static_assert(PVSYNC_CANDIDATE_HVS + PVSYNC_CCH == PVSYNC_CANDIDATE_CCH);
static_assert(PVSYNC_CANDIDATE_HVS + PVSYNC_ECS_FIRST == PVSYNC_CANDIDATE_ECS);

/* Most looks at all vCPUs of a VM, while others change which vCPU a search is to choose. */
#define MAX_LOOKS	4

/*
 * The order of a policy's lists. A policy that has none, as it has changed just now, gets one.
 * A BPF program gets the lists of the policy that knows most, and has an order of its own.
 */
static enum pvsync_order hvs_order_of(int policy)
{
	return clamp(policy - PVSYNC_CANDIDATE_HVS, (int)PVSYNC_HVS, (int)PVSYNC_ECS_FIRST);
}

static struct pvsync_first hvs_look_at_all(struct kvm_vcpu *me, enum pvsync_order order,
					   const struct pvsync_tried *tried)
{
	struct pvsync_first first = { };
	struct kvm_vcpu *vcpu;
	unsigned long i;

	kvm_for_each_vcpu(i, vcpu, me->kvm) {
		if (vcpu == me)
			continue;
		pvsync_candidate(me);
		pvsync_look_at(&first, order, tried, &vcpu->arch.pvsync.waiter);
	}
	return first;
}

/*
 * A look is in vain if another vCPU has chosen the same vCPU meanwhile, or if that vCPU has got
 * a CPU.
 */
static struct pvsync_first hvs_choose_vcpu(struct kvm_vcpu *me,
					   enum pvsync_order order,
					   struct pvsync_tried *tried)
{
	int looks;

	for (looks = 0; looks < MAX_LOOKS; looks++) {
		struct pvsync_first first = hvs_look_at_all(me, order, tried);

		if (!first.waiter || pvsync_choose_first(&first, order, tried, local_clock()))
			return first;
	}
	return (struct pvsync_first) { };
}

/**
 * pvsync_hvs_pick - the vCPU that a policy with lists puts first
 * @me: the vCPU that spins
 * @search: see pvsync_pick_fn; remembers vCPUs that it has chosen; their places tell the rest
 *
 * Return: as pvsync_pick_fn.
 */
struct kvm_vcpu *pvsync_hvs_pick(struct kvm_vcpu *me, struct pvsync_search *search)
{
	struct pvsync_first first = hvs_choose_vcpu(me, hvs_order_of(pvsync_candidate_of(me->kvm)),
						    &search->tried);

	pvsync_count_for(me, pick_counters[pvsync_place_list(first.place)], 1);
	if (!first.waiter)
		return NULL;
	return container_of(first.waiter, struct kvm_vcpu, arch.pvsync.waiter);
}

/**
 * pvsync_hvs_load - a vCPU's thread runs
 * @vcpu: the vCPU
 *
 * Context: thread of @vcpu, preemption disabled.
 */
void pvsync_hvs_load(struct kvm_vcpu *vcpu)
{
	pvsync_leave(&vcpu->arch.pvsync.waiter);
}

/* Whether a vCPU with a CPU would only go to sleep. */
static bool hvs_is_halted(struct kvm_vcpu *vcpu)
{
	return vcpu->arch.mp_state != KVM_MP_STATE_RUNNABLE || kvm_vcpu_is_blocking(vcpu);
}

/*
 * A guest may give a vCPU's CPU to another vCPU, by hypercalls of KVM or Hyper-V. The vCPU has
 * sent the other one an interrupt and waits for its effect, or it spins for a lock. So it
 * waits as much as a vCPU that a pause filter reports.
 */
static enum pvsync_list_of hvs_list_for(struct kvm_vcpu *vcpu,
					enum pvsync_vcpu_counter where, int policy)
{
	/* A spinner whose time slice ended before its window; its guest says that it waits. */
	bool waiter = where == PVSYNC_preempt_waiter || where == PVSYNC_preempt_stuck;

	return pvsync_list_for(hvs_order_of(policy), vcpu->arch.pvsync.spinning,
			       where == PVSYNC_preempt_yielded, waiter, pvsync_in_section(where));
}

/**
 * pvsync_hvs_put - a vCPU's thread loses its CPU, and wants one
 * @vcpu: the vCPU
 * @where: what it was doing, see pvsync_where()
 *
 * Context: thread of @vcpu, in a switch, its run queue locked.
 */
void pvsync_hvs_put(struct kvm_vcpu *vcpu, enum pvsync_vcpu_counter where)
{
	int policy = pvsync_candidate_of(vcpu->kvm);

	if (policy < PVSYNC_CANDIDATE_HVS || hvs_is_halted(vcpu))
		return;
	pvsync_join(&vcpu->arch.pvsync.waiter, hvs_list_for(vcpu, where, policy), local_clock());
}
