// SPDX-License-Identifier: GPL-2.0-only
/* Every operation of a lock in every state, at the wraps, and with all the CPUs it is for. */
#include "stepped.h"

static void expect(int locked, int contended, int value_unlocked)
{
	CHECK_EQ(!!lock_is_locked(&client.lock), locked);
	CHECK_EQ(!!lock_is_contended(&client.lock), contended);
	CHECK_EQ(!!lock_value_unlocked(client.lock), value_unlocked);
	CHECK(client_neighbours_intact());
}

/* A trylock that fails leaves the word alone. */
static void expect_busy(void)
{
	test_lock_t before = client.lock;

	CHECK_EQ(lock_try(&client.lock), 0);
	CHECK(!memcmp(&before, &client.lock, sizeof(before)));
}

static void expect_free(void)
{
	expect(0, 0, 1);
	expect_zero();
}

/* Held or not, with at least one waiter. */
static void expect_waiters(void)
{
	expect(1, 1, 0);
	expect_busy();
}

/* All operations by one CPU, from a free lock to a free lock. */
static void cycle(void)
{
	expect_free();
	if (!check_ok())
		return;
	lock_acquire(&client.lock);
	expect(1, 0, 0);
	expect_busy();
	lock_release(&client.lock);
	expect_free();
	if (!check_ok())
		return;
	CHECK_EQ(lock_try(&client.lock), 1);
	expect(1, 0, 0);
	expect_busy();
	lock_release(&client.lock);
	expect_free();
}

static void word_is_four_bytes(void)
{
	CHECK_EQ(sizeof(test_lock_t), 4);
	CHECK_EQ(__alignof__(test_lock_t), 4);
}

static void all_zero_is_free(void)
{
	reset(0, U32_MAX);
	cycle();
}

/* Held with waiters, then free with waiters (the next one does not run), in turn. */
static void waiters_are_seen(void)
{
	for (unsigned int waiters = 1; waiters <= 5 && check_ok(); waiters++) {
		reset(8, U32_MAX);
		queue_up(waiters);
		for (unsigned int i = 0; i < waiters && check_ok(); i++) {
			expect_waiters();
			leave(i);
			expect_waiters();
			CHECK_EQ(step_run(i + 1), STEP_PAUSE);
		}
		expect(1, 0, 0);
		expect_busy();
		leave(waiters);
		expect_free();
		cycle();
	}
}

/* An arrival while the lock is free but waited for does not slip in. */
static void arrival_does_not_slip_in(void)
{
	reset(8, U32_MAX);
	queue_up(2);
	leave(0);
	CHECK_EQ(arrive(3), STEP_RELAX);
	CHECK_EQ(step_run(1), STEP_PAUSE);
	leave(1);
	CHECK_EQ(step_run(3), STEP_RELAX);
	drain(2, 3, 2);
	expect_free();
}

/* Taking a free lock: one atomic read-modify-write. Releasing: one store, at most 16 bits. */
static void free_lock_costs_one_rmw(void)
{
	reset(0, U32_MAX);
	lock_acquire(&client.lock);
	CHECK_EQ(step_accesses[PVSYNC_RMW], 1);
	CHECK_EQ(step_accesses[PVSYNC_STORE], 0);
	lock_release(&client.lock);
	CHECK_EQ(step_accesses[PVSYNC_RMW], 1);
	CHECK_EQ(step_accesses[PVSYNC_STORE], 1);
	CHECK_BETWEEN(1, step_widest_store, 2);
	CHECK_EQ(lock_try(&client.lock), 1);
	CHECK_EQ(step_accesses[PVSYNC_RMW], 2);
	CHECK_EQ(step_accesses[PVSYNC_STORE], 1);
}

/* A waiter that waits only reads: it may be preempted there for however long. */
static void waiting_writes_nothing(void)
{
	reset(4, U32_MAX);
	queue_up(3);
	step_accesses[PVSYNC_RMW] = 0;
	step_accesses[PVSYNC_STORE] = 0;
	for (int i = 0; i < 300 && check_ok(); i++)
		CHECK_EQ(step_run(1 + i % 3), STEP_RELAX);
	CHECK_EQ(step_accesses[PVSYNC_RMW], 0);
	CHECK_EQ(step_accesses[PVSYNC_STORE], 0);
	leave(0);
	drain(1, 3, 2);
	expect_free();
}

static void many_pairs(void)
{
	reset(0, U32_MAX);
	for (unsigned long i = 0; i < 3 * 65536 + 7 && check_ok(); i++) {
		if (i % 4099 == 0)
			cycle();
		if (i % 3)
			lock_acquire(&client.lock);
		else
			CHECK_EQ(lock_try(&client.lock), 1);
		lock_release(&client.lock);
	}
	cycle();
}

/*
 * @waiters at all times, so that the counts in the word go on and on: each turn
 * the owner leaves, the next one takes over, and the former owner queues again.
 */
static void relay(unsigned int waiters, unsigned long handovers)
{
	unsigned int cpus = waiters + 1;

	reset(cpus, U32_MAX);
	queue_up(waiters);
	for (unsigned long i = 0; i < handovers && check_ok(); i++) {
		unsigned int from = i % cpus, to = (i + 1) % cpus;

		leave(from);
		if (waiters > 1)
			expect_waiters();
		CHECK_EQ(arrive(from), STEP_RELAX);
		expect_waiters();
		if (waiters > 1)
			CHECK_EQ(step_run((to + 1) % cpus), STEP_RELAX);
		CHECK_EQ(step_run(to), STEP_PAUSE);
		if (!check_ok())
			check_note("with %u waiters, handover %lu", waiters, i);
	}
	for (unsigned int i = 0; i < cpus && check_ok(); i++) {
		leave((handovers + i) % cpus);
		if (i < waiters)
			CHECK_EQ(step_until((handovers + i + 1) % cpus, 2, NULL), STEP_PAUSE);
	}
	expect_free();
}

static void counts_wrap(void)
{
	relay(1, 20000);
	relay(2, 3 * 65536 + 3);
	relay(5, 20000);
	relay(63, 20000);
}

#if LOCK_CPUS > 64
/* All CPUs but one wait when the lock is held, all wait when it is not; over a wrap. */
static void all_cpus_wait_across_wraps(void)
{
	relay((LOCK_CPUS < 4096 ? LOCK_CPUS : 4095) - 1, 5000);
}

/*
 * The owner releases and asks again before anybody else runs, so that all
 * 4,096 wait. It comes last.
 */
static void all_cpus_wait_in_order(void)
{
	const unsigned int cpus = LOCK_CPUS;

	reset(cpus, U32_MAX);
	queue_up(cpus - 1);
	expect_waiters();
	leave(0);
	expect_waiters();
	CHECK_EQ(arrive(0), STEP_RELAX);
	expect_waiters();
	CHECK_EQ(step_run(0), STEP_RELAX);
	for (unsigned int i = 2; i < cpus && check_ok(); i++)
		CHECK_EQ(step_run(i), STEP_RELAX);
	for (unsigned int i = 1; i < cpus && check_ok(); i++) {
		CHECK_EQ(step_run(i), STEP_PAUSE);
		leave(i);
	}
	drain(0, 0, 2);
	CHECK_EQ(turns, cpus + 1);
	expect_free();
	cycle();
}
#endif

#if LOCK_CPUS > 64 && CONFIG_NR_CPUS > 4200
/* The counts hold 4,095 waiters; who comes too many waits outside, and gets its turn. */
static void more_cpus_than_the_counts_hold(void)
{
	const unsigned int cpus = 4200;

	reset(cpus, U32_MAX);
	queue_up(cpus - 1);
	expect_waiters();
	for (unsigned int i = 4000; i < cpus && check_ok(); i++)
		CHECK_EQ(step_until(i, 3, NULL), STEP_RELAX);
	expect_waiters();
	leave(0);
	for (unsigned int i = 1; i < 4096 && check_ok(); i++) {
		CHECK_EQ(step_run(i), STEP_PAUSE);
		for (unsigned int late = 4096; late < cpus; late += 7)
			CHECK_EQ(step_run(late), STEP_RELAX);
		leave(i);
	}
	for (unsigned int round = 0; round < cpus && check_ok(); round++)
		for (unsigned int i = 4096; i < cpus; i++)
			if (step_state(i) != STEP_DONE && step_run(i) == STEP_PAUSE)
				leave(i);
	for (unsigned int i = 0; i < cpus; i++)
		CHECK_EQ(step_state(i), STEP_DONE);
	expect_free();
	cycle();
}
#endif

int main(void)
{
	RUN_TEST(word_is_four_bytes);
	RUN_TEST(all_zero_is_free);
	RUN_TEST(waiters_are_seen);
	RUN_TEST(arrival_does_not_slip_in);
	RUN_TEST(free_lock_costs_one_rmw);
	RUN_TEST(waiting_writes_nothing);
	RUN_TEST(many_pairs);
	RUN_TEST(counts_wrap);
#if LOCK_CPUS > 64
	RUN_TEST(all_cpus_wait_across_wraps);
	RUN_TEST(all_cpus_wait_in_order);
#endif
#if LOCK_CPUS > 64 && CONFIG_NR_CPUS > 4200
	RUN_TEST(more_cpus_than_the_counts_hold);
#endif
	return check_summary();
}
