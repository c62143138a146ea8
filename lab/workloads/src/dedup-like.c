// SPDX-License-Identifier: GPL-2.0-only
/*
 * A pipeline of threads that maps, fills and unmaps memory, after what PARSEC's
 * dedup does. One thread reads chunks, each into memory fresh from the kernel.
 * The threads of the next stage fingerprint them and drop those whose like came
 * before. Those of another stage compress the rest into fresh memory, in one pass or
 * several, and give the chunk's own back. One thread writes the result out and gives
 * that back. So memory is mapped by one thread, read by others and unmapped by yet
 * another, and every unmapping has to reach the TLBs of the CPUs where those run.
 *
 * Each thread stays on one CPU, those of a stage on one after the other: threads
 * that often wait for each other are gathered on one CPU by the scheduler,
 * where there is no other TLB to reach.
 *
 * Every stage checks what came out of the one before it; exit status 1 is a chunk
 * that changed on its way, 2 is wrong usage.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "common.h"

#define USAGE		"[-c CHUNKS] [-s BYTES] [-t THREADS] [-w PASSES]"
#define BLOCKS		64		/* prepared, chunks are made of them */
#define RUN		4		/* equal words in a row */
#define REPEATS		4		/* one chunk in so many is like an earlier one */
#define BATCH		8		/* chunks handed over at once */
#define ROOM		(4 * BATCH)	/* in a queue */
#define BUCKETS		1024
#define MAX_CHUNKS	10000000
#define MAX_BYTES	(4ul << 20)
#define MAX_THREADS	1024		/* of a stage */
#define MAX_PASSES	100000
#define MAX_MEMORY	(1ul << 30)	/* of all chunks on their way */

struct chunk {
	struct chunk *next;		/* in its bucket */
	unsigned long content;
	uint64_t sum;			/* of its words, when it was made */
	uint64_t fingerprint;
	uint64_t *words;		/* from the reader */
	uint64_t *pairs;		/* from a compressor: number of equal words, the word */
	unsigned long pairs_used;
};

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t filled, emptied;
	struct chunk *chunks[ROOM];
	unsigned int first, count;
	unsigned int sources;		/* threads that may still put something in */
};

struct bucket {
	pthread_mutex_t lock;
	struct chunk *first;
};

static unsigned long chunk_count = 4000;
static unsigned long bytes = 16 << 10;
static unsigned long threads;		/* of each stage with several */
static unsigned long passes = 1;	/* of a compressor over each chunk */

static unsigned long word_count;	/* of a chunk */
static struct chunk *chunks;
static uint64_t *blocks, *output;
static struct queue read_ones, new_ones, compressed;
static struct bucket buckets[BUCKETS];
static unsigned long distinct, written;	/* by the reader's account and the writer's */
static pthread_barrier_t start;

static uint64_t *take_memory(void)
{
	uint64_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail(FAILED, "no memory for a chunk of %lu bytes: %s", bytes, strerror(errno));
	return memory;
}

static void give_back(uint64_t *memory)
{
	if (munmap(memory, bytes))
		fail(FAILED, "cannot unmap a chunk: %s", strerror(errno));
}

static void open_queue(struct queue *queue, unsigned int sources)
{
	pthread_mutex_init(&queue->lock, NULL);
	pthread_cond_init(&queue->filled, NULL);
	pthread_cond_init(&queue->emptied, NULL);
	queue->sources = sources;
}

static void put(struct queue *queue, struct chunk **batch, unsigned int number)
{
	unsigned int i;

	if (!number)
		return;
	pthread_mutex_lock(&queue->lock);
	while (queue->count + number > ROOM)
		pthread_cond_wait(&queue->emptied, &queue->lock);
	for (i = 0; i < number; i++)
		queue->chunks[(queue->first + queue->count++) % ROOM] = batch[i];
	pthread_cond_signal(&queue->filled);
	pthread_mutex_unlock(&queue->lock);
}

/* Up to BATCH chunks; 0 when there will be no more. */
static unsigned int take(struct queue *queue, struct chunk **batch)
{
	unsigned int number = 0;

	pthread_mutex_lock(&queue->lock);
	while (!queue->count && queue->sources)
		pthread_cond_wait(&queue->filled, &queue->lock);
	while (queue->count && number < BATCH) {
		batch[number++] = queue->chunks[queue->first];
		queue->first = (queue->first + 1) % ROOM;
		queue->count--;
	}
	if (queue->count)
		pthread_cond_signal(&queue->filled);
	pthread_cond_broadcast(&queue->emptied);
	pthread_mutex_unlock(&queue->lock);
	return number;
}

/* The calling thread puts nothing in any more. */
static void leave(struct queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	if (!--queue->sources)
		pthread_cond_broadcast(&queue->filled);
	pthread_mutex_unlock(&queue->lock);
}

static void prepare(void)
{
	unsigned long i;

	chunks = calloc(chunk_count, sizeof(*chunks));
	blocks = malloc(BLOCKS * bytes);
	output = malloc(bytes);
	if (!chunks || !blocks || !output)
		fail(FAILED, "no memory for %lu chunks of %lu bytes", chunk_count, bytes);
	for (i = 0; i < BLOCKS * word_count; i++)
		blocks[i] = mix(i / RUN);
	memset(output, 0, bytes);
	for (i = 0; i < BUCKETS; i++)
		pthread_mutex_init(&buckets[i].lock, NULL);
}

/* What chunk number @i holds: of its own, or what another one may hold too. */
static unsigned long content_of(unsigned long i)
{
	uint64_t random = mix(i + 1);

	return i && random % REPEATS == 0 ? (random >> 8) % i : i;
}

static void make_words(struct chunk *chunk)
{
	const uint64_t *block = blocks + chunk->content % BLOCKS * word_count;
	uint64_t salt = mix(chunk->content), sum = 0;
	unsigned long i;

	chunk->words = take_memory();
	for (i = 0; i < word_count; i++) {
		chunk->words[i] = block[i] + salt;
		sum += block[i] + salt;
	}
	chunk->sum = sum;
}

static void *read_in(void *unused)
{
	bool *seen = calloc(chunk_count, sizeof(*seen));
	struct chunk *batch[BATCH];
	unsigned int number = 0;
	unsigned long i;

	if (!seen)
		fail(FAILED, "no memory for %lu chunks", chunk_count);
	pthread_barrier_wait(&start);
	for (i = 0; i < chunk_count; i++) {
		struct chunk *chunk = &chunks[i];

		chunk->content = content_of(i);
		distinct += !seen[chunk->content];
		seen[chunk->content] = true;
		make_words(chunk);
		batch[number++] = chunk;
		if (number == BATCH || i == chunk_count - 1) {
			put(&read_ones, batch, number);
			number = 0;
		}
	}
	leave(&read_ones);
	free(seen);
	return unused;
}

static void take_fingerprint(struct chunk *chunk)
{
	uint64_t print = 0, sum = 0;
	unsigned long i;

	for (i = 0; i < word_count; i++) {
		sum += chunk->words[i];
		print = (print ^ chunk->words[i]) * 0xd6e8feb86659fd93ull;
		print ^= print >> 32;
	}
	if (sum != chunk->sum)
		fail(FAILED, "chunk %zu changed before its fingerprint was taken",
		     (size_t)(chunk - chunks));
	chunk->fingerprint = print;
}

/* Whether it is the first of its kind; then it is remembered. */
static bool is_new(struct chunk *chunk)
{
	struct bucket *bucket = &buckets[chunk->fingerprint % BUCKETS];
	struct chunk *other;

	pthread_mutex_lock(&bucket->lock);
	for (other = bucket->first; other; other = other->next) {
		if (other->fingerprint == chunk->fingerprint)
			break;
	}
	if (!other) {
		chunk->next = bucket->first;
		bucket->first = chunk;
	}
	pthread_mutex_unlock(&bucket->lock);
	return !other;
}

static void *deduplicate(void *unused)
{
	struct chunk *batch[BATCH];
	unsigned int number, kept, i;

	pthread_barrier_wait(&start);
	while ((number = take(&read_ones, batch))) {
		for (kept = i = 0; i < number; i++) {
			take_fingerprint(batch[i]);
			if (is_new(batch[i]))
				batch[kept++] = batch[i];
			else
				give_back(batch[i]->words);
		}
		put(&new_ones, batch, kept);
	}
	leave(&new_ones);
	return unused;
}

/* Write @chunk as pairs to @pairs, and say how many words they are. */
static unsigned long make_pairs(const struct chunk *chunk, uint64_t *pairs)
{
	unsigned long i, used = 0, most = bytes / sizeof(*pairs);

	for (i = 0; i < word_count; i++) {
		if (used && pairs[used - 1] == chunk->words[i]) {
			pairs[used - 2]++;
			continue;
		}
		if (used + 2 > most)
			fail(FAILED, "chunk %zu grew when it was compressed",
			     (size_t)(chunk - chunks));
		pairs[used++] = 1;
		pairs[used++] = chunk->words[i];
	}
	return used;
}

static void compress_one(struct chunk *chunk)
{
	uint64_t *pairs = take_memory();
	unsigned long i;

	for (i = 0; i < passes; i++) {
		chunk->pairs_used = make_pairs(chunk, pairs);
		__asm__ volatile("" : : "r" (pairs) : "memory");	/* no pass is left out */
	}
#ifdef CORRUPT_CHUNK	/* for the test of the check */
	if (!chunk->content)
		pairs[chunk->pairs_used - 1] ^= 1;
#endif
	chunk->pairs = pairs;
	give_back(chunk->words);
}

static void *compress(void *unused)
{
	struct chunk *batch[BATCH];
	unsigned int number, i;

	pthread_barrier_wait(&start);
	while ((number = take(&new_ones, batch))) {
		for (i = 0; i < number; i++)
			compress_one(batch[i]);
		put(&compressed, batch, number);
	}
	leave(&compressed);
	return unused;
}

static void write_one(struct chunk *chunk)
{
	uint64_t sum = 0, words = 0;
	unsigned long i;

	for (i = 0; i < chunk->pairs_used; i += 2) {
		output[i] = chunk->pairs[i];
		output[i + 1] = chunk->pairs[i + 1];
		words += chunk->pairs[i];
		sum += chunk->pairs[i] * chunk->pairs[i + 1];
	}
	__asm__ volatile("" : : "r" (output) : "memory");	/* it is used, says this */
	if (words != word_count || sum != chunk->sum)
		fail(FAILED, "chunk %zu changed before it was written",
		     (size_t)(chunk - chunks));
	give_back(chunk->pairs);
}

static void *write_out(void *unused)
{
	struct chunk *batch[BATCH];
	unsigned int number, i;

	pthread_barrier_wait(&start);
	while ((number = take(&compressed, batch))) {
		for (i = 0; i < number; i++)
			write_one(batch[i]);
		written += number;
	}
	return unused;
}

static void read_options(int argc, char **argv)
{
	int option;

	opterr = 0;
	threads = 2 * online_cpus();
	if (threads > MAX_THREADS)
		threads = MAX_THREADS;
	while ((option = getopt(argc, argv, ":c:s:t:w:")) != -1) {
		switch (option) {
		case 'c':
			chunk_count = whole_number(option, optarg, 1, MAX_CHUNKS);
			break;
		case 's':
			bytes = whole_number(option, optarg, RUN * sizeof(*blocks), MAX_BYTES);
			break;
		case 't':
			threads = whole_number(option, optarg, 1, MAX_THREADS);
			break;
		case 'w':
			passes = whole_number(option, optarg, 1, MAX_PASSES);
			break;
		default:
			wrong_option(option, optopt, USAGE);
		}
	}
	no_arguments(argc, argv, USAGE);
	/* Whole runs, so that a chunk never grows. */
	word_count = bytes / sizeof(*blocks) / RUN * RUN;
	bytes = word_count * sizeof(*blocks);
	if ((BLOCKS + 3 * ROOM + 4 * BATCH * threads) * bytes > MAX_MEMORY)
		fail(WRONG_USAGE, "chunks of %lu bytes for twice %lu threads are more than %lu MiB",
		     bytes, threads, MAX_MEMORY >> 20);
}

/* Start a thread of a stage, on CPU @cpu: it inherits where its creator may run. */
static void start_stage(pthread_t *thread, void *(*stage)(void *), unsigned long cpu)
{
	cpu_set_t all;

	sched_getaffinity(0, sizeof(all), &all);
	pin(cpu);
	start_thread(thread, stage, NULL);
	sched_setaffinity(0, sizeof(all), &all);
}

int main(int argc, char **argv)
{
	pthread_t *pool;
	uint64_t began, ended;
	unsigned long i;

	read_options(argc, argv);
	prepare();
	open_queue(&read_ones, 1);
	open_queue(&new_ones, threads);
	open_queue(&compressed, threads);
	pool = calloc(2 * threads + 2, sizeof(*pool));
	if (!pool)
		fail(FAILED, "no memory for %lu threads", 2 * threads + 2);
	pthread_barrier_init(&start, NULL, 2 * threads + 3);
	start_stage(&pool[0], read_in, 0);
	start_stage(&pool[1], write_out, 1);
	for (i = 0; i < threads; i++) {
		start_stage(&pool[2 + 2 * i], deduplicate, i);
		start_stage(&pool[3 + 2 * i], compress, i + 1);
	}
	began = now_ns();
	pthread_barrier_wait(&start);
	for (i = 0; i < 2 * threads + 2; i++)
		pthread_join(pool[i], NULL);
	ended = now_ns();
	if (written != distinct)
		fail(FAILED, "%lu chunks were written, but %lu differ", written, distinct);
	printf("chunks: %lu\n", chunk_count);
	printf("duplicates: %lu\n", chunk_count - distinct);
	printf("time: %.3f s\n", (double)(ended - began) / NS_PER_S);
	free(pool);
	free(output);
	free(blocks);
	free(chunks);
	return 0;
}
