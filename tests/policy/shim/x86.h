/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_X86_H
#define PVSYNC_TEST_X86_H

/* KVM's own windows. */

#include <linux/kvm_host.h>

#define KVM_MSR_RET_UNSUPPORTED		2

#define KVM_VMX_DEFAULT_PLE_WINDOW	4096U
#define KVM_DEFAULT_PLE_WINDOW_GROW	2
#define KVM_DEFAULT_PLE_WINDOW_SHRINK	0
#define KVM_VMX_DEFAULT_PLE_WINDOW_MAX	U32_MAX

static inline unsigned int __grow_ple_window(unsigned int window, unsigned int base,
					     unsigned int modifier, unsigned int most)
{
	return modifier < 1 ? base : (u64)window * modifier < most ? window * modifier : most;
}

static inline unsigned int __shrink_ple_window(unsigned int window, unsigned int base,
					       unsigned int modifier, unsigned int least)
{
	return modifier < 1 ? base : window / modifier > least ? window / modifier : least;
}

#endif
