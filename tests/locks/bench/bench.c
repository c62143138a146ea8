// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a lock costs, beside other locks: uncontended pairs in several shapes,
 * and turns on one lock by two and more threads. Locks take turns in random
 * order in each round; the table shows medians and quartiles. This compares; it
 * passes or fails nothing.
 *
 *	bench [FILE]	the figures also as JSON
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define ROUNDS		41
#define PAIRS		20000
#define TURN_ROUNDS	7
#define TURN_MS		60
#define THREADS_MAX	8

extern unsigned int pvsync_tau_spins;

int qspin_cpu(void);
static __thread int self;
int qspin_cpu(void)
{
	return self;
}

extern const struct bench_lock bench_qspin, bench_qspin_ecs, bench_pmt, bench_ticket, bench_plain_ticket,
	bench_pthread, bench_ck_ticket, bench_ck_fas, bench_ck_mcs;

static const struct bench_lock *const locks[] = {
	&bench_qspin, &bench_qspin_ecs, &bench_pmt, &bench_ticket, &bench_plain_ticket,
	&bench_pthread, &bench_ck_ticket, &bench_ck_fas, &bench_ck_mcs,
};
#define LOCKS		((int)(sizeof(locks) / sizeof(locks[0])))

static const int thread_counts[] = { 2, 4, 8 };
#define COUNTS		((int)(sizeof(thread_counts) / sizeof(thread_counts[0])))
#define COLUMNS		(SHAPES + COUNTS)

static const char *const column_names[COLUMNS] = {
	"tight", "64 locks", "call", "work", "2 threads", "4 threads", "8 threads",
};

static double figures[LOCKS][COLUMNS][ROUNDS];	/* ns for a pair or a turn, then sorted */

static double now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

/* Pin the caller to the n-th CPU that it may use, counted around. */
static void pin(int n)
{
	static cpu_set_t allowed;
	static bool known;
	cpu_set_t one;

	if (!known)
		sched_getaffinity(0, sizeof(allowed), &allowed);
	known = true;
	n %= CPU_COUNT(&allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || n--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

static void shuffle(int *order, int count)
{
	for (int i = 0; i < count; i++)
		order[i] = i;
	for (int i = count - 1; i > 0; i--) {
		int j = rand() % (i + 1), swap = order[i];

		order[i] = order[j];
		order[j] = swap;
	}
}

/* The better of two, so that an interrupt in one of them does not count. */
static double pair_ns(const struct bench_lock *lock, int shape)
{
	double best = 1e18;

	lock->pairs[shape](200);
	for (int i = 0; i < 2; i++) {
		double start = now_ns();

		lock->pairs[shape](PAIRS);
		start = (now_ns() - start) / PAIRS;
		if (start < best)
			best = start;
	}
	return best;
}

static void measure_pairs(void)
{
	int order[LOCKS];

	for (int round = 0; round < ROUNDS; round++) {
		for (int shape = 0; shape < SHAPES; shape++) {
			shuffle(order, LOCKS);
			for (int i = 0; i < LOCKS; i++)
				figures[order[i]][shape][round] = pair_ns(locks[order[i]], shape);
		}
		fprintf(stderr, "\runcontended: round %d of %d ", round + 1, ROUNDS);
	}
	fputc('\n', stderr);
}

static struct {
	const struct bench_lock *lock;
	pthread_barrier_t line_up;
	bool stop;
	unsigned long turns;
} contest;

static void *contend(void *number)
{
	unsigned long turns;

	self = (int)(size_t)number;
	pin(self);
	pthread_barrier_wait(&contest.line_up);
	turns = contest.lock->turns(&contest.stop);
	__atomic_fetch_add(&contest.turns, turns, __ATOMIC_RELAXED);
	return NULL;
}

static double turn_ns(const struct bench_lock *lock, int threads)
{
	struct timespec time = { .tv_nsec = TURN_MS * 1000000L };
	pthread_t ids[THREADS_MAX];
	double start;

	contest.lock = lock;
	contest.stop = false;
	contest.turns = 0;
	pthread_barrier_init(&contest.line_up, NULL, threads + 1);
	for (size_t i = 0; i < (size_t)threads; i++)
		if (pthread_create(&ids[i], NULL, contend, (void *)i)) {
			perror("pthread_create");
			exit(1);
		}
	pthread_barrier_wait(&contest.line_up);
	start = now_ns();
	nanosleep(&time, NULL);
	__atomic_store_n(&contest.stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	return (now_ns() - start) / contest.turns;
}

static void measure_turns(void)
{
	int order[LOCKS];

	for (int round = 0; round < TURN_ROUNDS; round++) {
		for (int count = 0; count < COUNTS; count++) {
			shuffle(order, LOCKS);
			for (int i = 0; i < LOCKS; i++)
				figures[order[i]][SHAPES + count][round] =
					turn_ns(locks[order[i]], thread_counts[count]);
		}
		fprintf(stderr, "\rcontended: round %d of %d ", round + 1, TURN_ROUNDS);
	}
	fputc('\n', stderr);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int rounds_of(int column)
{
	return column < SHAPES ? ROUNDS : TURN_ROUNDS;
}

/* Quarter 1, 2 (the median), 3 of the sorted figures. */
static double quarter(int lock, int column, int which)
{
	return figures[lock][column][(rounds_of(column) - 1) * which / 4];
}

/* Three digits or so, whatever the size. */
static const char *figure(char *text, size_t size, double ns)
{
	snprintf(text, size, "%.*f", ns < 100 ? 2 : 0, ns);
	return text;
}

static void print_cell(int lock, int column)
{
	char median[16], low[16], high[16], spread[40];

	figure(low, sizeof(low), quarter(lock, column, 1));
	figure(high, sizeof(high), quarter(lock, column, 3));
	snprintf(spread, sizeof(spread), "[%s-%s]", low, high);
	printf(" | %6s %5.2fx %-13s", figure(median, sizeof(median), quarter(lock, column, 2)),
	       quarter(lock, column, 2) / quarter(0, column, 2), spread);
}

static void print_table(int first, int last)
{
	printf("%-13s", "");
	for (int c = first; c < last; c++)
		printf(" | %-27s", column_names[c]);
	putchar('\n');
	for (int l = 0; l < LOCKS; l++) {
		printf("%-13s", locks[l]->name);
		for (int c = first; c < last; c++)
			print_cell(l, c);
		putchar('\n');
	}
}

static int write_json(const char *path)
{
	FILE *file = fopen(path, "w");

	if (!file) {
		perror(path);
		return 1;
	}
	fprintf(file, "{\"unit\": \"ns\", \"cpus\": %ld, \"locks\": {", sysconf(_SC_NPROCESSORS_ONLN));
	for (int l = 0; l < LOCKS; l++) {
		fprintf(file, "%s\n  \"%s\": {", l ? "," : "", locks[l]->name);
		for (int c = 0; c < COLUMNS; c++)
			fprintf(file,
				"%s\n    \"%s\": {\"median\": %.4f, \"q1\": %.4f, \"q3\": %.4f, "
				"\"rounds\": %d, \"ratio\": %.4f}",
				c ? "," : "", column_names[c], quarter(l, c, 2), quarter(l, c, 1),
				quarter(l, c, 3), rounds_of(c), quarter(l, c, 2) / quarter(0, c, 2));
		fputs("}", file);
	}
	fputs("\n}}\n", file);
	if (fclose(file)) {
		perror(path);
		return 1;
	}
	printf("\nfigures in %s\n", path);
	return 0;
}

int main(int argc, char **argv)
{
	srand(1);
	pin(0);
	measure_pairs();
	measure_turns();
	for (int l = 0; l < LOCKS; l++)
		for (int c = 0; c < COLUMNS; c++)
			qsort(figures[l][c], rounds_of(c), sizeof(double), compare);
	puts("uncontended lock+unlock pair, ns: median, times qspin's, [quartiles]");
	print_table(0, SHAPES);
	printf("\none lock, all threads on it, on %ld CPUs, pmt with tau %u: ns for a turn\n",
	       sysconf(_SC_NPROCESSORS_ONLN), pvsync_tau_spins);
	print_table(SHAPES, COLUMNS);
	return argc > 1 ? write_json(argv[1]) : 0;
}
