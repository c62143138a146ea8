/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_KEPT_REGS_H
#define PVSYNC_TEST_KEPT_REGS_H

/*
 * How KVM keeps copies of what a VMCS has, step by step as vmx.c and vmx.h of
 * arch/x86/kvm/vmx do it. Between any two steps the vCPU's thread may be preempted.
 */

/* What is done where it is preempted; nothing by default. */
static void (*preempted)(void);

static inline void may_be_preempted(void)
{
	if (preempted)
		preempted();
}

#define STEP(what)		\
do {				\
	what;			\
	may_be_preempted();	\
} while (0)

static inline bool is_kept(struct kvm_vcpu *vcpu, enum kvm_reg reg)
{
	return vcpu->arch.regs_avail >> reg & 1;
}

static inline void keep(struct kvm_vcpu *vcpu, enum kvm_reg reg)
{
	vcpu->arch.regs_avail |= 1U << reg;
}

enum { FIELD_BASE = 1, FIELD_CPL = 2 };

/* vmx_segment_cache_test_set() */
static inline bool field_is_kept(struct kvm_vcpu *vcpu, u32 field)
{
	struct test_kept *kept = &vcpu->machine.kept;
	bool is;

	if (!is_kept(vcpu, VCPU_EXREG_SEGMENTS)) {
		STEP(keep(vcpu, VCPU_EXREG_SEGMENTS));
		STEP(kept->fields = 0);
	}
	STEP(is = kept->fields & field);
	STEP(kept->fields |= field);
	return is;
}

/* vmx_read_guest_seg_base(), vmx_read_guest_seg_ar() */
static inline u64 read_base(struct kvm_vcpu *vcpu)
{
	if (!field_is_kept(vcpu, FIELD_BASE))
		STEP(vcpu->machine.kept.base = vcpu->machine.base);
	return vcpu->machine.kept.base;
}

static inline unsigned int test_get_cpl(struct kvm_vcpu *vcpu)
{
	if (!field_is_kept(vcpu, FIELD_CPL))
		STEP(vcpu->machine.kept.cpl = vcpu->machine.cpl);
	return vcpu->machine.kept.cpl;
}

/* __vmx_set_segment() */
static inline void set_segment(struct kvm_vcpu *vcpu, u64 base, unsigned int cpl)
{
	STEP(vcpu->machine.kept.fields = 0);
	STEP(vcpu->machine.base = base);
	STEP(vcpu->machine.cpl = cpl);
}

/* vmx_get_rflags(), vmx_set_rflags() */
static inline u64 read_flags(struct kvm_vcpu *vcpu)
{
	u64 flags;

	if (!is_kept(vcpu, VCPU_EXREG_RFLAGS)) {
		STEP(keep(vcpu, VCPU_EXREG_RFLAGS));
		STEP(flags = vcpu->machine.flags);
		STEP(vcpu->machine.kept.flags = flags);
	}
	return vcpu->machine.kept.flags;
}

/* Return: whether KVM finds that the guest's mode has changed. */
static inline bool set_flags(struct kvm_vcpu *vcpu, u64 flags, bool unrestricted)
{
	u64 before;

	if (unrestricted) {
		STEP(keep(vcpu, VCPU_EXREG_RFLAGS));
		STEP(vcpu->machine.kept.flags = flags);
		STEP(vcpu->machine.flags = flags);
		return false;
	}
	STEP(before = read_flags(vcpu));
	STEP(vcpu->machine.kept.flags = flags);
	STEP(vcpu->machine.flags = flags);
	return (before ^ vcpu->machine.kept.flags) & X86_EFLAGS_VM;
}

static inline bool test_get_if_flag(struct kvm_vcpu *vcpu)
{
	return read_flags(vcpu) & X86_EFLAGS_IF;
}

/* vmx_get_exit_qual() */
static inline u64 read_qualification(struct kvm_vcpu *vcpu)
{
	if (!is_kept(vcpu, VCPU_EXREG_EXIT_INFO_1)) {
		STEP(keep(vcpu, VCPU_EXREG_EXIT_INFO_1));
		STEP(vcpu->machine.kept.qualification = vcpu->machine.qualification);
	}
	return vcpu->machine.kept.qualification;
}

static inline void test_get_exit_info(struct kvm_vcpu *vcpu, u32 *reason, u64 *info1, u64 *info2,
				      u32 *intr_info, u32 *error_code)
{
	*reason = vcpu->machine.exit;
	*info1 = read_qualification(vcpu);
	*info2 = *intr_info = *error_code = 0;
}

static inline bool kvm_arch_vcpu_in_kernel(struct kvm_vcpu *vcpu)
{
	return vcpu->arch.guest_state_protected || !test_get_cpl(vcpu);
}

/* The guest has run: nothing of the last time is kept, whatever is still there. */
static inline void has_run(struct kvm_vcpu *vcpu)
{
	vcpu->arch.regs_avail = 0;
}

#endif
