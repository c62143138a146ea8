// SPDX-License-Identifier: GPL-2.0-only
/*
 * A load like that of a web application server, after what ebizzy does: every
 * thread again and again takes memory from the kernel, copies one of a few
 * prepared chunks into it, looks keys up in the copy and gives the memory
 * back. So threads of one process fight for its address space (mmap_lock, page
 * faults, unmapping) and interrupt each other's CPUs to flush their TLBs.
 *
 * One such turn is a record. Every look-up is checked; exit status 1 is a
 * wrong one, 2 is wrong usage.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "common.h"

#define USAGE		"[-S SECONDS | -r RECORDS] [-t THREADS] [-n CHUNKS] [-s BYTES] [-m | -M]"
#define LOOKUPS		16		/* of a record */
#define KEY_GAP		64		/* one key in each range of so many numbers */
#define MAX_THREADS	1024
#define MAX_CHUNKS	65536
#define MAX_BYTES	(16ul << 20)	/* of a chunk */
#define MAX_MEMORY	(1ul << 30)	/* of all chunks and copies */

struct worker {
	pthread_t thread;
	unsigned long number;
	unsigned long records;
	uint64_t began, ended;
	bool failed;			/* a look-up went wrong, this one: */
	unsigned long chunk, index;
} __attribute__((aligned(CACHE_LINE)));

static uint64_t duration = 10 * NS_PER_S;
static unsigned long records_each;	/* 0: by time */
static unsigned long threads;
static unsigned long chunks = 32;
static unsigned long bytes = 128 << 10;	/* as much as malloc() takes from mmap() */
static bool use_malloc;

static unsigned long keys;		/* of a chunk */
static uint64_t **prepared;
static pthread_barrier_t start;
static atomic_bool stop;

/* The key that belongs at @index of @chunk; the keys of a chunk ascend. */
static uint64_t key_at(unsigned long chunk, unsigned long index)
{
	return (uint64_t)index * KEY_GAP + mix((uint64_t)chunk << 32 | index) % KEY_GAP;
}

static void prepare(void)
{
	unsigned long chunk, index;

	keys = bytes / sizeof(**prepared);
	prepared = calloc(chunks, sizeof(*prepared));
	if (!prepared)
		fail(FAILED, "no memory for %lu chunks", chunks);
	for (chunk = 0; chunk < chunks; chunk++) {
		prepared[chunk] = malloc(bytes);
		if (!prepared[chunk])
			fail(FAILED, "no memory for a chunk of %lu bytes", bytes);
		for (index = 0; index < keys; index++)
			prepared[chunk][index] = key_at(chunk, index);
	}
#ifdef CORRUPT_KEY	/* for the test of the check */
	prepared[chunks - 1][keys / 2] = UINT64_MAX;
#endif
}

static uint64_t *take_memory(void)
{
	uint64_t *memory;

	if (use_malloc) {
		memory = malloc(bytes);
	} else {
		memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED)
			memory = NULL;
	}
	if (!memory)
		fail(FAILED, "no memory for a copy of %lu bytes: %s", bytes, strerror(errno));
	return memory;
}

static void give_back(uint64_t *memory)
{
	if (use_malloc)
		free(memory);
	else if (munmap(memory, bytes))
		fail(FAILED, "cannot unmap a copy: %s", strerror(errno));
}

/*
 * Word by word: memcpy() would take "rep movsb" for so much, which costs an
 * emulated CPU eight times the steps and would hide the kernel's part.
 */
static void copy_words(uint64_t *to, const uint64_t *from)
{
	unsigned long i;

	for (i = 0; i < keys; i++) {
		to[i] = from[i];
		__asm__ volatile("" : : : "memory");	/* no memcpy(), says this */
	}
}

/* Where the key is; @keys when it is nowhere. */
static unsigned long look_up(const uint64_t *copy, uint64_t key)
{
	unsigned long low = 0, high = keys, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (copy[middle] == key)
			return middle;
		if (copy[middle] < key)
			low = middle + 1;
		else
			high = middle;
	}
	return keys;
}

/* One turn; false when a look-up went wrong. */
static bool record(struct worker *me, uint64_t *random)
{
	uint64_t *copy = take_memory();
	unsigned int left;

	me->chunk = random_next(random) % chunks;
	copy_words(copy, prepared[me->chunk]);
	for (left = LOOKUPS; left; left--) {
		me->index = random_next(random) % keys;
		if (look_up(copy, key_at(me->chunk, me->index)) != me->index)
			return false;
	}
	give_back(copy);
	return true;
}

static bool finished(const struct worker *me)
{
	if (atomic_load_explicit(&stop, memory_order_relaxed))
		return true;
	if (records_each)
		return me->records == records_each;
	return me->ended - me->began >= duration;
}

static void *work(void *arg)
{
	struct worker *me = arg;
	uint64_t random = random_seed(me->number);

	pthread_barrier_wait(&start);
	me->began = now_ns();
	do {
		if (!record(me, &random)) {
			me->failed = true;
			atomic_store(&stop, true);
			break;
		}
		me->records++;
		me->ended = now_ns();
	} while (!finished(me));
	return NULL;
}

static void read_options(int argc, char **argv)
{
	bool by_time = false, map = false;
	int option;

	opterr = 0;
	threads = 2 * online_cpus();
	if (threads > MAX_THREADS)
		threads = MAX_THREADS;
	while ((option = getopt(argc, argv, ":S:r:t:n:s:mM")) != -1) {
		switch (option) {
		case 'S':
			duration = seconds(option, optarg);
			by_time = true;
			break;
		case 'r':
			records_each = whole_number(option, optarg, 1, 1000000000);
			break;
		case 't':
			threads = whole_number(option, optarg, 1, MAX_THREADS);
			break;
		case 'n':
			chunks = whole_number(option, optarg, 1, MAX_CHUNKS);
			break;
		case 's':
			bytes = whole_number(option, optarg, sizeof(**prepared), MAX_BYTES);
			break;
		case 'm':
			map = true;
			break;
		case 'M':
			use_malloc = true;
			break;
		default:
			wrong_option(option, optopt, USAGE);
		}
	}
	no_arguments(argc, argv, USAGE);
	if (by_time && records_each)
		fail(WRONG_USAGE, "give -S or -r, not both");
	if (map && use_malloc)
		fail(WRONG_USAGE, "give -m or -M, not both");
	if ((chunks + threads) * bytes > MAX_MEMORY)
		fail(WRONG_USAGE, "%lu chunks and %lu copies of %lu bytes are more than %lu MiB",
		     chunks, threads, bytes, MAX_MEMORY >> 20);
}

static struct worker *run(void)
{
	struct worker *workers = aligned_alloc(CACHE_LINE, threads * sizeof(*workers));
	unsigned long i;

	if (!workers)
		fail(FAILED, "no memory for %lu threads", threads);
	memset(workers, 0, threads * sizeof(*workers));
	pthread_barrier_init(&start, NULL, threads);
	for (i = 0; i < threads; i++) {
		workers[i].number = i;
		start_thread(&workers[i].thread, work, &workers[i]);
	}
	for (i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	pthread_barrier_destroy(&start);
	return workers;
}

static void report(const struct worker *workers)
{
	uint64_t began = workers[0].began, ended = workers[0].ended;
	unsigned long records = 0, i;
	double elapsed;

	for (i = 0; i < threads; i++) {
		const struct worker *one = &workers[i];

		if (one->failed)
			fail(FAILED, "key %lu of chunk %lu was not found at its place",
			     one->index, one->chunk);
		records += one->records;
		if (one->began < began)
			began = one->began;
		if (one->ended > ended)
			ended = one->ended;
	}
	elapsed = (double)(ended - began) / NS_PER_S;
	printf("records: %lu\n", records);
	printf("records/s: %.1f\n", records / elapsed);
	if (records_each)
		printf("time: %.3f s\n", elapsed);
}

int main(int argc, char **argv)
{
	struct worker *workers;
	unsigned long chunk;

	read_options(argc, argv);
	if (use_malloc) {
		mallopt(M_MMAP_MAX, 0);		/* always from the heap, */
		mallopt(M_TRIM_THRESHOLD, INT32_MAX);	/* which keeps its pages */
	}
	prepare();
	workers = run();
	report(workers);
	for (chunk = 0; chunk < chunks; chunk++)
		free(prepared[chunk]);
	free(prepared);
	free(workers);
	return 0;
}
