// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a monitor controls of pvsync: the capability that it enables for a VM, the CPUID leaves
 * that the guest finds then, and MSR_PVSYNC_ECS, which it saves and restores.
 *
 * The test is skipped where KVM does not know the capability.
 */
#include <asm/kvm_para.h>
#include <errno.h>
#include <linux/compiler.h>
#include <linux/kvm_para.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "kvm_util.h"
#include "processor.h"
#include "test_util.h"

#include <linux/pvsync/abi.h>

#define OFFERED		"/sys/module/pvsync/parameters/hypercalls"
#define ENOSYS_ANSWER	((uint64_t)-KVM_ENOSYS)
#define BEYOND		(1UL << 51)	/* no memory of the guest */
#define PATTERN		0xa5
#define PATTERN_WORD	0xa5a5a5a5
#define TOLD_WITHIN_MS	2000		/* more than a time slice, with one rival */

enum { GUEST_TOLD, GUEST_SAVE };

static bool has_leaf(uint32_t *features)
{
	uint32_t last, signature[3], unused;

	cpuid(PVSYNC_CPUID_BASE, &last, &signature[0], &signature[1], &signature[2]);
	if (memcmp(signature, PVSYNC_CPUID_SIGNATURE, sizeof(signature)))
		return false;
	GUEST_ASSERT_EQ(last, PVSYNC_CPUID_FEATURES);
	cpuid(PVSYNC_CPUID_FEATURES, features, &signature[0], &signature[1], &unused);
	GUEST_ASSERT(!signature[0] && !signature[1] && !unused);
	return true;
}

static void guest_without(void)
{
	uint32_t features;
	uint64_t value;

	GUEST_ASSERT(!has_leaf(&features));
	GUEST_ASSERT_EQ(kvm_hypercall(PVSYNC_HC_FEATURES, 0, 0, 0, 0), ENOSYS_ANSWER);
	GUEST_ASSERT_EQ(rdmsr_safe(MSR_PVSYNC_ECS, &value), GP_VECTOR);
	GUEST_ASSERT_EQ(wrmsr_safe(MSR_PVSYNC_ECS, 0), GP_VECTOR);
	GUEST_ASSERT_EQ(wrmsr_safe(MSR_PVSYNC_ECS, PVSYNC_ECS_SIZE | PVSYNC_ECS_COUNT), GP_VECTOR);
	GUEST_DONE();
}

/* Whether the features are these, and no call of the others is answered. */
static void guest_with(uint64_t enabled)
{
	uint32_t features;

	GUEST_ASSERT(has_leaf(&features));
	/* The host may be unable to flush translations for this vCPU. */
	GUEST_ASSERT_EQ(features | PVSYNC_FEATURE_TLB, enabled | PVSYNC_FEATURE_TLB);
	GUEST_ASSERT(!(features & ~enabled));
	GUEST_ASSERT_EQ(kvm_hypercall(PVSYNC_HC_FEATURES, 0, 0, 0, 0), features);
	GUEST_ASSERT_EQ(kvm_hypercall(PVSYNC_HC_HELP, 0, 0, 0, 0),
			enabled & PVSYNC_FEATURE_HELP ? 0 : ENOSYS_ANSWER);
	GUEST_ASSERT_EQ(kvm_hypercall(PVSYNC_HC_GIVE_BACK, 0, 0, 0, 0),
			enabled & PVSYNC_FEATURE_ECS ? 0 : ENOSYS_ANSWER);
	if (!(enabled & PVSYNC_FEATURE_TLB))
		GUEST_ASSERT_EQ(kvm_hypercall(PVSYNC_HC_TLB, 0, 0, 0, 0), ENOSYS_ANSWER);
	GUEST_ASSERT_EQ(wrmsr_safe(MSR_PVSYNC_ECS, 0),
			enabled & PVSYNC_FEATURE_ECS ? 0 : GP_VECTOR);
	GUEST_DONE();
}

static void guest_refused(uint64_t value, uint64_t before)
{
	GUEST_ASSERT_EQ(wrmsr_safe(MSR_PVSYNC_ECS, value), GP_VECTOR);
	GUEST_ASSERT_EQ(rdmsr(MSR_PVSYNC_ECS), before);
}

/* The record alone has what form PVSYNC_ECS_FREE needs. */
static void make_layout(struct pvsync_ecs *record, uint64_t gpa)
{
	record->layout = (struct pvsync_ecs_layout) {
		.version	= PVSYNC_ECS_LAYOUT_MSR,
		.interrupt	= 0xffff0000,
		.section	= 0x0000ffff,
		.nesting	= 0x000000ff,
		.wait		= 1,
	};
	record->addresses[0] = gpa + PVSYNC_ECS_SIZE;
	record->addresses[1] = 0;
	record->addresses[2] = 0;
}

/* What is wrong is refused whatever is shared before, and leaves that as it was. */
static void guest_tries_wrong_values(struct pvsync_ecs *record, uint64_t gpa, uint64_t before)
{
	static const uint64_t wrong_forms[] = { 0, 2, 5, 64 | PVSYNC_ECS_COUNT, 0x7f };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(wrong_forms); i++)
		guest_refused(gpa | wrong_forms[i], before);
	guest_refused(BEYOND | PVSYNC_ECS_COUNT, before);
	guest_refused(1UL << 63 | gpa | PVSYNC_ECS_COUNT, before);
	if ((before & PVSYNC_ECS_FORM_MASK) == PVSYNC_ECS_FREE)
		return;
	guest_refused(gpa | PVSYNC_ECS_FREE, before);
	make_layout(record, gpa);
	record->layout.version = PVSYNC_ECS_LAYOUT;
	guest_refused(gpa | PVSYNC_ECS_FREE, before);
	make_layout(record, gpa);
	record->addresses[0] = BEYOND;
	guest_refused(gpa | PVSYNC_ECS_FREE, before);
	make_layout(record, gpa);
	record->addresses[1] = gpa + 4;
	guest_refused(gpa | PVSYNC_ECS_FREE, before);
	memset(record, 0, sizeof(*record));
}

/* The host's half held PATTERN before; the guest finds what the host has to say. */
static void guest_waits_for_host(struct pvsync_ecs *record, uint64_t cycles)
{
	uint64_t began = rdtsc();

	while (READ_ONCE(record->preempted) == PATTERN_WORD && rdtsc() - began < cycles)
		cpu_relax();
	GUEST_ASSERT_EQ(READ_ONCE(record->preempted), 0);
	GUEST_ASSERT(READ_ONCE(record->overcommitted) <= 1);
	GUEST_ASSERT_EQ(READ_ONCE(record->borrowed), 0);
}

static void guest_shares(struct pvsync_ecs *record, uint64_t gpa, uint64_t form, uint64_t cycles)
{
	uint64_t value = gpa | form;

	GUEST_ASSERT_EQ(rdmsr(MSR_PVSYNC_ECS), 0);
	if (form == PVSYNC_ECS_FREE)
		make_layout(record, gpa);
	wrmsr(MSR_PVSYNC_ECS, value);
	GUEST_ASSERT_EQ(rdmsr(MSR_PVSYNC_ECS), value);
	GUEST_SYNC(GUEST_TOLD);
	guest_waits_for_host(record, cycles);
	guest_tries_wrong_values(record, gpa, value);
	GUEST_SYNC(GUEST_TOLD);
	guest_waits_for_host(record, cycles);

	GUEST_SYNC(GUEST_SAVE);
	guest_waits_for_host(record, cycles);
	GUEST_ASSERT_EQ(rdmsr(MSR_PVSYNC_ECS), value);
	wrmsr(MSR_PVSYNC_ECS, value);
	wrmsr(MSR_PVSYNC_ECS, 0);
	GUEST_ASSERT_EQ(rdmsr(MSR_PVSYNC_ECS), 0);
	GUEST_DONE();
}

static void fill(struct pvsync_ecs *record)
{
	memset(&record->preempted, PATTERN,
	       sizeof(*record) - offsetof(struct pvsync_ecs, preempted));
}

/* Return: what the guest syncs with; -1 when it is done. */
static int run(struct kvm_vcpu *vcpu)
{
	struct ucall uc;

	vcpu_run(vcpu);
	TEST_ASSERT_KVM_EXIT_REASON(vcpu, KVM_EXIT_IO);
	switch (get_ucall(vcpu, &uc)) {
	case UCALL_ABORT:
		REPORT_GUEST_ASSERT(uc);
		break;
	case UCALL_DONE:
		return -1;
	case UCALL_SYNC:
		return uc.args[1];
	default:
		TEST_FAIL("ucall %lu", uc.cmd);
	}
	return -1;
}

static void check_refused_cap(struct kvm_vm *vm, uint64_t features, uint64_t other, int error)
{
	struct kvm_enable_cap cap = { .cap = KVM_CAP_PVSYNC, .args = { features, other } };
	int ret = __vm_ioctl(vm, KVM_ENABLE_CAP, &cap);

	TEST_ASSERT(ret == -1 && errno == error, "features %#lx, %#lx: %d, error %d, not %d",
		    features, other, ret, errno, error);
}

static void check_capability(uint64_t known)
{
	struct kvm_vm *vm = vm_create(1);
	struct kvm_vcpu *vcpu;
	unsigned int bit;

	TEST_ASSERT(vm_check_cap(vm, KVM_CAP_PVSYNC) == known, "a VM has other features");
	for (bit = 0; bit < 64; bit++)
		if (!(known & 1UL << bit))
			check_refused_cap(vm, 1UL << bit, 0, EINVAL);
	check_refused_cap(vm, known, 1, EINVAL);
	TEST_ASSERT(__vm_enable_cap(vm, KVM_CAP_PVSYNC + 1, 0) == -1 && errno == EINVAL,
		    "another capability");
	vm_enable_cap(vm, KVM_CAP_PVSYNC, known);
	vcpu = vm_vcpu_add(vm, 0, guest_without);
	/* The refused ones have changed nothing: the guest, which expects no feature, has some. */
	check_refused_cap(vm, 0, 0, EBUSY);
	TEST_ASSERT(_vcpu_set_msr(vcpu, MSR_PVSYNC_ECS, 0) == 1, "the MSR is not there");
	kvm_vm_free(vm);
}

/* A VM that has no feature: the guest finds nothing, the monitor can set nothing but 0. */
static void check_without(struct kvm_vm *vm)
{
	struct kvm_vcpu *vcpu = vm_vcpu_add(vm, 0, guest_without);
	vm_vaddr_t page = vm_vaddr_alloc_page(vm);

	TEST_ASSERT(!_vcpu_set_msr(vcpu, MSR_PVSYNC_ECS,
				   addr_gva2gpa(vm, page) | PVSYNC_ECS_COUNT),
		    "the MSR is set without the feature");
	TEST_ASSERT(_vcpu_set_msr(vcpu, MSR_PVSYNC_ECS, 0) == 1 &&
		    !vcpu_get_msr(vcpu, MSR_PVSYNC_ECS), "what KVM lists is 0 where it is not");
	TEST_ASSERT(run(vcpu) == -1, "the guest is not done");
	kvm_vm_free(vm);
}

static void check_with(struct kvm_vm *vm, uint64_t features)
{
	struct kvm_vcpu *vcpu = vm_vcpu_add(vm, 0, guest_with);

	vcpu_args_set(vcpu, 1, features);
	TEST_ASSERT(run(vcpu) == -1, "the guest is not done");
	kvm_vm_free(vm);
}

static struct kvm_vm *create(uint64_t features)
{
	struct kvm_vm *vm = vm_create(1);

	vm_enable_cap(vm, KVM_CAP_PVSYNC, features);
	return vm;
}

/* A VM whose monitor says nothing has what the host's parameter gives. */
static void check_default(uint64_t known)
{
	FILE *file = fopen(OFFERED, "r");
	int value = file ? fgetc(file) : EOF;

	TEST_ASSERT(value == 'Y' || value == 'N', OFFERED " is '%c'", value);
	fclose(file);
	if (value == 'Y')
		check_with(vm_create(1), known);
	else
		check_without(vm_create(1));
}

/* The same memory in another VM, as a migration leaves it. */
static struct kvm_vcpu *move(struct kvm_vm *vm, uint64_t features)
{
	kvm_vm_release(vm);
	kvm_vm_restart(vm);
	vm_enable_cap(vm, KVM_CAP_PVSYNC, features);
	return vm_vcpu_recreate(vm, 0);
}

/* A host where the VM lacks the feature takes what comes before the MSR, and stops there. */
static void check_moved_to_none(struct kvm_vm *vm, struct kvm_x86_state *state)
{
	struct kvm_vcpu *vcpu = move(vm, 0);
	int taken;

	vcpu_sregs_set(vcpu, &state->sregs);
	taken = __vcpu_ioctl(vcpu, KVM_SET_MSRS, &state->msrs);
	TEST_ASSERT(taken >= 0 && taken < state->msrs.nmsrs,
		    "%d of %u MSRs are restored without the feature", taken, state->msrs.nmsrs);
	TEST_ASSERT(state->msrs.entries[taken].index == MSR_PVSYNC_ECS, "MSR %#x is refused",
		    state->msrs.entries[taken].index);
}

static void check_refused_to_monitor(struct kvm_vcpu *vcpu, uint64_t value)
{
	uint64_t before = vcpu_get_msr(vcpu, MSR_PVSYNC_ECS);

	TEST_ASSERT(!_vcpu_set_msr(vcpu, MSR_PVSYNC_ECS, value), "%#lx is taken", value);
	TEST_ASSERT(vcpu_get_msr(vcpu, MSR_PVSYNC_ECS) == before, "%#lx leaves %#lx", value,
		    vcpu_get_msr(vcpu, MSR_PVSYNC_ECS));
}

static void check_shared(uint64_t form)
{
	struct kvm_vm *vm = create(PVSYNC_FEATURE_ECS);
	struct kvm_vcpu *vcpu = vm_vcpu_add(vm, 0, guest_shares);
	vm_vaddr_t page = vm_vaddr_alloc_page(vm);
	struct pvsync_ecs *record = addr_gva2hva(vm, page);
	uint64_t gpa = addr_gva2gpa(vm, page);
	struct kvm_x86_state *state;
	struct pvsync_ecs saved;
	int said;

	memset(record, 0, sizeof(*record));
	vcpu_args_set(vcpu, 4, page, gpa, form,
		      (uint64_t)__vcpu_ioctl(vcpu, KVM_GET_TSC_KHZ, NULL) * TOLD_WITHIN_MS);
	for (said = run(vcpu); said == GUEST_TOLD; said = run(vcpu))
		fill(record);
	TEST_ASSERT(said == GUEST_SAVE, "the guest says %d", said);
	check_refused_to_monitor(vcpu, gpa | 2);
	check_refused_to_monitor(vcpu, gpa | 64 | form);
	check_refused_to_monitor(vcpu, BEYOND | form);

	state = vcpu_save_state(vcpu);
	saved = *record;
	check_moved_to_none(vm, state);
	TEST_ASSERT(!memcmp(record, &saved, sizeof(saved)), "a refused restore writes");

	/* What a guest has written meanwhile does not stop its restore. */
	memset(&record->layout, 0xff, sizeof(record->layout));
	vcpu = move(vm, PVSYNC_FEATURE_ECS);
	vcpu_load_state(vcpu, state);
	TEST_ASSERT(vcpu_get_msr(vcpu, MSR_PVSYNC_ECS) == (gpa | form), "the MSR is not restored");

	*record = saved;
	fill(record);
	vcpu = move(vm, PVSYNC_FEATURE_ECS);
	vcpu_load_state(vcpu, state);
	TEST_ASSERT(vcpu_get_msr(vcpu, MSR_PVSYNC_ECS) == (gpa | form), "the MSR is not restored");
	said = run(vcpu);
	TEST_ASSERT(said == -1, "the guest says %d", said);
	TEST_ASSERT(!vcpu_get_msr(vcpu, MSR_PVSYNC_ECS), "the record is not taken back");
	kvm_x86_state_cleanup(state);
	kvm_vm_free(vm);
}

/* Set to end rival(), which wants the vCPU's CPU so that the host switches to and fro. */
static bool over;

static void *rival(void *unused)
{
	while (!READ_ONCE(over))
		cpu_relax();
	return NULL;
}

int main(void)
{
	uint64_t known = kvm_check_cap(KVM_CAP_PVSYNC);
	pthread_t thread;

	__TEST_REQUIRE(known, "KVM does not know the capability of pvsync");
	TEST_ASSERT(!(known & ~PVSYNC_FEATURES) && known & PVSYNC_FEATURE_ECS, "features %#lx",
		    known);
	TEST_ASSERT(kvm_msr_is_in_save_restore_list(MSR_PVSYNC_ECS), "KVM does not list the MSR");

	kvm_pin_this_task_to_pcpu(sched_getcpu());
	pthread_create(&thread, NULL, rival, NULL);
	check_capability(known);
	check_default(known);
	check_without(create(0));
	check_with(create(known), known);
	check_with(create(PVSYNC_FEATURE_HELP), PVSYNC_FEATURE_HELP);
	check_with(create(PVSYNC_FEATURE_ECS), PVSYNC_FEATURE_ECS);
	check_shared(PVSYNC_ECS_COUNT);
	check_shared(PVSYNC_ECS_SILENT);
	check_shared(PVSYNC_ECS_FREE);
	WRITE_ONCE(over, true);
	pthread_join(thread, NULL);
	return 0;
}
