/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_KVM_H
#define _LINUX_PVSYNC_KVM_H

/* What KVM calls of pvsync. Everything is in arch/x86/kvm/pvsync/. */

#include <linux/bits.h>
#include <linux/hrtimer.h>
#include <linux/kvm_types.h>
#include <linux/sched.h>
#include <linux/types.h>

struct kvm;
struct kvm_vcpu;

#ifdef CONFIG_PVSYNC_KVM

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/mutex.h>

#include <linux/pvsync/abi.h>
#include <linux/pvsync/aple.h>
#include <linux/pvsync/count.h>
#include <linux/pvsync/hvs.h>
#include <linux/pvsync/pause.h>
#include <linux/pvsync/vcpus.h>

/* Ranges that a vCPU keeps until it flushes; with more to do, it flushes all. */
#define PVSYNC_TLB_RANGES	8

/**
 * struct pvsync_tlb_range - pages of PAGE_SIZE to flush
 * @start: address of the first
 * @pages: how many
 */
struct pvsync_tlb_range {
	u64		start;
	u32		pages;
};

/**
 * struct pvsync_tlb - what a vCPU has to flush before it enters the guest
 * @lock: bit 0 guards the rest; it is a bit, as all of the struct is zero to begin with
 * @all: flush every translation; the ranges do not matter then
 * @nr: number of @ranges
 * @pages: sum of their pages
 * @ranges: the ranges
 * @asked: sequence number of the last request
 * @done: sequence number of the last request that the vCPU has flushed for; read without
 *	the lock
 * @settled: the rest of the last exit's work uses no address of the guest's page tables;
 *	written by the vCPU's thread, read by others without the lock
 * @returned: the highest sequence number whose hypercall has returned
 */
struct pvsync_tlb {
	unsigned long		lock;
	bool			all;
	unsigned int		nr;
	unsigned int		pages;
	struct pvsync_tlb_range	ranges[PVSYNC_TLB_RANGES];
	u64			asked;
	u64			done;
	bool			settled;
#ifdef CONFIG_PVSYNC_DEBUG_TLB
	atomic64_t		returned;
#endif
};

/**
 * struct pvsync_told - what a guest was last told of a vCPU
 * @preempted: as in struct pvsync_ecs
 * @overcommitted: as in struct pvsync_ecs
 * @borrowed: as in struct pvsync_ecs
 */
struct pvsync_told {
	u32		preempted;
	u32		overcommitted;
	u32		borrowed;
};

/**
 * struct pvsync_shared - what a vCPU shares with the host
 * @form: of its claims, as in PVSYNC_ECS_FORM_MASK; 0 if it shares nothing
 * @record: where its struct pvsync_ecs is
 * @preempt_count: where its preempt count is; as the next four, for PVSYNC_ECS_FREE only
 * @task: where its pointer to the running task is, if the guest has told
 * @layout: of its preempt count
 * @memory: where the guest maps its memory
 * @nesting: where a task has its nesting of RCU readers
 * @told: what the record is to say
 * @written: the record says what @told has
 * @asked: the arguments of the call that shared all this
 */
struct pvsync_shared {
	u8			form;
	struct gfn_to_hva_cache	record;
	struct gfn_to_hva_cache	preempt_count;
	struct gfn_to_hva_cache	task;
	struct pvsync_ecs_layout layout;
	u64			memory;
	u64			nesting;
	struct pvsync_told	told;
	bool			written;
	u64			asked[4];
};

/**
 * struct pvsync_loan - time that a vCPU runs on after it was to be preempted
 * @timer: ends it
 * @granted: there is a loan
 * @returned: the guest has given the loan back, and has not run since
 * @dropped: the loan has ended without a switch, which has not come since
 * @since: its begin, ns
 * @period: run time of the vCPU's thread at the begin of the account's period, ns
 * @ran: run time in that period so far, while no thread runs the vCPU, ns
 * @borrowed: time borrowed in the period, and excess of the periods before, ns
 *
 * Only the thread of the vCPU uses it, but for @timer.
 */
struct pvsync_loan {
	struct hrtimer	timer;
	bool		granted;
	bool		returned;
	bool		dropped;
	u64		since;
	u64		period;
	u64		ran;
	u64		borrowed;
};

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
 * @tlb: translations to flush
 * @ecs: what it shares of its critical sections
 * @loan: extra time in them, and the account of it
 * @cpu_wait: how long it waited for a CPU
 * @counters: of this vCPU; written by its own thread only
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

	u64		counters[PVSYNC_NR_COUNTERS];
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
 * @shoots: a vCPU of it has asked for a flush of others
 * @ecs_refused: a record of its vCPUs was refused, which was said
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
	bool		shoots;
	bool		ecs_refused;

	struct pvsync_epochs *epochs;
	u64		epochs_retry;
};

unsigned long pvsync_hypercall(struct kvm_vcpu *vcpu, unsigned long nr, unsigned long a0,
			       unsigned long a1, unsigned long a2, unsigned long a3);

/* A vCPU has translations to flush: it must not be in guest mode, nor enter it before. */
#define KVM_REQ_PVSYNC_TLB	\
	KVM_ARCH_REQ_FLAGS(48, KVM_REQUEST_WAIT | KVM_REQUEST_NO_WAKEUP)

void pvsync_flush_tlb(struct kvm_vcpu *vcpu);

#define pvsync_service_tlb(vcpu)				\
do {								\
	if (kvm_check_request(KVM_REQ_PVSYNC_TLB, vcpu))	\
		pvsync_flush_tlb(vcpu);				\
} while (0)

void pvsync_settle_exit(struct kvm_vcpu *vcpu);

/* Out of the guest, interrupts disabled, and the vCPU's mode does not say so yet. */
#define pvsync_left_guest(vcpu)						\
do {									\
	pvsync_assert_flushed(vcpu);					\
	if ((vcpu)->arch.pvsync.tlb.settled ||				\
	    kvm_test_request(KVM_REQ_PVSYNC_TLB, vcpu))			\
		pvsync_settle_exit(vcpu);				\
} while (0)

void pvsync_ecs_forget(struct kvm_vcpu *vcpu);
void pvsync_init_vm(struct kvm *kvm);
void pvsync_destroy_vm(struct kvm *kvm);
void pvsync_create_vm_debugfs(struct kvm *kvm);

/* One key guards all that vCPUs come by often: a no-op each until somebody asks for it. */

int __pvsync_yield_to(struct kvm_vcpu *target, struct task_struct *task);
void __pvsync_candidate(struct kvm_vcpu *me);
void __pvsync_vcpu_load(struct kvm_vcpu *vcpu, int cpu);
void __pvsync_vcpu_put(struct kvm_vcpu *vcpu);

/* The modules of the vendors define these and call them. */
void __pvsync_svm_load(struct kvm_vcpu *vcpu);
void __pvsync_svm_pause(struct kvm_vcpu *vcpu, bool in_kernel);
void __pvsync_vmx_load(struct kvm_vcpu *vcpu);
void __pvsync_vmx_pause(struct kvm_vcpu *vcpu);

/**
 * pvsync_yield_to - yield to a vCPU, as strongly as the host wants, and note it
 * @target: the vCPU
 * @task: its thread
 *
 * Context: may sleep; noted and strong only if a vCPU of the same VM runs.
 *
 * Return: as yield_to().
 */
static __always_inline int pvsync_yield_to(struct kvm_vcpu *target, struct task_struct *task)
{
	if (static_branch_unlikely(&pvsync_vcpus_key))
		return __pvsync_yield_to(target, task);
	return yield_to(task, 1);
}

/**
 * pvsync_candidate - a vCPU is looked at for a yield
 * @me: the vCPU that spins
 *
 * Context: thread of @me, within a sign of spinning.
 */
static __always_inline void pvsync_candidate(struct kvm_vcpu *me)
{
	if (static_branch_unlikely(&pvsync_vcpus_key))
		__pvsync_candidate(me);
}

/**
 * pvsync_vcpu_load - a vCPU's thread runs on a CPU
 * @vcpu: the vCPU
 * @cpu: the CPU
 *
 * Context: thread of @vcpu, preemption disabled.
 */
static __always_inline void pvsync_vcpu_load(struct kvm_vcpu *vcpu, int cpu)
{
	if (static_branch_unlikely(&pvsync_vcpus_key))
		__pvsync_vcpu_load(vcpu, cpu);
}

/**
 * pvsync_vcpu_put - a vCPU's thread leaves its CPU, or KVM
 * @vcpu: the vCPU
 *
 * Context: thread of @vcpu, preemption disabled.
 */
static __always_inline void pvsync_vcpu_put(struct kvm_vcpu *vcpu)
{
	if (static_branch_unlikely(&pvsync_vcpus_key))
		__pvsync_vcpu_put(vcpu);
}

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

struct pvsync_vcpu { };
struct pvsync_vm { };

static inline int pvsync_yield_to(struct kvm_vcpu *target, struct task_struct *task)
{
	return yield_to(task, 1);
}

static inline void pvsync_service_tlb(struct kvm_vcpu *vcpu) { }
static inline void pvsync_left_guest(struct kvm_vcpu *vcpu) { }
static inline void pvsync_candidate(struct kvm_vcpu *me) { }
static inline void pvsync_vcpu_load(struct kvm_vcpu *vcpu, int cpu) { }
static inline void pvsync_vcpu_put(struct kvm_vcpu *vcpu) { }
static inline void pvsync_ecs_forget(struct kvm_vcpu *vcpu) { }
static inline void pvsync_init_vm(struct kvm *kvm) { }
static inline void pvsync_destroy_vm(struct kvm *kvm) { }
static inline void pvsync_create_vm_debugfs(struct kvm *kvm) { }
static inline void pvsync_svm_load(struct kvm_vcpu *vcpu) { }
static inline void pvsync_vmx_load(struct kvm_vcpu *vcpu) { }

#define pvsync_svm_pause(vcpu, in_kernel)	kvm_vcpu_on_spin(vcpu, in_kernel)
#define pvsync_vmx_pause(vcpu)			kvm_vcpu_on_spin(vcpu, true)

#define pvsync_hypercall(vcpu, nr, a0, a1, a2, a3)	(-KVM_ENOSYS)

#endif /* CONFIG_PVSYNC_KVM */

#ifdef CONFIG_PVSYNC_DEBUG_TLB
void pvsync_assert_flushed(struct kvm_vcpu *vcpu);
#else
static inline void pvsync_assert_flushed(struct kvm_vcpu *vcpu) { }
#endif

#endif /* _LINUX_PVSYNC_KVM_H */
