/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_KVM_TLB_H
#define _LINUX_PVSYNC_KVM_TLB_H

/*
 * TLB shootdown by the host: what a vCPU has to flush, and where KVM's entries and exits see
 * to it. The mechanism is in tlb.c, tlb_flush.c and tlb_settle.c of arch/x86/kvm/pvsync.
 */

#include <linux/types.h>

struct kvm_vcpu;

#ifdef CONFIG_PVSYNC_KVM

#include <linux/atomic.h>

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
 * struct pvsync_tlb_list - what a vCPU has to flush before it enters the guest
 * @all: flush every translation; the ranges do not matter then
 * @nr: number of @ranges
 * @pages: sum of their pages
 * @ranges: the ranges
 */
struct pvsync_tlb_list {
	bool			all;
	unsigned int		nr;
	unsigned int		pages;
	struct pvsync_tlb_range	ranges[PVSYNC_TLB_RANGES];
};

/**
 * struct pvsync_tlb - a vCPU's part in shootdowns
 * @lock: bit 0 guards @list, @asked, and stores to @done; it is a bit, as all of the struct is
 *	zero to begin with
 * @list: what the vCPU has to flush
 * @asked: sequence number of the last request
 * @done: sequence number of the last request that the vCPU has flushed for; read without
 *	the lock
 * @settled: the rest of the last exit's work uses no address of the guest's page tables;
 *	written by the vCPU's thread, read by others without the lock
 * @returned: the highest sequence number whose hypercall has returned; callers raise it, and
 *	the vCPU's thread reads it, without the lock
 */
struct pvsync_tlb {
	unsigned long		lock;
	struct pvsync_tlb_list	list;
	u64			asked;
	u64			done;
	bool			settled;
#ifdef CONFIG_PVSYNC_DEBUG_TLB
	atomic64_t		returned;
#endif
};

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

#else

static inline void pvsync_service_tlb(struct kvm_vcpu *vcpu) { }
static inline void pvsync_left_guest(struct kvm_vcpu *vcpu) { }

#endif /* CONFIG_PVSYNC_KVM */

#ifdef CONFIG_PVSYNC_DEBUG_TLB
void pvsync_assert_flushed(struct kvm_vcpu *vcpu);
#else
static inline void pvsync_assert_flushed(struct kvm_vcpu *vcpu) { }
#endif

#endif /* _LINUX_PVSYNC_KVM_TLB_H */
