// SPDX-License-Identifier: GPL-2.0-only
/* Windows of VMX: its pause loop exits. This file is part of kvm-intel. */
#include <linux/kvm_host.h>

#include "../vmx/vmx.h"
#include "../x86.h"

#include "spin.h"

static void window_vmx_set(struct kvm_vcpu *vcpu)
{
	struct vcpu_vmx *vmx = to_vmx(vcpu);
	u32 window = U32_MAX;	/* About a second; no vCPU runs for so long. */

	if (pvsync_pause_of(vcpu->kvm) != PVSYNC_PAUSE_OFF)
		window = pvsync_window(vcpu, vmx->ple_window);
	if (window == vmx->ple_window)
		return;
	vmx->ple_window = window;
	vmx->ple_window_dirty = true;
}

/**
 * __pvsync_vmx_load - pvsync_vmx_load() once somebody asks for it
 * @vcpu: the vCPU
 *
 * Context: as pvsync_vmx_load().
 */
void __pvsync_vmx_load(struct kvm_vcpu *vcpu)
{
	if (!kvm_pause_in_guest(vcpu->kvm))
		window_vmx_set(vcpu);
}

/**
 * __pvsync_vmx_pause - a pause loop exit
 * @vcpu: the vCPU, in its kernel: processors do not detect loops elsewhere
 *
 * Context: thread of @vcpu, may sleep.
 */
void __pvsync_vmx_pause(struct kvm_vcpu *vcpu)
{
	pvsync_spin(vcpu, PVSYNC_SIGN_FILTER, true);
	if (!kvm_pause_in_guest(vcpu->kvm))
		window_vmx_set(vcpu);
}
