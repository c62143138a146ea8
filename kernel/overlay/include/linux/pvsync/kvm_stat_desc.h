/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included at the end of kvm_vcpu_stats_desc[]: what describes the fields of kvm_stat.h to
 * KVM_GET_STATS_FD and debugfs, by their names there. No include guard on purpose.
 */
#ifdef CONFIG_PVSYNC_KVM
#define PVSYNC_COUNTER(name, about)		STATS_DESC_COUNTER(VCPU, pvsync_##name),
#define PVSYNC_COUNTER_NS(name, about)		STATS_DESC_TIME_NSEC(VCPU, pvsync_##name),
#define PVSYNC_COUNTER_CYCLES(name, about)	\
	STATS_DESC_CUMULATIVE(VCPU, pvsync_##name, KVM_STATS_UNIT_CYCLES, \
			      KVM_STATS_BASE_POW10, 0),
#define PVSYNC_COUNTERS_OF_VCPUS
#include <linux/pvsync/counters.h>
#undef PVSYNC_COUNTERS_OF_VCPUS
#undef PVSYNC_COUNTER
#endif
