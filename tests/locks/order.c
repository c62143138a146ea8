// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who gets the lock when: the ordering guarantees of section 4.3 of the
 * preemptable ticket spinlock paper, its timeout (4.1) and limits (4.2), without
 * impatience but where a test is about it. The test controls every interleaving
 * (step.h). A CPU that is not stepped is a preempted vCPU. Built with the lock counters on, which are checked as well.
 */
#include <stdlib.h>

#include "stepped.h"

#include <linux/pvsync/lock_stat.h>

DEFINE_STATIC_KEY_FALSE(pvsync_lock_stat_key) = { true };
u32 pvsync_stall_spins = 1000;
static unsigned long counted[PVSYNC_NR_COUNTERS];

void __pvsync_add(enum pvsync_counter counter, u64 amount)
{
	counted[counter] += amount;
}

/* A waiter goes by what it finds when it joins. */
static void start_impatient(unsigned int waiters, u32 tau, u32 times)
{
	reset(waiters + 8, tau);
	lock_set_impatience(times);
	memset(counted, 0, sizeof(counted));
	queue_up(waiters);
}

static void start(unsigned int waiters, u32 tau)
{
	start_impatient(waiters, tau, 1);
}

/* Step a waiter @times; it must go on waiting. */
static bool waits(unsigned int cpu, unsigned long times)
{
	unsigned long relaxes;

	step_until(cpu, times, &relaxes);
	if (relaxes != times)
		check_note("CPU %u took the lock after %lu of %lu relaxes", cpu, relaxes, times);
	return relaxes == times;
}

/* The waiter takes the lock, after at least @low and at most @high relaxes. */
static bool takes(unsigned int cpu, unsigned long low, unsigned long high)
{
	unsigned long relaxes;
	bool took = CHECK_EQ(step_until(cpu, high + 1, &relaxes), STEP_PAUSE) &&
		    CHECK_BETWEEN(low, relaxes, high);

	if (!took)
		check_note("CPU %u", cpu);
	return took;
}

/* First come, first served, however long anybody else is stepped in between. */
static void strict_order(u32 tau, unsigned int steps)
{
	const unsigned int waiters = 6;

	start(waiters, tau);
	for (unsigned int next = 1; next <= waiters && check_ok(); next++) {
		for (unsigned int i = 0; i < steps && check_ok(); i++)
			waits(next + rand() % (waiters + 1 - next), 1);
		leave(next - 1);
		for (unsigned int i = 0; i < steps && next < waiters && check_ok(); i++)
			waits(next + 1 + rand() % (waiters - next), 1);
		takes(next, 0, 0);
	}
	leave(waiters);
	expect_zero();
}

#if LOCK_IS_FIFO
static void first_come_first_served(void)
{
	for (unsigned int i = 0; i < 20 && check_ok(); i++)
		strict_order(0, 2000);
}
#else
static void infinite_tau_is_strict_order(void)
{
	for (unsigned int i = 0; i < 20 && check_ok(); i++)
		strict_order(U32_MAX, 2000);
	CHECK_EQ(counted[PVSYNC_lock_timeouts], 0);
}

/* The largest finite tau does not overflow into a short one: n * tau needs more than 32 bits. */
static void large_tau_is_large(void)
{
	for (unsigned int bit = 20; bit < 32 && check_ok(); bit++)
		strict_order(1U << bit, 3000);
	strict_order(U32_MAX - 1, 3000);
	CHECK_EQ(counted[PVSYNC_lock_timeouts], 0);
}

/* Guarantee 1: strict order as long as nobody has reached its threshold. */
static void ordered_before_threshold(void)
{
	for (unsigned int i = 0; i < 50 && check_ok(); i++)
		strict_order(400, 60);
	CHECK_EQ(counted[PVSYNC_lock_timeouts], 0);
}

/* Calls @test with each order of 1..4. */
static void permutations(void (*test)(const unsigned int *order))
{
	for (unsigned int a = 1; a <= 4; a++)
		for (unsigned int b = 1; b <= 4; b++)
			for (unsigned int c = 1; c <= 4; c++) {
				unsigned int order[4] = { a, b, c, 10 - a - b - c };

				if (a != b && a != c && b != c && check_ok())
					test(order);
			}
}

static void take_in(const unsigned int *order)
{
	leave(0);
	for (int i = 0; i < 4 && check_ok(); i++)
		if (takes(order[i], 0, 0))
			leave(order[i]);
	expect_zero();
}

/* tau = 0: nobody keeps to any order. */
static void any_order(const unsigned int *order)
{
	start(4, 0);
	take_in(order);
}

static void zero_tau_is_any_order(void)
{
	permutations(any_order);
}

/* Guarantee 3: any of the timed-out waiters can be the next. */
static void timed_out_take_in(const unsigned int *order)
{
	start(4, 10);
	for (unsigned int i = 1; i <= 4; i++)
		waits(i, i * 10 + 2);
	CHECK_EQ(counted[PVSYNC_lock_timeouts], 4);
	take_in(order);
}

static void timed_out_are_equal(void)
{
	permutations(timed_out_take_in);
}

/* Guarantee 2: a timed-out waiter before those that are not, whoever is stepped first. */
static void timed_out_come_first(void)
{
	for (unsigned int late = 2; late <= 6 && check_ok(); late++) {
		start(6, 20);
		waits(late, late * 20 + 2);	/* 1 to late - 1 are preempted */
		leave(0);
		for (unsigned int i = 2; i <= 6; i++)
			if (i != late)
				waits(i, 10);
		takes(late, 0, 0);
		CHECK_EQ(counted[PVSYNC_lock_timeouts], 1);
		for (unsigned int i = 2; i <= 6; i++)
			if (i != late)
				waits(i, 5);
		leave(late);
		takes(1, 0, 0);			/* its turn as soon as it runs again */
		leave(1);
		for (unsigned int i = 2; i <= 6; i++)
			if (i != late && takes(i, 0, 6 * 20 + 1))
				leave(i);
		expect_zero();
	}
}

/*
 * The threshold of position n is n * tau relaxes (one more or less is nobody's
 * business): below it a release re-arms to (n - 1) * tau, above it there is
 * nothing left to wait for.
 */
static void threshold(unsigned int n, unsigned int tau, bool reached)
{
	unsigned int left = reached ? 0 : (n - 1) * tau;

	start(n, tau);
	if (!waits(n, n * tau + (reached ? 1 : -2)))
		return;
	CHECK_EQ(counted[PVSYNC_lock_timeouts], reached);
	leave(0);
	if (takes(n, left ? left - 1 : 0, left ? left + 1 : 0))
		leave(n);
	for (unsigned int i = 1; i < n && check_ok(); i++)
		if (takes(i, 0, n * tau))
			leave(i);
	expect_zero();
	if (!check_ok())
		check_note("n = %u, tau = %u", n, tau);
}

static void threshold_is_n_tau(void)
{
	static const unsigned int taus[] = { 4, 5, 16, 100, 1000 };

	for (unsigned int n = 1; n <= 7; n++)
		for (unsigned int i = 0; i < sizeof(taus) / sizeof(taus[0]); i++)
			for (int reached = 0; reached <= 1 && check_ok(); reached++)
				threshold(n, taus[i], reached);
}

/*
 * While the lock is owned an iteration counts as one, while it is free as @times:
 * who is n away from a free lock takes it after n * tau / @times.
 */
static void impatience(unsigned int times)
{
	const unsigned int tau = 150, left = 2 * tau / times;

	start_impatient(4, tau, times);
	waits(3, 3 * tau - 2);
	CHECK_EQ(counted[PVSYNC_lock_timeouts], 0);
	leave(0);			/* 1 and 2 are preempted */
	if (takes(3, left - 1, left + 1))
		leave(3);
	CHECK_EQ(counted[PVSYNC_lock_timeouts], 1);
	if (!check_ok())
		check_note("impatience %u", times);
}

static void a_free_lock_is_waited_for_with_impatience(void)
{
	static const unsigned int all[] = { 1, 2, 7, 16, 100 };

	for (unsigned int i = 0; i < sizeof(all) / sizeof(all[0]) && check_ok(); i++)
		impatience(all[i]);
	start_impatient(2, 150, U32_MAX);	/* more than there is: at once, and no wrap */
	leave(0);
	takes(2, 0, 0);
}

/* Every release re-arms: a waiter that sees one in time never times out. */
static void each_release_rearms(void)
{
	const unsigned int last = 6, tau = 50;

	start(last, tau);
	for (unsigned int n = last; n > 1 && check_ok(); n--) {
		unsigned int owner_now = last - n;

		waits(last, n * tau - 2);
		leave(owner_now);
		waits(last, 1);
		takes(owner_now + 1, 0, 0);
	}
	CHECK_EQ(counted[PVSYNC_lock_timeouts], 0);
	waits(last, tau - 2);
	leave(last - 1);
	takes(last, 0, 0);
	CHECK_EQ(counted[PVSYNC_lock_timeouts], 0);
}

/* Overtaking re-arms as a turn in order does: position 2 of 3 becomes 1 of 2. */
static void overtaking_rearms(void)
{
	const unsigned int tau = 50;

	start(4, tau);
	waits(2, 2 * tau + 2);
	leave(0);		/* n of 4: 4 -> 3 */
	waits(4, 3 * tau - 2);
	takes(2, 0, 0);		/* 1 is preempted */
	leave(2);		/* 3 -> 2 */
	waits(4, 2 * tau - 2);
	CHECK_EQ(counted[PVSYNC_lock_timeouts], 1);
	takes(4, 0, 3);
	CHECK_EQ(counted[PVSYNC_lock_timeouts], 2);
}

/* Taking the lock changes nobody's position, so it must not re-arm. */
static void taking_does_not_rearm(void)
{
	const unsigned int tau = 50;

	start(3, tau);
	leave(0);		/* n of 3 is 2, and stays 2 when 1 takes the lock */
	waits(3, tau);
	takes(1, 0, 0);
	waits(3, tau + 2);
	CHECK_EQ(counted[PVSYNC_lock_timeouts], 1);
	leave(1);
	takes(3, 0, 0);
}

/* A ticket behind num_grant goes straight for the lock. */
static void overtaken_goes_straight(void)
{
	for (unsigned int by = 1; by <= 4 && check_ok(); by++) {
		const unsigned int tau = 200;

		start(6, tau);
		leave(0);
		for (unsigned int i = 2; i < 2 + by; i++) {
			takes(i, tau - 3, i * tau + 3);
			if (i < 1 + by)
				leave(i);
		}
		waits(1, 3);		/* held: it waits for the release only */
		CHECK_EQ(counted[PVSYNC_lock_overtaken], 1);
		leave(1 + by);
		for (unsigned int i = 2 + by; i <= 6; i++)
			waits(i, 10);
		takes(1, 0, 0);
		leave(1);
		for (unsigned int i = 2 + by; i <= 6; i++)
			if (takes(i, 0, 6 * tau))
				leave(i);
		expect_zero();
	}
}

/*
 * CPU 1 sleeps while @grants others pass it by, two or more of them waiting at
 * any time, and gets the lock soon after it wakes, with @others asleep.
 */
static void sleeper(unsigned long grants, unsigned int others)
{
	const unsigned int tau = 30;
	unsigned int holder = 0;

	reset(others + 2, tau);
	lock_set_impatience(1);
	CHECK_EQ(arrive(0), STEP_PAUSE);
	CHECK_EQ(arrive(1), STEP_RELAX);
	lock_set_tau(0);
	for (unsigned int i = 2; i < others + 2; i++)
		CHECK_EQ(arrive(i), STEP_RELAX);
	for (unsigned long i = 0; i < grants && check_ok(); i++) {
		unsigned int next = 2 + i % others;

		leave(holder);
		takes(next, 0, 0);
		if (holder)
			CHECK_EQ(arrive(holder), STEP_RELAX);
		holder = next;
	}
	waits(1, 1);
	leave(holder);
	if (takes(1, 0, (others + 1) * tau + 1))
		leave(1);
	for (unsigned int i = 2; i < others + 2 && check_ok(); i++)
		if (i != holder && takes(i, 0, 0))
			leave(i);
	expect_zero();
	if (!check_ok())
		check_note("%lu grants, %u others", grants, others);
}

static void sleeper_across_wraps(void)
{
	for (unsigned int others = 2; others <= 5; others += 3)
		for (unsigned int bit = 11; bit <= 12; bit++)
			for (int near = -7; near <= 7 && check_ok(); near++)
				sleeper((1UL << bit) + near, others);
	sleeper(2 * 4096, 5);
	sleeper(3 * 65536, 3);
}

/* With tau in force while it sleeps, too, all at their own pace. */
static void nobody_starves(void)
{
	const unsigned int tau = 3;
	unsigned int holder = 0;

	start(4, tau);
	for (unsigned long i = 0; i < 20000 && check_ok(); i++) {
		unsigned int cpu = 2 + rand() % 3;

		if (owner != NOBODY) {
			holder = owner;
			leave(holder);
			if (holder)
				CHECK_EQ(arrive(holder), STEP_RELAX);
		}
		if (cpu != holder)
			step_until(cpu, 4 * tau + 4, NULL);
	}
	if (owner != NOBODY)
		leave(owner);
	takes(1, 0, 5 * tau);
	CHECK(!two_owners);
}
#endif

#ifdef LOCK_SLOWPATH
/* N_h: long waits for a lock that is held; N_w: for one whose next owner does not run. */
static void stalls_are_told_apart(void)
{
	start(2, U32_MAX);
	waits(1, 1200);
	CHECK_EQ(counted[PVSYNC_lock_stalls_holder], 1);
	CHECK_EQ(counted[PVSYNC_lock_stalls_waiter], 0);
	leave(0);
	waits(2, 1200);
	CHECK_EQ(counted[PVSYNC_lock_stalls_holder], 1);
	CHECK_EQ(counted[PVSYNC_lock_stalls_waiter], 1);
	takes(1, 0, 0);
	leave(1);
	takes(2, 0, 0);
	leave(2);
	CHECK_EQ(counted[PVSYNC_lock_contended], 2);
	expect_zero();
}
#endif

/* A CPU's function: some turns, one in four by trylock, without stops of its own. */
static void chaos_cpu(unsigned int cpu)
{
	for (int i = 0; i < 4; i++) {
		if (rand() % 4)
			lock_acquire(&client.lock);
		else
			while (!lock_try(&client.lock))
				cpu_relax();
		turn_begin(cpu);
		for (int hold = rand() % 3; hold; hold--)
			cpu_relax();
		turn_end();
		lock_release(&client.lock);
	}
}

/*
 * A random schedule at the grain of single accesses, with CPUs that are
 * preempted for long: one owner at a time, everybody finishes.
 */
static void schedule(unsigned int seed)
{
	static const u32 taus[] = { 0, 1, 2, 5, 40, U32_MAX };
	unsigned int cpus = 2 + seed % 4, done = 0;
	unsigned long asleep[8] = { 0 }, step = 0;

	srand(seed);
	reset(cpus, taus[rand() % 6]);
	lock_set_impatience(rand() % 2 ? 16 : 1);
	step_fine = true;
	for (unsigned int i = 0; i < cpus; i++)
		step_start(i, chaos_cpu);
	for (; done < cpus && step < 200000; step++) {
		unsigned int cpu = rand() % cpus;

		if (step_state(cpu) == STEP_DONE || asleep[cpu] > step)
			continue;
		if (rand() % 64 == 0)
			asleep[cpu] = step + rand() % 500;
		if (step_run(cpu) == STEP_DONE)
			done++;
	}
	CHECK_EQ(done, cpus);
	CHECK_EQ(turns, 4 * cpus);
	expect_zero();
	if (!check_ok())
		check_note("seed %u", seed);
}

static void random_schedules(void)
{
	for (unsigned int seed = 1; seed <= 3000 && check_ok(); seed++)
		schedule(seed);
}

int main(void)
{
	srand(1);
#if LOCK_IS_FIFO
	RUN_TEST(first_come_first_served);
#else
	RUN_TEST(ordered_before_threshold);
	RUN_TEST(timed_out_come_first);
	RUN_TEST(timed_out_are_equal);
	RUN_TEST(zero_tau_is_any_order);
	RUN_TEST(infinite_tau_is_strict_order);
	RUN_TEST(large_tau_is_large);
	RUN_TEST(threshold_is_n_tau);
	RUN_TEST(a_free_lock_is_waited_for_with_impatience);
	RUN_TEST(each_release_rearms);
	RUN_TEST(overtaking_rearms);
	RUN_TEST(taking_does_not_rearm);
	RUN_TEST(overtaken_goes_straight);
	RUN_TEST(sleeper_across_wraps);
	RUN_TEST(nobody_starves);
#endif
#ifdef LOCK_SLOWPATH
	RUN_TEST(stalls_are_told_apart);
#endif
	RUN_TEST(random_schedules);
	return check_summary();
}
