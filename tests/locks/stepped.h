/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_STEPPED_H
#define PVSYNC_TEST_STEPPED_H

/* The client on CPUs that are stepped (step.h): who holds, who got it when. */

#define CHECK_TIMER	ITIMER_PROF

#include "check.h"
#include "client.h"
#include "step.h"

#define NOBODY	(-1)

int qspin_cpu(void);
int qspin_cpu(void)
{
	return step_self() < 0 ? 0 : step_self();
}

static int owner;		/* NOBODY or the CPU in its critical section */
static unsigned long turns;	/* critical sections entered */
static bool two_owners;
static unsigned int served[8192];	/* CPU of each turn, the first ones */

static void turn_begin(int cpu)
{
	two_owners |= owner != NOBODY;
	owner = cpu;
	if (turns < sizeof(served) / sizeof(served[0]))
		served[turns] = cpu;
	turns++;
	client.first++;
}

static void turn_end(void)
{
	client.second++;
	owner = NOBODY;
}

/* A CPU's function: one turn, stopping while it holds the lock. */
static void one_turn(unsigned int cpu)
{
	lock_acquire(&client.lock);
	turn_begin(cpu);
	step_pause();
	turn_end();
	lock_release(&client.lock);
}

static void reset(unsigned int cpus, u32 tau)
{
	step_reset(cpus);
	client_init();
	lock_set_tau(tau);
	owner = NOBODY;
	turns = 0;
	two_owners = false;
}

/* Start @cpu and run it to its first stop: it holds the lock or waits for it. */
static enum step arrive(unsigned int cpu)
{
	step_start(cpu, one_turn);
	return step_until(cpu, LOCK_QUEUES_AFTER, NULL);
}

/* A free lock that nobody waits for is all zero, whatever happened to it before. */
static __maybe_unused void expect_zero(void)
{
	static const test_lock_t zero;

	CHECK(!memcmp(&client.lock, &zero, sizeof(zero)));
	CHECK(client_neighbours_intact());
	CHECK(!two_owners);
	CHECK_EQ(client.first, turns);
	CHECK_EQ(client.second, turns);
}

/* Let the owner leave its critical section and finish. */
static __maybe_unused bool leave(unsigned int cpu)
{
	return CHECK_EQ(step_state(cpu), STEP_PAUSE) && CHECK_EQ(step_run(cpu), STEP_DONE);
}

/* CPU 0 holds the lock, 1..@waiters wait in this order, each having relaxed once. */
static __maybe_unused void queue_up(unsigned int waiters)
{
	CHECK_EQ(arrive(0), STEP_PAUSE);
	for (unsigned int i = 1; i <= waiters && check_ok(); i++)
		CHECK_EQ(arrive(i), STEP_RELAX);
}

/* Those who wait get the lock, one after the other, each within @limit relaxes of its own. */
static __maybe_unused void drain(unsigned int first, unsigned int last, unsigned long limit)
{
	for (unsigned int i = first; i <= last && check_ok(); i++)
		if (CHECK_EQ(step_until(i, limit, NULL), STEP_PAUSE))
			leave(i);
}

#endif /* PVSYNC_TEST_STEPPED_H */
