/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_SHIM_KVM_PARA_H
#define PVSYNC_SHIM_KVM_PARA_H

/* Answered by the test. */
#include <stdbool.h>

#define KVM_HINTS_REALTIME	0
#define X86_FEATURE_VMMCALL	(8 * 32 + 15)

bool kvm_para_available(void);
bool kvm_para_has_hint(unsigned int feature);
bool boot_cpu_has(unsigned int feature);
long kvm_hypercall1(unsigned int nr, unsigned long p1);

#endif
