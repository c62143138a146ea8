// SPDX-License-Identifier: GPL-2.0-only
/*
 * Windows of SVM: the pause filter of the processor, or the filter in software where the
 * processor has none. This file is part of kvm-amd.
 */
#include <linux/kvm_host.h>

#include <asm/cpufeature.h>

#include "../svm/svm.h"
#include "../x86.h"

#include "spin.h"

/* KVM needs a threshold, too: a processor without it would count all PAUSEs alike. */
static bool window_svm_has_filter(void)
{
	return boot_cpu_has(X86_FEATURE_PAUSEFILTER) && boot_cpu_has(X86_FEATURE_PFTHRESHOLD);
}

/* Whether the VM's PAUSEs are to exit: each, or the one at the end of a window. */
static bool window_svm_wants_exits(struct kvm *kvm)
{
	switch (pvsync_pause_of(kvm)) {
	case PVSYNC_PAUSE_OFF:
		return false;
	case PVSYNC_PAUSE_SOFT:
		return !kvm_pause_in_guest(kvm) || !window_svm_has_filter();
	default:
		return !kvm_pause_in_guest(kvm);
	}
}

static void window_svm_set_exits(struct vcpu_svm *svm, bool wanted)
{
	if (vmcb_is_intercept(&svm->vmcb01.ptr->control, INTERCEPT_PAUSE) == wanted)
		return;
	if (wanted)
		svm_set_intercept(svm, INTERCEPT_PAUSE);
	else
		svm_clr_intercept(svm, INTERCEPT_PAUSE);
}

static void window_svm_set(struct vcpu_svm *svm)
{
	struct vmcb_control_area *control = &svm->vmcb->control;
	u32 pauses = pvsync_window_pauses(&svm->vcpu, control->pause_filter_count);

	if (pauses == control->pause_filter_count)
		return;
	control->pause_filter_count = pauses;
	vmcb_mark_dirty(svm->vmcb, VMCB_INTERCEPTS);
}

/**
 * __pvsync_svm_load - pvsync_svm_load() once somebody asks for it
 * @vcpu: the vCPU
 *
 * The filter of a guest's guest is what its own host chose, see
 * nested_vmcb02_prepare_control(). This leaves it alone, and leaves this guest's intercept of
 * PAUSE alone until the vCPU is back from its own guest.
 *
 * Context: as pvsync_svm_load().
 */
void __pvsync_svm_load(struct kvm_vcpu *vcpu)
{
	struct vcpu_svm *svm = to_svm(vcpu);
	bool wanted = window_svm_wants_exits(vcpu->kvm);

	/* In the midst of a nested entry KVM cannot recalculate intercepts yet. */
	if (!is_guest_mode(vcpu))
		window_svm_set_exits(svm, wanted);
	if (!wanted)
		return;
	if (kvm_pause_in_guest(vcpu->kvm))
		pvsync_window_soft(vcpu, vcpu->scheduled_out);
	else if (!is_guest_mode(vcpu))
		window_svm_set(svm);
}

/**
 * __pvsync_svm_pause - a PAUSE exit
 * @vcpu: the vCPU
 * @in_kernel: whether it is known to be in its kernel
 *
 * Context: thread of @vcpu, may sleep.
 */
void __pvsync_svm_pause(struct kvm_vcpu *vcpu, bool in_kernel)
{
	if (!kvm_pause_in_guest(vcpu->kvm)) {
		pvsync_spin(vcpu, PVSYNC_SIGN_FILTER, in_kernel);
		window_svm_set(to_svm(vcpu));
	} else if (pvsync_window_reached(vcpu)) {
		pvsync_spin(vcpu, PVSYNC_SIGN_SOFT, in_kernel);
		pvsync_window_resume(vcpu);
	}
}
