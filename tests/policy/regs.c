// SPDX-License-Identifier: GPL-2.0-only
/*
 * That reads of registers where a thread is preempted leave nothing behind that KVM takes for
 * the guest's: arch/x86/kvm/pvsync/regs.c, between any two steps of what KVM does with its
 * copies of a VMCS (shim/kept_regs.h).
 */
#define CONFIG_PVSYNC_KVM
#define CONFIG_KVM_MAX_NR_VCPUS	256

#include "check.h"

#include <../arch/x86/kvm/pvsync/regs.c>

#define FLAGS(nr)	((nr) & 1 ? X86_EFLAGS_IF : X86_EFLAGS_VM)

static struct kvm_vcpu vcpu;
/* Where KVM is in what it does, and where the thread is preempted in that; 0 for nowhere. */
static unsigned int step, preempted_at;

/* What is read there, one of three. */
static unsigned int what;

static void read_where_preempted(void)
{
	void (*outer)(void) = preempted;

	preempted = NULL;
	if (what == 0)
		pvsync_in_kernel(&vcpu);
	else if (what == 1)
		pvsync_takes_interrupts(&vcpu);
	else
		pvsync_exit_reason(&vcpu);
	preempted = outer;
}

#define for_each_read()	for (what = 0; what < 3; what++)

static void maybe_preempted(void)
{
	if (++step == preempted_at)
		read_where_preempted();
}

/* What KVM may be at; each returns what it makes of it. */
static u64 set_a_segment(void)
{
	set_segment(&vcpu, 7, 3);
	return 0;
}

static u64 set_flags_of_any_guest(void)
{
	return set_flags(&vcpu, FLAGS(1), true);
}

static u64 set_flags_of_a_restricted_guest(void)
{
	return set_flags(&vcpu, FLAGS(1), false);
}

static u64 look_at_a_base(void)
{
	return read_base(&vcpu);
}

static u64 look_at_cpl(void)
{
	return test_get_cpl(&vcpu);
}

static u64 look_at_flags(void)
{
	return read_flags(&vcpu);
}

static u64 look_at_exit(void)
{
	return read_qualification(&vcpu);
}

static u64 (*const works[])(void) = {
	set_a_segment, set_flags_of_any_guest, set_flags_of_a_restricted_guest, look_at_a_base,
	look_at_cpl, look_at_flags, look_at_exit,
};

/* What is kept of @kept is right, of the rest there is something else from before. */
static void set_up(unsigned int kept)
{
	memset(&vcpu, 0, sizeof(vcpu));
	vcpu.machine.kept = (struct test_kept) {
		.fields = ~0U, .base = 0x55, .cpl = 1, .flags = 0x55, .qualification = 0x55,
	};
	vcpu.machine.base = 5;
	vcpu.machine.flags = FLAGS(0);
	vcpu.machine.qualification = 11;
	vcpu.machine.exit = 12;
	if (kept & 1)
		read_base(&vcpu);
	if (kept & 2)
		test_get_cpl(&vcpu);
	if (kept & 4)
		read_flags(&vcpu);
	if (kept & 8)
		read_qualification(&vcpu);
}

static void expect_what_the_vmcs_has(void)
{
	CHECK_EQ(test_get_cpl(&vcpu), vcpu.machine.cpl);
	CHECK_EQ(read_base(&vcpu), vcpu.machine.base);
	CHECK_EQ(read_flags(&vcpu), vcpu.machine.flags);
	CHECK_EQ(read_qualification(&vcpu), vcpu.machine.qualification);
}

/* With the reads at each of its steps in turn, as without: the same result, and then the VMCS. */
static bool goes_on_as_before(unsigned int work, unsigned int kept)
{
	u64 result = 0;

	preempted_at = 0;
	do {
		set_up(kept);
		step = 0;
		preempted = maybe_preempted;
		if (preempted_at)
			CHECK_EQ(works[work](), result);
		else
			result = works[work]();
		preempted = NULL;
		expect_what_the_vmcs_has();
		if (!check_ok())
			check_note("work %u, kept %#x, step %u, read %u", work, kept, preempted_at, what);
	} while (preempted_at++ < step && check_ok());
	return check_ok();
}

static void kvm_goes_on_as_before(void)
{
	for_each_read()
		for (unsigned int work = 0; work < ARRAY_SIZE(works); work++)
			for (unsigned int kept = 0; kept < 16; kept++)
				if (!goes_on_as_before(work, kept))
					return;
}

/* Segments are read again, by the next who uses one; all else is as available as it was. */
static void availability_stays(void)
{
	for_each_read() {
		for (unsigned int kept = 0; kept < 16; kept++) {
			u32 before;

			set_up(kept);
			before = vcpu.arch.regs_avail;
			read_where_preempted();
			CHECK_EQ(vcpu.arch.regs_avail, before & ~(1U << VCPU_EXREG_SEGMENTS));
			expect_what_the_vmcs_has();
		}
	}
}

/* What KVM itself reads as it lets go of a vCPU, see pvsync_drop_segments(). */
static void what_kvm_reads_when_preempted_is_dropped(void)
{
	set_up(0);
	vcpu.machine.kept.fields = 0;	/* In the midst of set_segment(). */
	test_get_cpl(&vcpu);
	pvsync_drop_segments(&vcpu);
	vcpu.machine.base = 7;
	vcpu.machine.cpl = 3;
	expect_what_the_vmcs_has();
	CHECK(is_kept(&vcpu, VCPU_EXREG_RFLAGS));
}

/* Also if KVM has noted that it has a field, and not read it yet. */
static void what_is_read_is_the_guests(void)
{
	for (unsigned int kept = 0; kept < 16; kept++) {
		for (unsigned int cpl = 0; cpl < 4; cpl += 3) {
			set_up(kept & ~4);
			vcpu.machine.cpl = cpl;
			vcpu.machine.flags = kept & 4 ? X86_EFLAGS_IF : 0;
			CHECK_EQ(pvsync_in_kernel(&vcpu), !cpl);
			CHECK_EQ(pvsync_takes_interrupts(&vcpu), !!(kept & 4));
			CHECK_EQ(pvsync_exit_reason(&vcpu), 12);
			vcpu.arch.guest_state_protected = true;
			CHECK(pvsync_in_kernel(&vcpu));
		}
	}
}

int main(void)
{
	RUN_TEST(kvm_goes_on_as_before);
	RUN_TEST(availability_stays);
	RUN_TEST(what_kvm_reads_when_preempted_is_dropped);
	RUN_TEST(what_is_read_is_the_guests);
	return check_summary();
}
