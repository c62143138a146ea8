// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads that do nothing but compute, for a fixed time: they share no memory
 * that is written, and call the kernel at most to read the clock. The work done
 * is in proportion to the CPU time that they got, so it tells a virtual machine's
 * share of the CPUs. Work counts when it was done before the time was over.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "common.h"

#define USAGE		"[-S SECONDS] [-t THREADS]"
#define BATCH		65536		/* iterations between looks at the clock */
#define MAX_THREADS	4096

struct worker {
	pthread_t thread;
	unsigned long number;
	uint64_t iterations;
} __attribute__((aligned(CACHE_LINE)));

static uint64_t duration = 10 * NS_PER_S;
static unsigned long threads;
static uint64_t began;
static pthread_barrier_t start;

static void *burn(void *arg)
{
	struct worker *me = arg;
	uint64_t random = random_seed(me->number);
	unsigned int i;

	pthread_barrier_wait(&start);
	for (;;) {
		for (i = 0; i < BATCH; i++)
			random_next(&random);
		__asm__ volatile("" : : "r" (random));	/* it is used, says this */
		if (now_ns() - began > duration)
			return NULL;
		me->iterations += BATCH;
	}
}

static void read_options(int argc, char **argv)
{
	int option;

	opterr = 0;
	threads = online_cpus();
	if (threads > MAX_THREADS)
		threads = MAX_THREADS;
	while ((option = getopt(argc, argv, ":S:t:")) != -1) {
		switch (option) {
		case 'S':
			duration = seconds(option, optarg);
			break;
		case 't':
			threads = whole_number(option, optarg, 1, MAX_THREADS);
			break;
		default:
			wrong_option(option, optopt, USAGE);
		}
	}
	no_arguments(argc, argv, USAGE);
}

int main(int argc, char **argv)
{
	struct worker *workers;
	uint64_t iterations = 0;
	unsigned long i;

	read_options(argc, argv);
	workers = aligned_alloc(CACHE_LINE, threads * sizeof(*workers));
	if (!workers)
		fail(FAILED, "no memory for %lu threads", threads);
	memset(workers, 0, threads * sizeof(*workers));
	pthread_barrier_init(&start, NULL, threads + 1);
	for (i = 0; i < threads; i++) {
		workers[i].number = i;
		start_thread(&workers[i].thread, burn, &workers[i]);
	}
	began = now_ns();
	pthread_barrier_wait(&start);
	for (i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		iterations += workers[i].iterations;
	}
	printf("iterations: %llu\n", (unsigned long long)iterations);
	printf("iterations/s: %.0f\n", (double)iterations * NS_PER_S / duration);
	free(workers);
	return 0;
}
