/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * The MSRs of pvsync, for KVM's list of those that monitors save and restore. KVM includes this
 * in the midst of that list, after <linux/kvm_host.h>, which has their numbers.
 */
#ifdef CONFIG_PVSYNC_KVM
	MSR_PVSYNC_ECS,
#endif
