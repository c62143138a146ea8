// SPDX-License-Identifier: GPL-2.0-only
/*
 * One thread has all other CPUs run a function for it, again and again, and waits for
 * each call, on a CPU of its own; a thread of the same process spins on every other
 * CPU. A call is membarrier(PRIVATE_EXPEDITED), which interrupts the CPUs that run a
 * thread of the process. With one CPU there is no other to call.
 *
 * Prints how long calls took, in microseconds: percentiles and the longest.
 */
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>

#include "common.h"

#define USAGE		"[-S SECONDS] [-t THREADS]"
#define MAX_THREADS	4096
#define MAX_CALLS	(1UL << 22)

static uint64_t duration = 2 * NS_PER_S;
static unsigned long threads;		/* the others */
static uint64_t *took;
static pthread_barrier_t start;
static atomic_bool stop;

static void membarrier(int command)
{
	if (syscall(SYS_membarrier, command, 0, 0))
		fail(FAILED, "membarrier failed: %s", strerror(errno));
}

static void *spin(void *arg)
{
	pin((uintptr_t)arg + 1);
	pthread_barrier_wait(&start);
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		;
	return NULL;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *one = a, *other = b;

	return (*one > *other) - (*one < *other);
}

static void print_distribution(unsigned long calls)
{
	static const double shares[] = { 0.5, 0.75, 0.9, 0.95, 0.99, 0.999 };
	size_t i;

	qsort(took, calls, sizeof(*took), compare);
	for (i = 0; i < sizeof(shares) / sizeof(*shares); i++)
		printf("p%g us: %.1f\n", shares[i] * 100, took[(size_t)(shares[i] * calls)] / 1e3);
	printf("max us: %.1f\n", took[calls - 1] / 1e3);
}

static void read_options(int argc, char **argv)
{
	int option;

	opterr = 0;
	threads = online_cpus() - 1;
	while ((option = getopt(argc, argv, ":S:t:")) != -1) {
		switch (option) {
		case 'S':
			duration = seconds(option, optarg);
			break;
		case 't':
			threads = whole_number(option, optarg, 0, MAX_THREADS);
			break;
		default:
			wrong_option(option, optopt, USAGE);
		}
	}
	no_arguments(argc, argv, USAGE);
}

int main(int argc, char **argv)
{
	uint64_t began, before, ended;
	unsigned long calls = 0, i;
	pthread_t *pool;

	read_options(argc, argv);
	pool = calloc(threads + 1, sizeof(*pool));
	took = malloc(MAX_CALLS * sizeof(*took));
	if (!pool || !took)
		fail(FAILED, "no memory");
	membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
	pthread_barrier_init(&start, NULL, threads + 1);
	for (i = 0; i < threads; i++)
		start_thread(&pool[i], spin, (void *)(uintptr_t)i);
	pin(0);
	pthread_barrier_wait(&start);
	began = ended = now_ns();
	do {
		before = ended;
		membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
		ended = now_ns();
		took[calls++] = ended - before;
	} while (ended - began < duration && calls < MAX_CALLS);
	atomic_store(&stop, true);
	for (i = 0; i < threads; i++)
		pthread_join(pool[i], NULL);
	printf("calls: %lu\n", calls);
	printf("calls/s: %.2f\n", (double)calls * NS_PER_S / (ended - began));
	print_distribution(calls);
	free(took);
	free(pool);
	return 0;
}
