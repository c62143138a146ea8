// SPDX-License-Identifier: GPL-2.0-only
/*
 * One thread changes mappings in a loop, on a CPU of its own, while a thread on
 * every other CPU keeps the address space loaded and writes to pages of its own.
 * So every turn of the loop has to reach the TLBs of all CPUs. What a turn is, by
 * the mode:
 *
 *   munmap	map pages, write to each, unmap them
 *   mprotect	write to each page, make them read-only, make them writable
 *   madvise	write to each page, give them back with MADV_DONTNEED
 *   fork	write to each page, fork a child that ends at once, wait for it
 *
 * A turn counts when it has ended. With one CPU there is no other to reach.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "common.h"

#define USAGE		"-m munmap|mprotect|madvise|fork [-S SECONDS] [-p PAGES] [-t THREADS]"
#define OWN_PAGES	16		/* of each other thread */
#define MAX_PAGES	65536
#define MAX_THREADS	4096

static uint64_t duration = 2 * NS_PER_S;
static unsigned long pages = 16;
static unsigned long threads;		/* the others */
static size_t page_size, bytes;
static char *region;			/* what is changed; each munmap turn has its own */
static pthread_barrier_t start;
static atomic_bool stop;

static char *map_pages(size_t size)
{
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail(FAILED, "no memory for %zu bytes: %s", size, strerror(errno));
	return memory;
}

static void write_pages(char *memory, size_t size)
{
	size_t at;

	for (at = 0; at < size; at += page_size)
		(*(volatile char *)(memory + at))++;
}

static void check(int result, const char *call)
{
	if (result)
		fail(FAILED, "%s failed: %s", call, strerror(errno));
}

static void munmap_turn(void)
{
	char *memory = map_pages(bytes);

	write_pages(memory, bytes);
	check(munmap(memory, bytes), "munmap");
}

static void mprotect_turn(void)
{
	write_pages(region, bytes);
	check(mprotect(region, bytes, PROT_READ), "mprotect");
	check(mprotect(region, bytes, PROT_READ | PROT_WRITE), "mprotect");
}

static void madvise_turn(void)
{
	write_pages(region, bytes);
	check(madvise(region, bytes, MADV_DONTNEED), "madvise");
}

static void fork_turn(void)
{
	int status = 0;
	pid_t child;

	write_pages(region, bytes);
	child = fork();
	if (!child)
		_exit(0);
	check(child < 0, "fork");
	check(waitpid(child, &status, 0) != child || status, "a child");
}

static const struct mode {
	const char *name;
	void (*turn)(void);
} modes[] = {
	{ "munmap", munmap_turn },
	{ "mprotect", mprotect_turn },
	{ "madvise", madvise_turn },
	{ "fork", fork_turn },
};

static const struct mode *mode;

static void *keep_loaded(void *arg)
{
	char *own = map_pages(OWN_PAGES * page_size);

	pin((uintptr_t)arg + 1);
	pthread_barrier_wait(&start);
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		write_pages(own, OWN_PAGES * page_size);
	return NULL;
}

static const struct mode *find_mode(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		if (!strcmp(modes[i].name, name))
			return &modes[i];
	}
	fail(WRONG_USAGE, "there is no mode '%s'; options: %s", name, USAGE);
}

static void read_options(int argc, char **argv)
{
	int option;

	opterr = 0;
	threads = online_cpus() - 1;
	while ((option = getopt(argc, argv, ":m:S:p:t:")) != -1) {
		switch (option) {
		case 'm':
			mode = find_mode(optarg);
			break;
		case 'S':
			duration = seconds(option, optarg);
			break;
		case 'p':
			pages = whole_number(option, optarg, 1, MAX_PAGES);
			break;
		case 't':
			threads = whole_number(option, optarg, 0, MAX_THREADS);
			break;
		default:
			wrong_option(option, optopt, USAGE);
		}
	}
	no_arguments(argc, argv, USAGE);
	if (!mode)
		fail(WRONG_USAGE, "-m is missing; options: %s", USAGE);
}

int main(int argc, char **argv)
{
	unsigned long turns = 0, i;
	uint64_t began, ended;
	pthread_t *pool;

	read_options(argc, argv);
	page_size = sysconf(_SC_PAGESIZE);
	bytes = pages * page_size;
	region = map_pages(bytes);
	pool = calloc(threads + 1, sizeof(*pool));
	if (!pool)
		fail(FAILED, "no memory for %lu threads", threads);
	pthread_barrier_init(&start, NULL, threads + 1);
	for (i = 0; i < threads; i++) {
		start_thread(&pool[i], keep_loaded, (void *)(uintptr_t)i);
	}
	pin(0);
	pthread_barrier_wait(&start);
	began = now_ns();
	do {
		mode->turn();
		turns++;
		ended = now_ns();
	} while (ended - began < duration);
	atomic_store(&stop, true);
	for (i = 0; i < threads; i++)
		pthread_join(pool[i], NULL);
	printf("turns: %lu\n", turns);
	printf("turns/s: %.2f\n", (double)turns * NS_PER_S / (ended - began));
	free(pool);
	return 0;
}
