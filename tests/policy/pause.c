// SPDX-License-Identifier: GPL-2.0-only
/* The pause filter in software, and windows in PAUSEs: <linux/pvsync/pause.h>. */
#include <linux/pvsync/pause.h>

#include "check.h"
#include "random.h"

#define GAP	300000
#define PAUSE	1024

static struct pvsync_filter filter;
static struct pvsync_pause_seen seen;
static u64 now;

static void reset(void)
{
	filter = (struct pvsync_filter) { };
	now = 1000 * GAP;
}

static bool pause_after(u64 cycles, u32 window)
{
	now += cycles;
	seen = pvsync_filter_pause(&filter, now, GAP, PAUSE, window);
	return seen.reached;
}

/* How many PAUSEs a spin has when it is reported. */
static int pauses_of(u32 window, u64 apart)
{
	int pauses = 1;

	while (!pause_after(apart, window) && pauses < 1000000)
		pauses++;
	return pauses;
}

static void window_is_a_number_of_pauses(void)
{
	static const struct {
		u32	window;
		int	pauses;
	} cases[] = {
		{ 1, 1 }, { 512, 1 }, { 1024, 1 }, { 1025, 2 }, { 4096, 4 }, { 7168, 7 },
		{ 8192, 8 }, { 9216, 9 }, { 32768, 32 }, { 1 << 22, 4096 },
	};

	reset();
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		/* However long they take, up to the gap, and the next spin alike. */
		CHECK_EQ(pauses_of(cases[i].window, 1), cases[i].pauses);
		CHECK_EQ(pauses_of(cases[i].window, 100000), cases[i].pauses);
		CHECK_EQ(pauses_of(cases[i].window, GAP), cases[i].pauses);
	}
}

/* What is reported is whole PAUSEs, so that what they cost is not taken for less. */
static void report_says_what_was_counted(void)
{
	reset();
	pause_after(1, 512);
	CHECK_EQ(seen.reached, 1024);
	pauses_of(4097, 1);
	CHECK_EQ(seen.reached, 5120);
	pauses_of(8192, 1);
	CHECK_EQ(seen.reached, 8192);
}

static void gap_ends_a_spin(void)
{
	reset();
	for (int i = 0; i < 3; i++) {
		CHECK(!pause_after(100, 4096));
		CHECK_EQ(seen.first, i == 0);
	}
	CHECK(!pause_after(GAP + 1, 4096));
	CHECK(seen.first);
	for (int i = 0; i < 2; i++)
		CHECK(!pause_after(100, 4096));
	CHECK(pause_after(GAP, 4096));
	CHECK(!seen.first);
}

static void pauses_apart_are_never_a_spin(void)
{
	reset();
	for (int i = 0; i < 10000 && check_ok(); i++) {
		CHECK(!pause_after(GAP + 1 + i, 1025));
		CHECK(seen.first);
		CHECK_EQ(seen.since, 0);
	}
}

/* Handling takes a while, perhaps longer than the gap: it is in no interval. */
static void report_begins_another(void)
{
	reset();
	for (int spin = 0; spin < 10; spin++) {
		CHECK_EQ(pauses_of(4096, 100), 4);
		now += spin % 2 ? 10 : 10 * GAP;
		pvsync_filter_resume(&filter, now);
		CHECK(!pause_after(70, 4096));
		CHECK(seen.first);
		CHECK_EQ(seen.since, 70);
		CHECK_EQ(pauses_of(4096, 100), 3);
	}
}

/* A window of one PAUSE has intervals, too, or nothing would be known of its cost. */
static void window_of_one_pause_is_timed(void)
{
	reset();
	CHECK(pause_after(GAP + 1, 512));
	for (int i = 0; i < 10; i++) {
		now += 5000;
		pvsync_filter_resume(&filter, now);
		CHECK(pause_after(90000, 512));
		CHECK_EQ(seen.since, 90000);
	}
}

static void intervals_are_those_within_the_gap(void)
{
	u64 sum = 0, expected = 0;

	random_state = 1;
	reset();
	pause_after(GAP + 1, U32_MAX);
	CHECK_EQ(seen.since, 0);
	for (int i = 0; i < 100000 && check_ok(); i++) {
		u64 apart = 1 + random_below(2 * GAP);

		pause_after(apart, U32_MAX);
		CHECK_EQ(seen.since, apart <= GAP ? (long long)apart : 0);
		sum += seen.since;
		expected += apart <= GAP ? apart : 0;
	}
	CHECK(sum == expected);
}

static void window_that_shrinks_ends_the_spin(void)
{
	reset();
	for (int i = 0; i < 10; i++)
		CHECK(!pause_after(100, 32768));
	CHECK(pause_after(100, 4096));
	CHECK_EQ(seen.reached, 11 * PAUSE);
	CHECK_EQ(pauses_of(4096, 100), 4);
}

static void counter_does_not_wrap(void)
{
	reset();
	filter.counted = (u64)U32_MAX - 1;
	filter.last = now;
	seen = pvsync_filter_pause(&filter, ++now, GAP, 65535, U32_MAX);
	CHECK(seen.reached == (u64)U32_MAX - 1 + 65535);
	CHECK_EQ(filter.counted, 0);
}

/* Windows for processors that count */

static const u32 worths[] = { 1, 40, 65535 };
#define for_each_worth(worth)							\
	for (u32 __i = 0, worth; __i < 3 && (worth = worths[__i], check_ok()); __i++)

static u32 pauses_in(u32 window, u32 stock, u32 worth)
{
	struct pvsync_pauses fresh = { };

	return pvsync_window_to_pauses(&fresh, window, stock, worth);
}

static void windows_are_whole_pauses(void)
{
	static const struct {
		u32	window;
		u32	pauses[3];
	} cases[] = {
		{ 1, { 1, 1, 1 } }, { 39, { 39, 1, 1 } }, { 41, { 41, 1, 1 } },
		{ 79, { 79, 1, 1 } }, { 80, { 80, 2, 1 } }, { 4096, { 4096, 102, 1 } },
		{ 8192, { 8192, 204, 1 } }, { 32768, { 32768, 819, 1 } },
		{ 65535, { 65535, 1638, 1 } }, { 65536, { 65535, 1638, 1 } },
		{ 131070, { 65535, 3276, 2 } }, { 2621399, { 65535, 65534, 39 } },
		{ 1 << 22, { 65535, 65535, 64 } }, { U32_MAX, { 65535, 65535, 65535 } },
	};

	for_each_worth(worth) {
		for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
			CHECK_EQ(pauses_in(cases[i].window, 3000, worth), cases[i].pauses[__i]);
	}
}

/* What it is that stock KVM wants, whatever that is: not even a 0 or more than it can count. */
static void window_of_stock_is_left(void)
{
	static const u32 stocks[] = { 0, 1, 3000, 65535 };

	for_each_worth(worth) {
		for (unsigned int i = 0; i < 4; i++) {
			struct pvsync_pauses last = { .pauses = 7, .window = 8, .worth = 9 };
			u32 stock = stocks[i], window = stock * worth;

			CHECK_EQ(pvsync_window_to_pauses(&last, window, stock, worth), stock);
			/* It was not converted, and what was is still known. */
			CHECK_EQ(last.pauses, 7);
			CHECK_EQ(last.window, 8);
			CHECK_EQ(last.worth, 9);
		}
	}
}

/* What a spin reaches is the window but for part of a PAUSE, or one, or all that can be counted. */
static void pauses_are_near_the_window(void)
{
	random_state = 4;
	for_each_worth(worth) {
		for (int i = 0; i < 20000 && check_ok(); i++) {
			u32 window = 128 + random_below(1 << 22);
			u64 reached = (u64)pauses_in(window, 0, worth) * worth;

			CHECK(reached <= U32_MAX);
			if (window < worth)
				CHECK_EQ(reached, worth);
			else if (window / worth > 65535)
				CHECK_EQ(reached, 65535 * worth);
			else
				CHECK_BETWEEN(window - worth + 1, reached, window);
		}
	}
}

static void conversions_are_kept(void)
{
	struct pvsync_pauses last = { };

	random_state = 5;
	for (int i = 0; i < 100000 && check_ok(); i++) {
		u32 window = 1000 * random_below(4), worth = worths[random_below(3)];
		u32 stock = random_below(3) * 25;

		CHECK_EQ(pvsync_window_to_pauses(&last, window, stock, worth),
			 pauses_in(window, stock, worth));
	}
	/* Nothing is divided twice. */
	pvsync_window_to_pauses(&last, 8192, 3000, 40);
	last.pauses = 5;
	CHECK_EQ(pvsync_window_to_pauses(&last, 8192, 3000, 40), 5);
}

int main(void)
{
	RUN_TEST(window_is_a_number_of_pauses);
	RUN_TEST(report_says_what_was_counted);
	RUN_TEST(gap_ends_a_spin);
	RUN_TEST(pauses_apart_are_never_a_spin);
	RUN_TEST(report_begins_another);
	RUN_TEST(window_of_one_pause_is_timed);
	RUN_TEST(intervals_are_those_within_the_gap);
	RUN_TEST(window_that_shrinks_ends_the_spin);
	RUN_TEST(counter_does_not_wrap);
	RUN_TEST(windows_are_whole_pauses);
	RUN_TEST(window_of_stock_is_left);
	RUN_TEST(pauses_are_near_the_window);
	RUN_TEST(conversions_are_kept);
	return check_summary();
}
