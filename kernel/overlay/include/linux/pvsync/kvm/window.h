/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_KVM_WINDOW_H
#define _LINUX_PVSYNC_KVM_WINDOW_H

/*
 * For how long a vCPU may spin: its window, what its spins cost, and the epochs of a search.
 * The mechanism is in window.c, window_svm.c and window_vmx.c of arch/x86/kvm/pvsync/.
 */

#include <linux/types.h>

struct kvm_vcpu;

#ifdef CONFIG_PVSYNC_KVM

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/mutex.h>

#include <linux/pvsync/aple.h>
#include <linux/pvsync/pause.h>
#include <linux/pvsync/vcpus.h>

/**
 * struct pvsync_spun - what the spins of a vCPU that reached its window have cost so far
 * @spins: how many
 * @windows: sum of the windows, cycles
 * @handling_ns: time spent handling them, ns
 * @pauses: intervals between PAUSE exits of one spin, whether or not it reached the window
 * @timed: sum of these intervals, cycles
 *
 * All of it only grows. The vCPU's thread writes it; others read it without a lock.
 */
struct pvsync_spun {
	u64		spins;
	u64		windows;
	u64		handling_ns;
	u64		pauses;
	u64		timed;
};

/**
 * struct pvsync_window - for how long a vCPU may spin
 * @now: its window, or what the spin that has just reached it counts for, cycles
 * @stock: the window that stock KVM would have, with the filter in software; cycles
 * @pauses: @now in PAUSE instructions, for a processor that counts PAUSEs
 * @filter: the filter in software
 */
struct pvsync_window {
	u32			now;
	u32			stock;
	struct pvsync_pauses	pauses;
	struct pvsync_filter	filter;
};

/* Epochs of a VM that are kept for its debugfs. */
#define PVSYNC_KEPT_EPOCHS	512

/**
 * struct pvsync_kept - an epoch that is over
 * @ended: when, CLOCK_MONOTONIC, ns
 * @epoch: its figures
 * @inefficiency: its inefficiency
 * @next: the VM's window of the next epoch, cycles; 0 without a search
 */
struct pvsync_kept {
	u64			ended;
	struct pvsync_epoch	epoch;
	u32			inefficiency;
	u32			next;
};

/**
 * struct pvsync_epochs - the epochs of a VM
 * @window: the window that its search tries now, cycles
 * @searching: enum pvsync_window_policy that the search is of; PVSYNC_WINDOW_KVM if
 *	there is none
 * @began: @spins at the begin of this epoch
 * @spins: spins of its vCPUs that reached their windows
 * @lock: guards the rest, and lets one CPU at a time end an epoch
 * @before: sums over the vCPUs at the begin of this epoch
 * @cpu_before: CPU time of the VM at the begin of this epoch, ns
 * @aple: the search
 * @number: epochs that are over
 * @kept: the latest epochs that are over, number n at n % PVSYNC_KEPT_EPOCHS
 *
 * Fields that every spin reads, fields that every spin writes, and fields that epochs write
 * are apart. A VM has them once a policy searches for its window, or somebody opens their
 * file in debugfs.
 */
struct pvsync_epochs {
	u32			window;
	u32			searching;
	u64			began;

	atomic64_t		spins ____cacheline_aligned_in_smp;

	struct mutex		lock ____cacheline_aligned_in_smp;
	struct pvsync_spun	before;
	u64			cpu_before;
	struct pvsync_aple	aple;
	u64			number;
	struct pvsync_kept	kept[PVSYNC_KEPT_EPOCHS];
};

/* The modules of the vendors define these and call them. */
void __pvsync_svm_load(struct kvm_vcpu *vcpu);
void __pvsync_svm_pause(struct kvm_vcpu *vcpu, bool in_kernel);
void __pvsync_vmx_load(struct kvm_vcpu *vcpu);
void __pvsync_vmx_pause(struct kvm_vcpu *vcpu);

/**
 * pvsync_svm_load - a vCPU's thread runs; stock KVM has chosen its window
 * @vcpu: the vCPU
 *
 * Context: thread of @vcpu, preemption disabled.
 */
static __always_inline void pvsync_svm_load(struct kvm_vcpu *vcpu)
{
	if (static_branch_unlikely(&pvsync_vcpus_key))
		__pvsync_svm_load(vcpu);
}

/**
 * pvsync_vmx_load - a vCPU's thread runs; stock KVM has chosen its window
 * @vcpu: the vCPU
 *
 * Context: thread of @vcpu, preemption disabled.
 */
static __always_inline void pvsync_vmx_load(struct kvm_vcpu *vcpu)
{
	if (static_branch_unlikely(&pvsync_vcpus_key))
		__pvsync_vmx_load(vcpu);
}

/* PAUSE exits. Macros, as kvm_vcpu_on_spin() is declared later. */
#define pvsync_svm_pause(vcpu, in_kernel)			\
do {								\
	if (static_branch_unlikely(&pvsync_vcpus_key))		\
		__pvsync_svm_pause(vcpu, in_kernel);		\
	else							\
		kvm_vcpu_on_spin(vcpu, in_kernel);		\
} while (0)

#define pvsync_vmx_pause(vcpu)					\
do {								\
	if (static_branch_unlikely(&pvsync_vcpus_key))		\
		__pvsync_vmx_pause(vcpu);			\
	else							\
		kvm_vcpu_on_spin(vcpu, true);			\
} while (0)

#else

static inline void pvsync_svm_load(struct kvm_vcpu *vcpu) { }
static inline void pvsync_vmx_load(struct kvm_vcpu *vcpu) { }

#define pvsync_svm_pause(vcpu, in_kernel)	kvm_vcpu_on_spin(vcpu, in_kernel)
#define pvsync_vmx_pause(vcpu)			kvm_vcpu_on_spin(vcpu, true)

#endif /* CONFIG_PVSYNC_KVM */

#endif /* _LINUX_PVSYNC_KVM_WINDOW_H */
