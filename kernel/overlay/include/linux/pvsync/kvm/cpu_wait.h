/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_KVM_CPU_WAIT_H
#define _LINUX_PVSYNC_KVM_CPU_WAIT_H

/*
 * How long a vCPU waits for a CPU, as KVM's folder of a VM in debugfs shows it. The counting
 * is in arch/x86/kvm/pvsync/cpu_wait.c.
 */

#include <linux/types.h>

/* Powers of two of microseconds; the last one is of all waits from 4 s on. */
#define PVSYNC_WAIT_BINS	24

/**
 * struct pvsync_cpu_wait - how long a vCPU waited for a CPU
 * @round: the round in which its thread lost its CPU, see pvsync_vcpu_stat_round
 * @before: for how long the thread had waited, in all, by then; ns
 * @waits: how many waits, by their length
 * @ns: sums of these waits, ns
 * @longest: the longest, ns
 *
 * The vCPU's thread writes it; others read and clear it without a lock.
 */
struct pvsync_cpu_wait {
	u32	round;
	u64	before;
	u64	waits[PVSYNC_WAIT_BINS];
	u64	ns[PVSYNC_WAIT_BINS];
	u64	longest;
};

#endif /* _LINUX_PVSYNC_KVM_CPU_WAIT_H */
