/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included at the end of struct kvm_vcpu_stat: the host's counters of a vCPU, each by its name
 * and all as an array. Only the vCPU's thread adds to them. No include guard on purpose.
 */
#ifdef CONFIG_PVSYNC_KVM
union {
	u64 pvsync_counters[PVSYNC_NR_OF_VCPUS];
	struct {
#define PVSYNC_COUNTER(name, about)	u64 pvsync_##name;
#define PVSYNC_COUNTERS_OF_VCPUS
#include <linux/pvsync/counters.h>
#undef PVSYNC_COUNTERS_OF_VCPUS
#undef PVSYNC_COUNTER
	};
};
#endif
