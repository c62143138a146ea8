// SPDX-License-Identifier: GPL-2.0-only
/* What a critical section counts, and what its end may change: <linux/pvsync/ecs.h>. */
#include "shim/shim.h"

#define CONFIG_PVSYNC_ECS
#define CONFIG_PVSYNC_ECS_COUNT

#include "shim/linux/jump_label.h"
#undef static_branch_unlikely
#define static_branch_unlikely(key)	true

#include <linux/pvsync/ecs.h>

#include "check.h"

__thread struct pvsync_ecs pvsync_ecs;

static unsigned int left;

/* What the thunk calls, and the thunk: the register for results is not what it was. */
void note_left(void);
void note_left(void)
{
	left++;
}

__asm__(".pushsection .text\n"
	".globl __raw_callee_save_pvsync_ecs_left\n"
	".type __raw_callee_save_pvsync_ecs_left, @function\n"
	"__raw_callee_save_pvsync_ecs_left:\n\t"
	"push %rcx\n\tpush %rdx\n\tpush %rsi\n\tpush %rdi\n\t"
	"push %r8\n\tpush %r9\n\tpush %r10\n\tpush %r11\n\tpush %rbp\n\t"
	"mov %rsp, %rbp\n\tand $-16, %rsp\n\t"
	"call note_left\n\t"
	"mov %rbp, %rsp\n\tpop %rbp\n\t"
	"pop %r11\n\tpop %r10\n\tpop %r9\n\tpop %r8\n\t"
	"pop %rdi\n\tpop %rsi\n\tpop %rdx\n\tpop %rcx\n\t"
	"mov $-1, %rax\n\t"
	"ret\n"
	".popsection");

static void begin(u64 non_preemptable, u64 preemptable)
{
	pvsync_ecs.non_preemptable = non_preemptable;
	pvsync_ecs.preemptable = preemptable;
	left = 0;
}

static void sections_are_counted(void)
{
	begin(0, 0);
	pvsync_ecs_enter(non_preemptable, PVSYNC_ECS_LOCK);
	pvsync_ecs_enter(non_preemptable, PVSYNC_ECS_IRQ);
	pvsync_ecs_enter_if(false, preemptable, PVSYNC_ECS_RCU);
	pvsync_ecs_enter_if(true, preemptable, PVSYNC_ECS_MUTEX);
	CHECK(pvsync_ecs.non_preemptable == PVSYNC_ECS_LOCK + PVSYNC_ECS_IRQ);
	CHECK(pvsync_ecs.preemptable == PVSYNC_ECS_MUTEX);
	pvsync_ecs_downgrade();
	CHECK(pvsync_ecs.preemptable == PVSYNC_ECS_RWSEM_READ);
	pvsync_ecs_leave(preemptable, PVSYNC_ECS_RWSEM_READ);
	pvsync_ecs_leave(non_preemptable, PVSYNC_ECS_IRQ);
	pvsync_ecs_leave(non_preemptable, PVSYNC_ECS_LOCK);
	CHECK(!pvsync_ecs.non_preemptable && !pvsync_ecs.preemptable);
	CHECK_EQ(left, 0);
}

static void borrowed_time_is_looked_at_by_who_leaves(void)
{
	begin(PVSYNC_ECS_BORROWED, PVSYNC_ECS_BORROWED);
	pvsync_ecs_enter(non_preemptable, PVSYNC_ECS_LOCK);
	pvsync_ecs_drop(non_preemptable, 0);
	CHECK_EQ(left, 0);
	pvsync_ecs_leave(non_preemptable, PVSYNC_ECS_LOCK);
	CHECK_EQ(left, 1);
	pvsync_ecs_enter(preemptable, PVSYNC_ECS_MUTEX);
	pvsync_ecs_leave(preemptable, PVSYNC_ECS_MUTEX);
	CHECK_EQ(left, 2);
	CHECK(pvsync_ecs.non_preemptable == PVSYNC_ECS_BORROWED);
	CHECK(pvsync_ecs.preemptable == PVSYNC_ECS_BORROWED);
}

/* Whichever registers the compiler has them in. */
static void values_survive_the_end_of_a_section(void)
{
	unsigned long a, b, c, d;

	begin(PVSYNC_ECS_BORROWED + PVSYNC_ECS_LOCK, 0);
	__asm__ __volatile__("" : "=a" (a), "=c" (b), "=d" (c), "=S" (d)
				: "0" (1UL), "1" (2UL), "2" (3UL), "3" (4UL));
	pvsync_ecs_leave(non_preemptable, PVSYNC_ECS_LOCK);
	__asm__ __volatile__("" : "+a" (a), "+c" (b), "+d" (c), "+S" (d));
	CHECK_EQ(left, 1);
	CHECK_EQ(a, 1);
	CHECK_EQ(b, 2);
	CHECK_EQ(c, 3);
	CHECK_EQ(d, 4);
}

int main(void)
{
	RUN_TEST(sections_are_counted);
	RUN_TEST(borrowed_time_is_looked_at_by_who_leaves);
	RUN_TEST(values_survive_the_end_of_a_section);
	return check_summary();
}
