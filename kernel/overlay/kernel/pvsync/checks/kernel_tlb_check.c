// SPDX-License-Identifier: GPL-2.0-only
/*
 * Looks for stale translations of kernel addresses, as the program tlb-checker does for
 * user space. One CPU changes what a window of addresses maps to and flushes with the
 * kernel's own functions. All others read and write through the window. None of them may
 * meet an old page once the flush has returned.
 *
 * Every change makes a new generation, whose number is stored (release) after the flush has
 * returned. A CPU that loads G (acquire) and then uses the window may meet what is mapped in G
 * or, if it is slow, what is mapped later. The pages are mapped in turn.
 *
 * - Reads. The first word of a page is the generation in which it is mapped, written before
 *   it is. A CPU that loaded G and reads less has met an old page.
 * - Writes. Each CPU writes the G it loaded into a word of its own. A page that was
 *   mapped in generation M and holds a number above M was written to through an old
 *   translation.
 *
 * Entries of the page table are overwritten and never cleared, so no access faults. That a
 * processor translates ahead of the program's order is no excuse, see tlb-checker.c.
 */
#define pr_fmt(fmt) "pvsync: " fmt

#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/gfp.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/pgtable.h>
#include <linux/vmalloc.h>

#include <asm/tlbflush.h>

#include "each_cpu.h"
#include "../tlb_kernel.h"

static unsigned int seconds = 4;
module_param(seconds, uint, 0444);
MODULE_PARM_DESC(seconds, "how long to look");

#define WINDOW		64U	/* pages, more than the 33 above which Linux flushes all */
#define PAGES		16U	/* that are mapped in turn, and as often as need be */
#define WORDS		((unsigned int)(PAGE_SIZE / sizeof(u64)))
#define PASSES		256U	/* between two looks at the time */
#define GLANCE		(100 * NSEC_PER_USEC)	/* how long a change waits for the others */
#define STARE		(20 * NSEC_PER_MSEC)	/* now and then, for those whose CPU is away */
#define STARE_ONCE_IN	16

/* What is changed in the window, from its beginning on, and how it is flushed. */
static const struct change {
	unsigned int	pages;
	bool		all;
} changes[] = {
	{ .pages = 1 },
	{ .pages = 33 },
	{ .pages = WINDOW },
	{ .pages = WINDOW, .all = true },
};

static void *window;
static pte_t *entries[WINDOW];
static struct page *pages[PAGES];

/* Of the round: written while nobody looks. */
static const struct change *change;
static unsigned int changer;
static unsigned long end;

/* The first page of all has a predecessor in the turn. */
static u64 generation = PAGES;
static DEFINE_PER_CPU(u64, seen);

static atomic64_t remaps;
static atomic64_t looks;
static atomic64_t stale;

/* The page that is mapped in a generation, where it is seen in any. */
static u64 *tlb_check_page_of(u64 number)
{
	return page_address(pages[number % PAGES]);
}

static void tlb_check_count_stale(u64 *page, u64 mapped)
{
	unsigned int i;

	for (i = 1; i < WORDS; i++) {
		if (READ_ONCE(page[i]) <= mapped)
			continue;
		WRITE_ONCE(page[i], 0);
		atomic64_inc(&stale);
	}
}

static void tlb_check_remap(const struct change *what)
{
	u64 number = generation + 1;
	pte_t entry = mk_pte(pages[number % PAGES], PAGE_KERNEL);
	unsigned long start = (unsigned long)window;
	unsigned int i;

	tlb_check_count_stale(tlb_check_page_of(number), number - PAGES);
	WRITE_ONCE(*tlb_check_page_of(number), number);
	for (i = 0; i < what->pages; i++)
		set_pte(entries[i], entry);
	if (what->all)
		pvsync_flush_kernel(0, TLB_FLUSH_ALL);
	else
		pvsync_flush_kernel(start, start + what->pages * PAGE_SIZE);
	/* Whoever loads this in tlb_check_use_page() meets no older page then. */
	smp_store_release(&generation, number);
}

static bool tlb_check_everyone_saw(u64 number)
{
	unsigned int cpu;

	for_each_online_cpu(cpu) {
		if (cpu != changer && READ_ONCE(per_cpu(seen, cpu)) < number)
			return false;
	}
	return true;
}

static void tlb_check_let_them_look(void)
{
	u64 begun = ktime_get_ns(), most = generation % STARE_ONCE_IN ? GLANCE : STARE;

	while (!tlb_check_everyone_saw(generation) &&
	       ktime_get_ns() - begun < most)
		cpu_relax();
}

static void tlb_check_make_changes(void)
{
	do {
		tlb_check_remap(change);
		tlb_check_let_them_look();
		tlb_check_count_stale(tlb_check_page_of(generation - 1),
				      generation - 1);
		atomic64_inc(&remaps);
		cond_resched();
	} while (time_before(jiffies, end));
}

/* Use a page in the window, and count in @old if it is an old one. Return: the generation. */
static u64 tlb_check_use_page(u64 *page, unsigned int own, u64 *old)
{
	/* Before the page: the flush of tlb_check_remap() is over. */
	u64 number = smp_load_acquire(&generation);

	*old += READ_ONCE(*page) < number;
	WRITE_ONCE(page[own], number);
	return number;
}

static void tlb_check_look_on(void)
{
	unsigned int own = 1 + smp_processor_id() % (WORDS - 1), i;
	u64 *last = window + (change->pages - 1) * PAGE_SIZE;
	u64 old = 0, passes = 0;

	do {
		for (i = 0; i < PASSES; i++) {
			u64 first = tlb_check_use_page(window, own, &old);

			tlb_check_use_page(last, own, &old);
			this_cpu_write(seen, first);
		}
		passes += PASSES;
		cond_resched();
	} while (time_before(jiffies, end));

	atomic64_add(2 * passes, &looks);
	atomic64_add(old, &stale);
}

/* The thread that calls this is bound to its CPU. */
static void tlb_check_change_or_look(void)
{
	if (smp_processor_id() == changer)
		tlb_check_make_changes();
	else
		tlb_check_look_on();
}

/* A round for each kind of change; another CPU makes it each time, while there are any. */
static void tlb_check_all_changes(void)
{
	static const struct change whole = { .pages = WINDOW };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(changes); i++) {
		change = &changes[i];
		changer = cpumask_nth(i % num_online_cpus(), cpu_online_mask);
		tlb_check_remap(&whole);
		end = jiffies + seconds * HZ / ARRAY_SIZE(changes);
		pvsync_on_each_cpu(tlb_check_change_or_look, 0);
	}
}

static void tlb_check_close_window(void)
{
	unsigned int i;

	vunmap(window);
	for (i = 0; i < PAGES && pages[i]; i++)
		__free_page(pages[i]);
}

static int tlb_check_open_window(void)
{
	struct page *mapped[WINDOW];
	unsigned int i, level;

	for (i = 0; i < PAGES; i++) {
		pages[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!pages[i])
			return -ENOMEM;
	}
	for (i = 0; i < WINDOW; i++)
		mapped[i] = pages[i % PAGES];
	window = vmap(mapped, WINDOW, VM_MAP, PAGE_KERNEL);
	if (!window)
		return -ENOMEM;
	for (i = 0; i < WINDOW; i++) {
		entries[i] = lookup_address((unsigned long)window + i * PAGE_SIZE, &level);
		if (!entries[i] || level != PG_LEVEL_4K)
			return -ENXIO;
	}
	return 0;
}

static int __init kernel_tlb_check_init(void)
{
	int err = tlb_check_open_window();

	if (!err)
		tlb_check_all_changes();
	tlb_check_close_window();
	if (err)
		return err;
	pr_warn("kernel translations: %lld remaps, %lld looks, %lld stale\n",
		atomic64_read(&remaps), atomic64_read(&looks), atomic64_read(&stale));
	if (atomic64_read(&stale))
		return -EIO;
	return atomic64_read(&remaps) && atomic64_read(&looks) ? 0 : -ENODATA;
}

static void __exit kernel_tlb_check_exit(void)
{
}

module_init(kernel_tlb_check_init);
module_exit(kernel_tlb_check_exit);
MODULE_DESCRIPTION("Search for stale translations of kernel addresses");
MODULE_LICENSE("GPL");
