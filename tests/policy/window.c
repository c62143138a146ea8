// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a window and its epochs cost a VM, and from when on: arch/x86/kvm/pvsync/window.c.
 * Epochs have memory, a counter that all vCPUs share, and the run queues' locks; who has not
 * asked for them has none of it.
 */
#define CONFIG_PVSYNC_KVM
#define CONFIG_KVM_MAX_NR_VCPUS	256

#include "check.h"

#include <counted.h>

static unsigned long tsc_khz = 1000000;

#include <../arch/x86/kvm/pvsync/window.c>

/* Whether KVM has a lock for whose thread a vCPU is; else RCU keeps its pid. */
#ifndef PID_HAS_LOCK
#define PID_HAS_LOCK	0
#endif

#define VCPUS	4
#define EPOCH	20
#define SPUN	(1U << 20)	/* Cycles, of which a test's epoch has enough for a figure. */

struct pvsync_choice pvsync_window_choice, pvsync_pause_choice;
struct pvsync_number pvsync_aple_start = { .now = 8192 };
struct pvsync_number pvsync_aple_min = { .now = 4096 };
struct pvsync_number pvsync_aple_max = { .now = 32768 };
struct pvsync_number pvsync_aple_step = { .now = 1024 };
struct pvsync_number pvsync_aple_epoch = { .now = EPOCH };
struct pvsync_number pvsync_pause_cycles = { .now = 0 }, pvsync_pause_gap_us = { .now = 100 };
unsigned int pvsync_pause_measured = 40;

static struct kvm vm;
static struct kvm_vcpu vcpus[VCPUS];
static struct pid { int unused; } pids[VCPUS];
static unsigned int tried, allocated, freed, times_read;
static bool no_memory;
static struct pvsync_epochs *installed_meanwhile;
static u64 cpu_ns;
static struct seq_file shown;

void *kvzalloc(size_t size, unsigned int flags)
{
	tried++;
	if (no_memory)
		return NULL;
	allocated++;
	if (installed_meanwhile)
		vm.arch.pvsync.epochs = installed_meanwhile;
	return calloc(1, size);
}

void kvfree(const void *memory)
{
	freed += !!memory;
	free((void *)memory);
}

/* Takes the lock of a run queue in the kernel. Neither pid nor task may go meanwhile. */
u64 pvsync_thread_ns(struct pid *pid)
{
	CHECK_EQ(kernel_rcu, 1);
	CHECK_EQ(vcpus[pid - pids].pid_lock.readers, PID_HAS_LOCK);
	times_read++;
	return cpu_ns / VCPUS;
}

u64 ktime_get_ns(void)
{
	return cpu_ns;
}

u64 rdtsc(void)
{
	return cpu_ns;
}

static void set_up(int policy)
{
	kvfree(vm.arch.pvsync.epochs);
	memset(&vm, 0, sizeof(vm));
	memset(vcpus, 0, sizeof(vcpus));
	memset(counted, 0, sizeof(counted));
	memset(&shown, 0, sizeof(shown));
	vm.online_vcpus.counter = VCPUS;
	for (int i = 0; i < VCPUS; i++) {
		vm.vcpus[i] = &vcpus[i];
		vcpus[i].kvm = &vm;
		vcpus[i].pid = &pids[i];
	}
	pvsync_window_choice.now = policy;
	tried = allocated = freed = times_read = 0;
	no_memory = false;
	installed_meanwhile = NULL;
	cpu_ns = 1000000000;
}

static void spin(int times)
{
	for (int i = 0; i < times; i++) {
		struct kvm_vcpu *vcpu = &vcpus[i % VCPUS];

		pvsync_window(vcpu, 4096);
		cpu_ns += NSEC_PER_MSEC;
		pvsync_window_spun(vcpu, SPUN, 1000);
		CHECK(kernel_is_left());
	}
}

static const int searching[] = { PVSYNC_WINDOW_APLE, PVSYNC_WINDOW_STEADY };
static const int others[] = { PVSYNC_WINDOW_KVM, PVSYNC_WINDOW_FIXED | 4096 << PVSYNC_CHOICE_BITS };

/* However often a VM's vCPUs spin, they share nothing, and no run queue is locked. */
static void nothing_is_kept_that_nobody_asks_for(void)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(others); i++) {
		static struct pvsync_vm before;

		set_up(others[i]);
		before = vm.arch.pvsync;
		spin(50 * EPOCH);
		CHECK_EQ(allocated, 0);
		CHECK_EQ(times_read, 0);
		CHECK_EQ(counted[PVSYNC_epochs], 0);
		CHECK_EQ(counted[PVSYNC_spin_windows], 50L * EPOCH * SPUN);
		CHECK(!memcmp(&before, &vm.arch.pvsync, sizeof(before)));
	}
}

static void a_search_has_epochs(void)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(searching); i++) {
		set_up(searching[i]);
		spin(10 * EPOCH);
		CHECK_EQ(allocated, 1);
		CHECK_EQ(counted[PVSYNC_epochs], 10);
		CHECK_EQ(pvsync_window(&vcpus[0], 4096), vm.arch.pvsync.epochs->window);
		/* They stay, and are measured, with any policy. */
		pvsync_window_choice.now = PVSYNC_WINDOW_KVM;
		CHECK_EQ(pvsync_window(&vcpus[0], 4096), 4096);
		spin(EPOCH);
		CHECK_EQ(counted[PVSYNC_epochs], 11);
		CHECK_EQ(allocated, 1);
	}
}

static void a_reader_has_epochs_from_then_on(void)
{
	u64 number, ended, spins, window, ppm;

	set_up(PVSYNC_WINDOW_KVM);
	spin(7 * EPOCH);
	CHECK(pvsync_epochs_keep(&vm));
	CHECK(pvsync_epochs_keep(&vm) == vm.arch.pvsync.epochs);
	CHECK_EQ(allocated, 1);
	pvsync_epochs_show(&shown, &vm);
	CHECK(strchr(shown.text, '\n') && !strchr(shown.text, '\n')[1]);	/* The heads alone. */
	spin(EPOCH);
	shown.text[0] = 0;
	pvsync_epochs_show(&shown, &vm);
	if (CHECK(strchr(shown.text, '\n')) &&
	    CHECK_EQ(sscanf(strchr(shown.text, '\n'), "%lu %lu %lu %lu %lu", &number, &ended, &spins,
			    &window, &ppm), 5)) {
		/* Nothing of what was before: it would be of another time. */
		CHECK_EQ(number, 0);
		CHECK_EQ(spins, EPOCH);
		CHECK_EQ(window, SPUN);
		/* What its 20 spins took, of the 20 ms that the VM ran meanwhile. */
		CHECK_EQ(ppm, PVSYNC_WHOLE * ((u64)SPUN + 1000) / NSEC_PER_MSEC);
	}
}

static void without_memory_windows_do_not_move(void)
{
	set_up(PVSYNC_WINDOW_APLE);
	no_memory = true;
	spin(10 * EPOCH);
	CHECK_EQ(counted[PVSYNC_epochs], 0);
	CHECK(!pvsync_epochs_keep(&vm));
	CHECK_EQ(pvsync_window(&vcpus[0], 4096), 8192);
	no_memory = false;
	cpu_ns += NSEC_PER_SEC;
	spin(EPOCH);
	CHECK_EQ(counted[PVSYNC_epochs], 1);
}

/* A spin each ms: memory is asked for once a second, and by whoever reads them. */
static void without_memory_it_is_seldom_asked_for(void)
{
	set_up(PVSYNC_WINDOW_APLE);
	no_memory = true;
	spin(3500);
	CHECK_EQ(tried, 4);
	CHECK(!pvsync_epochs_keep(&vm));
	CHECK_EQ(tried, 5);
	no_memory = false;
	spin(1000);
	CHECK_EQ(tried, 6);
	CHECK_EQ(allocated, 1);
}

static void of_two_at_once_one_stays(void)
{
	struct pvsync_epochs *first = calloc(1, sizeof(*first));

	set_up(PVSYNC_WINDOW_APLE);
	installed_meanwhile = first;
	CHECK(pvsync_epochs_keep(&vm) == first);
	CHECK_EQ(allocated, freed);
	CHECK(vm.arch.pvsync.epochs == first);
}

/* It was not told of this vCPU before it spun: of no length, and of no epoch. */
static void a_spin_without_a_window_does_not_count(void)
{
	set_up(PVSYNC_WINDOW_APLE);
	for (int i = 0; i < 2 * EPOCH; i++)
		pvsync_window_spun(&vcpus[0], 0, 1000);
	CHECK_EQ(counted[PVSYNC_epochs], 0);
	CHECK_EQ(vcpus[0].arch.pvsync.spun.spins, 0);
	CHECK_EQ(tried, 0);
}

int main(void)
{
	RUN_TEST(nothing_is_kept_that_nobody_asks_for);
	RUN_TEST(a_search_has_epochs);
	RUN_TEST(a_reader_has_epochs_from_then_on);
	RUN_TEST(without_memory_windows_do_not_move);
	RUN_TEST(without_memory_it_is_seldom_asked_for);
	RUN_TEST(of_two_at_once_one_stays);
	RUN_TEST(a_spin_without_a_window_does_not_count);
	set_up(PVSYNC_WINDOW_KVM);
	return check_summary();
}
