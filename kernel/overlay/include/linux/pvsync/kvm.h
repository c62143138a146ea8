/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_KVM_H
#define _LINUX_PVSYNC_KVM_H

/* What KVM calls of pvsync. Everything is in arch/x86/kvm/pvsync/. */

#include <linux/bits.h>
#include <linux/sched.h>
#include <linux/types.h>

struct kvm;
struct kvm_vcpu;

#ifdef CONFIG_PVSYNC_KVM

#include <linux/pvsync/count.h>

/**
 * struct pvsync_vcpu - the part of a vCPU
 * @last_event: time of its last sign of spinning, ns
 * @yielding_ns: time that its last sign spent in yields, ns
 * @looked_at: vCPUs that its last sign looked at
 * @target: the vCPU that it last yielded to; the next three are of that yield
 * @cpu: where the target was queued
 * @switches: switches of that CPU so far
 * @exits: exits of this vCPU so far
 * @wanted: @wanted_by may have bits
 * @wanted_by: vCPUs, by their index, that yielded to this one since it ran last
 * @counters: of this vCPU; written by its own thread only
 */
struct pvsync_vcpu {
	u64		last_event;
	u64		yielding_ns;
	unsigned int	looked_at;

	struct kvm_vcpu	*target;
	int		cpu;
	u64		switches;
	u64		exits;

	bool		wanted;
	unsigned long	wanted_by[BITS_TO_LONGS(CONFIG_KVM_MAX_NR_VCPUS)];

	u64		counters[PVSYNC_NR_COUNTERS];
};

/**
 * struct pvsync_vm - the part of a VM
 * @candidate: its own enum pvsync_candidate plus 1; 0 for that of all
 * @yield: its own enum pvsync_yield plus 1; 0 for that of all
 */
struct pvsync_vm {
	u8		candidate;
	u8		yield;
};

unsigned long pvsync_hypercall(struct kvm_vcpu *vcpu, unsigned long nr, unsigned long a0);
int pvsync_yield_to(struct kvm_vcpu *target, struct task_struct *task);
void pvsync_candidate(struct kvm_vcpu *me);
void pvsync_vcpu_load(struct kvm_vcpu *vcpu, int cpu);
void pvsync_create_vm_debugfs(struct kvm *kvm);

#else

struct pvsync_vcpu { };
struct pvsync_vm { };

static inline int pvsync_yield_to(struct kvm_vcpu *target, struct task_struct *task)
{
	return yield_to(task, 1);
}

static inline void pvsync_candidate(struct kvm_vcpu *me) { }
static inline void pvsync_vcpu_load(struct kvm_vcpu *vcpu, int cpu) { }
static inline void pvsync_create_vm_debugfs(struct kvm *kvm) { }

#define pvsync_hypercall(vcpu, nr, a0)	(-KVM_ENOSYS)

#endif /* CONFIG_PVSYNC_KVM */

#endif /* _LINUX_PVSYNC_KVM_H */
