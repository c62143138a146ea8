// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a credit of lag makes of a queue of the fair class: kernel/pvsync/lag_credit.c. The queue
 * here has entities that are summed up anew each time; Linux keeps sums.
 */
#define CONFIG_PVSYNC_KVM
#define PVSYNC_TEST_OWN_AVERAGE

#include "check.h"

#include <counted.h>
#include <sched/sched.h>

#define MOST_ENTITIES	5
#define NOW		(1ULL << 40)	/* virtual time */
#define SLICE		3000000ULL

static struct cfs_rq queue;
static struct sched_entity entities[MOST_ENTITIES];
static unsigned int nr, taken, put;

/* Rounded as avg_vruntime() rounds: down. */
static u64 avg_vruntime(struct cfs_rq *cfs_rq)
{
	__int128 sum = 0;
	s64 weight = 0;

	for (unsigned int i = 0; i < nr; i++) {
		sum += (__int128)(s64)(entities[i].vruntime - NOW) * entities[i].load.weight;
		weight += entities[i].load.weight;
	}
	if (sum < 0)
		sum -= weight - 1;
	return NOW + (s64)(sum / weight);
}

static int entity_eligible(struct cfs_rq *cfs_rq, struct sched_entity *se)
{
	return (s64)(avg_vruntime(cfs_rq) - se->vruntime) >= 0;
}

#include <../kernel/pvsync/lag_credit.c>

static void take_out(struct cfs_rq *cfs_rq, struct sched_entity *se)
{
	CHECK(cfs_rq == &queue && taken == put);
	taken++;
	queue.average = se->vruntime;
}

static void put_back(struct cfs_rq *cfs_rq, struct sched_entity *se)
{
	CHECK(cfs_rq == &queue && taken == put + 1);
	put++;
	/* Both are moved while nothing sorts by them. */
	CHECK((s64)(se->vruntime - queue.average) < 0);
}

/* Entities of a weight, each of them some ns later in virtual time than the one before. */
static void set_up(unsigned int number, unsigned long weight, u64 apart)
{
	memset(counted, 0, sizeof(counted));
	taken = put = 0;
	nr = number;
	queue = (struct cfs_rq) { .nr_running = nr, .load.weight = nr * weight };
	for (unsigned int i = 0; i < nr; i++)
		entities[i] = (struct sched_entity) {
			.load.weight = weight, .slice = SLICE, .vruntime = NOW + i * apart,
			.deadline = NOW + i * apart + SLICE, .vlag = 5,
		};
}

static void credit(unsigned int i)
{
	pvsync_lag_credit(&queue, &entities[i], take_out, put_back);
}

static s64 lag(unsigned int i)
{
	return avg_vruntime(&queue) - entities[i].vruntime;
}

/* A tick of margin for each entity, and no more than two slices. */
static void it_is_ahead_by_the_margin(void)
{
	static const unsigned long weights[] = { NICE_0_LOAD, NICE_0_LOAD / 4, NICE_0_LOAD * 8 };

	for (unsigned int w = 0; w < ARRAY_SIZE(weights); w++) {
		for (unsigned int n = 2; n <= MOST_ENTITIES; n++) {
			set_up(n, weights[w], 10000000);
			queue.nr_running = n;
			credit(n - 1);
			CHECK_BETWEEN(-2, lag(n - 1) - (s64)((n * TICK_NSEC) * NICE_0_LOAD /
							     weights[w]), 2);
			CHECK(entity_eligible(&queue, &entities[n - 1]));
			CHECK_EQ(counted[PVSYNC_yield_credited], 1);
		}
	}
}

static void the_limit_of_lag_bounds_the_margin(void)
{
	set_up(3, NICE_0_LOAD, 50000000);
	queue.nr_running = 100;
	credit(2);
	CHECK_BETWEEN(2 * (s64)SLICE - 2, lag(2), 2 * (s64)SLICE + 2);
}

/* Whose weight is most of the queue's takes the average along. */
static void weights_differ(void)
{
	for (unsigned int i = 0; i < 2; i++) {
		set_up(2, NICE_0_LOAD, 4000000);
		entities[i].load.weight *= 86;
		queue.load.weight = 87 * NICE_0_LOAD;
		credit(1);
		CHECK(entity_eligible(&queue, &entities[1]));
		CHECK_BETWEEN(-100, lag(1) - (s64)(2 * TICK_NSEC / (i ? 86 : 1)), 100);
	}
}

static void the_others_stay(void)
{
	set_up(4, NICE_0_LOAD, 1000000);
	credit(3);
	for (unsigned int i = 0; i < 3; i++) {
		CHECK_EQ(entities[i].vruntime, NOW + i * 1000000);
		CHECK_EQ(entities[i].deadline, NOW + i * 1000000 + SLICE);
	}
}

static void the_deadline_comes_along(void)
{
	set_up(3, NICE_0_LOAD, 1000000);
	credit(2);
	CHECK_EQ(entities[2].deadline - entities[2].vruntime, SLICE);
}

static void the_tree_is_sorted_anew(void)
{
	set_up(3, NICE_0_LOAD, 1000000);
	credit(2);
	CHECK_EQ(taken, 1);
	CHECK_EQ(put, 1);
	CHECK_EQ(entities[2].vlag, 5);
}

static void who_runs_is_in_no_tree(void)
{
	u64 before;

	set_up(3, NICE_0_LOAD, 1000000);
	queue.curr = &entities[2];
	entities[2].vlag = entities[2].deadline;
	before = entities[2].vruntime;
	credit(2);
	CHECK_EQ(taken, 0);
	CHECK_EQ(put, 0);
	CHECK(entities[2].vruntime < before);
	CHECK_EQ(entities[2].vlag, entities[2].deadline);
	CHECK_EQ(counted[PVSYNC_yield_credited], 1);
}

static void who_is_eligible_gets_nothing(void)
{
	set_up(3, NICE_0_LOAD, 1000000);
	credit(0);
	credit(1);		/* That is the average. */
	CHECK_EQ(entities[0].vruntime, NOW);
	CHECK_EQ(entities[1].vruntime, NOW + 1000000);
	CHECK_EQ(taken, 0);
	CHECK_EQ(counted[PVSYNC_yield_credited], 0);
}

static void again_and_again_it_gets_no_further(void)
{
	u64 first;

	set_up(3, NICE_0_LOAD, 1000000);
	credit(2);
	first = entities[2].vruntime;
	credit(2);
	CHECK_EQ(entities[2].vruntime, first);
	CHECK_EQ(counted[PVSYNC_yield_credited], 1);
}

/* Alone it is eligible; its weight may be all that there is by a race of sums. */
static void alone_it_is_left(void)
{
	set_up(2, NICE_0_LOAD, 1000000);
	queue.load.weight = NICE_0_LOAD;
	credit(1);
	CHECK_EQ(entities[1].vruntime, NOW + 1000000);
	CHECK_EQ(taken, 0);
}

/* Far behind others it is credited with 17 s at the most, and stays as it is but for that. */
static void one_credit_is_bounded(void)
{
	set_up(2, NICE_0_LOAD, 1ULL << 50);
	credit(1);
	CHECK_EQ(entities[1].vruntime, NOW + (1ULL << 50) - 2 * (1ULL << 34));
	CHECK(!entity_eligible(&queue, &entities[1]));
}

/* The division of a processor ends the host's kernel if its result does not fit. */
static void nothing_overflows(void)
{
	set_up(2, NICE_0_LOAD, 1ULL << 50);
	entities[1].load.weight = 1UL << 38;
	queue.load.weight = (1UL << 38) + (1UL << 10);
	credit(1);
	CHECK((s64)(entities[1].vruntime - NOW - (1ULL << 50)) < 0);
}

int main(void)
{
	RUN_TEST(it_is_ahead_by_the_margin);
	RUN_TEST(the_limit_of_lag_bounds_the_margin);
	RUN_TEST(weights_differ);
	RUN_TEST(the_others_stay);
	RUN_TEST(the_deadline_comes_along);
	RUN_TEST(the_tree_is_sorted_anew);
	RUN_TEST(who_runs_is_in_no_tree);
	RUN_TEST(who_is_eligible_gets_nothing);
	RUN_TEST(again_and_again_it_gets_no_further);
	RUN_TEST(alone_it_is_left);
	RUN_TEST(one_credit_is_bounded);
	RUN_TEST(nothing_overflows);
	return check_summary();
}
