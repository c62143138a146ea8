// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fills memory with numbers that depend on their place and on the turn, and reads all of it
 * again and again: whoever else writes there is noticed. On each of its turns it looks, too,
 * whether the records that the guest's kernel shares with a pvsync host say what they can
 * say (debugfs pvsync/ecs). Exit status 1 and one line is a number that is wrong.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "common.h"

#define USAGE		"[-S SECONDS] [-m MIB] [-t THREADS] [-r RECORDS]"
#define MIB		(1ul << 20)
#define MAX_THREADS	4096
#define PASSES		8	/* until other numbers are written */
#define MOST_NESTED	256	/* of one kind of section in one CPU; far more than there are */

struct worker {
	pthread_t thread;
	unsigned long number;
	uint64_t *words;
	uint64_t turn, passes;
} __attribute__((aligned(CACHE_LINE)));

static uint64_t duration = 10 * NS_PER_S;
static unsigned long mib, threads;
static const char *records = "/sys/kernel/debug/pvsync/ecs";
static size_t words;		/* of each thread */
static uint64_t began;
static pthread_barrier_t start;

static uint64_t expected(const struct worker *me, size_t i)
{
	return (i + 1) * 0x9e3779b97f4a7c15ull ^ me->number << 56 ^ me->turn;
}

static void write_all(struct worker *me)
{
	size_t i;

	me->turn++;
	for (i = 0; i < words; i++)
		me->words[i] = expected(me, i);
#ifdef CORRUPT
	if (me->turn == 2)
		me->words[words / 2] ^= 1ull << 40;
#endif
}

static void read_all(struct worker *me)
{
	volatile uint64_t *now = me->words;
	size_t i;

	for (i = 0; i < words; i++) {
		uint64_t found = now[i];

		if (found != expected(me, i))
			fail(FAILED, "word %zu of thread %lu is %#llx, not %#llx", i, me->number,
			     (unsigned long long)found, (unsigned long long)expected(me, i));
	}
	me->passes++;
}

/* "cpu 0 lock 0 ..." for each: names and numbers in turn; no file, no records. */
static void check_records(void)
{
	FILE *file = fopen(records, "r");
	char line[512], name[32];

	while (file && fgets(line, sizeof(line), file)) {
		unsigned long long number;
		char *at = line;
		int length;

		while (sscanf(at, "%31s %llu%n", name, &number, &length) == 2) {
			if (number > MOST_NESTED && strcmp(name, "cpu"))
				fail(FAILED, "a record says %s %llu: %s", name, number, line);
			at += length;
		}
	}
	if (file)
		fclose(file);
}

static void *guard(void *arg)
{
	struct worker *me = arg;
	unsigned int pass;

	pthread_barrier_wait(&start);
	do {
		write_all(me);
		if (!me->number)
			check_records();
		for (pass = 0; pass < PASSES; pass++) {
			read_all(me);
			if (now_ns() - began > duration)
				break;
		}
	} while (now_ns() - began <= duration);
	return NULL;
}

static void read_options(int argc, char **argv)
{
	int option;

	opterr = 0;
	threads = online_cpus();
	if (threads > MAX_THREADS)
		threads = MAX_THREADS;
	/* Half of what is there: a guest's kernel needs some, too. */
	mib = sysconf(_SC_AVPHYS_PAGES) * (sysconf(_SC_PAGESIZE) / 1024) / 2048;
	while ((option = getopt(argc, argv, ":S:m:t:r:")) != -1) {
		switch (option) {
		case 'S':
			duration = seconds(option, optarg);
			break;
		case 'm':
			mib = whole_number(option, optarg, 1, 1 << 20);
			break;
		case 't':
			threads = whole_number(option, optarg, 1, MAX_THREADS);
			break;
		case 'r':
			records = optarg;
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
	uint64_t *memory, passes = 0;
	unsigned long i;

	read_options(argc, argv);
	words = mib * MIB / sizeof(*memory) / threads;
	workers = aligned_alloc(CACHE_LINE, threads * sizeof(*workers));
	memory = mmap(NULL, mib * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!workers || memory == MAP_FAILED)
		fail(FAILED, "no memory for %lu threads with %lu MiB", threads, mib);
	memset(workers, 0, threads * sizeof(*workers));
	pthread_barrier_init(&start, NULL, threads + 1);
	for (i = 0; i < threads; i++) {
		workers[i].number = i;
		workers[i].words = memory + i * words;
		start_thread(&workers[i].thread, guard, &workers[i]);
	}
	began = now_ns();
	pthread_barrier_wait(&start);
	for (i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	for (i = 0; i < threads; i++) {
		read_all(&workers[i]);
		passes += workers[i].passes;
	}
	printf("guarded: %lu MiB\n", mib);
	printf("checked: %.1f MiB/s\n", (double)passes * words * sizeof(*memory) / MIB *
	       NS_PER_S / (now_ns() - began));
	free(workers);
	return 0;
}
