// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether a pick lets a vCPU run that was yielded to, though it is not eligible:
 * kernel/pvsync/strong_yield.c.
 */
#define CONFIG_PVSYNC_KVM

#include "check.h"

#include <counted.h>
#include <../kernel/pvsync/strong_yield.c>

#define LEVELS	3	/* A group, a group in it, a task in that. */
#define CPU	2

static struct rq rqs[TEST_CPUS];
static struct cfs_rq queues[LEVELS];
static struct sched_entity buddies[LEVELS];
static bool far[LEVELS];

static struct cfs_rq *credited[LEVELS + 1];
static unsigned int credits;

static void __dequeue_entity(struct cfs_rq *cfs_rq, struct sched_entity *se)
{
}

static void __enqueue_entity(struct cfs_rq *cfs_rq, struct sched_entity *se)
{
}

/* Of which lag_credit.c shows what it does. */
void pvsync_lag_credit(struct cfs_rq *cfs_rq, struct sched_entity *se,
		       pvsync_tree_fn take, pvsync_tree_fn put)
{
	CHECK(cfs_rq->next == se && take == __dequeue_entity && put == __enqueue_entity);
	credited[credits++] = cfs_rq;
}

/* Of which extend.c shows what it says. */
bool pvsync_far_ahead(struct cfs_rq *cfs_rq, struct sched_entity *se)
{
	CHECK(cfs_rq->next == se);
	return far[se - buddies];
}

static bool under_scx;

/* Of which extend.c shows what it says. */
bool pvsync_under_scx(void)
{
	return under_scx;
}

/* A buddy in each queue on the way down. */
static void set_up(unsigned long now)
{
	jiffies = now;
	pvsync_strong_enable();
	memset(strong_until, 0, sizeof(strong_until));
	the_rq = &rqs[CPU];
	credits = 0;
	memset(far, 0, sizeof(far));
	memset(counted, 0, sizeof(counted));
	for (int cpu = 0; cpu < TEST_CPUS; cpu++)
		rqs[cpu].cpu = cpu;
	for (int level = 0; level < LEVELS; level++) {
		queues[level] = (struct cfs_rq) { .rq = &rqs[CPU], .next = &buddies[level] };
		buddies[level].is_group = level < LEVELS - 1;
	}
}

/* How many levels down a pick lets the buddy run, though it is not eligible. */
static int picked(void)
{
	int level = 0;

	while (level < LEVELS && pvsync_strong_next(&queues[level]))
		level++;
	return level;
}

static void one_pick_follows_it(void)
{
	set_up(1000);
	CHECK_EQ(picked(), 0);
	pvsync_strong_ask(CPU);
	CHECK_EQ(picked(), LEVELS);
	CHECK_EQ(picked(), 0);
	CHECK_EQ(counted[PVSYNC_yield_denied], 0);
}

static void not_before_there_was_one(void)
{
	set_up(1000);
	pvsync_strong_key.enabled = false;
	pvsync_strong_ask(CPU);
	CHECK_EQ(picked(), 0);
	CHECK_EQ(strong_until[CPU], 1001);
}

static void not_on_another_cpu(void)
{
	set_up(1000);
	pvsync_strong_ask(CPU - 1);
	CHECK_EQ(picked(), 0);
	CHECK_EQ(strong_until[CPU - 1], 1001);
}

static void not_of_who_is_under_sched_ext(void)
{
	set_up(1000);
	under_scx = true;
	pvsync_strong_ask(CPU);
	pvsync_credit_ask(CPU);
	under_scx = false;
	CHECK_EQ(strong_until[CPU], 0);
	CHECK_EQ(picked(), 0);
}

static void not_who_is_far_ahead(void)
{
	for (int level = 0; level < LEVELS; level++) {
		set_up(1000);
		far[level] = true;
		pvsync_strong_ask(CPU);
		CHECK_EQ(picked(), level);
		CHECK_EQ(counted[PVSYNC_yield_denied], 1);
		far[level] = false;
		CHECK_EQ(picked(), 0);		/* It was its turn. */
		CHECK_EQ(counted[PVSYNC_yield_denied], 1);
	}
}

static void not_after_the_tick_that_follows_the_next(void)
{
	static const unsigned long times[] = { 1000, 0, -1UL, -2UL, -3UL, -1UL >> 1 };

	for (unsigned int i = 0; i < ARRAY_SIZE(times); i++) {
		for (unsigned long later = 0; later < 5; later++) {
			set_up(times[i]);
			CHECK_EQ(picked(), 0);
			pvsync_strong_ask(CPU);
			jiffies += later;
			/* 0 stands for none, and 1 for 0 then. */
			CHECK_EQ(picked(), later <= 1 + (times[i] == -1UL) ? LEVELS : 0);
		}
	}
}

static void without_a_buddy_it_ends(void)
{
	for (int level = 0; level < LEVELS; level++) {
		set_up(1000);
		queues[level].next = NULL;
		pvsync_strong_ask(CPU);
		CHECK_EQ(picked(), level);
		CHECK_EQ(strong_until[CPU], 0);
		CHECK_EQ(counted[PVSYNC_yield_denied], 0);
	}
}

/* The scheduler goes down by itself, as each buddy is eligible by then. */
static void a_credit_is_for_each_level(void)
{
	set_up(1000);
	pvsync_credit_ask(CPU);
	for (int level = 0; level < LEVELS; level++) {
		far[level] = true;
		CHECK(!pvsync_strong_next(&queues[level]));
		CHECK(credits == level + 1U && credited[level] == &queues[level]);
	}
	CHECK(!pvsync_strong_next(&queues[0]));
	CHECK_EQ(credits, LEVELS);
	CHECK_EQ(counted[PVSYNC_yield_denied], 0);
}

static void no_credit_without_a_buddy(void)
{
	set_up(1000);
	queues[0].next = NULL;
	pvsync_credit_ask(CPU);
	CHECK_EQ(picked(), 0);
	CHECK_EQ(credits, 0);
	CHECK_EQ(strong_until[CPU], 0);
}

static void no_credit_on_another_cpu(void)
{
	set_up(1000);
	pvsync_credit_ask(CPU - 1);
	CHECK_EQ(strong_until[CPU - 1], 0);
	CHECK_EQ(picked(), 0);
	CHECK_EQ(credits, 0);
}

static void the_last_request_counts(void)
{
	set_up(1000);
	pvsync_credit_ask(CPU);
	pvsync_strong_ask(CPU);
	CHECK_EQ(picked(), LEVELS);
	CHECK_EQ(credits, 0);
	pvsync_strong_ask(CPU);
	pvsync_credit_ask(CPU);
	CHECK_EQ(picked(), 0);
	CHECK_EQ(credits, 1);
}

int main(void)
{
	RUN_TEST(one_pick_follows_it);
	RUN_TEST(not_before_there_was_one);
	RUN_TEST(not_on_another_cpu);
	RUN_TEST(not_of_who_is_under_sched_ext);
	RUN_TEST(not_who_is_far_ahead);
	RUN_TEST(not_after_the_tick_that_follows_the_next);
	RUN_TEST(without_a_buddy_it_ends);
	RUN_TEST(a_credit_is_for_each_level);
	RUN_TEST(no_credit_without_a_buddy);
	RUN_TEST(no_credit_on_another_cpu);
	RUN_TEST(the_last_request_counts);
	return check_summary();
}
