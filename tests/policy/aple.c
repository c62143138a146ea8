// SPDX-License-Identifier: GPL-2.0-only
/* The arithmetic and the two searches of <linux/pvsync/aple.h>. */
#include <linux/pvsync/aple.h>

#include "check.h"
#include "random.h"

static const struct pvsync_bounds paper = {
	.start = 8192, .least = 4096, .most = 32768, .step = 1024,
};

typedef u32 (*next_fn)(struct pvsync_aple *aple, const struct pvsync_bounds *bounds, u32 cost);

/* Arithmetic */

static void scale_does_not_overflow(void)
{
	CHECK_EQ(pvsync_scale(6, 7, 2), 21);
	CHECK(pvsync_scale(U64_MAX, 2, 2) == U64_MAX);
	CHECK(pvsync_scale(U64_MAX, 3, 4) == U64_MAX / 4 * 3 + 2);
	CHECK(pvsync_scale(U64_MAX, 2, 1) == U64_MAX);
	CHECK(pvsync_scale(1ULL << 63, 2, 1) == U64_MAX);
	CHECK(pvsync_scale(1ULL << 62, 2, 1) == 1ULL << 63);
	CHECK(pvsync_scale(1, 1, 0) == U64_MAX);
	CHECK(pvsync_scale(0, 0, 0) == U64_MAX);
}

static u32 inefficiency(u64 spun, u64 handling, u64 cpu)
{
	struct pvsync_epoch epoch = { .spun_ns = spun, .handling_ns = handling, .cpu_ns = cpu };

	return pvsync_inefficiency(&epoch);
}

/* (events x threshold + time handling them) / CPU time */
static void inefficiency_is_the_papers(void)
{
	CHECK_EQ(inefficiency(0, 0, 1000), 0);
	CHECK_EQ(inefficiency(30, 20, 1000), 50000);
	CHECK_EQ(inefficiency(500, 500, 1000), PVSYNC_WHOLE);
	CHECK_EQ(inefficiency(1000000000ULL * 8192, 0, 1000000000ULL * 16384), 500000);
	CHECK_EQ(inefficiency(3, 0, 2), 1500000);
	CHECK_EQ(inefficiency(1, 0, 0), U32_MAX);
	CHECK_EQ(inefficiency(1, 0, PVSYNC_WHOLE * 2), 0);
	CHECK_EQ(inefficiency(U64_MAX, U64_MAX, 1), U32_MAX);
	CHECK_EQ(inefficiency(U64_MAX, 1, U64_MAX), PVSYNC_WHOLE);
	CHECK_EQ(inefficiency(4294, 0, 1), 4294000000LL);
	CHECK_EQ(inefficiency(4295, 0, 1), U32_MAX);
}

static void windows_become_cycles(void)
{
	/* The processor counted: as they are. */
	CHECK_EQ(pvsync_spun_cycles(8192000, 0, 0, 1024), 8192000);
	/* 1,000 windows of 8 PAUSEs, each of which took 100,000 cycles. */
	CHECK_EQ(pvsync_spun_cycles(8192000, 500, 50000000, 1024), 800000000);
	/* Also with spins that did not reach it. */
	CHECK_EQ(pvsync_spun_cycles(8192000, 7, 700000, 1024), 800000000);
	CHECK(pvsync_spun_cycles(U64_MAX, 1, U64_MAX, 1) == U64_MAX);
}

/* Algorithm 1 */

/* Written down again from the paper, without regard to integers that are unsigned. */
struct algorithm1 {
	long long desired, window[3];
	double cost[3];
	int epoch;
};

static long long algorithm1_window(struct algorithm1 *a, const struct pvsync_bounds *b)
{
	long long d = a->desired;

	switch (a->epoch) {
	case 0:
		return a->window[0] = d;
	case 1:
		return a->window[1] = d + b->step < b->most ? d + b->step : b->most;
	default:
		return a->window[2] = d - b->step > b->least ? d - b->step : b->least;
	}
}

static long long algorithm1_next(struct algorithm1 *a, const struct pvsync_bounds *b, double cost)
{
	a->cost[a->epoch++] = cost;
	if (a->epoch == 3) {
		int best = 0;

		for (int i = 1; i < 3; i++) {
			if (a->cost[i] < a->cost[best])
				best = i;
		}
		a->desired = a->window[best];
		a->epoch = 0;
	}
	return algorithm1_window(a, b);
}

static void aple_is_algorithm_1(void)
{
	random_state = 1;
	for (int search = 0; search < 2000 && check_ok(); search++) {
		struct pvsync_bounds bounds = paper;
		struct algorithm1 reference;
		struct pvsync_aple aple;

		if (search % 2) {
			bounds.least = 128 + random_below(10000);
			bounds.most = bounds.least + random_below(40000);
			bounds.start = bounds.least + random_below(bounds.most - bounds.least + 1);
			bounds.step = 1 + random_below(20000);
		}
		reference = (struct algorithm1) { .desired = bounds.start };
		CHECK_EQ(pvsync_aple_begin(&aple, &bounds), algorithm1_window(&reference, &bounds));
		for (int epoch = 0; epoch < 300 && check_ok(); epoch++) {
			u32 cost = random_below(search % 3 ? 1000000 : 4);

			CHECK_EQ(pvsync_aple_next(&aple, &bounds, cost),
				 algorithm1_next(&reference, &bounds, cost));
		}
	}
}

static void first_windows_are_the_papers(void)
{
	static const u32 windows[] = { 8192, 9216, 7168, 9216, 10240, 8192, 10240, 11264, 9216 };
	static const u32 costs[] = { 50, 40, 60, 40, 39, 41, 30, 30, 30 };
	struct pvsync_aple aple;
	u32 window = pvsync_aple_begin(&aple, &paper);

	for (int i = 0; i < 9; i++) {
		CHECK_EQ(window, windows[i]);
		window = pvsync_aple_next(&aple, &paper, costs[i]);
	}
	CHECK_EQ(window, 10240);
}

/* Both */

static void stays_within_bounds(next_fn next)
{
	random_state = 2;
	for (int search = 0; search < 500 && check_ok(); search++) {
		struct pvsync_bounds bounds = paper;
		struct pvsync_aple aple;
		u32 window;

		bounds.start = random_below(100000);
		window = pvsync_aple_begin(&aple, &bounds);
		for (int epoch = 0; epoch < 300 && check_ok(); epoch++) {
			CHECK_BETWEEN(bounds.least, window, bounds.most);
			if (!random_below(20)) {
				bounds.least = random_below(1 << 22);
				bounds.most = bounds.least + random_below((1 << 22) - bounds.least);
				bounds.step = 1 + random_below(1 << 22);
			}
			window = next(&aple, &bounds, random_u64() >> random_below(64));
		}
	}
}

static void aple_stays_within_bounds(void)
{
	stays_within_bounds(pvsync_aple_next);
}

static void steady_stays_within_bounds(void)
{
	stays_within_bounds(pvsync_steady_next);
}

static void bounds_that_meet_leave_no_choice(void)
{
	struct pvsync_bounds bounds = { .start = 1, .least = 5000, .most = 5000, .step = 1024 };
	struct pvsync_aple aple;

	CHECK_EQ(pvsync_aple_begin(&aple, &bounds), 5000);
	for (u32 i = 0; i < 20; i++)
		CHECK_EQ(pvsync_aple_next(&aple, &bounds, 100 - i), 5000);
	CHECK_EQ(pvsync_aple_begin(&aple, &bounds), 5000);
	for (u32 i = 0; i < 20; i++)
		CHECK_EQ(pvsync_steady_next(&aple, &bounds, 100 - i), 5000);
}

/* Workloads: the inefficiency of an epoch by its window and its time. */
typedef double (*workload_fn)(double window, int epoch);

static double falls(double window, int epoch)
{
	return 0.5 - window / 100000;
}

static double rises(double window, int epoch)
{
	return 0.1 + window / 100000;
}

/* The longer a window, the fewer switches, and the longer each spin; least at @best. */
static double valley_at(double best, double window)
{
	return 0.1 * (best / window + window / best);
}

static double valley(double window, int epoch)
{
	return valley_at(16384, window);
}

static double low_valley(double window, int epoch)
{
	return valley_at(5000, window);
}

static double shallow_valley(double window, int epoch)
{
	return 0.1 + valley_at(16384, window) / 5;
}

static double phases(double window, int epoch)
{
	return valley_at(epoch / 300 % 2 ? 5461 : 29491, window);
}

/* Whatever the window is, the workload changes all the time. */
static double drifts(double window, int epoch)
{
	return valley(window, epoch) * (1 + epoch % 200 / 200.0);
}

static double flat(double window, int epoch)
{
	return 0.2;
}

static const struct {
	const char	*name;
	workload_fn	cost;
} workloads[] = {
	{ "falls", falls }, { "rises", rises }, { "valley", valley },
	{ "low valley", low_valley }, { "shallow valley", shallow_valley },
	{ "phases", phases }, { "drifts", drifts },
};

/**
 * struct course - how a search went
 * @moves: how often T_d changed
 * @reached: epochs until T_d was 32,768; -1 if it never was
 * @cost: mean inefficiency, without noise
 * @desired: T_d at the end
 */
struct course {
	int	moves;
	int	reached;
	double	cost;
	u32	desired;
};

static struct course run(next_fn next, workload_fn workload, double noise, int epochs)
{
	struct course course = { .reached = -1 };
	struct pvsync_aple aple;
	u32 window = pvsync_aple_begin(&aple, &paper);

	for (int epoch = 0; epoch < epochs; epoch++) {
		double cost = workload(window, epoch);
		double seen = cost * (1 + noise * random_normal());
		u32 before = aple.desired;

		course.cost += cost / epochs;
		window = next(&aple, &paper, seen > 0 ? seen * PVSYNC_WHOLE : 0);
		course.moves += aple.desired != before;
		if (course.reached < 0 && aple.desired == paper.most)
			course.reached = epoch + 1;
	}
	course.desired = aple.desired;
	return course;
}

static void both_go_downhill(void)
{
	CHECK_EQ(run(pvsync_aple_next, falls, 0, 300).desired, 32768);
	CHECK_EQ(run(pvsync_aple_next, rises, 0, 300).desired, 4096);
	CHECK_EQ(run(pvsync_aple_next, valley, 0, 300).desired, 16384);
	CHECK_EQ(run(pvsync_steady_next, falls, 0, 300).desired, 32768);
	CHECK_EQ(run(pvsync_steady_next, rises, 0, 300).desired, 4096);
	CHECK_BETWEEN(15360, run(pvsync_steady_next, valley, 0, 300).desired, 17408);
}

static void both_stay_where_it_is_flat(void)
{
	CHECK_EQ(run(pvsync_aple_next, flat, 0, 300).moves, 0);
	CHECK_EQ(run(pvsync_steady_next, flat, 0, 300).moves, 0);
}

/* Algorithm 1 takes 24 steps; here they are 1, 1, 2, 4 and then 7 thousand cycles. */
static void steady_is_faster_far_away(void)
{
	CHECK_EQ(run(pvsync_aple_next, falls, 0, 300).reached, 24 * 3);
	CHECK_EQ(run(pvsync_steady_next, falls, 0, 300).reached, 7 * 3);
}

/* A step that is long from moving elsewhere is short again before it does harm. */
static void steady_comes_back_to_the_step(void)
{
	struct pvsync_aple aple;
	u32 cost = 1000000;

	pvsync_aple_begin(&aple, &paper);
	for (int i = 0; i < 12; i++) {
		cost -= aple.trial == PVSYNC_TRY_LONGER ? 1000 : 0;
		pvsync_steady_next(&aple, &paper, cost);
	}
	CHECK_EQ(aple.step, 7168);
	for (int i = 0; i < 9; i++)
		pvsync_steady_next(&aple, &paper, cost);
	CHECK_EQ(aple.step, 1024);
}

/* One bad epoch at T_d does not move it after rounds that were all for it. */
static void steady_remembers_while_it_stays(void)
{
	static const u32 costs[] = { 100, 120, 120, 100, 120, 120, 110, 105, 120 };
	struct pvsync_aple aple, steady;

	pvsync_aple_begin(&aple, &paper);
	pvsync_aple_begin(&steady, &paper);
	for (int i = 0; i < 9; i++) {
		pvsync_aple_next(&aple, &paper, costs[i]);
		pvsync_steady_next(&steady, &paper, costs[i]);
	}
	CHECK_EQ(aple.desired, 9216);
	CHECK_EQ(steady.desired, 8192);
}

/* And forgets when it moves: the other side of a valley is another matter. */
static void steady_forgets_when_it_moves(void)
{
	static const u32 costs[] = { 100, 50, 200, 50, 49, 60 };
	struct pvsync_aple aple;

	pvsync_aple_begin(&aple, &paper);
	for (int i = 0; i < 3; i++)
		pvsync_steady_next(&aple, &paper, costs[i]);
	CHECK_EQ(aple.desired, 9216);
	CHECK_EQ(aple.longer, 0);
	CHECK_EQ(aple.shorter, 0);
	for (int i = 3; i < 6; i++)
		pvsync_steady_next(&aple, &paper, costs[i]);
	CHECK_EQ(aple.desired, 10240);
	CHECK_EQ(aple.step, 2048);
}

/* Nowhere worse by more than this, and much better where it is a long way in noise. */
static void steady_wastes_less(void)
{
	static const double noises[] = { 0.01, 0.03, 0.1, 0.2 };
	double mean = 0;

	for (unsigned int i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++) {
		for (int j = 0; j < 4 && check_ok(); j++) {
			const int runs = 200;
			double aple = 0, steady = 0;

			random_state = 5;
			for (int k = 0; k < runs; k++)
				aple += run(pvsync_aple_next, workloads[i].cost, noises[j],
					    1200).cost / runs;
			random_state = 5;
			for (int k = 0; k < runs; k++)
				steady += run(pvsync_steady_next, workloads[i].cost, noises[j],
					      1200).cost / runs;
			printf("# %s, noise %g: aple %.4f, steady %.4f\n", workloads[i].name,
			       noises[j], aple, steady);
			CHECK(steady < aple * 1.002);
			mean += steady / aple / 28;
		}
	}
	CHECK(mean < 0.98);
}

/* Epochs */

static void epoch_has_its_spins(void)
{
	static const u64 begins[] = { 0, 7, U32_MAX - 3ULL, U64_MAX - 5 };

	for (int i = 0; i < 4; i++) {
		CHECK(!pvsync_epoch_over(begins[i], begins[i], 10));
		CHECK(!pvsync_epoch_over(begins[i], begins[i] + 9, 10));
		CHECK(pvsync_epoch_over(begins[i], begins[i] + 10, 10));
		CHECK(pvsync_epoch_over(begins[i], begins[i] + 11, 10));
		CHECK(pvsync_epoch_over(begins[i], begins[i] + (1ULL << 32), 1000000));
	}
}

/* It follows the rule that it is told to, also from one epoch to the next. */
static void steer_follows_the_rule(void)
{
	random_state = 6;
	for (int search = 0; search < 200 && check_ok(); search++) {
		struct pvsync_aple aple = {
			.desired = 30000, .trial = PVSYNC_TRY_LONGER, .step = 5000, .moved = 1,
		};
		struct pvsync_aple reference;
		bool steady = search % 2;
		next_fn next = steady ? pvsync_steady_next : pvsync_aple_next;
		u32 window = pvsync_aple_begin(&reference, &paper);

		CHECK_EQ(pvsync_aple_steer(&aple, &paper, steady, false, 1, 5), window);
		for (int epoch = 0; epoch < 100 && check_ok(); epoch++) {
			u32 cost = random_below(1000000);

			window = next(&reference, &paper, cost);
			CHECK_EQ(pvsync_aple_steer(&aple, &paper, steady, true, 1, cost), window);
		}
	}
}

/* The same window, and whatever it seems to have cost is not believed. */
static void epoch_without_time_is_repeated(void)
{
	for (int steady = 0; steady < 2; steady++) {
		struct pvsync_aple aple, kept;
		u32 window;

		pvsync_aple_steer(&aple, &paper, steady, false, 0, U32_MAX);
		for (int epoch = 0; epoch < 7; epoch++) {
			window = pvsync_aple_steer(&aple, &paper, steady, true, 1, 1000 - epoch);
			kept = aple;
			for (u32 cost = 0; cost < 3; cost++)
				CHECK_EQ(pvsync_aple_steer(&aple, &paper, steady, true, 0, cost),
					 window);
			CHECK(!memcmp(&aple, &kept, sizeof(aple)));
		}
	}
}

/* Another policy was in force: nothing of before counts, nor does this epoch. */
static void search_that_comes_back_begins_anew(void)
{
	for (int steady = 0; steady < 2; steady++) {
		struct pvsync_aple aple, fresh;

		pvsync_aple_steer(&aple, &paper, steady, false, 1, 0);
		for (int epoch = 0; epoch < 8; epoch++)
			pvsync_aple_steer(&aple, &paper, steady, true, 1, 1000 - 100 * epoch);
		CHECK(aple.desired != paper.start);
		CHECK_EQ(pvsync_aple_steer(&aple, &paper, steady, false, 1, 1), paper.start);
		pvsync_aple_begin(&fresh, &paper);
		CHECK(!memcmp(&aple, &fresh, sizeof(aple)));
	}
}

int main(void)
{
	RUN_TEST(scale_does_not_overflow);
	RUN_TEST(inefficiency_is_the_papers);
	RUN_TEST(windows_become_cycles);
	RUN_TEST(aple_is_algorithm_1);
	RUN_TEST(first_windows_are_the_papers);
	RUN_TEST(aple_stays_within_bounds);
	RUN_TEST(steady_stays_within_bounds);
	RUN_TEST(bounds_that_meet_leave_no_choice);
	RUN_TEST(both_go_downhill);
	RUN_TEST(both_stay_where_it_is_flat);
	RUN_TEST(steady_is_faster_far_away);
	RUN_TEST(steady_comes_back_to_the_step);
	RUN_TEST(steady_remembers_while_it_stays);
	RUN_TEST(steady_forgets_when_it_moves);
	RUN_TEST(steady_wastes_less);
	RUN_TEST(epoch_has_its_spins);
	RUN_TEST(steer_follows_the_rule);
	RUN_TEST(epoch_without_time_is_repeated);
	RUN_TEST(search_that_comes_back_begins_anew);
	return check_summary();
}
