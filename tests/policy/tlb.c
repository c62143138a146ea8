// SPDX-License-Identifier: GPL-2.0-only
/*
 * A guest has its translations flushed by its host: tlb.c, tlb_flush.c and tlb_settle.c of
 * arch/x86/kvm/pvsync. Which calls are refused, what is noted with whom, how it is
 * flushed, and who has to be awaited.
 */
#define CONFIG_PVSYNC_KVM
#define CONFIG_KVM_MAX_NR_VCPUS	256

#include "check.h"

#include <counted.h>

struct task_struct {
	struct {
		u64	run_delay;
	} sched_info;
};

static struct task_struct this_task, *current = &this_task;
static int this_cpu;
static bool tdp_enabled;

#define local_clock()		5000
#define smp_processor_id()	(kernel_holds ? this_cpu : (__builtin_trap(), 0))

#include <../arch/x86/kvm/pvsync/tlb_flush.c>
#include <../arch/x86/kvm/pvsync/tlb_settle.c>
#include <../arch/x86/kvm/pvsync/tlb.c>

#define VCPUS	6
#define APIC(i)	(3 + 20 * (i))	/* Their names are no indices. */
#define PAGE	0x123456000UL
#define KERNEL	0xffff888000000000UL

bool pvsync_shootdown;

static bool svm;
static struct kvm vm;
static struct kvm_vcpu vcpus[TEST_VCPUS], *me = &vcpus[0];
static struct kvm_lapic lapics[TEST_VCPUS];
static struct kvm_apic_map map;
static unsigned int requests;
static unsigned long requested[BITS_TO_LONGS(KVM_MAX_VCPUS)];

bool boot_cpu_has(unsigned int feature)
{
	return feature == X86_FEATURE_SVM && svm;
}

bool pvsync_in_registers(struct kvm_vcpu *vcpu)
{
	vcpu->machine.asked_about++;
	return vcpu->machine.in_registers;
}

/* What the targets do between the request and the end of the wait for their interrupts. */
static void (*meanwhile)(void);

void kvm_make_vcpus_request_mask(struct kvm *kvm, unsigned int request, unsigned long *targets)
{
	CHECK(kernel_is_left());
	CHECK_EQ(request, KVM_REQ_PVSYNC_TLB);
	CHECK(kvm == &vm);
	requests++;
	memcpy(requested, targets, sizeof(requested));
	if (meanwhile)
		meanwhile();
}

static void set_up_vcpus(int nr)
{
	memset(&vm, 0, sizeof(vm));
	memset(&map, 0, sizeof(map));
	memset(vcpus, 0, sizeof(vcpus));
	memset(counted, 0, sizeof(counted));
	memset(requested, 0, sizeof(requested));
	requests = 0;
	meanwhile = NULL;
	svm = false;
	this_cpu = 1;
	vm.online_vcpus.counter = nr;
	vm.arch.apic_map = &map;
	for (int i = 0; i < nr; i++) {
		vm.vcpus[i] = &vcpus[i];
		vcpus[i].kvm = &vm;
		vcpus[i].vcpu_id = vcpus[i].vcpu_idx = i;
		vcpus[i].arch.last_vmentry_cpu = this_cpu;
		vcpus[i].arch.pvsync.tlb.settled = true;
		lapics[i].vcpu = &vcpus[i];
	}
	for (int i = 0; i < VCPUS; i++)
		map.phys_map[APIC(i)] = &lapics[i];
	map.max_apic_id = APIC(VCPUS - 1);
}

static void set_up(void)
{
	set_up_vcpus(VCPUS);
}

static u64 pages_at(u32 base, u32 pages)
{
	return (u64)pages << PVSYNC_TLB_PAGES_SHIFT | base;
}

/* The vCPU with index 1, by its name. */
#define ONE	(1UL << APIC(1))

static bool nothing_is_left_of_it(void)
{
	for (int i = 0; i < TEST_VCPUS; i++) {
		struct pvsync_tlb *tlb = &vcpus[i].arch.pvsync.tlb;

		if (tlb->list.all || tlb->list.nr || tlb->list.pages || tlb->lock)
			return false;
	}
	return !requests && kernel_is_left();
}

/* Whether it is refused, with nothing noted and nobody disturbed, and counted. */
static bool refused(u64 low, u64 high, u64 where, u64 what)
{
	if (pvsync_tlb_shootdown(me, low, high, where, what) != -KVM_EINVAL)
		return false;
	CHECK(nothing_is_left_of_it());
	CHECK_EQ(counted[PVSYNC_tlb_refused], 1);
	CHECK_EQ(counted[PVSYNC_tlb_calls], 1);
	CHECK_EQ(counted[PVSYNC_tlb_ns], 0);
	CHECK(!vm.arch.pvsync.shoots);
	return true;
}

#define REFUSED(...)				\
	do {					\
		set_up();			\
		CHECK(refused(__VA_ARGS__));	\
	} while (0)
#define ACCEPTED(...)							\
	do {								\
		set_up();						\
		CHECK_EQ(pvsync_tlb_shootdown(me, __VA_ARGS__), 0);	\
		CHECK_EQ(requests, 1);					\
		CHECK_EQ(counted[PVSYNC_tlb_refused], 0);		\
	} while (0)

static void unknown_names_are_refused(void)
{
	ACCEPTED(ONE, 0, 0, 0);
	REFUSED(2, 0, 0, 0);
	REFUSED(ONE | 2, 0, 0, 0);			/* All or nothing. */
	REFUSED(ONE, 1, 0, 0);				/* 64 */
	REFUSED(ONE, 1UL << 63, 0, 0);			/* 127, beyond the map */
	REFUSED(1, 0, TEST_APIC_IDS, 0);
	REFUSED(1, 0, U32_MAX, 0);
	REFUSED(1UL << (APIC(1) + 1), 0, U32_MAX, 0);	/* A name of 33 bits, which wraps to one. */
	ACCEPTED(1, 0, APIC(3), 0);			/* From a base on. */
	CHECK(requested[0] == 1UL << 3);
	ACCEPTED(0, 1, APIC(VCPUS - 1) - 64, 0);
	CHECK(requested[0] == 1UL << (VCPUS - 1));
	CHECK(vm.arch.pvsync.shoots);
	REFUSED(0, 2, APIC(VCPUS - 1) - 64, 0);		/* The first one that is too high. */
}

/* It is in KVM's map, and runs, before it is to be had by its index. */
static void a_vcpu_that_is_not_created_yet_is_refused(void)
{
	set_up();
	vm.online_vcpus.counter = 1;
	CHECK(refused(ONE, 0, 0, 0));
	set_up();
	vm.online_vcpus.counter = 0;
	CHECK(refused(1UL << APIC(0), 0, 0, 0));	/* Itself. */
	set_up();
	vm.online_vcpus.counter = 2;
	CHECK_EQ(pvsync_tlb_shootdown(me, ONE, 0, 0, 0), 0);
}

static void ranges_of_no_address_space_are_refused(void)
{
	static const unsigned int shifts[] = { PAGE_SHIFT, PMD_SHIFT, PUD_SHIFT };
	unsigned int shift, i;

	ACCEPTED(ONE, 0, pages_at(0, 1), PAGE | PAGE_SHIFT);
	/* Without pages it is all, which has no address. */
	REFUSED(ONE, 0, 0, PAGE);
	REFUSED(ONE, 0, 0, PAGE_SHIFT);
	for (shift = 0; shift < PAGE_SIZE; shift++) {
		set_up();
		for (i = 0; i < ARRAY_SIZE(shifts) && shifts[i] != shift; i++)
			;
		CHECK_EQ(refused(ONE, 0, pages_at(0, 1), PAGE | shift), i == ARRAY_SIZE(shifts));
	}
	/* Over the end of the lower half, of all, and into the hole between the halves. */
	ACCEPTED(ONE, 0, pages_at(0, 1), 0x7ffffffff000UL | PAGE_SHIFT);
	REFUSED(ONE, 0, pages_at(0, 2), 0x7ffffffff000UL | PAGE_SHIFT);
	ACCEPTED(ONE, 0, pages_at(0, 1), 0xfffffffffffff000UL | PAGE_SHIFT);
	REFUSED(ONE, 0, pages_at(0, 2), 0xfffffffffffff000UL | PAGE_SHIFT);
	REFUSED(ONE, 0, pages_at(0, 1), 0x800000000000UL | PAGE_SHIFT);
	REFUSED(ONE, 0, pages_at(0, 1), 0xffff7ffffffff000UL | PAGE_SHIFT);
	REFUSED(ONE, 0, pages_at(0, 2), 0xffff7ffffffff000UL | PAGE_SHIFT);
	REFUSED(ONE, 0, pages_at(0, U32_MAX), KERNEL | PUD_SHIFT);
	REFUSED(ONE, 0, pages_at(0, U32_MAX), PUD_SHIFT);
	ACCEPTED(ONE, 0, pages_at(0, 1U << 17), PUD_SHIFT);	/* All of the lower half. */
	REFUSED(ONE, 0, pages_at(0, (1U << 17) + 1), PUD_SHIFT);
}

static void nobody_named_is_nothing_done(void)
{
	ACCEPTED(0, 0, 0, 0);
	CHECK(!requested[0]);
}

/* Two vCPUs with one name, or no memory: KVM has no map. */
static void without_a_map_all_flush_everything(void)
{
	set_up_vcpus(TEST_VCPUS);
	vm.arch.apic_map = NULL;
	CHECK_EQ(pvsync_tlb_shootdown(me, 2, 0, pages_at(0, 1), PAGE | PAGE_SHIFT), 2);
	for (int i = 0; i < TEST_VCPUS; i++)
		CHECK(test_bit(i, requested) && vcpus[i].arch.pvsync.tlb.list.all);
	for (int i = TEST_VCPUS; i < KVM_MAX_VCPUS; i++)
		CHECK(!test_bit(i, requested));
	/* Those that are online, that is. */
	set_up_vcpus(TEST_VCPUS);
	vm.arch.apic_map = NULL;
	vm.online_vcpus.counter = 2;
	CHECK_EQ(pvsync_tlb_shootdown(me, 2, 0, 0, 0), 2);
	CHECK(requested[0] == 3 && !vcpus[2].arch.pvsync.tlb.list.all);
	/* A range that no address space has is refused all the same. */
	set_up();
	vm.arch.apic_map = NULL;
	CHECK(refused(ONE, 0, pages_at(0, 1), PAGE));
}

/* What the vCPU with index 1 has been asked to flush so far. */
static const struct pvsync_tlb_list *asked(u32 pages, u64 what)
{
	CHECK_EQ(pvsync_tlb_shootdown(me, ONE, 0, pages_at(0, pages), what), 0);
	return &vcpus[1].arch.pvsync.tlb.list;
}

static void ranges_are_kept_up_to_a_number(void)
{
	const struct pvsync_tlb_list *list;
	int i;

	set_up();
	for (i = 0; i < PVSYNC_TLB_RANGES; i++) {
		list = asked(1, (PAGE + i * PAGE_SIZE) | PAGE_SHIFT);
		CHECK(!list->all);
		CHECK_EQ(list->nr, i + 1);
		CHECK_EQ(list->pages, i + 1);
		CHECK_EQ(list->ranges[i].start, PAGE + i * PAGE_SIZE);
		CHECK_EQ(list->ranges[i].pages, 1);
		CHECK_EQ(counted[PVSYNC_tlb_merged], i);
	}
	CHECK(asked(1, PAGE | PAGE_SHIFT)->all);
	CHECK_EQ(counted[PVSYNC_tlb_merged], i);
	CHECK(asked(1, PAGE | PAGE_SHIFT)->all);
	CHECK_EQ(counted[PVSYNC_tlb_merged], i + 1);
}

static void pages_are_kept_up_to_a_number(void)
{
	set_up();
	CHECK(!asked(PVSYNC_TLB_MAX_PAGES, PAGE | PAGE_SHIFT)->all);
	CHECK(asked(1, PAGE | PAGE_SHIFT)->all);
	set_up();
	CHECK(asked(PVSYNC_TLB_MAX_PAGES + 1, PAGE | PAGE_SHIFT)->all);
	set_up();
	CHECK(!asked(PVSYNC_TLB_MAX_PAGES - 1, PAGE | PAGE_SHIFT)->all);
	CHECK(asked(2, PAGE | PAGE_SHIFT)->all);
	/* Huge ones are not flushed by address. */
	set_up();
	CHECK(asked(1, PMD_SHIFT)->all);
	set_up();
	CHECK(asked(1, PUD_SHIFT)->all);
}

static const struct test_machine *flushed(void)
{
	pvsync_flush_tlb(&vcpus[1]);
	CHECK(kernel_is_left());
	return &vcpus[1].machine;
}

static void pages_are_flushed_by_address_where_the_vcpu_was(void)
{
	const struct test_machine *machine;

	set_up();
	asked(3, PAGE | PAGE_SHIFT);
	machine = flushed();
	CHECK_EQ(machine->by_address, 3);
	CHECK_EQ(machine->last_address, PAGE + 2 * PAGE_SIZE);
	CHECK_EQ(machine->whole, 0);
	CHECK_EQ(vcpus[1].stat.tlb_flush, 1);
	CHECK_EQ(counted[PVSYNC_tlb_pages], 3);
	CHECK_EQ(counted[PVSYNC_tlb_full], 0);
	/* It is done. */
	machine = flushed();
	CHECK_EQ(machine->by_address, 3);
	CHECK_EQ(vcpus[1].stat.tlb_flush, 1);
	CHECK(!asked(PVSYNC_TLB_MAX_PAGES, PAGE | PAGE_SHIFT)->all);
	CHECK_EQ(flushed()->by_address, 3 + PVSYNC_TLB_MAX_PAGES);
}

#define ALL_WITH(change)					\
	do {							\
		set_up();					\
		asked(1, PAGE | PAGE_SHIFT);			\
		change;						\
		CHECK_EQ(flushed()->by_address, 0);		\
		CHECK_EQ(vcpus[1].machine.whole, 1);		\
		CHECK_EQ(vcpus[1].machine.whole_nested, 0);	\
		CHECK_EQ(counted[PVSYNC_tlb_full], 1);		\
	} while (0)

static void everything_is_flushed_otherwise(void)
{
	ALL_WITH(asked(0, 0));
	CHECK(!asked(1, PAGE | PAGE_SHIFT)->all);	/* That is over. */
	ALL_WITH(this_cpu = 0);
	ALL_WITH((svm = true, vcpus[1].machine.pcid = true));
	/* The instruction of Intel's drops the address from all of them. */
	set_up();
	asked(1, PAGE | PAGE_SHIFT);
	vcpus[1].machine.pcid = true;
	CHECK_EQ(flushed()->by_address, 1);
	set_up();
	svm = true;
	asked(1, PAGE | PAGE_SHIFT);
	CHECK_EQ(flushed()->by_address, 1);
	/* Translations of the outer guest, while an inner one runs. */
	set_up();
	asked(1, PAGE | PAGE_SHIFT);
	vcpus[1].machine.nested = true;
	CHECK_EQ(flushed()->by_address, 0);
	CHECK_EQ(vcpus[1].machine.whole, 0);
	CHECK_EQ(vcpus[1].machine.whole_nested, 1);
}

static void states_are_counted(void)
{
	ACCEPTED(ONE, 0, 0, 0);
	CHECK_EQ(counted[PVSYNC_tlb_in_host], 1);
	set_up();
	vcpus[1].mode = IN_GUEST_MODE;
	vcpus[1].ready = true;
	asked(0, 0);
	vcpus[1].mode = EXITING_GUEST_MODE;
	asked(0, 0);
	CHECK_EQ(counted[PVSYNC_tlb_running], 2);
	vcpus[1].mode = OUTSIDE_GUEST_MODE;
	vcpus[1].stat.generic.blocking = 1;
	asked(0, 0);
	CHECK_EQ(counted[PVSYNC_tlb_preempted], 1);
	vcpus[1].ready = false;
	asked(0, 0);
	CHECK_EQ(counted[PVSYNC_tlb_halted], 1);
}

/* The vCPU with index 1, in the midst of an instruction that the host emulates. */
static struct kvm_vcpu *set_up_emulating(void)
{
	struct kvm_vcpu *vcpu = &vcpus[1];

	set_up();
	vcpu->arch.pvsync.tlb.settled = false;
	return vcpu;
}

static long awaited(void)
{
	return pvsync_tlb_shootdown(me, ONE, 0, 0, 0);
}

static void serve(void)
{
	pvsync_flush_tlb(&vcpus[1]);
}

/* Another vCPU has asked it too by the time that it serves, or after that. */
static void ask_and_serve(void)
{
	meanwhile = NULL;
	pvsync_tlb_shootdown(&vcpus[2], ONE, 0, 0, 0);
	serve();
}

static void serve_and_ask(void)
{
	meanwhile = NULL;
	serve();
	CHECK_EQ(pvsync_tlb_shootdown(&vcpus[2], ONE, 0, 0, 0), ONE);
}

static void who_emulates_is_awaited(void)
{
	struct kvm_vcpu *vcpu = set_up_emulating();

	CHECK_EQ(awaited(), ONE);
	CHECK_EQ(counted[PVSYNC_tlb_awaited], 1);
	/* Whether it runs or not. */
	vcpu->mode = EXITING_GUEST_MODE;
	CHECK_EQ(awaited(), ONE);
	vcpu->mode = OUTSIDE_GUEST_MODE;
	vcpu->ready = true;
	CHECK_EQ(awaited(), ONE);
	vcpu->ready = false;
	vcpu->stat.generic.blocking = 1;	/* For a page of the host's, say. */
	CHECK_EQ(awaited(), ONE);
	for (int state = 0; state < 10; state++) {
		vcpu->arch.mp_state = state;
		CHECK_EQ(awaited(), state == KVM_MP_STATE_HALTED ? 0 : ONE);
	}
}

static void who_has_served_the_request_is_not(void)
{
	set_up_emulating();
	meanwhile = serve;
	CHECK_EQ(awaited(), 0);
	CHECK_EQ(counted[PVSYNC_tlb_awaited], 0);
	/* An earlier one does not count. */
	meanwhile = NULL;
	CHECK_EQ(awaited(), ONE);
	meanwhile = ask_and_serve;
	CHECK_EQ(awaited(), 0);
	meanwhile = serve_and_ask;
	CHECK_EQ(awaited(), 0);
}

static void settle_now(void)
{
	vcpus[1].machine.requested = vcpus[1].machine.in_registers = true;
	pvsync_left_guest(&vcpus[1]);
}

static void emulate_now(void)
{
	vcpus[1].arch.at_instruction_boundary = false;
	vcpus[1].machine.in_registers = false;
	pvsync_left_guest(&vcpus[1]);
}

static void stop_there(void)
{
	vcpus[1].arch.at_instruction_boundary = true;
}

/* What was so before the interrupts were taken does not matter. */
static void who_is_between_two_instructions_is_not(void)
{
	struct kvm_vcpu *vcpu = set_up_emulating();

	meanwhile = settle_now;
	CHECK_EQ(awaited(), 0);
	meanwhile = emulate_now;
	CHECK_EQ(awaited(), ONE);
	vcpu = set_up_emulating();
	meanwhile = stop_there;
	CHECK_EQ(awaited(), 0);
	meanwhile = emulate_now;
	CHECK_EQ(awaited(), ONE);
	vcpu->arch.pvsync.tlb.settled = true;
	meanwhile = NULL;
	CHECK_EQ(awaited(), 0);
}

/* For the names 3, 23, 43, 63, 83 and 103. */
static void names_are_folded(void)
{
	static const u64 bits[VCPUS] = {
		1UL << 3, 1UL << 23, 1UL << 43, 1UL << 0, 1UL << 20, 1UL << 40,
	};
	u64 low = 1UL << APIC(0) | 1UL << APIC(1) | 1UL << APIC(2) | 1UL << APIC(3);
	u64 high = 1UL << (APIC(4) - 64) | 1UL << (APIC(5) - 64);

	for (unsigned int which = 0; which < 1U << VCPUS; which++) {
		u64 expected = 0;

		set_up();
		for (unsigned int i = 0; i < VCPUS; i++) {
			bool emulates = which & 1U << i;

			vcpus[i].arch.pvsync.tlb.settled = !emulates;
			if (emulates && i)	/* The caller is past it. */
				expected |= bits[i];
		}
		CHECK_EQ(pvsync_tlb_shootdown(me, low, high, 0, 0), (long)expected);
		CHECK_EQ(counted[PVSYNC_tlb_awaited], __builtin_popcountl(expected));
	}
	/* From a base on, and never negative. */
	set_up_emulating();
	CHECK_EQ(pvsync_tlb_shootdown(me, 1, 0, APIC(1), 0), 1);
	set_up_emulating();
	CHECK_EQ(pvsync_tlb_shootdown(me, 0, 1UL << 63, 0, 0), -KVM_EINVAL);
	set_up();
	map.phys_map[62] = map.phys_map[127] = &lapics[1];
	map.max_apic_id = 127;
	vcpus[1].arch.pvsync.tlb.settled = false;
	CHECK_EQ(pvsync_tlb_shootdown(me, 1UL << 62, 0, 0, 0), 1L << 62);
	CHECK_EQ(pvsync_tlb_shootdown(me, 0, 1UL << 63, 0, 0), 2);
	vcpus[1].arch.pvsync.tlb.settled = true;
	CHECK_EQ(pvsync_tlb_shootdown(me, 1UL << 62, 0, 0, 0), 0);
}

/* Each has the number of its own request, whatever the order of the names is. */
static void serve_last(void)
{
	pvsync_flush_tlb(&vcpus[5]);
}

static void numbers_of_requests_are_not_mixed_up(void)
{
	set_up();
	map.phys_map[APIC(1)] = &lapics[5];
	map.phys_map[APIC(2)] = &lapics[4];
	for (int i = 0; i < 3; i++)
		pvsync_tlb_shootdown(me, 1UL << APIC(2), 0, 0, 0);
	vcpus[4].arch.pvsync.tlb.settled = vcpus[5].arch.pvsync.tlb.settled = false;
	meanwhile = serve_last;
	CHECK_EQ(pvsync_tlb_shootdown(me, 1UL << APIC(1) | 1UL << APIC(2), 0, 0, 0),
		 1L << APIC(2));
}

static bool settled_after(bool requested, bool in_registers)
{
	struct kvm_vcpu *vcpu = &vcpus[1];

	vcpu->machine.requested = requested;
	vcpu->machine.in_registers = in_registers;
	vcpu->machine.asked_about = 0;
	pvsync_left_guest(vcpu);
	CHECK_EQ(vcpu->machine.asked_about, requested);
	return vcpu->arch.pvsync.tlb.settled;
}

static void each_exit_is_looked_at_anew(void)
{
	for (int before = 0; before < 2; before++)
	for (int requested = 0; requested < 2; requested++)
	for (int in_registers = 0; in_registers < 2; in_registers++) {
		set_up();
		vcpus[1].arch.pvsync.tlb.settled = before;
		CHECK_EQ(settled_after(requested, in_registers), requested && in_registers);
	}
}

/* A thread that loses its CPU, in a VM that shoots and in one that does not. */
static void who_loses_its_cpu_says_so(void)
{
	for (int before = 0; before < 2; before++)
	for (int shoots = 0; shoots < 2; shoots++)
	for (int in_registers = 0; in_registers < 2; in_registers++) {
		set_up();
		vm.arch.pvsync.shoots = shoots;
		vcpus[1].arch.pvsync.tlb.settled = before;
		vcpus[1].machine.in_registers = in_registers;
		pvsync_settle_put(&vcpus[1]);
		CHECK_EQ(vcpus[1].machine.asked_about, shoots);
		CHECK_EQ(vcpus[1].arch.pvsync.tlb.settled, shoots ? in_registers : before);
	}
}

static bool settled_in_its_call;

static void look_at_me(void)
{
	settled_in_its_call = me->arch.pvsync.tlb.settled;
}

static void who_shoots_says_so(void)
{
	for (int in_registers = 0; in_registers < 2; in_registers++) {
		set_up();
		me->arch.pvsync.tlb.settled = !in_registers;
		me->machine.in_registers = in_registers;
		meanwhile = look_at_me;
		CHECK_EQ(awaited(), 0);
		CHECK_EQ(settled_in_its_call, in_registers);
	}
}

static void when_it_is_offered(void)
{
	set_up();
	for (int shootdown = 0; shootdown < 2; shootdown++)
	for (int tdp = 0; tdp < 2; tdp++)
	for (int user = 0; user < 2; user++)
	for (int half = 0; half < 2; half++)
	for (int protected = 0; protected < 2; protected++) {
		pvsync_shootdown = shootdown;
		tdp_enabled = tdp;
		me->machine.apic_in_user_mode = user;
		me->machine.code_of_32_bits = half;
		me->arch.guest_state_protected = protected;
		CHECK_EQ(pvsync_tlb_offered(me),
			 shootdown && tdp && !user && !half && !protected);
	}
}

int main(void)
{
	RUN_TEST(unknown_names_are_refused);
	RUN_TEST(a_vcpu_that_is_not_created_yet_is_refused);
	RUN_TEST(ranges_of_no_address_space_are_refused);
	RUN_TEST(nobody_named_is_nothing_done);
	RUN_TEST(without_a_map_all_flush_everything);
	RUN_TEST(ranges_are_kept_up_to_a_number);
	RUN_TEST(pages_are_kept_up_to_a_number);
	RUN_TEST(pages_are_flushed_by_address_where_the_vcpu_was);
	RUN_TEST(everything_is_flushed_otherwise);
	RUN_TEST(states_are_counted);
	RUN_TEST(who_emulates_is_awaited);
	RUN_TEST(who_has_served_the_request_is_not);
	RUN_TEST(who_is_between_two_instructions_is_not);
	RUN_TEST(names_are_folded);
	RUN_TEST(numbers_of_requests_are_not_mixed_up);
	RUN_TEST(each_exit_is_looked_at_anew);
	RUN_TEST(who_loses_its_cpu_says_so);
	RUN_TEST(who_shoots_says_so);
	RUN_TEST(when_it_is_offered);
	return check_summary();
}
