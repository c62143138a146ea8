// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whom a release of a paravirtual lock wakes, and at how many sleepers it looks. How
 * sleepers and releases race is in tests/models/pv_wait.pml.
 */
#include "shim/shim.h"

#include "pv_sleepers.h"

#include "check.h"

void (*pvsync_hook)(enum pvsync_point point, unsigned int size);

#define CPUS		64
#define SEVERAL		(PVSYNC_BUCKETS * 8)

static struct qspinlock locks[SEVERAL];
static int kicked[CPUS], kicks;
static unsigned int loads;

static void kick(int cpu)
{
	CHECK(kicks < CPUS);
	kicked[kicks++] = cpu;
	per_cpu_ptr(&pvsync_slots, cpu)->woken = true;
}

static void count_loads(enum pvsync_point point, unsigned int size)
{
	loads += point == PVSYNC_LOAD;
}

static void nobody_sleeps(void)
{
	memset(pvsync_slots, 0, sizeof(pvsync_slots));
	memset(pvsync_buckets, 0, sizeof(pvsync_buckets));
}

/* Release a lock; how many loads of slots that took. */
static unsigned int release(struct qspinlock *lock, u32 granted, bool ordered)
{
	kicks = 0;
	loads = 0;
	pvsync_hook = count_loads;
	pvsync_wake(lock, granted, ordered, kick);
	pvsync_hook = NULL;
	return loads;
}

/* Another lock that has the bucket of the first one, or has not. */
static struct qspinlock *other_lock(bool same)
{
	for (int i = 1; i < SEVERAL; i++)
		if ((pvsync_sleepers(&locks[i]) == pvsync_sleepers(&locks[0])) == same)
			return &locks[i];
	CHECK(!"there is such a lock");
	return NULL;
}

static void in_order_the_next_one_is_woken(void)
{
	nobody_sleeps();
	for (int cpu = 0; cpu < 8; cpu++)
		pvsync_sleep_begins(cpu, &locks[0], (4090 + cpu) & PVSYNC_COUNT_MASK);
	release(&locks[0], 4093, true);
	CHECK_EQ(kicks, 1);
	CHECK_EQ(kicked[0], 3);
	release(&locks[0], 1, true);
	CHECK_EQ(kicks, 1);
	CHECK_EQ(kicked[0], 7);
	release(&locks[0], 2, true);
	CHECK_EQ(kicks, 0);
}

static void all_that_look_like_the_next_one_are_woken(void)
{
	nobody_sleeps();
	pvsync_sleep_begins(5, &locks[0], 7);
	pvsync_sleep_begins(60, &locks[0], 7);
	release(&locks[0], 7, true);
	CHECK_EQ(kicks, 2);
	CHECK_EQ(kicked[0] + kicked[1], 65);
}

static void out_of_order_the_one_furthest_ahead_is_woken(void)
{
	static const int order[] = { 9, 2, 40, 11 };	/* overtaken, then by ticket */

	nobody_sleeps();
	pvsync_sleep_begins(2, &locks[0], 100);
	pvsync_sleep_begins(9, &locks[0], 90);
	pvsync_sleep_begins(11, &locks[0], 120);
	pvsync_sleep_begins(40, &locks[0], 110);
	for (int i = 0; i < 4; i++) {
		release(&locks[0], 100, false);
		CHECK_EQ(kicks, 1);
		CHECK_EQ(kicked[0], order[i]);
	}
	release(&locks[0], 100, false);
	CHECK_EQ(kicks, 0);
	/* Asleep anew, it may be woken anew. */
	pvsync_sleep_ends(40, &locks[0]);
	pvsync_sleep_begins(40, &locks[0], 110);
	release(&locks[0], 100, false);
	CHECK_EQ(kicks, 1);
	CHECK_EQ(kicked[0], 40);
}

static void who_sleeps_for_another_lock_is_left_asleep(void)
{
	for (int same = 0; same < 2; same++) {
		nobody_sleeps();
		pvsync_sleep_begins(1, other_lock(same), 5);
		release(&locks[0], 5, true);
		CHECK_EQ(kicks, 0);
		release(&locks[0], 5, false);
		CHECK_EQ(kicks, 0);
		release(other_lock(same), 5, false);
		CHECK_EQ(kicks, 1);
	}
}

static void who_is_awake_is_not_woken(void)
{
	nobody_sleeps();
	pvsync_sleep_begins(1, &locks[0], 5);
	CHECK(pvsync_may_sleep(1, &locks[0]));
	pvsync_sleep_ends(1, &locks[0]);
	CHECK(!pvsync_may_sleep(1, &locks[0]));
	CHECK_EQ(release(&locks[0], 5, true), 0);
	CHECK_EQ(release(&locks[0], 5, false), 0);
	CHECK_EQ(kicks, 0);
}

/* What a handler leaves behind that waited for another lock between slot and halt. */
static void who_was_interrupted_goes_round_again(void)
{
	for (int same = 0; same < 2; same++) {
		nobody_sleeps();
		pvsync_sleep_begins(1, &locks[0], 5);
		pvsync_sleep_begins(1, other_lock(same), 3);
		CHECK(!pvsync_may_sleep(1, &locks[0]));
		release(other_lock(same), 3, true);
		CHECK_EQ(kicks, 1);
		pvsync_sleep_ends(1, other_lock(same));
		CHECK(!pvsync_may_sleep(1, &locks[0]));
		pvsync_sleep_ends(1, &locks[0]);
		pvsync_sleep_begins(1, &locks[0], 5);
		release(&locks[0], 5, true);
		CHECK_EQ(kicks, 1);
	}
}

/* Each sleeper has a lock of its own; over many locks, no more than a few share a bucket. */
static void sleepers_of_other_locks_are_hardly_looked_at(void)
{
	unsigned int all = 0, most = 0;

	nobody_sleeps();
	for (int cpu = 0; cpu < CPUS; cpu++)
		pvsync_sleep_begins(cpu, &locks[SEVERAL - 1 - cpu], cpu);
	for (int i = 0; i < SEVERAL - CPUS; i++) {
		unsigned int took = release(&locks[i], 0, true);

		all += took;
		most = took > most ? took : most;
		CHECK_EQ(kicks, 0);
	}
	CHECK(all > 0);
	CHECK(all < 2 * (SEVERAL - CPUS));
	CHECK(most <= CPUS / 8);
}

int main(void)
{
	RUN_TEST(in_order_the_next_one_is_woken);
	RUN_TEST(all_that_look_like_the_next_one_are_woken);
	RUN_TEST(out_of_order_the_one_furthest_ahead_is_woken);
	RUN_TEST(who_sleeps_for_another_lock_is_left_asleep);
	RUN_TEST(who_is_awake_is_not_woken);
	RUN_TEST(who_was_interrupted_goes_round_again);
	RUN_TEST(sleepers_of_other_locks_are_hardly_looked_at);
	return check_summary();
}
