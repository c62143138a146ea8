// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the handling of a spin has cost: arch/x86/kvm/pvsync/spin.c. Its thread may lose its
 * CPU meanwhile, and the key that has pvsync told of that may change in between.
 */
#define CONFIG_PVSYNC_KVM
#define CONFIG_KVM_MAX_NR_VCPUS	256

#include "check.h"

#include <counted.h>

struct task_struct {
	unsigned long	nvcsw, nivcsw;
};

static struct task_struct this_task, *current = &this_task;
static u64 time_ns;

#define local_clock()		time_ns
#define task_cpu(task)		0

static void set_bit(unsigned long bit, unsigned long *map)
{
	map[bit / 64] |= 1UL << bit % 64;
}

static bool test_and_clear_bit(unsigned long bit, unsigned long *map)
{
	bool was = map[bit / 64] >> bit % 64 & 1;

	map[bit / 64] &= ~(1UL << bit % 64);
	return was;
}

struct kvm_vcpu;
static struct kvm_vcpu *kvm_get_running_vcpu(void);
static void kvm_vcpu_on_spin(struct kvm_vcpu *me, bool in_kernel);
static int kvm_vcpu_yield_to(struct kvm_vcpu *target);

#include <../arch/x86/kvm/pvsync/spin.c>

#define US	1000ULL

struct pvsync_choice pvsync_candidate_choice, pvsync_yield_choice;
unsigned int pvsync_spin_gap_us;

static struct kvm vm;
static struct kvm_vcpu vcpus[TEST_VCPUS], *const me = &vcpus[0];
static void (*in_search)(void);
static u64 handling_ns;

struct kvm_vcpu *pvsync_friebel_pick(struct kvm_vcpu *vcpu, struct pvsync_search *search)
{
	return NULL;
}

struct kvm_vcpu *pvsync_hvs_pick(struct kvm_vcpu *vcpu, struct pvsync_search *search)
{
	return NULL;
}

void pvsync_window_spun(struct kvm_vcpu *vcpu, u32 window, u64 ns)
{
	handling_ns = ns;
}

void pvsync_strong_ask(int cpu)
{
}

void pvsync_credit_ask(int cpu)
{
}

unsigned long long pvsync_cpu_switches(int cpu)
{
	return 0;
}

int yield_to(struct task_struct *task, bool preempt)
{
	return 0;
}

static struct kvm_vcpu *kvm_get_running_vcpu(void)
{
	return me;
}

static int kvm_vcpu_yield_to(struct kvm_vcpu *target)
{
	return __pvsync_yield_to(target, NULL);
}

static void kvm_vcpu_on_spin(struct kvm_vcpu *vcpu, bool in_kernel)
{
	in_search();
}

/* Another thread has the CPU for some time; whether pvsync is told as it goes and comes. */
static void is_away(u64 ns, bool told_of_loss, bool told_of_return)
{
	this_task.nivcsw++;
	if (told_of_loss)
		pvsync_spin_waits(me);
	time_ns += ns;
	if (told_of_return)
		pvsync_spin_goes_on(me);
}

static void set_up(void (*search)(void))
{
	memset(&vm, 0, sizeof(vm));
	memset(vcpus, 0, sizeof(vcpus));
	memset(counted, 0, sizeof(counted));
	memset(&this_task, 0, sizeof(this_task));
	vcpus[0].kvm = vcpus[1].kvm = &vm;
	time_ns = 1000000 * US;
	in_search = search;
}

/* Neither the handling nor the choice took more, nor less, than this. */
static void expect_spin(void (*search)(void), u64 ns)
{
	set_up(search);
	for (int i = 0; i < 3; i++) {
		counted[PVSYNC_spin_ns] = 0;
		pvsync_spin(me, PVSYNC_SIGN_FILTER, true);
		CHECK_EQ(handling_ns, ns);
		CHECK_EQ(counted[PVSYNC_spin_ns], ns);
		/* Of no matter out of a spin. */
		is_away(70 * US, i & 1, i & 2);
	}
}

static void search_in_peace(void)
{
	time_ns += 3 * US;
}

static void search_and_be_away(void)
{
	time_ns += US;
	is_away(500 * US, true, true);
	time_ns += US;
	is_away(200 * US, true, true);
	time_ns += US;
}

static void others_time_does_not_count(void)
{
	expect_spin(search_in_peace, 3 * US);
	expect_spin(search_and_be_away, 3 * US);
}

static void search_while_the_key_comes(void)
{
	time_ns += US;
	is_away(500 * US, false, true);
	time_ns += US;
}

static void search_while_the_key_goes(void)
{
	time_ns += US;
	is_away(500 * US, true, false);
	time_ns += US;
}

static void search_while_the_key_goes_and_comes(void)
{
	search_while_the_key_goes();
	search_while_the_key_comes();
	is_away(900 * US, true, true);
}

/* What is not known to be others' counts; what this thread has run is never taken for theirs. */
static void nothing_is_taken_off_that_is_not_known(void)
{
	expect_spin(search_while_the_key_comes, 502 * US);
	expect_spin(search_while_the_key_goes, 502 * US);
	expect_spin(search_while_the_key_goes_and_comes, 1004 * US);
}

/* Each outcome is of one yield, by vCPUs of whatever word, and of those alone that are online. */
static void yields_by_many_are_counted_once(void)
{
	static const int by[] = { 5, 63, 64, 127, 128, 130 };
	struct kvm_vcpu *target = &vcpus[1];

	for (unsigned int online = 0; online <= TEST_VCPUS; online++) {
		unsigned int known = 0;

		set_up(NULL);
		vm.online_vcpus.counter = online;
		for (unsigned int i = 0; i < TEST_VCPUS; i++) {
			vm.vcpus[i] = &vcpus[i];
			vcpus[i].kvm = &vm;
			vcpus[i].vcpu_idx = i;
		}
		for (unsigned int i = 0; i < ARRAY_SIZE(by); i++) {
			spin_note_yield(&vcpus[by[i]], target, 0);
			known += by[i] < (int)online;
		}
		for (int looks = 0; looks < 2; looks++) {
			pvsync_count_yields_to(target, 0);
			CHECK_EQ(counted[PVSYNC_yield_picked], known);
			CHECK_EQ(counted[PVSYNC_yield_ran], known);
			target->arch.pvsync.wanted = true;
		}
	}
}

int main(void)
{
	RUN_TEST(others_time_does_not_count);
	RUN_TEST(nothing_is_taken_off_that_is_not_known);
	RUN_TEST(yields_by_many_are_counted_once);
	return check_summary();
}
