// SPDX-License-Identifier: GPL-2.0-only
/*
 * HVS, its three counters, and the policy that believes what guests say of their
 * critical sections. After J. Shan, X. Ding and N. Gehani, "APPLES: Efficiently
 * Handling Spin-lock Synchronization on Virtualized Platforms", IEEE TPDS 28(7), 2017,
 * sections 3.2, 3.3 and 4.4; the lists and orders are in <linux/pvsync/hvs.h>.
 *
 * The lists are kept where vCPUs lose and get their CPUs, for VMs that use them. The
 * scheduler calls that with a run queue locked, so the lists' lock is taken within
 * run queue locks; what holds it does a fixed and small number of steps, and takes no
 * other lock.
 *
 * On the lists are vCPUs that were preempted, as in the paper. One that had halted
 * and was woken is not, until it has run.
 */
#include <linux/kvm_host.h>

#include "count.h"
#include "ecs.h"
#include "spin.h"

static const enum pvsync_counter pick_counters[] = {
	[PVSYNC_NO_LIST]	= PVSYNC_pick_none,
	[PVSYNC_RESOURCE]	= PVSYNC_pick_resource,
	[PVSYNC_LOCK]		= PVSYNC_pick_lock,
	[PVSYNC_YIELDED]	= PVSYNC_pick_yielded,
	[PVSYNC_SECTION]	= PVSYNC_pick_section,
};

static_assert(PVSYNC_CANDIDATE_HVS + PVSYNC_NR_ORDERS == PVSYNC_NR_CANDIDATES);
static_assert(PVSYNC_CANDIDATE_HVS + PVSYNC_CPTH_R == PVSYNC_CANDIDATE_CPTH_R);
static_assert(PVSYNC_CANDIDATE_HVS + PVSYNC_CPTH_L == PVSYNC_CANDIDATE_CPTH_L);
static_assert(PVSYNC_CANDIDATE_HVS + PVSYNC_CCH == PVSYNC_CANDIDATE_CCH);
static_assert(PVSYNC_CANDIDATE_HVS + PVSYNC_ECS_FIRST == PVSYNC_CANDIDATE_ECS);

/**
 * pvsync_hvs_pick - the vCPU that a policy with lists puts first
 * @me: the vCPU that spins
 * @search: see pvsync_pick_fn; remembers whom it has chosen, the lists the rest
 *
 * Return: as pvsync_pick_fn.
 */
struct kvm_vcpu *pvsync_hvs_pick(struct kvm_vcpu *me, struct pvsync_search *search)
{
	int order = pvsync_candidate_of(me->kvm) - PVSYNC_CANDIDATE_HVS;
	struct pvsync_vm *vm = &me->kvm->arch.pvsync;
	struct pvsync_waiter *waiter;
	enum pvsync_list_of from;
	unsigned long flags;

	/* The policy has changed just now. */
	if (order < 0)
		order = PVSYNC_HVS;
	pvsync_candidate(me);
	raw_spin_lock_irqsave(&vm->waiters_lock, flags);
	waiter = pvsync_choose_waiter(&vm->waiters, order, &search->tried, &from);
	raw_spin_unlock_irqrestore(&vm->waiters_lock, flags);

	pvsync_count_for(me, pick_counters[from], 1);
	return waiter ? container_of(waiter, struct kvm_vcpu, arch.pvsync.waiter) : NULL;
}

/**
 * pvsync_hvs_load - a vCPU's thread runs
 * @vcpu: the vCPU
 *
 * Context: thread of @vcpu, preemption disabled.
 */
void pvsync_hvs_load(struct kvm_vcpu *vcpu)
{
	struct pvsync_vm *vm = &vcpu->kvm->arch.pvsync;
	struct pvsync_waiter *waiter = &vcpu->arch.pvsync.waiter;
	unsigned long flags;

	/* Only this thread puts it on a list, or takes it off. */
	if (waiter->list == PVSYNC_NO_LIST)
		return;
	raw_spin_lock_irqsave(&vm->waiters_lock, flags);
	pvsync_leave(&vm->waiters, waiter);
	raw_spin_unlock_irqrestore(&vm->waiters_lock, flags);
}

/* Whether it would only go to sleep. */
static bool is_halted(struct kvm_vcpu *vcpu)
{
	return vcpu->arch.mp_state != KVM_MP_STATE_RUNNABLE || kvm_vcpu_is_blocking(vcpu);
}

/*
 * A vCPU whose guest gives its CPU to another one, by KVM's own hypercalls or Hyper-V's,
 * has sent that one an interrupt and waits for what comes of it, or spins for a lock. It
 * waits no less than one that a pause filter tells of.
 */
static enum pvsync_list_of list_for(struct kvm_vcpu *vcpu, enum pvsync_counter where, int policy)
{
	/* A spinner that its time ended before the window did; its guest says so. */
	bool waiter = where == PVSYNC_preempt_waiter || where == PVSYNC_preempt_stuck;

	return pvsync_list_for(policy - PVSYNC_CANDIDATE_HVS, vcpu->arch.pvsync.spinning,
			       where == PVSYNC_preempt_yielded, waiter, pvsync_in_section(where));
}

/**
 * pvsync_hvs_put - a vCPU's thread loses its CPU, and wants one
 * @vcpu: the vCPU
 * @where: what it was doing, see pvsync_where()
 *
 * Context: thread of @vcpu, in a switch, its run queue locked.
 */
void pvsync_hvs_put(struct kvm_vcpu *vcpu, enum pvsync_counter where)
{
	int policy = pvsync_candidate_of(vcpu->kvm);
	struct pvsync_vm *vm = &vcpu->kvm->arch.pvsync;
	unsigned long flags;

	if (policy < PVSYNC_CANDIDATE_HVS || is_halted(vcpu))
		return;
	raw_spin_lock_irqsave(&vm->waiters_lock, flags);
	pvsync_join(&vm->waiters, &vcpu->arch.pvsync.waiter, list_for(vcpu, where, policy));
	raw_spin_unlock_irqrestore(&vm->waiters_lock, flags);
}
