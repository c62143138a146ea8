// SPDX-License-Identifier: GPL-2.0-only
/*
 * Looks for stale translations: a thread changes what is mapped in a window of
 * the address space, one on every other CPU reads and writes through that window in
 * a tight loop, without system calls, so that nothing but the flush that belongs
 * to the change makes its CPU forget an old translation. Exit status 1 and one
 * line is a stale one, 2 is wrong usage.
 *
 * What is a fault, and what a legal race
 *
 * Every change makes a new generation. The changer stores its number (release)
 * after the system call has returned; a prober loads it (acquire) and then uses
 * the window. So a prober that loaded G began its access after the call that made
 * G had returned, and may meet what is mapped in G or, if it is slow, in a later
 * generation; an access that was begun before may still meet older ones, and that
 * is legal: the number that was loaded is the older one then.
 *
 * The pages in the window are those of a set, one of SETS in a memory file, each
 * of which is mapped again only after all others have been, and all of which the
 * changer sees through a second mapping that never changes.
 *
 * - Stores. A prober stores the G it loaded, each into a word of its own. When the
 *   last generation in which a set could be written is M, G > M in that set is a
 *   store that began after the change and still met the old page. The changer
 *   looks for it until the set's next turn.
 * - Loads. The first word of a page is the last generation in which it may be read,
 *   written before the page is mapped. A prober that loaded G and reads less
 *   has met an old page.
 * - Private memory that is given back (MADV_DONTNEED) cannot be seen from elsewhere.
 *   There a prober remembers its own last store. The changer stores the coming
 *   number in `starting` before the call. If a prober finds after its store, with
 *   both in one total order, that no change had been started, the store was done
 *   before the change and went with the old page: to read it again with a newer
 *   generation loaded is a fault. If one had been started, nothing can be said
 *   about that store, and it is left out.
 *
 * A processor may translate ahead of the program's order. That is no excuse: what
 * has not retired when a flush reaches its CPU, by interrupt or by an exit to
 * the hypervisor, is done again afterwards, the load of the generation included.
 *
 * While nothing is mapped, or nothing may be written, an access raises SIGSEGV;
 * the handler returns, and the access is repeated until it succeeds.
 *
 * Huge pages. With -H there is always a page of 2 MiB in the window, aligned and mapped by
 * one entry, of the file or private, and the first 1, 8, 64 or 512 pages of it change:
 * that entry is split, unless all of it goes, and the next change brings a whole one.
 * So each change replaces the window, MADV_DONTNEED has a second one, which moves
 * fresh memory there.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "common.h"

#define USAGE		"[-S SECONDS] [-v VARIANT] [-p PAGES] [-t THREADS] [-H]"
#define PAGE		4096ul
#define TABLE_PAGES	512ul		/* mapped by one page table: 2 MiB */
#define HUGE		(TABLE_PAGES * PAGE)
#define GIB		(1ul << 30)
#define SETS		16u
#define HOT		16ul		/* pages that are looked at, at most */
#define MAX_THREADS	500ul		/* a word in each page for everyone */
#define SLICE		NS_PER_S	/* of one variant and size, at most */
#define LEAST_CHANGES	16		/* in it */
#define GLANCE		100000ull	/* ns: wait for probers after a change */
#define STARE		20000000ull	/* ns: now and then, for those whose CPU is away */
#define STARE_ONCE_IN	16
#define NAP		200000		/* ns: lets a CPU go idle */
#define PASSES_TO_NAP	256
#define COLLAPSE_TRIES	100		/* while a page of the file is in use elsewhere */

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

typedef _Atomic uint64_t word;

struct worker {
	pthread_t thread;
	unsigned long number;
	int cpu;
	word seen;		/* generation at the start of the last pass over all hot pages */
	uint64_t probes, changes;
	uint64_t random;
} __attribute__((aligned(CACHE_LINE)));

struct variant {
	const char *name;
	void (*change)(void);		/* what is mapped */
	bool private;			/* memory, not the file's */
	unsigned int read_on;		/* generations in which a set is read but not written */
};

static uint64_t duration = 10 * NS_PER_S;
static unsigned long threads;
static unsigned long only_pages;	/* 0: all sizes */
static const struct variant *only_variant;
static bool huge;

static struct worker *workers;
static pthread_barrier_t barrier;
static uint64_t began;

/* Of the round: written by its changer while the others wait. */
static bool over;
static atomic_bool stop;
static const struct variant *variant;
static unsigned long pages, hot_count;
static unsigned long whole;		/* pages in the window; only with -H more than change */
static unsigned long hot[HOT];		/* their numbers */
static struct worker *changer;

static int file;
static char *mirror;			/* the whole file, always */
static char *window, *stage, *parking;	/* each alone in 512 MiB at least */
static unsigned int current;		/* set in the window */
static uint64_t last_written[SETS];	/* generation: see above */

static struct {
	word number __attribute__((aligned(CACHE_LINE)));
	word starting __attribute__((aligned(CACHE_LINE)));
} generation;

static __attribute__((noreturn, format(printf, 1, 2))) void stale(const char *format, ...)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;
	char text[200];
	va_list args;

	while (atomic_flag_test_and_set(&told))
		pause();		/* another thread's line is enough */
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fail(FAILED, "stale translation (%s, %lu pages): %s", variant->name, pages, text);
}

static void check(bool good, const char *call)
{
	if (!good)
		fail(FAILED, "%s failed: %s", call, strerror(errno));
}

/* Word @slot of hot page @k of the pages at @memory; 0 is the page's own, then one a thread. */
static word *at(char *memory, unsigned long k, unsigned long slot)
{
	unsigned long stride = PAGE / sizeof(word) / (threads + 1);

	return (word *)(memory + hot[k] * PAGE) + slot * stride;
}

static char *set_in_mirror(unsigned int set)
{
	return mirror + set * whole * PAGE;
}

/* Probers. */

static void probe_file(struct worker *me)
{
	uint64_t number, first, last_read;
	unsigned long k;

	first = atomic_load_explicit(&generation.number, memory_order_acquire);
	for (k = 0; k < hot_count; k++) {
		number = atomic_load_explicit(&generation.number, memory_order_acquire);
		last_read = atomic_load_explicit(at(window, k, 0), memory_order_relaxed);
#ifdef NO_LOADS		/* for the test of the check of stores; */
		last_read = number;
#endif
		if (last_read < number)
			stale("CPU %d read in generation %lu from page %lu, which was to be"
			      " read until %lu", me->cpu, number, hot[k], last_read);
		atomic_store_explicit(at(window, k, me->number + 1), number,
				      memory_order_relaxed);
	}
	atomic_store_explicit(&me->seen, first, memory_order_relaxed);
}

/* @stored: what it has stored last; @gone: whether that was before any later change. */
static void probe_private(struct worker *me, uint64_t *stored, bool *gone)
{
	uint64_t number = atomic_load_explicit(&generation.number, memory_order_acquire);
	unsigned long k;

	for (k = 0; k < hot_count; k++) {
		uint64_t value = atomic_load_explicit(at(window, k, me->number + 1),
						      memory_order_relaxed);

		if (*gone && number > *stored && value == *stored)
			stale("CPU %d read in generation %lu from page %lu what it had stored"
			      " there in %lu", me->cpu, number, hot[k], value);
	}
	if (number > *stored) {
		for (k = 0; k < hot_count; k++)
			atomic_store(at(window, k, me->number + 1), number);
		*gone = atomic_load(&generation.starting) == number;
		*stored = number;
	}
	atomic_store_explicit(&me->seen, number, memory_order_relaxed);
}

static void probe(struct worker *me, unsigned long round)
{
	const struct timespec nap = { .tv_nsec = NAP };
	bool naps = (me->number + round) % 4 == 3, gone = false;
	uint64_t stored = 0, passes = 0;

	do {
		if (variant->private)
			probe_private(me, &stored, &gone);
		else
			probe_file(me);
		passes++;
		if (naps && passes % PASSES_TO_NAP == 0)
			nanosleep(&nap, NULL);
	} while (!atomic_load_explicit(&stop, memory_order_relaxed));
	me->probes += 2 * hot_count * passes;
}

static void try_again(int number, siginfo_t *info, void *context)
{
	(void)context;
	if ((char *)info->si_addr < window || (char *)info->si_addr >= window + pages * PAGE)
		fail(FAILED, "signal %d at %p", number, info->si_addr);
}

/* The changer. */

static bool everyone_saw(uint64_t number)
{
	unsigned long i;

	for (i = 0; i < threads; i++) {
		if (&workers[i] != changer &&
		    atomic_load_explicit(&workers[i].seen, memory_order_relaxed) < number)
			return false;
	}
	return true;
}

static void let_them_look(uint64_t number)
{
	bool stare = random_next(&changer->random) % STARE_ONCE_IN == 0;
	uint64_t end = now_ns() + (stare ? STARE : GLANCE);

	while (!everyone_saw(number) && now_ns() < end)
		__builtin_ia32_pause();
}

/* No store of a later generation may be in a set that is not in the window. */
static void inspect(unsigned int set)
{
	unsigned long k, i;

	for (k = 0; k < hot_count; k++) {
		for (i = 0; i < threads; i++) {
			uint64_t number = atomic_load(at(set_in_mirror(set), k, i + 1));

#ifdef NO_STORES	/* and of that of loads */
			number = 0;
#endif
			if (number > last_written[set])
				stale("CPU %d stored in generation %lu into page %lu, which was"
				      " to be written until %lu", workers[i].cpu, number, hot[k],
				      last_written[set]);
		}
	}
}

/* @first: the generation in which the set comes into the window. */
static void make_ready(unsigned int set, uint64_t first)
{
	unsigned long k;

	inspect(set);
	for (k = 0; k < hot_count; k++)
		atomic_store(at(set_in_mirror(set), k, 0), first + variant->read_on);
}

static void map_set(char *where, unsigned int set, int flags)
{
	check(mmap(where, whole * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | flags, file,
		   set * whole * PAGE) == where, "mmap");
}

static void map_private(char *where)
{
	check(mmap(where, whole * PAGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == where, "mmap");
	if (!huge)
		return;
	check(!madvise(where, whole * PAGE, MADV_HUGEPAGE), "madvise");
	*(volatile char *)where = 0;
}

static uint64_t last_generation(void)
{
	return atomic_load(&generation.number);
}

/* Make a change and, as the last thing, the generation that it begins. */
static void make(void (*change)(unsigned int), unsigned int set)
{
	uint64_t number = last_generation() + 1;

#ifdef PUBLISH_EARLY	/* for the test of the check: other CPUs flush too late */
	atomic_store(&generation.number, number);
	for (uint64_t end = now_ns() + GLANCE; now_ns() < end;)
		;
#endif
	atomic_store(&generation.starting, number);
	change(set);
	atomic_store_explicit(&generation.number, number, memory_order_release);
	changer->changes++;
}

/* The current set has been in the window, or writable there, until the last change. */
static void retire(void)
{
	last_written[current] = last_generation() - 1;
	let_them_look(last_generation());
	inspect(current);
}

/* The set is in the window since the last change. */
static void arrived(unsigned int set)
{
	let_them_look(last_generation());
	inspect(current);
	current = set;
}

static void put_over(unsigned int set)
{
	map_set(window, set, MAP_FIXED);
}

static void put_back(unsigned int set)
{
	map_set(window, set, huge ? MAP_FIXED : MAP_FIXED_NOREPLACE);
}

static void take_away(unsigned int unused)
{
	(void)unused;
	check(!munmap(window, pages * PAGE), "munmap");
}

static void move(char *from, char *to, unsigned long number)
{
	check(mremap(from, number * PAGE, number * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to,
	      "mremap");
}

static void move_out(unsigned int unused)
{
	(void)unused;
	move(window, parking, pages);
}

static void move_in(unsigned int unused)
{
	(void)unused;
	move(stage, window, whole);
}

static void protect(unsigned int unused)
{
	(void)unused;
	check(!mprotect(window, pages * PAGE, PROT_READ), "mprotect");
}

static void give_back(unsigned int unused)
{
	(void)unused;
	check(!madvise(window, pages * PAGE, MADV_DONTNEED), "madvise");
}

static unsigned int next_set(void)
{
	return (current + 1) % SETS;
}

static void swap_sets(void)
{
	unsigned int next = next_set();

	make_ready(next, last_generation() + 1);
	make(put_over, next);
	last_written[current] = last_generation() - 1;
	arrived(next);
}

static void unmap_and_map(void)
{
	unsigned int next = next_set();

	make(take_away, 0);
	retire();
	make_ready(next, last_generation() + 1);
	make(put_back, next);
	arrived(next);
}

static void move_tables(void)
{
	unsigned int next = next_set();

	make_ready(next, last_generation() + 2);
	map_set(stage, next, MAP_FIXED_NOREPLACE | MAP_POPULATE);
	make(move_out, 0);
	retire();
	make(move_in, 0);
	check(!munmap(parking, pages * PAGE), "munmap");
	arrived(next);
}

static void protect_and_replace(void)
{
	unsigned int next = next_set();

	make(protect, 0);
	retire();
	make_ready(next, last_generation() + 1);
	make(put_over, next);
	arrived(next);
}

static void give_back_and_look(void)
{
	make(give_back, 0);
	let_them_look(last_generation());
	if (!huge)
		return;
	map_private(stage);
	make(move_in, 0);
	let_them_look(last_generation());
}

static const struct variant variants[] = {
	{ .name = "swap", .change = swap_sets },
	{ .name = "unmap", .change = unmap_and_map },
	{ .name = "mremap", .change = move_tables },
	{ .name = "mprotect", .change = protect_and_replace, .read_on = 1 },
	{ .name = "dontneed", .change = give_back_and_look, .private = true },
};

/*
 * One page, a few, more than the 33 above which Linux flushes all, and those of one
 * whole page table, which is alone in its GiB: it is freed with what leads to it.
 */
static const unsigned long sizes[] = { 1, 8, 64, TABLE_PAGES };

#define VARIANTS	(sizeof(variants) / sizeof(*variants))
#define SIZES		(sizeof(sizes) / sizeof(*sizes))
#define CASES		(VARIANTS * SIZES)

/* Another page that needs the window's page table, where that is to stay. */
static char *anchor(void)
{
	return whole < TABLE_PAGES ? window + (TABLE_PAGES - 1) * PAGE : NULL;
}

static void choose_case(unsigned long round)
{
	unsigned long k;

	variant = only_variant ? only_variant : &variants[round % VARIANTS];
	pages = only_pages ? only_pages : sizes[round / VARIANTS % SIZES];
	whole = huge ? TABLE_PAGES : pages;
	hot_count = pages < HOT ? pages : HOT;
	for (k = 0; k < hot_count; k++)
		hot[k] = hot_count > 1 ? k * (pages - 1) / (hot_count - 1) : 0;
}

static void tear_down(void)
{
	unsigned int set;

	for (set = 0; set < SETS && !variant->private; set++) {
		if (set != current)
			inspect(set);
	}
	check(!munmap(window, whole * PAGE), "munmap");
	if (anchor())
		check(!munmap(anchor(), PAGE), "munmap");
}

/* End the last round and begin the next one; nobody probes meanwhile. */
static void set_up(struct worker *me, unsigned long round)
{
	const int private = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	unsigned int set;

	if (round)
		tear_down();
	over = round >= CASES && now_ns() - began >= duration;
	if (over)
		return;
	changer = me;
	choose_case(round);
	atomic_store(&stop, false);
	for (set = 0; set < SETS; set++)
		last_written[set] = last_generation();
	current = 0;
	if (anchor()) {
		check(mmap(anchor(), PAGE, PROT_READ | PROT_WRITE, private, -1, 0) == anchor(),
		      "mmap");
		*anchor() = 1;
	}
	if (variant->private) {
		map_private(window);
	} else {
		make_ready(0, last_generation() + 1);
		map_set(window, 0, MAP_FIXED_NOREPLACE);
	}
	atomic_store(&generation.starting, last_generation() + 1);
	atomic_store(&generation.number, last_generation() + 1);
}

/* For a share of the time, and until everybody has looked. */
static void change_mappings(void)
{
	uint64_t first = last_generation(), least = changer->changes + LEAST_CHANGES;
	uint64_t slice = duration / CASES < SLICE ? duration / CASES : SLICE;
	uint64_t end = now_ns() + slice;

	while (now_ns() < end || changer->changes < least || !everyone_saw(first + 1))
		variant->change();
	atomic_store(&stop, true);
}

/* Rounds: a thread after the other makes the changes, while all others probe. */
static void *work(void *arg)
{
	struct worker *me = arg;
	unsigned long round;

	me->cpu = pin(me->number);
	me->random = random_seed(me->number);
	pthread_barrier_wait(&barrier);
	for (round = 0;; round++) {
		bool changes = round % threads == me->number;

		if (changes)
			set_up(me, round);
		pthread_barrier_wait(&barrier);
		if (over)
			return NULL;
		if (changes)
			change_mappings();
		else
			probe(me, round);
		pthread_barrier_wait(&barrier);
	}
}

static const struct variant *find_variant(const char *name)
{
	unsigned long i;

	for (i = 0; i < VARIANTS; i++) {
		if (!strcmp(variants[i].name, name))
			return &variants[i];
	}
	fail(WRONG_USAGE, "there is no variant '%s': swap, unmap, mremap, mprotect or dontneed", name);
}

static void read_options(int argc, char **argv)
{
	int option;

	opterr = 0;
	threads = online_cpus();
	if (threads < 2)
		threads = 2;
	if (threads > MAX_THREADS)
		threads = MAX_THREADS;
	while ((option = getopt(argc, argv, ":S:v:p:t:H")) != -1) {
		switch (option) {
		case 'S':
			duration = seconds(option, optarg);
			break;
		case 'v':
			only_variant = find_variant(optarg);
			break;
		case 'p':
			only_pages = whole_number(option, optarg, 1, TABLE_PAGES);
			break;
		case 't':
			threads = whole_number(option, optarg, 2, MAX_THREADS);
			break;
		case 'H':
			huge = true;
			break;
		default:
			wrong_option(option, optopt, USAGE);
		}
	}
	no_arguments(argc, argv, USAGE);
}

/* A huge page for each set, whatever the system does with files of memory by itself. */
static void make_huge(void)
{
	unsigned int set, tries = COLLAPSE_TRIES;
	int err;

	for (set = 0; set < SETS; set++)
		*(volatile char *)(mirror + set * HUGE) = 0;
	do {
		err = madvise(mirror, SETS * HUGE, MADV_COLLAPSE);
	} while (err && errno == EAGAIN && --tries);
	check(!err, "MADV_COLLAPSE");
}

static void make_file(void)
{
	const size_t size = SETS * HUGE;
	char *room;

	if (sysconf(_SC_PAGESIZE) != PAGE)
		fail(FAILED, "pages have %ld bytes, not %lu", sysconf(_SC_PAGESIZE), PAGE);
	file = memfd_create("tlb-checker", MFD_CLOEXEC);
	check(file >= 0, "memfd_create");
	check(!ftruncate(file, size), "ftruncate");
	room = mmap(NULL, size + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(room != MAP_FAILED, "mmap");
	mirror = (char *)(((uintptr_t)room + HUGE - 1) / HUGE * HUGE);
	check(mmap(mirror, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) ==
	      mirror, "mmap");
	if (huge)
		make_huge();
}

/*
 * Two whole GiB with nothing in them. They are asked for far below where the
 * kernel and the C library put mappings of their own, which so stay out of them.
 */
static void find_room(void)
{
	char *room = mmap((void *)(GIB << 15), 3 * GIB, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	check(room != MAP_FAILED, "mmap");
	window = (char *)(((uintptr_t)room + GIB - 1) / GIB * GIB);
	stage = window + GIB;
	parking = stage + GIB / 2;
	check(!munmap(window, 2 * GIB), "munmap");
}

static void report(uint64_t elapsed)
{
	uint64_t changes = 0, probes = 0;
	unsigned long i;

	for (i = 0; i < threads; i++) {
		changes += workers[i].changes;
		probes += workers[i].probes;
	}
	printf("checked: %llu remaps, %llu probes\n", (unsigned long long)changes,
	       (unsigned long long)probes);
	printf("remaps/s: %.2f\n", (double)changes * NS_PER_S / elapsed);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = try_again, .sa_flags = SA_SIGINFO };
	unsigned long i;

	read_options(argc, argv);
	workers = aligned_alloc(CACHE_LINE, threads * sizeof(*workers));
	if (!workers)
		fail(FAILED, "no memory for %lu threads", threads);
	memset(workers, 0, threads * sizeof(*workers));
	make_file();
	check(!sigaction(SIGSEGV, &action, NULL), "sigaction");
	pthread_barrier_init(&barrier, NULL, threads);
	began = now_ns();
	find_room();
	for (i = 0; i < threads; i++) {
		workers[i].number = i;
		start_thread(&workers[i].thread, work, &workers[i]);
	}
	for (i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	report(now_ns() - began);
	free(workers);
	return 0;
}
