// SPDX-License-Identifier: GPL-2.0-only
/*
 * More threads than cores on one lock, under real preemption: by the system,
 * by signals whose handler sleeps (in the middle of waiting or of holding), and
 * by yields and sleeps between the lock's own accesses. A scenario ends after so
 * many turns of each thread, or, on a machine that is busy with other things,
 * after so many seconds (first argument; the turns have no end if it is given);
 * one in which nobody gets on until RUN_TEST() has enough of it has failed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"
#include "client.h"

#ifdef SHIM_TSAN
#define SCALE	5		/* slower by about as much */
int pvsync_fence_word;
#else
#define SCALE	1
#endif

#define BUSY_SECONDS	3

enum { WORKING, WAITING, HOLDING, STATES };

struct scenario {
	unsigned int threads, turns;	/* turns of each thread */
	u32 tau;
	bool signals;			/* handlers that sleep, at random moments */
	bool yields;			/* waiters let others run now and then */
	bool delays;			/* between accesses to shared memory */
};

void (*pvsync_hook)(enum pvsync_point point, unsigned int size);

static struct scenario now;
static pthread_t threads[64];
static pthread_barrier_t line_up, may_exit;
static bool finished, time_is_up;
static unsigned int threads_done;
static unsigned long turns_taken;
static unsigned int seconds;			/* 0: by turns, and BUSY_SECONDS at most */
static unsigned int clashes;			/* owners that found another one's half-done work */
static unsigned int contended;			/* releases with somebody waiting */
static unsigned int asleep_in[STATES];		/* signals that came while ... */

static __thread unsigned int random_state, self;
static __thread volatile sig_atomic_t doing;

int qspin_cpu(void);
int qspin_cpu(void)
{
	return self;
}

static unsigned int random_next(void)
{
	random_state = random_state * 1103515245u + 12345u;
	return random_state >> 8;
}

static void sleep_us(unsigned int us)
{
	struct timespec time = { .tv_nsec = us * 1000L };

	nanosleep(&time, NULL);
}

static void on_signal(int number)
{
	__atomic_fetch_add(&asleep_in[doing], 1, __ATOMIC_RELAXED);
	sleep_us(200 + 1800 * (doing == HOLDING));
}

static void hook(enum pvsync_point point, unsigned int size)
{
	unsigned int r = random_next();

	if (point == PVSYNC_RELAX) {
		if (now.yields && r % 32 == 0)
			sched_yield();
	} else if (now.delays) {
		if (r % 64 == 0)
			sched_yield();
		else if (r % 4096 == 1)
			sleep_us(100);
	}
}

static void acquire(void)
{
	doing = WAITING;
	if (random_next() % 4 == 0) {
		for (int tries = 0; tries < 3; tries++)
			if (lock_try(&client.lock))
				goto got;
	}
	lock_acquire(&client.lock);
got:
	doing = HOLDING;
}

/* Threads on all CPUs from the start, several to each. */
static void spread(void)
{
	cpu_set_t allowed, one;
	int which;

	sched_getaffinity(getpid(), sizeof(allowed), &allowed);
	which = self % CPU_COUNT(&allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || which--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

static void *work(void *number)
{
	unsigned int turn = 0;

	self = (unsigned int)(size_t)number;
	random_state = self * 2654435761u + 1;
	spread();
	pthread_barrier_wait(&line_up);
	for (; turn < now.turns && !__atomic_load_n(&time_is_up, __ATOMIC_RELAXED); turn++) {
		acquire();
		if (client.first != client.second)
			__atomic_fetch_add(&clashes, 1, __ATOMIC_RELAXED);
		client.first++;
		if ((now.delays && random_next() % 16 == 0) ||
		    (now.yields && random_next() % 128 == 0))
			sched_yield();
		if (now.signals && random_next() % 512 == 0)
			raise(SIGUSR1);
		for (unsigned int hold = random_next() % 256; hold; hold--)
			barrier();
		client.second++;
		if (lock_is_contended(&client.lock))
			__atomic_fetch_add(&contended, 1, __ATOMIC_RELAXED);
		lock_release(&client.lock);
		doing = WORKING;
		if (random_next() % 2)
			sched_yield();
	}
	__atomic_fetch_add(&turns_taken, turn, __ATOMIC_RELAXED);
	__atomic_fetch_add(&threads_done, 1, __ATOMIC_RELEASE);
	pthread_barrier_wait(&may_exit);	/* no signals for threads that are gone */
	return NULL;
}

/* Puts threads to sleep wherever they are until all have finished. */
static void *preempt(void *unused)
{
	unsigned int r = 7;

	while (!__atomic_load_n(&finished, __ATOMIC_ACQUIRE)) {
		r = r * 1103515245u + 12345u;
		pthread_kill(threads[(r >> 8) % now.threads], SIGUSR1);
		sleep_us(100 + (r >> 8) % 400);
	}
	return NULL;
}

static double seconds_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

static void wait_for_threads(void)
{
	double end = seconds_now() + (seconds ? seconds : BUSY_SECONDS);

	while (__atomic_load_n(&threads_done, __ATOMIC_ACQUIRE) < now.threads) {
		sleep_us(2000);
		if (seconds_now() > end)
			__atomic_store_n(&time_is_up, true, __ATOMIC_RELAXED);
	}
}

static void run(struct scenario scenario)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	pthread_t preemptor;

	now = scenario;
	now.turns = seconds ? -1U : (now.turns + SCALE - 1) / SCALE;
	check_timer(check_seconds() + seconds);
	finished = false;
	time_is_up = false;
	threads_done = 0;
	turns_taken = 0;
	clashes = 0;
	contended = 0;
	memset(asleep_in, 0, sizeof(asleep_in));
	client_init();
	lock_set_tau(now.tau);
	pvsync_hook = now.yields || now.delays ? hook : NULL;
	sigaction(SIGUSR1, &action, NULL);
	pthread_barrier_init(&line_up, NULL, now.threads);
	pthread_barrier_init(&may_exit, NULL, now.threads + 1);

	for (size_t i = 0; i < now.threads; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	if (now.signals)
		pthread_create(&preemptor, NULL, preempt, NULL);
	wait_for_threads();
	__atomic_store_n(&finished, true, __ATOMIC_RELEASE);
	if (now.signals)
		pthread_join(preemptor, NULL);
	pthread_barrier_wait(&may_exit);
	for (unsigned int i = 0; i < now.threads; i++)
		pthread_join(threads[i], NULL);

	pvsync_hook = NULL;
	CHECK_EQ(clashes, 0);
	CHECK_EQ(client.first, turns_taken);
	CHECK(turns_taken > 0);
	CHECK_EQ(client.second, client.first);
	CHECK(client_neighbours_intact());
	CHECK(lock_value_unlocked(client.lock));
	CHECK(!memcmp(&client.lock, &(test_lock_t){ 0 }, sizeof(client.lock)));
	printf("# %u threads, %lu turns, tau %u: %u contended; signals %u waiting, %u holding\n",
	       now.threads, turns_taken, now.tau, contended, asleep_in[WAITING], asleep_in[HOLDING]);
	CHECK(contended > 0 || !now.delays);
	CHECK(!now.signals || asleep_in[WAITING] + asleep_in[HOLDING] > 0);
}

#if LOCK_IS_FIFO
static void as_it_comes(void)
{
	run((struct scenario){ .threads = 8, .turns = 500 });
}

static void yielding_waiters(void)
{
	run((struct scenario){ .threads = 16, .turns = 1000, .yields = true });
}

static void delays_between_accesses(void)
{
	run((struct scenario){ .threads = 8, .turns = 1000, .yields = true, .delays = true });
}

static void sleeping_owners_and_waiters(void)
{
	run((struct scenario){ .threads = 12, .turns = 2000, .yields = true, .signals = true });
}
#else
static const u32 taus[] = { 0, 20, 1000, U32_MAX };

static void each_tau(struct scenario scenario)
{
	for (unsigned int i = 0; i < sizeof(taus) / sizeof(taus[0]) && check_ok(); i++) {
		scenario.tau = taus[i];
		run(scenario);
	}
}

static void as_it_comes(void)
{
	run((struct scenario){ .threads = 8, .turns = 20000, .tau = 0 });
	run((struct scenario){ .threads = 16, .turns = 5000, .tau = 20 });
	run((struct scenario){ .threads = 8, .turns = 2000, .tau = 1000 });
	run((struct scenario){ .threads = 8, .turns = 500, .tau = U32_MAX });
}

static void yielding_waiters(void)
{
	each_tau((struct scenario){ .threads = 16, .turns = 1000, .yields = true });
}

static void delays_between_accesses(void)
{
	each_tau((struct scenario){ .threads = 8, .turns = 1000, .yields = true, .delays = true });
}

static void sleeping_owners_and_waiters(void)
{
	each_tau((struct scenario){ .threads = 12, .turns = 2000, .yields = true, .signals = true });
}
#endif

int main(int argc, char **argv)
{
	seconds = argc > 1 ? atoi(argv[1]) : 0;
	RUN_TEST(as_it_comes);
	RUN_TEST(yielding_waiters);
	RUN_TEST(delays_between_accesses);
	RUN_TEST(sleeping_owners_and_waiters);
	return check_summary();
}
