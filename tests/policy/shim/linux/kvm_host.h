/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_KVM_HOST_H
#define PVSYNC_TEST_KVM_HOST_H

/* As much of KVM as a decision looks at. What a test says a vCPU is like is in @machine. */

#include <asm/svm.h>
#include <asm/vmx.h>

#include <kernel.h>
#include <linux/kvm_para.h>

#define PAGE_SHIFT		12
#define PAGE_SIZE		(1UL << PAGE_SHIFT)
#define PMD_SHIFT		21
#define PUD_SHIFT		30
#define KVM_MAX_VCPUS		CONFIG_KVM_MAX_NR_VCPUS
#define KVM_EINVAL		22
#define KVM_MP_STATE_RUNNABLE	0
#define KVM_MP_STATE_HALTED	3
#define KVM_REQUEST_WAIT	(1U << 9)
#define KVM_REQUEST_NO_WAKEUP	(1U << 8)
#define KVM_ARCH_REQ_FLAGS(nr, flags)	((nr) | (flags))
#define MSR_KVM_STEAL_TIME	0x4b564d03
#define X86_CR0_PE		(1UL << 0)
#define X86_CR0_PG		(1UL << 31)
#define X86_CR4_PCIDE		(1UL << 17)
#define X86_EFLAGS_IF		(1UL << 9)
#define X86_EFLAGS_VM		(1UL << 17)
#define KVM_POSSIBLE_CR0_GUEST_BITS	(1UL << 3)
#define KVM_POSSIBLE_CR4_GUEST_BITS	(1UL << 7)
#define X86_FEATURE_SVM		(6 * 32 + 2)
#define X86_FEATURE_NRIPS	(15 * 32 + 3)

typedef u64 gpa_t;
typedef u64 gfn_t;

struct kvm_memory_slot {
	gfn_t		base_gfn;
	unsigned long	npages;
	unsigned long	userspace_addr;
};

struct gfn_to_hva_cache {
	u64			generation;
	gpa_t			gpa;
	unsigned long		hva;
	unsigned long		len;
	struct kvm_memory_slot	*memslot;
};

#include <linux/pvsync/kvm.h>

enum { OUTSIDE_GUEST_MODE, IN_GUEST_MODE, EXITING_GUEST_MODE };

struct kvm_lapic {
	struct kvm_vcpu *vcpu;
};

#define TEST_APIC_IDS	256

struct kvm_apic_map {
	u32			max_apic_id;
	struct kvm_lapic	*phys_map[TEST_APIC_IDS];
};

#define TEST_VCPUS	160

struct mm_struct;

struct kvm {
	int			srcu;
	struct mm_struct	*mm;
	struct mutex		lock;
	unsigned int		created_vcpus;
	u32			dirty_ring_size;
	atomic_t		online_vcpus;
	struct kvm_memory_slot	*slot;
	struct kvm_vcpu		*vcpus[TEST_VCPUS];
	struct {
		struct kvm_apic_map	*apic_map;
		struct pvsync_vm	pvsync;
	} arch;
};

enum kvm_reg {
	VCPU_EXREG_RFLAGS, VCPU_EXREG_SEGMENTS, VCPU_EXREG_EXIT_INFO_1,
};

/* What KVM keeps of a VMCS. */
struct test_kept {
	u32		fields;
	u64		base, flags, qualification;
	unsigned int	cpl;
};

struct test_machine {
	u32		exit;
	u32		rcx;
	unsigned int	cpl;
	u64		base, flags, qualification;
	struct test_kept kept;
	bool		nested, real_mode, apic_in_user_mode, pcid, code_of_32_bits;
	bool		requested, in_registers;
	unsigned int	asked_about;	/* Times that its last exit was. */
	unsigned int	by_address, whole, whole_nested;
	u64		last_address;
};

struct kvm_enable_cap {
	u32	cap;
	u64	args[4];
};

struct msr_data {
	bool	host_initiated;
	u32	index;
	u64	data;
};

/* What a monitor sets with KVM_RUN. */
struct kvm_run {
	u64	kvm_dirty_regs;
	struct {
		struct {
			struct {
				u64	cr0;
			} sregs;
		} regs;
	} s;
};

struct kvm_vcpu {
	struct kvm	*kvm;
	struct pid	*pid;
	rwlock_t	pid_lock;
	struct kvm_run	*run;
	int		vcpu_id, vcpu_idx;
	int		mode;
	bool		ready, wants_to_run, scheduled_out;
	struct kvm_vcpu_stat {
		u64	tlb_flush, exits;
		struct {
			u64	blocking;
		} generic;
#include <linux/pvsync/kvm_stat.h>
	} stat;
	struct {
		u32			regs_avail;
		bool			at_instruction_boundary, guest_state_protected;
		struct {
			bool	injected;
		} interrupt;
		int			mp_state;
		int			last_vmentry_cpu;
		struct {
			struct gfn_to_hva_cache	cache;
		} st;
		struct pvsync_vcpu	pvsync;
	} arch;
	struct test_machine	machine;
};

/* Answered by the test. */
bool kvm_cpu_cap_has(unsigned int feature);
void kvm_make_vcpus_request_mask(struct kvm *kvm, unsigned int request, unsigned long *vcpus);

static inline bool is_guest_mode(struct kvm_vcpu *vcpu)
{
	return vcpu->machine.nested;
}

static inline bool is_protmode(struct kvm_vcpu *vcpu)
{
	return !vcpu->machine.real_mode;
}

static inline bool is_64_bit_hypercall(struct kvm_vcpu *vcpu)
{
	return !vcpu->machine.code_of_32_bits;
}

static inline bool kvm_test_request(unsigned int request, struct kvm_vcpu *vcpu)
{
	if (request != KVM_REQ_PVSYNC_TLB)
		__builtin_trap();
	return vcpu->machine.requested;
}

static inline bool lapic_in_kernel(struct kvm_vcpu *vcpu)
{
	return !vcpu->machine.apic_in_user_mode;
}

static inline unsigned long kvm_rcx_read(struct kvm_vcpu *vcpu)
{
	return vcpu->machine.rcx;
}

static inline bool kvm_is_cr4_bit_set(struct kvm_vcpu *vcpu, unsigned long bit)
{
	return bit == X86_CR4_PCIDE && vcpu->machine.pcid;
}

static inline struct kvm_vcpu *kvm_get_vcpu(struct kvm *kvm, int i)
{
	if (i >= atomic_read(&kvm->online_vcpus))
		__builtin_trap();	/* KVM gives none; nobody here expects that. */
	return kvm->vcpus[i];
}

#define kvm_for_each_vcpu(i, vcpu, kvm)						\
	for ((i) = 0; (i) < (unsigned long)atomic_read(&(kvm)->online_vcpus) &&	\
		      ((vcpu) = kvm_get_vcpu(kvm, i), true); (i)++)

/* Of 48 bits. */
static inline bool is_noncanonical_invlpg_address(u64 address, struct kvm_vcpu *vcpu)
{
	return (u64)((s64)(address << 16) >> 16) != address;
}

static inline gfn_t gpa_to_gfn(gpa_t gpa)
{
	return gpa >> PAGE_SHIFT;
}

static inline unsigned long offset_in_page(u64 address)
{
	return address & (PAGE_SIZE - 1);
}

static inline struct kvm_memory_slot *gfn_to_memslot(struct kvm *kvm, gfn_t gfn)
{
	struct kvm_memory_slot *slot = kvm->slot;

	return slot && gfn >= slot->base_gfn && gfn < slot->base_gfn + slot->npages ? slot : NULL;
}

static inline unsigned long gfn_to_hva_memslot(struct kvm_memory_slot *slot, gfn_t gfn)
{
	return slot->userspace_addr + ((gfn - slot->base_gfn) << PAGE_SHIFT);
}

#define kvm_x86_call(name)	test_##name

#include <kept_regs.h>

static inline void test_flush_tlb_gva(struct kvm_vcpu *vcpu, u64 address)
{
	if (!kernel_holds)
		__builtin_trap();	/* It may move to another CPU. */
	vcpu->machine.by_address++;
	vcpu->machine.last_address = address;
}

static inline void test_flush_tlb_guest(struct kvm_vcpu *vcpu)
{
	vcpu->machine.whole++;
}

static inline void test_flush_tlb_all(struct kvm_vcpu *vcpu)
{
	vcpu->machine.whole_nested++;
}

#endif
