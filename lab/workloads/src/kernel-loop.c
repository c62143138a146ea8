// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads of one process, one for each CPU, that have the kernel do one kind of
 * work again and again, for a fixed time. What a turn is, by the mode:
 *
 *   mmap	map pages, write to each, unmap them: mmap_lock for writing
 *   fault	write to each page of an own part of a mapping that all threads share,
 *		then give these pages back with one MADV_DONTNEED: locks of address
 *		spaces for reading
 *   pread	read each page of a file that is in memory, which all threads share
 *
 * A turn counts when it has ended; a thread ends with its first turn that ends
 * after the time, and its rate is that of the time it took itself.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>

#include "common.h"

#define USAGE		"-m mmap|fault|pread [-S SECONDS] [-p PAGES] [-t THREADS]"
#define MAX_PAGES	65536
#define MAX_THREADS	4096

struct worker {
	pthread_t thread;
	char *memory;			/* its part of the common mapping, or where it reads to */
	unsigned long turns;
	uint64_t ended;
} __attribute__((aligned(CACHE_LINE)));

static uint64_t duration = 2 * NS_PER_S;
static unsigned long pages, threads;
static size_t page_size;
static uint64_t began;
static pthread_barrier_t start;
static int file;

static char *map_pages(size_t number)
{
	char *memory = mmap(NULL, number * page_size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail(FAILED, "no memory for %zu pages: %s", number, strerror(errno));
	return memory;
}

static void write_pages(char *memory)
{
	unsigned long i;

	for (i = 0; i < pages; i++)
		*(volatile char *)(memory + i * page_size) = 1;
}

static void check(int result, const char *call)
{
	if (result)
		fail(FAILED, "%s failed: %s", call, strerror(errno));
}

static void mmap_turn(struct worker *me)
{
	char *memory = map_pages(pages);

	(void)me;
	write_pages(memory);
	check(munmap(memory, pages * page_size), "munmap");
}

/* One mapping, and pages that come one by one: a huge page would be a single fault. */
static void fault_prepare(struct worker *workers)
{
	char *memory = map_pages(threads * pages);
	unsigned long i;

	if (madvise(memory, threads * pages * page_size, MADV_NOHUGEPAGE) && errno != EINVAL)
		fail(FAILED, "madvise failed: %s", strerror(errno));
	for (i = 0; i < threads; i++)
		workers[i].memory = memory + i * pages * page_size;
}

static void fault_turn(struct worker *me)
{
	write_pages(me->memory);
	check(madvise(me->memory, pages * page_size, MADV_DONTNEED), "madvise");
}

static void pread_prepare(struct worker *workers)
{
	char *content = map_pages(pages);
	size_t bytes = pages * page_size, done;
	unsigned long i;
	ssize_t part;

	memset(content, 'x', bytes);
#ifdef CORRUPT_FILE	/* for the test of the check */
	content[page_size - 1] = 'y';
#endif
	file = memfd_create("pread", 0);
	check(file < 0, "memfd_create");
	for (done = 0; done < bytes; done += part) {
		part = write(file, content + done, bytes - done);
		check(part <= 0, "write");
	}
	check(munmap(content, bytes), "munmap");
	for (i = 0; i < threads; i++)
		workers[i].memory = map_pages(1);
}

static void pread_turn(struct worker *me)
{
	unsigned long i;

	for (i = 0; i < pages; i++) {
		if (pread(file, me->memory, page_size, i * page_size) != (ssize_t)page_size)
			fail(FAILED, "page %lu cannot be read: %s", i, strerror(errno));
		if (me->memory[page_size - 1] != 'x')
			fail(FAILED, "what was read is not what was written");
	}
}

static const struct mode {
	const char *name, *what;
	void (*prepare)(struct worker *workers);
	void (*turn)(struct worker *me);
	unsigned long pages;		/* unless it is said */
	int one_a_turn;			/* else one for each page */
} modes[] = {
	{ "mmap", "mappings", NULL, mmap_turn, 16, 1 },
	{ "fault", "faults", fault_prepare, fault_turn, 256, 0 },
	{ "pread", "reads", pread_prepare, pread_turn, 256, 0 },
};

static const struct mode *mode;

static void *work(void *arg)
{
	struct worker *me = arg;

	pthread_barrier_wait(&start);
	do {
		mode->turn(me);
		me->turns++;
		me->ended = now_ns();
	} while (me->ended - began < duration);
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
	threads = online_cpus();
	if (threads > MAX_THREADS)
		threads = MAX_THREADS;
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
			threads = whole_number(option, optarg, 1, MAX_THREADS);
			break;
		default:
			wrong_option(option, optopt, USAGE);
		}
	}
	no_arguments(argc, argv, USAGE);
	if (!mode)
		fail(WRONG_USAGE, "-m is missing; options: %s", USAGE);
	if (!pages)
		pages = mode->pages;
}

int main(int argc, char **argv)
{
	unsigned long i, each, number = 0;
	struct worker *workers;
	double rate = 0;

	read_options(argc, argv);
	page_size = sysconf(_SC_PAGESIZE);
	workers = aligned_alloc(CACHE_LINE, threads * sizeof(*workers));
	if (!workers)
		fail(FAILED, "no memory for %lu threads", threads);
	memset(workers, 0, threads * sizeof(*workers));
	if (mode->prepare)
		mode->prepare(workers);
	pthread_barrier_init(&start, NULL, threads + 1);
	for (i = 0; i < threads; i++)
		start_thread(&workers[i].thread, work, &workers[i]);
	began = now_ns();
	pthread_barrier_wait(&start);
	each = mode->one_a_turn ? 1 : pages;
	for (i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		number += workers[i].turns * each;
		rate += (double)workers[i].turns * each * NS_PER_S / (workers[i].ended - began);
	}
	printf("%s: %lu\n", mode->what, number);
	printf("%s/s: %.1f\n", mode->what, rate);
	free(workers);
	return 0;
}
