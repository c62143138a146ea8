// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which vCPUs that lose their CPU are marked for their guest: arch/x86/kvm/pvsync/mark.c.
 * Others of the guest leave flushes to who is marked, so what has no mark is the point.
 */
#define CONFIG_PVSYNC_KVM
#define CONFIG_KVM_MAX_NR_VCPUS	256

#include "check.h"

#include <../arch/x86/kvm/pvsync/regs.c>
#include <../arch/x86/kvm/pvsync/mark.c>

#define EXITS	0x1000	/* Reasons that are tried; the last of SVM's is 0x403. */
#define GPA	0x5040
#define HVA	0x7f0000003040UL	/* Of the record: its page is the third of the slot's. */

struct pvsync_choice pvsync_mark_choice;

static bool svm, nrips;
static struct kvm_memory_slot slot, other_slot;
static struct kvm vm;
static struct kvm_vcpu vcpu;

bool boot_cpu_has(unsigned int feature)
{
	return feature == X86_FEATURE_SVM && svm;
}

bool kvm_cpu_cap_has(unsigned int feature)
{
	return feature == X86_FEATURE_NRIPS && nrips;
}

/* A vCPU in its kernel, preempted after one of its exits, that may be marked. */
static void set_up(bool amd, int mark)
{
	svm = amd;
	nrips = true;
	pvsync_mark_choice.now = mark;
	memset(&vm, 0, sizeof(vm));
	memset(&vcpu, 0, sizeof(vcpu));
	slot = (struct kvm_memory_slot) {
		.base_gfn = 3, .npages = 16, .userspace_addr = 0x7f0000001000UL,
	};
	other_slot = slot;
	vm.slot = &slot;
	vcpu.kvm = &vm;
	vcpu.arch.mp_state = KVM_MP_STATE_RUNNABLE;
	vcpu.arch.st.cache = (struct gfn_to_hva_cache) {
		.gpa = GPA, .hva = HVA, .memslot = &slot,
	};
	vcpu.machine.exit = amd ? SVM_EXIT_CPUID : EXIT_REASON_CPUID;
}

/* Whether it is marked; KVM has to be told so then, and that has to be taken back. */
static bool marked(void)
{
	bool is = pvsync_mark(&vcpu);

	/* KVM is to find nothing in its copies that was read now. */
	CHECK(!vcpu.arch.regs_avail);
	CHECK_EQ(vcpu.arch.at_instruction_boundary, is);
	pvsync_unmark(&vcpu);
	CHECK(!vcpu.arch.at_instruction_boundary);
	CHECK(kernel_is_left());
	return is;
}

#define FOR_BOTH(amd)	for (int amd = 0; amd < 2; amd++)

static void harmless_ones_are_marked(void)
{
	FOR_BOTH(amd) {
		for (int mark = PVSYNC_MARK_KVM; mark < PVSYNC_NR_MARKS; mark++) {
			set_up(amd, mark);
			CHECK_EQ(marked(), mark >= PVSYNC_MARK_EXIT);
		}
	}
}

static void yielding_ones_are_marked(void)
{
	FOR_BOTH(amd) {
		for (int mark = PVSYNC_MARK_KVM; mark < PVSYNC_NR_MARKS; mark++) {
			set_up(amd, mark);
			vcpu.arch.pvsync.yielding = true;
			vcpu.machine.exit = EXITS;	/* Whatever it was. */
			CHECK_EQ(marked(), mark >= PVSYNC_MARK_YIELD);
		}
	}
}

/* Those that are handled in registers; each has its reason in mark.c. */
static bool listed(u32 reason)
{
	static const u32 amd[] = {
		SVM_EXIT_INTR, SVM_EXIT_VINTR, SVM_EXIT_CPUID, SVM_EXIT_PAUSE, SVM_EXIT_VMMCALL,
		SVM_EXIT_HLT, SVM_EXIT_MSR, SVM_EXIT_AVIC_INCOMPLETE_IPI,
	};
	static const u32 intel[] = {
		EXIT_REASON_EXTERNAL_INTERRUPT, EXIT_REASON_INTERRUPT_WINDOW, EXIT_REASON_CPUID,
		EXIT_REASON_PAUSE_INSTRUCTION, EXIT_REASON_MSR_READ, EXIT_REASON_MSR_WRITE,
		EXIT_REASON_VMCALL, EXIT_REASON_PREEMPTION_TIMER, EXIT_REASON_HLT,
		EXIT_REASON_APIC_WRITE, EXIT_REASON_EOI_INDUCED,
	};
	const u32 *list = svm ? amd : intel;
	unsigned int i, nr = svm ? ARRAY_SIZE(amd) : ARRAY_SIZE(intel);

	for (i = 0; i < nr; i++)
		if (list[i] == reason)
			return true;
	return false;
}

static void no_other_exit(void)
{
	FOR_BOTH(amd) {
		set_up(amd, PVSYNC_MARK_EXIT);
		for (u32 reason = 0; reason < EXITS; reason++) {
			vcpu.machine.exit = reason;
			if (CHECK_EQ(marked(), listed(reason)))
				continue;
			check_note("exit %#x of %s", reason, amd ? "SVM" : "VMX");
			return;
		}
	}
}

#define REFUSED_WITH(change)			\
	FOR_BOTH(amd) {				\
		set_up(amd, PVSYNC_MARK_EXIT);	\
		change;				\
		CHECK(!marked());		\
	}

static void not_with_a_nested_guest(void)
{
	REFUSED_WITH(vcpu.machine.nested = true);
}

static void not_in_real_mode(void)
{
	REFUSED_WITH(vcpu.machine.real_mode = true);
}

static void not_with_a_dirty_ring(void)
{
	REFUSED_WITH(vm.dirty_ring_size = 4096);
}

/* What kvm_gfn_to_hva_cache_init() has stored by then, see mark_record_is_found(). */
static void not_while_the_record_is_looked_up_anew(void)
{
	struct gfn_to_hva_cache *record = &vcpu.arch.st.cache;

	REFUSED_WITH(record->memslot = &other_slot);
	REFUSED_WITH(slot.userspace_addr += PAGE_SIZE);
	REFUSED_WITH(record->hva = HVA - offset_in_page(GPA));
	REFUSED_WITH(record->memslot = NULL);
	REFUSED_WITH(vm.slot = NULL);
	REFUSED_WITH((vm.slot = NULL, record->memslot = NULL));
	REFUSED_WITH(record->gpa += PAGE_SIZE);
	REFUSED_WITH(slot.npages = 2);
}

static void not_while_the_guest_moves_its_record(void)
{
	FOR_BOTH(amd) {
		set_up(amd, PVSYNC_MARK_EXIT);
		vcpu.machine.exit = amd ? SVM_EXIT_MSR : EXIT_REASON_MSR_WRITE;
		vcpu.machine.rcx = MSR_KVM_STEAL_TIME;
		CHECK(!marked());
		vcpu.machine.rcx = MSR_KVM_STEAL_TIME + 1;
		CHECK(marked());
	}
	/* What is read only stays where it is. */
	set_up(false, PVSYNC_MARK_EXIT);
	vcpu.machine.exit = EXIT_REASON_MSR_READ;
	vcpu.machine.rcx = MSR_KVM_STEAL_TIME;
	CHECK(marked());
}

/* Preempted between the exit and the halt, which KVM does not know of yet. */
static void not_before_a_halt_that_kvm_learns_of_late(void)
{
	FOR_BOTH(amd) {
		set_up(amd, PVSYNC_MARK_EXIT);
		vcpu.machine.exit = amd ? SVM_EXIT_HLT : EXIT_REASON_HLT;
		CHECK(marked());
		vcpu.machine.apic_in_user_mode = true;
		CHECK(!marked());
	}
	set_up(true, PVSYNC_MARK_EXIT);
	vcpu.machine.exit = SVM_EXIT_HLT;
	nrips = false;
	CHECK(!marked());
	set_up(false, PVSYNC_MARK_EXIT);
	vcpu.machine.exit = EXIT_REASON_HLT;
	nrips = false;		/* AMD's alone. */
	CHECK(marked());
}

/* An instruction of a program is read again, from a page that may go. */
static void not_in_a_program_whose_instruction_is_read_again(void)
{
	for (int yields = 0; yields < 2; yields++) {
		set_up(true, PVSYNC_MARK_EXIT);
		nrips = false;
		vcpu.arch.pvsync.yielding = yields;
		CHECK(marked());
		vcpu.machine.cpl = 3;
		CHECK(!marked());
		nrips = true;
		CHECK(marked());
		set_up(false, PVSYNC_MARK_EXIT);
		nrips = false;
		vcpu.arch.pvsync.yielding = yields;
		vcpu.machine.cpl = 3;
		CHECK(marked());
	}
}

/* Asleep, or on the way there or back: not preempted but idle, by whatever exit. */
static void no_sleeper(void)
{
	FOR_BOTH(amd) {
		set_up(amd, PVSYNC_MARK_EXIT);
		vcpu.arch.mp_state = KVM_MP_STATE_HALTED;
		CHECK(!marked());
		vcpu.machine.exit = amd ? SVM_EXIT_HLT : EXIT_REASON_HLT;
		CHECK(!marked());
		vcpu.arch.mp_state = 1;		/* Not there yet. */
		CHECK(!marked());
	}
}

/* What others take for the end of an emulated instruction, whatever pvsync.mark is. */
static void what_is_handled_in_registers(void)
{
	FOR_BOTH(amd) {
		set_up(amd, PVSYNC_MARK_KVM);
		vm.dirty_ring_size = 4096;	/* This concerns the mark alone. */
		vcpu.arch.st.cache.memslot = NULL;
		for (u32 reason = 0; reason < EXITS; reason++) {
			vcpu.machine.exit = reason;
			CHECK_EQ(pvsync_in_registers(&vcpu), listed(reason));
			CHECK(!vcpu.arch.at_instruction_boundary);
		}
		set_up(amd, PVSYNC_MARK_EXIT);
		vcpu.machine.nested = true;
		CHECK(!pvsync_in_registers(&vcpu));
		set_up(amd, PVSYNC_MARK_EXIT);
		vcpu.machine.real_mode = true;
		CHECK(!pvsync_in_registers(&vcpu));
		/* The instruction is read again, through page tables. */
		set_up(amd, PVSYNC_MARK_EXIT);
		nrips = false;
		CHECK(pvsync_in_registers(&vcpu));
		vcpu.machine.cpl = 3;
		CHECK_EQ(pvsync_in_registers(&vcpu), !amd);
	}
}

static void the_policy_of_the_vm_goes_first(void)
{
	set_up(true, PVSYNC_MARK_EXIT);
	vm.arch.pvsync.mark = PVSYNC_MARK_KVM + 1;
	CHECK(!marked());
	set_up(true, PVSYNC_MARK_KVM);
	vm.arch.pvsync.mark = PVSYNC_MARK_EXIT + 1;
	CHECK(marked());
}

/* Between two instructions by KVM's own account, which pvsync neither denies nor takes back. */
static void what_kvm_says_stays(void)
{
	for (int mark = PVSYNC_MARK_KVM; mark < PVSYNC_NR_MARKS; mark++) {
		set_up(true, mark);
		vcpu.machine.nested = true;
		vcpu.arch.at_instruction_boundary = true;
		CHECK(pvsync_mark(&vcpu));
		pvsync_unmark(&vcpu);
		CHECK(vcpu.arch.at_instruction_boundary);
	}
}

int main(void)
{
	RUN_TEST(harmless_ones_are_marked);
	RUN_TEST(yielding_ones_are_marked);
	RUN_TEST(no_other_exit);
	RUN_TEST(not_with_a_nested_guest);
	RUN_TEST(not_in_real_mode);
	RUN_TEST(not_with_a_dirty_ring);
	RUN_TEST(not_while_the_record_is_looked_up_anew);
	RUN_TEST(not_while_the_guest_moves_its_record);
	RUN_TEST(not_before_a_halt_that_kvm_learns_of_late);
	RUN_TEST(not_in_a_program_whose_instruction_is_read_again);
	RUN_TEST(no_sleeper);
	RUN_TEST(what_is_handled_in_registers);
	RUN_TEST(the_policy_of_the_vm_goes_first);
	RUN_TEST(what_kvm_says_stays);
	return check_summary();
}
