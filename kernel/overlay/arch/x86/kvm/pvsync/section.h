/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KVM_X86_PVSYNC_SECTION_H
#define _KVM_X86_PVSYNC_SECTION_H

/* What a vCPU is doing, by what its guest shares, see section.c. */

#include <linux/kvm_host.h>

#include <linux/pvsync/count.h>

bool pvsync_ecs_has_interrupt(struct kvm_vcpu *vcpu);
enum pvsync_vcpu_counter pvsync_ecs_where(struct kvm_vcpu *vcpu);

/* Whether a vCPU that is preempted there, by pvsync_ecs_where(), holds others up. */
static inline bool pvsync_holds(enum pvsync_vcpu_counter where)
{
	return where <= PVSYNC_preempt_stuck;
}

/* Whether that vCPU, if it ran on, could end this by itself. */
static inline bool pvsync_in_section(enum pvsync_vcpu_counter where)
{
	return where <= PVSYNC_preempt_mutex;
}

#endif /* _KVM_X86_PVSYNC_SECTION_H */
