// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loans of one vCPU: arch/x86/kvm/pvsync/extend.c. Where the vCPU is, whether the scheduler
 * may put a switch off, and the time are the test's. Each step looks at the timer, which is
 * what ends a loan of a guest that says nothing.
 */
#define CONFIG_PVSYNC_KVM
#define CONFIG_KVM_MAX_NR_VCPUS	256

#include "check.h"

#include <counted.h>

struct sched_entity;

struct task_struct {
	struct {
		u64	sum_exec_runtime;
	} se;
};

static struct task_struct this_task, *current = &this_task;
static u64 now_ns;
static bool need_resched;
static unsigned int hrtimer_resolution;

#define local_clock()			now_ns
/* rv's monitor opid takes any other request for an error. */
#define set_tsk_need_resched(task)	(need_resched = irqs_disabled())
#define set_preempt_need_resched()	(need_resched = irqs_disabled())
#define div_u64(a, b)			((a) / (b))
#define ns_to_ktime(ns)			(ns)
#define hrtimer_init(timer, clock, mode)	((timer)->ns = 0)
#define hrtimer_start(timer, time, mode)	((timer)->ns = (time))
#define hrtimer_try_to_cancel(timer)		((timer)->ns = 0)
#define container_of(ptr, type, member)	((type *)((char *)(ptr) - offsetof(type, member)))
#define trace_pvsync_lent_enabled()	true
#define CLOCK_MONOTONIC			1
#define HRTIMER_MODE_REL_PINNED_HARD	1

struct kvm_vcpu;
static struct kvm_vcpu *kvm_get_running_vcpu(void);

#include <../arch/x86/kvm/pvsync/regs.c>
#include <../arch/x86/kvm/pvsync/extend.c>

#define US	NSEC_PER_USEC
#define LONGEST	1000
#define LOOK	250
#define CAP	200

struct pvsync_choice pvsync_extend_choice;
struct pvsync_number pvsync_extend_us, pvsync_extend_cap;
unsigned int pvsync_extend_look_us;

static struct kvm vm;
static struct kvm_vcpu vcpu;
static enum pvsync_vcpu_counter section;
static bool has_interrupt, may_put_off;
static int told;	/* That it runs on borrowed time, -1 if nothing was said. */

static struct kvm_vcpu *kvm_get_running_vcpu(void)
{
	return &vcpu;
}

enum pvsync_vcpu_counter pvsync_ecs_where(struct kvm_vcpu *asked)
{
	return section;
}

bool pvsync_ecs_has_interrupt(struct kvm_vcpu *asked)
{
	return has_interrupt;
}

void pvsync_ecs_tell_loan(struct kvm_vcpu *lent_to, bool borrowed)
{
	told = borrowed;
}

bool pvsync_put_off_switch(void)
{
	if (may_put_off)
		need_resched = false;
	return may_put_off;
}

/* A vCPU in the kernel of a guest, which shares nothing unless @form says so. */
static void set_up(int extend, int form)
{
	memset(&vm, 0, sizeof(vm));
	memset(&vcpu, 0, sizeof(vcpu));
	memset(counted, 0, sizeof(counted));
	vcpu.kvm = &vm;
	vcpu.wants_to_run = true;
	vcpu.arch.mp_state = KVM_MP_STATE_RUNNABLE;
	vcpu.arch.pvsync.ecs.form = form;
	pvsync_extend_choice.now = extend;
	pvsync_extend_us.now = LONGEST;
	pvsync_extend_cap.now = CAP;
	pvsync_extend_look_us = LOOK;
	hrtimer_resolution = 1;
	section = form ? PVSYNC_preempt_lock : PVSYNC_preempt_unknown;
	has_interrupt = false;
	may_put_off = true;
	told = -1;
	now_ns = 1000 * US;
	this_task.se.sum_exec_runtime = 0;
	pvsync_loan_init(&vcpu);
	pvsync_account_load(&vcpu);
}

/* The switch that is asked for: put off? */
static bool put_off(void)
{
	bool may;

	need_resched = true;
	may = pvsync_extend();
	CHECK_EQ(need_resched, !may);
	CHECK_EQ(vcpu.arch.pvsync.loan.granted, may);
	CHECK_EQ(vcpu.arch.pvsync.loan.timer.ns != 0, may);
	return may;
}

/* It runs on until the timer asks for a switch. */
static s64 runs_on(void)
{
	struct hrtimer *timer = &vcpu.arch.pvsync.loan.timer;
	s64 ns = timer->ns;

	now_ns += ns;
	this_task.se.sum_exec_runtime += ns;
	timer->ns = 0;
	need_resched = false;
	timer->function(timer);
	CHECK(need_resched);
	return ns;
}

static u64 count_of(enum pvsync_vcpu_counter counter)
{
	return counted[counter];
}

/* Stock guests: until it is in user mode, looked at in steps, and never told of it. */
static void the_kernel_of_any_guest_is_a_section(void)
{
	set_up(PVSYNC_EXTEND_KERNEL, 0);
	CHECK(put_off());
	CHECK_EQ(runs_on(), LOOK * US);
	CHECK(put_off());
	CHECK_EQ(runs_on(), LOOK * US);
	vcpu.machine.cpl = 3;
	CHECK(!put_off());
	CHECK_EQ(told, 0);
	CHECK_EQ(count_of(PVSYNC_extend_granted), 1);
	CHECK_EQ(count_of(PVSYNC_extend_avoided), 1);
	CHECK_EQ(count_of(PVSYNC_extend_expired), 0);
	CHECK_EQ(count_of(PVSYNC_extend_ns), 2 * LOOK * US);
	CHECK(!put_off());
	CHECK_EQ(count_of(PVSYNC_extend_granted), 1);
}

static void a_guest_that_stays_in_its_kernel_goes_in_the_end(void)
{
	int looks = 0;

	set_up(PVSYNC_EXTEND_KERNEL, 0);
	while (put_off() && CHECK(looks < 100)) {
		runs_on();
		looks++;
	}
	CHECK_EQ(looks, LONGEST / LOOK);
	CHECK_EQ(count_of(PVSYNC_extend_expired), 1);
	CHECK_EQ(count_of(PVSYNC_extend_ns), LONGEST * US);
}

/* 200 permille of 100 ms of its own are 20 loans of 1 ms. */
static void its_loans_have_a_cap(void)
{
	int loans = 0;

	set_up(PVSYNC_EXTEND_KERNEL, 0);
	pvsync_extend_look_us = 0;
	while (put_off() && CHECK(loans < 100)) {
		runs_on();
		CHECK(!put_off());
		loans++;
	}
	CHECK_EQ(loans, 20);
	CHECK_EQ(count_of(PVSYNC_extend_capped), 1);
	this_task.se.sum_exec_runtime += 100 * NSEC_PER_MSEC;
	CHECK(put_off());
}

#define NOT_LENT(extend, form, change)		\
do {						\
	set_up(extend, form);			\
	change;					\
	CHECK(!put_off());			\
	CHECK_EQ(told, -1);			\
	CHECK_EQ(count_of(PVSYNC_extend_granted), 0);	\
} while (0)

static void others_are_lent_nothing(void)
{
	NOT_LENT(PVSYNC_EXTEND_OFF, 0, (void)0);
	NOT_LENT(PVSYNC_EXTEND_OFF, PVSYNC_ECS_COUNT, (void)0);
	NOT_LENT(PVSYNC_EXTEND_ECS, 0, (void)0);
	NOT_LENT(PVSYNC_EXTEND_ECS, PVSYNC_ECS_COUNT, section = PVSYNC_preempt_kernel);
	NOT_LENT(PVSYNC_EXTEND_ECS, PVSYNC_ECS_COUNT, section = PVSYNC_preempt_waiter);
	NOT_LENT(PVSYNC_EXTEND_KERNEL, 0, vcpu.machine.cpl = 3);
	NOT_LENT(PVSYNC_EXTEND_KERNEL, PVSYNC_ECS_COUNT, vcpu.machine.cpl = 3);
	NOT_LENT(PVSYNC_EXTEND_KERNEL, 0, vcpu.machine.nested = true);
	NOT_LENT(PVSYNC_EXTEND_KERNEL, 0, vcpu.arch.mp_state = KVM_MP_STATE_RUNNABLE + 1);
	NOT_LENT(PVSYNC_EXTEND_KERNEL, 0, vcpu.wants_to_run = false);
	NOT_LENT(PVSYNC_EXTEND_KERNEL, 0, vcpu.arch.pvsync.yielding = true);
	NOT_LENT(PVSYNC_EXTEND_KERNEL, 0, vcpu.arch.pvsync.loan.dropped = true);
}

static void what_cannot_be_put_off_or_ended_is_denied(void)
{
	NOT_LENT(PVSYNC_EXTEND_KERNEL, 0, may_put_off = false);
	CHECK_EQ(count_of(PVSYNC_extend_denied), 1);
	NOT_LENT(PVSYNC_EXTEND_KERNEL, 0, hrtimer_resolution = LONGEST * US + 1);
	CHECK_EQ(count_of(PVSYNC_extend_denied), 1);
	NOT_LENT(PVSYNC_EXTEND_KERNEL, 0, vcpu.arch.pvsync.loan.timer.function = NULL);
	CHECK_EQ(count_of(PVSYNC_extend_denied), 1);
}

/* A guest that tells its sections is told of its loan, and has it in one piece. */
static void a_guest_that_counts_is_told(void)
{
	set_up(PVSYNC_EXTEND_ECS, PVSYNC_ECS_COUNT);
	CHECK(put_off());
	CHECK_EQ(told, 1);
	CHECK_EQ(vcpu.arch.pvsync.loan.timer.ns, LONGEST * US);
	now_ns += 10 * US;
	pvsync_give_back(&vcpu);
	CHECK(need_resched);
	CHECK(!put_off());
	CHECK_EQ(told, 0);
	CHECK_EQ(count_of(PVSYNC_extend_returned), 1);
	CHECK_EQ(count_of(PVSYNC_extend_avoided), 1);
}

static void a_guest_that_counts_is_not_told_of_loans_for_its_kernel(void)
{
	set_up(PVSYNC_EXTEND_KERNEL, PVSYNC_ECS_COUNT);
	CHECK(put_off());
	CHECK_EQ(told, -1);
	CHECK_EQ(runs_on(), LOOK * US);
	section = PVSYNC_preempt_kernel;
	CHECK(put_off());
	pvsync_give_back(&vcpu);	/* Which it may at any time. */
	CHECK(!put_off());
	CHECK_EQ(count_of(PVSYNC_extend_returned), 1);
}

static void free_sections_are_looked_at_in_steps(void)
{
	set_up(PVSYNC_EXTEND_ECS, PVSYNC_ECS_FREE);
	CHECK(put_off());
	CHECK_EQ(told, 1);
	CHECK_EQ(runs_on(), LOOK * US);
	CHECK(put_off());
	section = PVSYNC_preempt_kernel;
	CHECK(!put_off());
	CHECK_EQ(count_of(PVSYNC_extend_avoided), 1);
}

/* It waits for an interrupt's end after it has given back, and is told once more. */
static void an_interrupt_keeps_a_loan(void)
{
	set_up(PVSYNC_EXTEND_ECS, PVSYNC_ECS_COUNT);
	CHECK(put_off());
	pvsync_give_back(&vcpu);
	has_interrupt = true;
	told = -1;
	CHECK(put_off());
	CHECK_EQ(told, 1);
	has_interrupt = false;
	section = PVSYNC_preempt_user;
	CHECK(!put_off());
}

/* The monitor has the vCPU: the switch that was put off is asked for again. */
static void a_loan_that_is_dropped_asks_for_the_switch(void)
{
	set_up(PVSYNC_EXTEND_KERNEL, 0);
	CHECK(put_off());
	need_resched = false;
	pvsync_loan_drop(&vcpu);
	CHECK(need_resched && !vcpu.arch.pvsync.loan.granted);
	CHECK_EQ(vcpu.arch.pvsync.loan.timer.ns, 0);
	CHECK(!put_off());
}

/* An admin sets pvsync.extend meanwhile. Whoever was told of a loan is told of its end. */
static void a_loan_goes_on_by_another_value(void)
{
	set_up(PVSYNC_EXTEND_ECS, PVSYNC_ECS_COUNT);
	CHECK(put_off());
	CHECK_EQ(told, 1);
	pvsync_extend_choice.now = PVSYNC_EXTEND_KERNEL;
	section = PVSYNC_preempt_kernel;
	CHECK(put_off());
	vcpu.machine.cpl = 3;
	CHECK(!put_off());
	CHECK_EQ(told, 0);

	set_up(PVSYNC_EXTEND_KERNEL, PVSYNC_ECS_COUNT);
	CHECK(put_off());
	pvsync_extend_choice.now = PVSYNC_EXTEND_ECS;
	CHECK(put_off());
	CHECK_EQ(told, -1);
	section = PVSYNC_preempt_kernel;
	CHECK(!put_off());

	set_up(PVSYNC_EXTEND_KERNEL, 0);
	CHECK(put_off());
	pvsync_extend_choice.now = PVSYNC_EXTEND_OFF;
	CHECK(!put_off());
	CHECK_EQ(count_of(PVSYNC_extend_granted), 1);
}

int main(void)
{
	RUN_TEST(the_kernel_of_any_guest_is_a_section);
	RUN_TEST(a_guest_that_stays_in_its_kernel_goes_in_the_end);
	RUN_TEST(its_loans_have_a_cap);
	RUN_TEST(others_are_lent_nothing);
	RUN_TEST(what_cannot_be_put_off_or_ended_is_denied);
	RUN_TEST(a_guest_that_counts_is_told);
	RUN_TEST(a_guest_that_counts_is_not_told_of_loans_for_its_kernel);
	RUN_TEST(free_sections_are_looked_at_in_steps);
	RUN_TEST(an_interrupt_keeps_a_loan);
	RUN_TEST(a_loan_that_is_dropped_asks_for_the_switch);
	RUN_TEST(a_loan_goes_on_by_another_value);
	return check_summary();
}
