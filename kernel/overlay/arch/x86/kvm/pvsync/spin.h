/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KVM_X86_PVSYNC_SPIN_H
#define _KVM_X86_PVSYNC_SPIN_H

/*
 * A vCPU spins for too long. A sign of it calls the mechanism (spin.c), which asks the
 * policy in force for a vCPU to run instead, and yields to that vCPU. Another policy
 * (window.c) says how long is too long.
 */

#include <linux/kvm_host.h>

#include <linux/pvsync/count.h>
#include <linux/pvsync/friebel.h>
#include <linux/pvsync/host.h>
#include <linux/pvsync/kvm/window.h>
#include <linux/pvsync/kvm/yield.h>

/**
 * enum pvsync_sign - what tells the host that a vCPU spins
 * @PVSYNC_SIGN_HELP: its guest says so, by a hypercall
 * @PVSYNC_SIGN_FILTER: its processor, as a pause loop exit or by a pause filter
 * @PVSYNC_SIGN_SOFT: the pause filter in software
 */
enum pvsync_sign {
	PVSYNC_SIGN_HELP,
	PVSYNC_SIGN_FILTER,
	PVSYNC_SIGN_SOFT,
};

/**
 * struct pvsync_search - one search for a vCPU to yield to
 * @in_kernel: whether the vCPU that spins is known to do so in its kernel
 * @friebel: how far the search has come, with the policy of that name
 * @tried: vCPUs that the search has chosen so far, with a policy that has lists
 * @asked: how often it has asked, with the policy that is a BPF program
 *
 * All but the first is zero at first.
 */
struct pvsync_search {
	bool			in_kernel;
	struct pvsync_friebel	friebel;
	struct pvsync_tried	tried;
	unsigned int		asked;
};

/**
 * typedef pvsync_pick_fn - a policy: the next best vCPU to yield to
 * @me: the vCPU that spins
 * @search: how far the search has come; the policy moves it on
 *
 * The caller calls it again, with the same @search, if the scheduler did not accept
 * the vCPU. The answer is a hint: any vCPU of the VM is safe. The number of vCPUs has
 * to bound every step.
 *
 * Context: thread of @me, may sleep; reads all other vCPUs without a lock.
 *
 * Return: a vCPU other than @me, or NULL if there is none.
 */
typedef struct kvm_vcpu *(*pvsync_pick_fn)(struct kvm_vcpu *me, struct pvsync_search *search);

struct kvm_vcpu *pvsync_friebel_pick(struct kvm_vcpu *me, struct pvsync_search *search);
struct kvm_vcpu *pvsync_hvs_pick(struct kvm_vcpu *me, struct pvsync_search *search);
struct kvm_vcpu *pvsync_bpf_pick(struct kvm_vcpu *me, struct pvsync_search *search);

/* BPF programs alone call it. */
struct pvsync_bpf_vcpu;
struct pvsync_yield_ctx;
int pvsync_bpf_look(struct pvsync_yield_ctx *ctx, u32 index, struct pvsync_bpf_vcpu *vcpu);

void pvsync_spin(struct kvm_vcpu *me, enum pvsync_sign sign, bool in_kernel);
bool pvsync_mark(struct kvm_vcpu *vcpu);
bool pvsync_in_registers(struct kvm_vcpu *vcpu);
void pvsync_unmark(struct kvm_vcpu *vcpu);
void pvsync_count_yields_to(struct kvm_vcpu *vcpu, int cpu);
void pvsync_spin_goes_on(struct kvm_vcpu *vcpu);
void pvsync_spin_waits(struct kvm_vcpu *vcpu);

void pvsync_hvs_load(struct kvm_vcpu *vcpu);
void pvsync_hvs_put(struct kvm_vcpu *vcpu, enum pvsync_vcpu_counter where);

u32 pvsync_window(struct kvm_vcpu *vcpu, u32 stock);
u32 pvsync_window_pauses(struct kvm_vcpu *vcpu, u32 stock);
void pvsync_window_soft(struct kvm_vcpu *vcpu, bool shrink);
bool pvsync_window_reached(struct kvm_vcpu *vcpu);
void pvsync_window_resume(struct kvm_vcpu *vcpu);
void pvsync_window_spun(struct kvm_vcpu *vcpu, u32 window, u64 handling_ns);
struct pvsync_epochs *pvsync_epochs_keep(struct kvm *kvm);
int pvsync_epochs_show(struct seq_file *seq, struct kvm *kvm);

void pvsync_cpu_wait_begins(struct kvm_vcpu *vcpu);
void pvsync_cpu_wait_ends(struct kvm_vcpu *vcpu);
int pvsync_cpu_waits_show(struct seq_file *seq, struct kvm *kvm);
void pvsync_cpu_waits_clear(struct kvm *kvm);

static inline int pvsync_candidate_of(struct kvm *kvm)
{
	return pvsync_choice_of(&pvsync_candidate_choice,
				READ_ONCE(kvm->arch.pvsync.candidate));
}

static inline int pvsync_yield_of(struct kvm *kvm)
{
	return pvsync_choice_of(&pvsync_yield_choice, READ_ONCE(kvm->arch.pvsync.yield));
}

static inline int pvsync_mark_of(struct kvm *kvm)
{
	return pvsync_choice_of(&pvsync_mark_choice, READ_ONCE(kvm->arch.pvsync.mark));
}

static inline int pvsync_window_of(struct kvm *kvm)
{
	return pvsync_choice_of(&pvsync_window_choice, READ_ONCE(kvm->arch.pvsync.window));
}

static inline int pvsync_pause_of(struct kvm *kvm)
{
	return pvsync_choice_of(&pvsync_pause_choice, READ_ONCE(kvm->arch.pvsync.pause));
}

#endif /* _KVM_X86_PVSYNC_SPIN_H */
