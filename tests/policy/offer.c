// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a VM has, and what asks the host to do anything for vCPUs: arch/x86/kvm/pvsync/offer.c. A
 * monitor that resets vCPUs, or writes back the 0 that it has read, asks for nothing.
 */
#define CONFIG_PVSYNC_KVM
#define CONFIG_KVM_MAX_NR_VCPUS	256

#include <errno.h>

#include "check.h"

#include <linux/kvm_host.h>

static bool tdp_enabled = true;

#include <../arch/x86/kvm/pvsync/offer.c>

bool pvsync_hypercalls;

static struct kvm vm;
static struct kvm_vcpu vcpu = { .kvm = &vm };
static unsigned int asked, forgotten;
static u64 shared;

void pvsync_vcpus_ask(void)
{
	asked++;
}

bool pvsync_tlb_offered(struct kvm_vcpu *it)
{
	return tdp_enabled;
}

void pvsync_ecs_forget(struct kvm_vcpu *it)
{
	forgotten++;
	shared = 0;
}

u64 pvsync_ecs_msr(struct kvm_vcpu *it)
{
	return shared;
}

int pvsync_ecs_set_msr(struct kvm_vcpu *it, u64 data, bool by_monitor)
{
	shared = data;
	return 0;
}

static int enable(u64 features)
{
	struct kvm_enable_cap cap = { .cap = KVM_CAP_PVSYNC, .args = { features } };

	return pvsync_enable_cap(&vm, &cap);
}

static int set_msr(u64 data, bool by_monitor)
{
	struct msr_data msr = { .index = MSR_PVSYNC_ECS, .data = data,
				.host_initiated = by_monitor };

	return pvsync_set_msr(&vcpu, &msr);
}

static u64 get_msr(void)
{
	struct msr_data msr = { .index = MSR_PVSYNC_ECS };

	CHECK_EQ(pvsync_get_msr(&vcpu, &msr), 0);
	return msr.data;
}

static void set_up(void)
{
	memset(&vm, 0, sizeof(vm));
	pvsync_hypercalls = false;
	asked = forgotten = 0;
	shared = 0;
}

static void a_record_asks_and_none_does_not(void)
{
	for (int by_monitor = 0; by_monitor < 2; by_monitor++) {
		set_up();
		CHECK_EQ(enable(PVSYNC_FEATURE_ECS), 0);
		CHECK_EQ(set_msr(0, by_monitor), 0);
		CHECK_EQ(asked, 0);
		CHECK_EQ(get_msr(), 0);
		CHECK_EQ(set_msr(0x1001, by_monitor), 0);
		CHECK_EQ(asked, 1);
		CHECK_EQ(get_msr(), 0x1001);
	}
	CHECK(kernel_is_left());
}

/* It can take its record back all the same. */
static void a_vm_without_the_feature_asks_for_nothing(void)
{
	struct msr_data msr = { .index = MSR_PVSYNC_ECS };

	set_up();
	CHECK_EQ(enable(PVSYNC_FEATURE_HELP), 0);
	CHECK_EQ(pvsync_get_msr(&vcpu, &msr), KVM_MSR_RET_UNSUPPORTED);
	CHECK_EQ(set_msr(0x1001, false), KVM_MSR_RET_UNSUPPORTED);
	CHECK_EQ(forgotten, 0);
	CHECK_EQ(set_msr(0, false), KVM_MSR_RET_UNSUPPORTED);
	CHECK_EQ(forgotten, 1);
	CHECK_EQ(asked, 0);
}

static void the_monitor_chooses_once_and_before_vcpus(void)
{
	set_up();
	pvsync_hypercalls = true;
	CHECK_EQ(pvsync_vm_features(&vm), PVSYNC_FEATURES);
	CHECK_EQ(enable(PVSYNC_FEATURES << 1), -EINVAL);
	CHECK_EQ(enable(0), 0);
	CHECK_EQ(pvsync_vm_features(&vm), 0);
	vm.created_vcpus = 1;
	CHECK_EQ(enable(PVSYNC_FEATURE_ECS), -EBUSY);
	CHECK_EQ(pvsync_vm_features(&vm), 0);
	CHECK(kernel_is_left());
}

int main(void)
{
	RUN_TEST(a_record_asks_and_none_does_not);
	RUN_TEST(a_vm_without_the_feature_asks_for_nothing);
	RUN_TEST(the_monitor_chooses_once_and_before_vcpus);
	return check_summary();
}
