// SPDX-License-Identifier: GPL-2.0-only
/* The hypercalls of pvsync, see docs/abi/hypercalls.rst of the project. */
#include <linux/kvm_host.h>
#include <linux/kvm_para.h>

#include <linux/pvsync/abi.h>
#include <linux/pvsync/kvm/hypercall.h>
#include <linux/pvsync/vcpus.h>

#include "loan.h"
#include "offer.h"
#include "share.h"
#include "spin.h"
#include "tlb.h"

/* The features that a call is of, any of which will do; 0 for a number that is not pvsync's. */
static unsigned long hypercall_is_of(unsigned long nr)
{
	switch (nr) {
	case PVSYNC_HC_FEATURES:
		return PVSYNC_FEATURES;
	case PVSYNC_HC_HELP:
		return PVSYNC_FEATURE_HELP;
	case PVSYNC_HC_TLB:
		return PVSYNC_FEATURE_TLB;
	case PVSYNC_HC_ECS:
	case PVSYNC_HC_GIVE_BACK:
		return PVSYNC_FEATURE_ECS;
	default:
		return 0;
	}
}

/**
 * pvsync_hypercall - a hypercall that KVM does not know
 * @vcpu: the vCPU that makes it, in kernel mode
 * @nr: its number
 * @a0: its first argument
 * @a1: its second argument
 * @a2: its third argument
 * @a3: its fourth argument
 *
 * An admin of the host may have switched the hypercalls off. A guest's call with its record
 * ends what it shared before all the same. It may be the call that takes the record back, and
 * the memory may soon be another kernel's. Until then the guest may have borrowed time, so it
 * can give time back.
 *
 * Context: thread of @vcpu, may sleep.
 *
 * Return: what the guest gets: 0 or a bit mask, -KVM_ENOSYS for a number that is
 * not pvsync's or not offered, -KVM_EINVAL for arguments that have no meaning.
 */
unsigned long pvsync_hypercall(struct kvm_vcpu *vcpu, unsigned long nr, unsigned long a0,
			       unsigned long a1, unsigned long a2, unsigned long a3)
{
	if (!(pvsync_vm_features(vcpu->kvm) & hypercall_is_of(nr))) {
		if (nr == PVSYNC_HC_ECS)
			pvsync_ecs_forget(vcpu);
		else if (nr == PVSYNC_HC_GIVE_BACK)
			pvsync_give_back(vcpu);
		return -KVM_ENOSYS;
	}

	switch (nr) {
	case PVSYNC_HC_FEATURES:
		return a0 ? -KVM_EINVAL : pvsync_vcpu_features(vcpu);
	case PVSYNC_HC_HELP:
		if (a0)
			return -KVM_EINVAL;
		pvsync_vcpus_ask();
		pvsync_spin(vcpu, PVSYNC_SIGN_HELP, true);
		return 0;
	case PVSYNC_HC_TLB:
		if (!pvsync_tlb_offered(vcpu))
			return -KVM_ENOSYS;
		pvsync_vcpus_ask();
		return pvsync_tlb_shootdown(vcpu, a0, a1, a2, a3);
	case PVSYNC_HC_ECS:
		pvsync_vcpus_ask();
		return pvsync_ecs_share(vcpu, a0, a1, a2, a3);
	case PVSYNC_HC_GIVE_BACK:
		if (a0)
			return -KVM_EINVAL;
		pvsync_give_back(vcpu);
		return 0;
	default:
		return -KVM_ENOSYS;
	}
}
