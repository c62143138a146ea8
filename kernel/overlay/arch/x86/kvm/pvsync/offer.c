// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a VM has of pvsync, see docs/abi/cpuid-msr.rst of the project. Its monitor says so by
 * KVM_ENABLE_CAP, before the VM has a vCPU. The guest finds the features by CPUID, and shares its
 * records by MSRs, which the monitor saves and restores like any other. The hypercalls of
 * hypercall.c obey the same features.
 *
 * A VM whose monitor has not said anything has everything or nothing: pvsync.hypercalls.
 */
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/kvm_host.h>
#include <linux/mutex.h>
#include <linux/string.h>

#include <linux/pvsync/abi.h>
#include <linux/pvsync/host.h>
#include <linux/pvsync/vcpus.h>

#include "../x86.h"

#include "offer.h"
#include "share.h"
#include "tlb.h"

/**
 * pvsync_vm_features - what a VM may use
 * @kvm: the VM
 *
 * Context: any.
 *
 * Return: PVSYNC_FEATURE_*.
 */
unsigned long pvsync_vm_features(struct kvm *kvm)
{
	u32 own = READ_ONCE(kvm->arch.pvsync.features);

	if (own)
		return own - 1;
	return READ_ONCE(pvsync_hypercalls) ? PVSYNC_FEATURES : 0;
}

/**
 * pvsync_vcpu_features - what a vCPU is offered of it
 * @vcpu: the vCPU
 *
 * Context: thread of @vcpu.
 *
 * Return: PVSYNC_FEATURE_*.
 */
unsigned long pvsync_vcpu_features(struct kvm_vcpu *vcpu)
{
	unsigned long features = pvsync_vm_features(vcpu->kvm);

	if (!pvsync_tlb_offered(vcpu))
		features &= ~PVSYNC_FEATURE_TLB;
	return features;
}

/**
 * pvsync_check_extension - a capability that KVM does not know
 * @ext: its number
 *
 * Context: ioctl.
 *
 * Return: the features that a monitor can enable, or 0 for a capability that is not pvsync's.
 */
int pvsync_check_extension(long ext)
{
	if (ext != KVM_CAP_PVSYNC)
		return 0;
	return tdp_enabled ? PVSYNC_FEATURES : PVSYNC_FEATURES & ~PVSYNC_FEATURE_TLB;
}

/**
 * pvsync_enable_cap - a monitor enables a capability that KVM does not know
 * @kvm: the VM
 * @cap: the capability; 0 features are an answer, too: the VM has none then
 *
 * Context: ioctl.
 *
 * Return: 0; -EINVAL for another capability, for features that this host does not have and for
 * other arguments; -EBUSY if the VM has a vCPU, whose guest may have looked.
 */
int pvsync_enable_cap(struct kvm *kvm, const struct kvm_enable_cap *cap)
{
	u64 features = cap->args[0];
	int ret = 0;

	if (cap->cap != KVM_CAP_PVSYNC || features & ~(u64)pvsync_check_extension(cap->cap) ||
	    cap->args[1] || cap->args[2] || cap->args[3])
		return -EINVAL;
	mutex_lock(&kvm->lock);
	if (kvm->created_vcpus)
		ret = -EBUSY;
	else
		WRITE_ONCE(kvm->arch.pvsync.features, features + 1);
	mutex_unlock(&kvm->lock);
	return ret;
}

/**
 * pvsync_cpuid - the leaves of pvsync
 * @vcpu: the vCPU
 * @function: which leaf it asks for, maybe one of others
 * @eax: the answer so far, which stays for leaves of others; as the next three
 * @ebx: see there
 * @ecx: see there
 * @edx: see there
 *
 * KVM answers by itself, whatever the monitor's table has. So the leaves say what the vCPU is
 * offered, and a monitor that does not know them need not pass them on. A VM without features
 * has no leaves.
 *
 * Context: thread of @vcpu.
 */
void pvsync_cpuid(struct kvm_vcpu *vcpu, u32 function, u32 *eax, u32 *ebx, u32 *ecx, u32 *edx)
{
	unsigned long features;

	if (function != PVSYNC_CPUID_BASE && function != PVSYNC_CPUID_FEATURES)
		return;
	features = pvsync_vcpu_features(vcpu);
	if (!features)
		return;
	if (function == PVSYNC_CPUID_BASE) {
		*eax = PVSYNC_CPUID_FEATURES;
		memcpy(ebx, PVSYNC_CPUID_SIGNATURE, sizeof(*ebx));
		memcpy(ecx, &PVSYNC_CPUID_SIGNATURE[4], sizeof(*ecx));
		memcpy(edx, &PVSYNC_CPUID_SIGNATURE[8], sizeof(*edx));
	} else {
		*eax = features;
		*ebx = 0;
		*ecx = 0;
		*edx = 0;
	}
}

/* Whether an MSR is pvsync's, and this VM has it. */
static bool offer_has_msr(struct kvm_vcpu *vcpu, u32 index)
{
	return index == MSR_PVSYNC_ECS && pvsync_vm_features(vcpu->kvm) & PVSYNC_FEATURE_ECS;
}

/**
 * pvsync_get_msr - read an MSR that KVM does not know
 * @vcpu: the vCPU
 * @msr: which one, and its value
 *
 * Context: thread of @vcpu, which may be in an ioctl of its monitor.
 *
 * Return: 0, or KVM_MSR_RET_UNSUPPORTED.
 */
int pvsync_get_msr(struct kvm_vcpu *vcpu, struct msr_data *msr)
{
	if (!offer_has_msr(vcpu, msr->index))
		return KVM_MSR_RET_UNSUPPORTED;
	msr->data = pvsync_ecs_msr(vcpu);
	return 0;
}

/**
 * pvsync_set_msr - write an MSR that KVM does not know
 * @vcpu: the vCPU
 * @msr: which one, and its value
 *
 * A VM that has lost the feature can still take its record back, as by the hypercall.
 *
 * Context: thread of @vcpu, which may be in an ioctl of its monitor; may sleep.
 *
 * Return: 0, 1 for a value that is refused, or KVM_MSR_RET_UNSUPPORTED.
 */
int pvsync_set_msr(struct kvm_vcpu *vcpu, const struct msr_data *msr)
{
	if (!offer_has_msr(vcpu, msr->index)) {
		if (msr->index == MSR_PVSYNC_ECS && !msr->data)
			pvsync_ecs_forget(vcpu);
		return KVM_MSR_RET_UNSUPPORTED;
	}
	/* A monitor writes 0 to each vCPU that it resets, which asks for nothing. */
	if (msr->data)
		pvsync_vcpus_ask();
	return pvsync_ecs_set_msr(vcpu, msr->data, msr->host_initiated);
}
