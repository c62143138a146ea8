/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KVM_X86_PVSYNC_BPF_H
#define _KVM_X86_PVSYNC_BPF_H

/* What BPF programs decide: whom vCPUs yield to (bpf.c), and who borrows no time (bpf_extend.c). */

#include <linux/atomic.h>
#include <linux/kvm_host.h>

#ifdef CONFIG_PVSYNC_BPF

#include <linux/bpf.h>
#include <linux/bpf_verifier.h>
#include <linux/build_bug.h>

/**
 * struct pvsync_bpf_ops - the form of each struct_ops of pvsync
 * @ask: the program
 * @name: letters, digits, '_' and '.'
 */
struct pvsync_bpf_ops {
	void	*ask;
	char	name[BPF_OBJ_NAME_LEN];
};

#define PVSYNC_BPF_ASSERT(type, function)					\
	static_assert(!offsetof(type, function) &&				\
		      offsetof(type, name) == offsetof(struct pvsync_bpf_ops, name) &&	\
		      sizeof(type) == sizeof(struct pvsync_bpf_ops))

extern const struct bpf_verifier_ops pvsync_bpf_verifier_ops;

int pvsync_bpf_init_member(const struct btf_type *type, const struct btf_member *member,
			   void *kdata, const void *udata);
int pvsync_bpf_check_member(const struct btf_type *type, const struct btf_member *member,
			    const struct bpf_prog *prog);
int pvsync_bpf_validate(void *kdata);
int pvsync_bpf_take(void **place, void *old, void *new);

bool pvsync_bpf_refuses(struct kvm_vcpu *vcpu);

/* A loan of so many ns has ended: what a program gets to know of the VM. */
static inline void pvsync_bpf_note_lent(struct kvm_vcpu *vcpu, u64 ns)
{
	atomic64_add(ns, &vcpu->kvm->arch.pvsync.lent);
}

#else

static inline bool pvsync_bpf_refuses(struct kvm_vcpu *vcpu)
{
	return false;
}

static inline void pvsync_bpf_note_lent(struct kvm_vcpu *vcpu, u64 ns) { }

#endif /* CONFIG_PVSYNC_BPF */

#endif /* _KVM_X86_PVSYNC_BPF_H */
