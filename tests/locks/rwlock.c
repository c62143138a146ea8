// SPDX-License-Identifier: GPL-2.0-only
/*
 * What waiters of rwlocks count, and that they ask for help: <asm/pvsync_spinlock.h>, the
 * kernel's qrwlock.c, and what wraps it. The owner is the hook, which lets go of the lock
 * at the third look of who waits.
 */
#include <linux/spinlock.h>
#include <linux/pvsync/help.h>

#include "check.h"

#define LOOKS	3

__thread struct pvsync_ecs pvsync_ecs;
void (*pvsync_hook)(enum pvsync_point point, unsigned int size);
bool in_handler;

static struct qrwlock lock;
static unsigned int looks, help_looks, help_begins, help_ends, left, queued;
static void (*let_go)(void);

void __raw_callee_save_pvsync_ecs_left(void);
void __raw_callee_save_pvsync_ecs_left(void)
{
	left++;
}

void pvsync_help_spin(void)
{
	help_looks++;
}

void __pvsync_help_wait_begins(struct pvsync_wait_time *outer)
{
	help_begins++;
	outer->spun = 42;
}

void __pvsync_help_wait_ends(const struct pvsync_wait_time *outer)
{
	help_ends += outer->spun == 42;
}

void queued_spin_lock_slowpath(struct qspinlock *queue, u32 val)
{
	CHECK(!"no spinlock is taken but by pvsync_ecs_spin()");
}

/* The spinlock in an rwlock that somebody has: waits, and gets it, as the kernel's own. */
void pvsync_ecs_spin(struct qspinlock *queue, u32 val)
{
	queued++;
	pvsync_ecs_enter(non_preemptable, PVSYNC_ECS_SPINNER);
	CHECK(pvsync_ecs.non_preemptable == 2 * PVSYNC_ECS_SPINNER);
	pvsync_ecs_enter(non_preemptable, PVSYNC_ECS_LOCK);
	pvsync_ecs_drop(non_preemptable, PVSYNC_ECS_SPINNER);
}

/* Each look of who waits: it is in no section. */
static void look(enum pvsync_point point, unsigned int size)
{
	u64 claim = pvsync_ecs.non_preemptable & ~PVSYNC_ECS_BORROWED;

	if (point != PVSYNC_RELAX)
		return;
	CHECK(claim == PVSYNC_ECS_SPINNER + (in_handler ? PVSYNC_ECS_IRQ : 0));
	CHECK_EQ(!!queued_spin_is_locked(&lock.wait_lock), !in_handler);
	if (++looks == LOOKS)
		let_go();
}

static void writer_leaves(void)
{
	smp_store_release(&lock.wlocked, 0);
}

static void reader_leaves(void)
{
	atomic_sub(_QR_BIAS, &lock.cnts);
}

static void begin(u64 word, int cnts, void (*owner_leaves)(void))
{
	pvsync_ecs.non_preemptable = word;
	memset(&lock, 0, sizeof(lock));
	atomic_set(&lock.cnts, cnts);
	let_go = owner_leaves;
	looks = help_looks = help_begins = help_ends = left = queued = 0;
	pvsync_hook = look;
}

static void expect_wait(u64 word)
{
	pvsync_hook = NULL;
	CHECK(pvsync_ecs.non_preemptable == word);
	CHECK_EQ(looks, LOOKS);
	CHECK_EQ(help_looks, LOOKS);
	CHECK_EQ(help_begins, 1);
	CHECK_EQ(help_ends, 1);
	CHECK(!queued_spin_is_locked(&lock.wait_lock));
}

static void owners_are_counted(void)
{
	begin(0, 0, NULL);
	arch_read_lock(&lock);
	CHECK(pvsync_ecs.non_preemptable == PVSYNC_ECS_READ);
	arch_read_unlock(&lock);
	CHECK(!pvsync_ecs.non_preemptable);
	arch_write_lock(&lock);
	CHECK(pvsync_ecs.non_preemptable == PVSYNC_ECS_LOCK);
	arch_write_unlock(&lock);
	CHECK(!pvsync_ecs.non_preemptable);
	CHECK_EQ(help_begins + looks + left, 0);
}

static void head_that_reads_waits(void)
{
	begin(0, _QW_LOCKED, writer_leaves);
	arch_read_lock(&lock);
	expect_wait(PVSYNC_ECS_READ);
	arch_read_unlock(&lock);
	CHECK(!pvsync_ecs.non_preemptable && !atomic_read(&lock.cnts));
}

static void head_that_writes_waits(void)
{
	begin(0, _QR_BIAS, reader_leaves);
	arch_write_lock(&lock);
	expect_wait(PVSYNC_ECS_LOCK);
	arch_write_unlock(&lock);
	CHECK(!pvsync_ecs.non_preemptable && !atomic_read(&lock.cnts));
}

static void reader_in_an_interrupt_waits(void)
{
	begin(PVSYNC_ECS_IRQ, _QW_LOCKED, writer_leaves);
	in_handler = true;
	arch_read_lock(&lock);
	in_handler = false;
	expect_wait(PVSYNC_ECS_IRQ + PVSYNC_ECS_READ);
}

static void who_waits_for_the_head_waits(void)
{
	begin(0, _QR_BIAS, reader_leaves);
	atomic_set(&lock.wait_lock.val, _Q_LOCKED_VAL);
	arch_write_lock(&lock);
	expect_wait(PVSYNC_ECS_LOCK);
	CHECK_EQ(queued, 1);
}

/* It was lent for a section that was left on the way here; this one's end gives it back. */
static void head_keeps_borrowed_time_until_it_leaves(void)
{
	begin(PVSYNC_ECS_BORROWED, _QW_LOCKED, writer_leaves);
	arch_write_lock(&lock);
	expect_wait(PVSYNC_ECS_BORROWED + PVSYNC_ECS_LOCK);
	CHECK_EQ(left, 0);
	arch_write_unlock(&lock);
	CHECK_EQ(left, 1);
}

int main(void)
{
	RUN_TEST(owners_are_counted);
	RUN_TEST(head_that_reads_waits);
	RUN_TEST(head_that_writes_waits);
	RUN_TEST(reader_in_an_interrupt_waits);
	RUN_TEST(who_waits_for_the_head_waits);
	RUN_TEST(head_keeps_borrowed_time_until_it_leaves);
	return check_summary();
}
