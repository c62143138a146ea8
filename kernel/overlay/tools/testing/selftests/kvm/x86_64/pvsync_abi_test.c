// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ABI of pvsync: what each hypercall answers, also to arguments that have no
 * meaning, and what the host writes into the record that a vCPU shares.
 *
 * The test is skipped where the host offers no hypercall of pvsync.
 */
#include <asm/kvm_para.h>
#include <linux/compiler.h>
#include <linux/kvm_para.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>

#include "apic.h"
#include "kvm_util.h"
#include "processor.h"
#include "test_util.h"

#include <linux/pvsync/abi.h>

#define OFFERED		(PVSYNC_FEATURE_HELP | PVSYNC_FEATURE_TLB | PVSYNC_FEATURE_ECS)
#define ONE_PAGE	(1UL << PVSYNC_TLB_PAGES_SHIFT)
#define ALL_PAGES	(0xffffffffUL << PVSYNC_TLB_PAGES_SHIFT)
#define SIZE_4K		12
#define SIZE_2M		21
#define SIZE_1G		30
#define BEYOND		(1UL << 52)	/* no guest-physical address */
#define EINVAL_ANSWER	((uint64_t)-KVM_EINVAL)
#define ENOSYS_ANSWER	((uint64_t)-KVM_ENOSYS)
#define RETIRED		0x70760002	/* a flush without an answer about targets to await */
#define PATTERN		0xa5
#define WATCHED_MS	300

/* An argument with this bit is an offset from the address of the record. */
#define RECORD		(1UL << 63)

struct call {
	uint64_t nr;
	uint64_t args[4];
	uint64_t answer;
	const char *name;
};

#define CALL(nr, a0, a1, a2, a3, answer) \
	{ nr, { a0, a1, a2, a3 }, answer, #nr "(" #a0 ", " #a1 ", " #a2 ", " #a3 ")" }

static const struct call calls[] = {
	CALL(PVSYNC_HC_FEATURES, 0, 0, 0, 0, OFFERED),
	CALL(PVSYNC_HC_FEATURES, 1, 0, 0, 0, EINVAL_ANSWER),
	CALL(PVSYNC_HC_FEATURES - 1, 0, 0, 0, 0, ENOSYS_ANSWER),
	CALL(PVSYNC_HC_TLB + 1, 0, 0, 0, 0, ENOSYS_ANSWER),
	CALL(RETIRED, 0, 0, 0, 0, ENOSYS_ANSWER),
	CALL(RETIRED, 1, 0, 0, 0, ENOSYS_ANSWER),
	CALL(0x7076ffff, 0, 0, 0, 0, ENOSYS_ANSWER),
	CALL(0x7076, 0, 0, 0, 0, ENOSYS_ANSWER),

	CALL(PVSYNC_HC_HELP, 0, 0, 0, 0, 0),
	CALL(PVSYNC_HC_HELP, 1, 0, 0, 0, EINVAL_ANSWER),

	/* One vCPU, with the APIC ID 0. */
	CALL(PVSYNC_HC_TLB, 0, 0, 0, 0, 0),
	CALL(PVSYNC_HC_TLB, 1, 0, 0, 0, 0),
	CALL(PVSYNC_HC_TLB, 1, 0, ONE_PAGE, 0x400000 | SIZE_4K, 0),
	CALL(PVSYNC_HC_TLB, 1, 0, 33 * ONE_PAGE, 0x400000 | SIZE_2M, 0),
	CALL(PVSYNC_HC_TLB, 1, 0, ALL_PAGES, SIZE_4K, 0),
	CALL(PVSYNC_HC_TLB, 1, 0, 2 * ONE_PAGE, 0x40000000 | SIZE_1G, 0),
	CALL(PVSYNC_HC_TLB, 2, 0, 0, 0, EINVAL_ANSWER),
	CALL(PVSYNC_HC_TLB, 1UL << 63, 0, 0, 0, EINVAL_ANSWER),
	CALL(PVSYNC_HC_TLB, 1, 1UL << 63, 0, 0, EINVAL_ANSWER),
	CALL(PVSYNC_HC_TLB, 1, 0, 2, 0, EINVAL_ANSWER),
	CALL(PVSYNC_HC_TLB, 1, 0, 0xffffffff, 0, EINVAL_ANSWER),
	CALL(PVSYNC_HC_TLB, 1, 0, 0, 0x400000 | SIZE_4K, EINVAL_ANSWER),
	CALL(PVSYNC_HC_TLB, 1, 0, ONE_PAGE, 0x400000, EINVAL_ANSWER),
	CALL(PVSYNC_HC_TLB, 1, 0, ONE_PAGE, 0x400000 | 13, EINVAL_ANSWER),
	CALL(PVSYNC_HC_TLB, 1, 0, ONE_PAGE, 0x0100000000000000 | SIZE_4K, EINVAL_ANSWER),
	CALL(PVSYNC_HC_TLB, 1, 0, ALL_PAGES, 0xfffffffffffff000 | SIZE_4K, EINVAL_ANSWER),
	CALL(PVSYNC_HC_TLB, 1, 0, 2 * ONE_PAGE, 0x7ffffffff000 | SIZE_4K, EINVAL_ANSWER),
	CALL(PVSYNC_HC_TLB, 1, 0, 2 * ONE_PAGE, 0xffffffffc0000000 | SIZE_1G, EINVAL_ANSWER),

	CALL(PVSYNC_HC_ECS, 0, 0, 0, 0, 0),
	CALL(PVSYNC_HC_ECS, RECORD | PVSYNC_ECS_COUNT, 0, 0, 0, 0),
	CALL(PVSYNC_HC_ECS, RECORD | PVSYNC_ECS_SILENT, 0, 0, 0, 0),
	CALL(PVSYNC_HC_ECS, RECORD, 0, 0, 0, EINVAL_ANSWER),
	CALL(PVSYNC_HC_ECS, BEYOND | PVSYNC_ECS_COUNT, 0, 0, 0, EINVAL_ANSWER),
	CALL(PVSYNC_HC_ECS, RECORD | 64 | PVSYNC_ECS_COUNT, 0, 0, 0, EINVAL_ANSWER),
	CALL(PVSYNC_HC_ECS, RECORD | PVSYNC_ECS_COUNT, 8, 0, 0, EINVAL_ANSWER),
	CALL(PVSYNC_HC_ECS, RECORD | PVSYNC_ECS_COUNT, 0, 8, 0, EINVAL_ANSWER),
	CALL(PVSYNC_HC_ECS, RECORD | PVSYNC_ECS_COUNT, 0, 0, 8, EINVAL_ANSWER),
	CALL(PVSYNC_HC_ECS, RECORD | PVSYNC_ECS_SILENT, 8, 0, 0, EINVAL_ANSWER),
	CALL(PVSYNC_HC_ECS, RECORD | PVSYNC_ECS_FREE, 0, 0, 0, EINVAL_ANSWER),
	CALL(PVSYNC_HC_ECS, RECORD | PVSYNC_ECS_FREE, RECORD | 2, 0, 0, EINVAL_ANSWER),
	CALL(PVSYNC_HC_ECS, RECORD | PVSYNC_ECS_FREE, BEYOND, 0, 0, EINVAL_ANSWER),
	CALL(PVSYNC_HC_ECS, RECORD | PVSYNC_ECS_FREE, RECORD, BEYOND, 0, EINVAL_ANSWER),
	CALL(PVSYNC_HC_ECS, RECORD | PVSYNC_ECS_FREE, RECORD, RECORD, 2, EINVAL_ANSWER),
	CALL(PVSYNC_HC_ECS, 0, RECORD, 0, 0, EINVAL_ANSWER),
	CALL(PVSYNC_HC_ECS, 0, 0, 0, 0, 0),

	CALL(PVSYNC_HC_GIVE_BACK, 0, 0, 0, 0, 0),
	CALL(PVSYNC_HC_GIVE_BACK, 1, 0, 0, 0, EINVAL_ANSWER),
};

enum { FEATURES, ANSWER, SHARED, TAKEN_BACK };

static uint64_t address(uint64_t arg, uint64_t record)
{
	/* In a PVSYNC_HC_TLB this bit means something else; make() leaves its arguments alone. */
	return arg & RECORD ? (arg & ~RECORD) | record : arg;
}

static uint64_t make(const struct call *call, uint64_t record)
{
	const uint64_t *a = call->args;

	if (call->nr != PVSYNC_HC_ECS)
		return kvm_hypercall(call->nr, a[0], a[1], a[2], a[3]);
	return kvm_hypercall(call->nr, address(a[0], record), address(a[1], record),
			     address(a[2], record), a[3]);
}

static void wait_cycles(uint64_t cycles)
{
	uint64_t began = rdtsc();

	while (rdtsc() - began < cycles)
		cpu_relax();
}

static void guest_main(uint64_t record, uint64_t cycles)
{
	unsigned int i;

	/* KVM knows a vCPU by its APIC ID once the guest has set its APIC up. */
	x2apic_enable();
	GUEST_SYNC_ARGS(FEATURES, kvm_hypercall(PVSYNC_HC_FEATURES, 0, 0, 0, 0), 0, 0, 0);
	for (i = 0; i < ARRAY_SIZE(calls); i++)
		GUEST_SYNC_ARGS(ANSWER, i, make(&calls[i], record), 0, 0);

	GUEST_ASSERT_EQ(kvm_hypercall(PVSYNC_HC_ECS, record | PVSYNC_ECS_COUNT, 0, 0, 0), 0);
	GUEST_SYNC_ARGS(SHARED, 0, 0, 0, 0);
	wait_cycles(cycles);
	GUEST_ASSERT_EQ(kvm_hypercall(PVSYNC_HC_ECS, 0, 0, 0, 0), 0);
	GUEST_SYNC_ARGS(TAKEN_BACK, 0, 0, 0, 0);
	wait_cycles(cycles);
	GUEST_DONE();
}

/* Set to end rival(), which wants the vCPU's CPU so that the host switches to and fro. */
static bool over;

static void *rival(void *unused)
{
	while (!READ_ONCE(over))
		cpu_relax();
	return NULL;
}

static unsigned int answered, wrong;

static bool right(const struct call *call, uint64_t answer)
{
	/* The answer may name targets to await; each of the first 63 has a bit of its own. */
	if (call->nr == PVSYNC_HC_TLB && !call->answer)
		return !(answer & ~call->args[0]);
	return answer == call->answer;
}

static void check_answer(uint64_t i, uint64_t answer)
{
	TEST_ASSERT(i < ARRAY_SIZE(calls), "call %lu of %lu", i, ARRAY_SIZE(calls));
	answered++;
	if (right(&calls[i], answer))
		return;
	wrong++;
	pr_info("%s answers %ld, not %ld\n", calls[i].name, (long)answer, (long)calls[i].answer);
}

/* The host's half held PATTERN before, so every right value is the host's. */
static void check_shared(struct pvsync_ecs *record)
{
	static const struct pvsync_ecs none;

	TEST_ASSERT(!memcmp(record, &none, offsetof(struct pvsync_ecs, preempted)),
		    "the host has written into the guest's half");
	TEST_ASSERT(record->preempted <= 1 && record->overcommitted <= 1 && record->borrowed <= 1,
		    "preempted %#x, overcommitted %#x, borrowed %#x", record->preempted,
		    record->overcommitted, record->borrowed);
	pr_info("preempted %u, overcommitted %u, borrowed %u\n", record->preempted,
		record->overcommitted, record->borrowed);
}

static void check_left_alone(struct pvsync_ecs *record)
{
	const uint8_t *byte = (const uint8_t *)&record->preempted;

	for (; byte < (const uint8_t *)(record + 1); byte++)
		TEST_ASSERT(*byte == PATTERN, "the host writes into a record that was taken back");
}

static void fill(struct pvsync_ecs *record)
{
	memset(&record->preempted, PATTERN, sizeof(*record) - offsetof(struct pvsync_ecs, preempted));
}

static void share_a_cpu(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	TEST_ASSERT(!sched_setaffinity(0, sizeof(one), &one), "sched_setaffinity");
}

/* True until the guest is done. */
static bool step(struct kvm_vcpu *vcpu, struct pvsync_ecs *record)
{
	struct ucall uc;

	vcpu_run(vcpu);
	TEST_ASSERT_KVM_EXIT_REASON(vcpu, KVM_EXIT_IO);
	switch (get_ucall(vcpu, &uc)) {
	case UCALL_ABORT:
		REPORT_GUEST_ASSERT(uc);
		break;
	case UCALL_DONE:
		return false;
	case UCALL_SYNC:
		break;
	default:
		TEST_FAIL("ucall %lu", uc.cmd);
	}
	switch (uc.args[1]) {
	case FEATURES:
		__TEST_REQUIRE(uc.args[2] != ENOSYS_ANSWER, "the host offers nothing of pvsync");
		break;
	case ANSWER:
		check_answer(uc.args[2], uc.args[3]);
		memset(record, 0, sizeof(*record));
		break;
	case SHARED:
		fill(record);
		break;
	case TAKEN_BACK:
		check_shared(record);
		fill(record);
		break;
	}
	return true;
}

int main(void)
{
	struct pvsync_ecs *record;
	struct kvm_vcpu *vcpu;
	struct kvm_vm *vm;
	pthread_t thread;
	vm_vaddr_t page;

	vm = vm_create_with_one_vcpu(&vcpu, guest_main);
	page = vm_vaddr_alloc_page(vm);
	record = addr_gva2hva(vm, page);
	memset(record, 0, sizeof(*record));
	vcpu_args_set(vcpu, 2, addr_gva2gpa(vm, page),
		      (uint64_t)__vcpu_ioctl(vcpu, KVM_GET_TSC_KHZ, NULL) * WATCHED_MS);

	share_a_cpu();
	pthread_create(&thread, NULL, rival, NULL);
	while (step(vcpu, record))
		;
	check_left_alone(record);
	TEST_ASSERT(!wrong && answered == ARRAY_SIZE(calls), "%u of %u answers are wrong", wrong,
		    answered);
	WRITE_ONCE(over, true);
	pthread_join(thread, NULL);
	kvm_vm_free(vm);
	return 0;
}
