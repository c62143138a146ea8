/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_KVM_H
#define _LINUX_PVSYNC_KVM_H

/*
 * The parts of pvsync in a vCPU and in a VM. kvm/ has a header for each mechanism, with what
 * KVM keeps and calls of it. KVM includes all of them here. The code is in arch/x86/kvm/pvsync/.
 */

#include <linux/bits.h>
#include <linux/types.h>

#include <linux/pvsync/kvm/cpu_wait.h>
#include <linux/pvsync/kvm/ecs.h>
#include <linux/pvsync/kvm/hypercall.h>
#include <linux/pvsync/kvm/loan.h>
#include <linux/pvsync/kvm/offer.h>
#include <linux/pvsync/kvm/switch.h>
#include <linux/pvsync/kvm/tlb.h>
#include <linux/pvsync/kvm/window.h>
#include <linux/pvsync/kvm/yield.h>

struct kvm;
struct kvm_vcpu;

#ifdef CONFIG_PVSYNC_KVM

#include <linux/pvsync/count.h>
#include <linux/pvsync/hvs.h>

/**
 * struct pvsync_vcpu - the part of a vCPU
 * @last_event: time of its last sign of spinning, ns
 * @yielding: its thread is giving its CPU to another vCPU
 * @marked: KVM was told that the vCPU is between two instructions, for the switch that it is in
 * @yielding_ns: time that its last sign spent in yields, or else without a CPU, ns
 * @spinning: its last sign is being handled
 * @left: when its thread lost the CPU since that sign, ns
 * @left_by: the number of the thread's switch at @left
 * @away_ns: for how long it has not had a CPU in all since the sign, ns
 * @looked_at: vCPUs that its last sign looked at
 * @window: for how long it may spin
 * @spun: what its spins have cost
 * @target: the vCPU that it last yielded to; the next three are of that yield
 * @cpu: where the target was queued
 * @switches: switches of that CPU so far
 * @exits: exits of this vCPU so far
 * @waiter: its place among waiters for a CPU; others write it and the next two as well
 * @wanted: @wanted_by may have bits
 * @wanted_by: vCPUs, by their index, that yielded to this vCPU since it ran last
 * @tlb: its part in shootdowns
 * @ecs: what it shares of its critical sections
 * @loan: extra time in them, and the account of it
 * @cpu_wait: how long it waited for a CPU
 */
struct pvsync_vcpu {
	u64		last_event;
	bool		yielding;
	bool		marked;
	u64		yielding_ns;
	bool		spinning;
	u64		left;
	unsigned long	left_by;
	u64		away_ns;
	unsigned int	looked_at;

	struct pvsync_window window;
	struct pvsync_spun spun;

	struct kvm_vcpu	*target;
	int		cpu;
	u64		switches;
	u64		exits;

	struct pvsync_waiter waiter;
	bool		wanted;
	unsigned long	wanted_by[BITS_TO_LONGS(CONFIG_KVM_MAX_NR_VCPUS)];

	struct pvsync_tlb tlb;
	struct pvsync_shared ecs;
	struct pvsync_loan loan;
	struct pvsync_cpu_wait cpu_wait;
};

/**
 * struct pvsync_vm - the part of a VM
 * @candidate: its own enum pvsync_candidate plus 1; 0 for the host's
 * @yield: its own enum pvsync_yield plus 1; 0 for the host's
 * @mark: its own enum pvsync_mark plus 1; 0 for the host's
 * @extend: its own enum pvsync_extend plus 1; 0 for the host's
 * @window: its own value of that parameter plus 1; 0 for the host's
 * @pause: its own enum pvsync_pause plus 1; 0 for the host's
 * @extend_us: its own length of a loan plus 1, us; 0 for the host's
 * @extend_cap: its own cap plus 1, permille; 0 for the host's
 * @aple_start: its own bounds of the search for a window, each plus 1, cycles; 0 for
 *	the host's; so are the next three
 * @aple_min: see there
 * @aple_max: see there
 * @aple_step: see there
 * @aple_epoch: its own length of an epoch plus 1, spins; 0 for the host's
 * @features: what its monitor has enabled, PVSYNC_FEATURE_*, plus 1; 0 for the host's
 * @shoots: a vCPU of it has asked for a flush of others
 * @ecs_refused: a record of its vCPUs was refused, which was said
 * @lent: time that its vCPUs have borrowed, ns; for BPF programs
 * @epochs: of its search for a window; NULL until they are needed
 * @epochs_retry: until then there is no memory for them, CLOCK_MONOTONIC, ns
 */
struct pvsync_vm {
	u32		candidate;
	u32		yield;
	u32		mark;
	u32		extend;
	u32		window;
	u32		pause;
	u32		extend_us;
	u32		extend_cap;
	u32		aple_start;
	u32		aple_min;
	u32		aple_max;
	u32		aple_step;
	u32		aple_epoch;
	u32		features;
	bool		shoots;
	bool		ecs_refused;
	atomic64_t	lent;

	struct pvsync_epochs *epochs;
	u64		epochs_retry;
};

void pvsync_init_vm(struct kvm *kvm);
void pvsync_destroy_vm(struct kvm *kvm);
void pvsync_create_vm_debugfs(struct kvm *kvm);

#else

struct pvsync_vcpu { };
struct pvsync_vm { };

static inline void pvsync_init_vm(struct kvm *kvm) { }
static inline void pvsync_destroy_vm(struct kvm *kvm) { }
static inline void pvsync_create_vm_debugfs(struct kvm *kvm) { }

#endif /* CONFIG_PVSYNC_KVM */

#endif /* _LINUX_PVSYNC_KVM_H */
