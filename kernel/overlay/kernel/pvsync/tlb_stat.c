// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long flushes of other CPUs' translations take, in debugfs:
 *
 *   pvsync/tlb_stat	1 while they are timed, else 0
 *   pvsync/tlb_latency	for each mechanism that flushed:
 *
 *			mechanism NAME
 *			calls NUMBER
 *			wall_ns SUM MAX		as the caller saw it
 *			ran_ns SUM MAX		without its own stolen time
 *			LOWER WALL RAN		calls by length, for each bin that
 *						has any: from LOWER ns on
 *
 *			Bins are 1 ns wide below 8 ns. Above, each power of two has 8
 *			bins of equal width, so percentiles are exact to 12.5 % or
 *			better. A write of 0 clears the file.
 *
 * Flushes of kernel addresses are among them. They name every CPU that is online, also an
 * idle one. With kvmtlb they are by ipi. With every mechanism, flushes of less than a page
 * are by ipi as well.
 *
 * The paper shows mean and maximum (table 1) and distribution (figures 3 and 5).
 */
#include <linux/bitops.h>
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/kstrtox.h>
#include <linux/minmax.h>
#include <linux/percpu.h>
#include <linux/sched/clock.h>
#include <linux/seq_file.h>

#include <asm/paravirt.h>

#include <linux/pvsync/shims.h>

#include "counters.h"
#include "tlb_stat.h"

DEFINE_STATIC_KEY_FALSE(pvsync_tlb_stat_key);

#define LINEAR_BITS	3			/* 8 bins for each power of two */
#define LINEAR		(1U << LINEAR_BITS)
#define LAST_POWER	40			/* 2^40 ns: 18 minutes, and all above */
#define BINS		(LINEAR + (LAST_POWER - LINEAR_BITS + 1) * LINEAR)

/* Lengths of the calls, by one clock. */
struct lengths {
	u64	sum;
	u64	max;
	u32	bins[BINS];
};

struct latency {
	u64		calls;
	struct lengths	wall;
	struct lengths	ran;
};

static DEFINE_PER_CPU(struct latency [PVSYNC_NR_TLB_MECHANISMS], latencies);

static unsigned int tlb_stat_bin_of(u64 ns)
{
	unsigned int power;

	if (ns < LINEAR)
		return ns;
	power = fls64(ns) - 1;
	if (power > LAST_POWER)
		return BINS - 1;
	return (power - LINEAR_BITS + 1) * LINEAR + ((ns >> (power - LINEAR_BITS)) & (LINEAR - 1));
}

static u64 tlb_stat_lower_of(unsigned int bin)
{
	if (bin < LINEAR)
		return bin;
	return (u64)(LINEAR + bin % LINEAR) << (bin / LINEAR - 1);
}

static void tlb_stat_note(struct lengths *lengths, u64 ns)
{
	lengths->sum += ns;
	lengths->max = max(lengths->max, ns);
	lengths->bins[tlb_stat_bin_of(ns)]++;
}

/**
 * pvsync_tlb_timer_start - a flush begins
 * @timer: for pvsync_tlb_timer_stop()
 *
 * Context: preemption disabled.
 */
void pvsync_tlb_timer_start(struct pvsync_tlb_timer *timer)
{
	timer->stolen = paravirt_steal_clock(smp_processor_id());
	timer->wall = local_clock();
}

/**
 * pvsync_tlb_timer_stop - a flush has ended: note how long it took
 * @timer: its start
 * @mechanism: how other CPUs were made to flush
 *
 * Context: as pvsync_tlb_timer_start(), on the same CPU; no flush interrupts
 * another one.
 */
void pvsync_tlb_timer_stop(const struct pvsync_tlb_timer *timer,
			   enum pvsync_tlb_mechanism mechanism)
{
	struct latency *latency = this_cpu_ptr(&latencies[mechanism]);
	s64 wall = max_t(s64, local_clock() - timer->wall, 0);
	s64 stolen = paravirt_steal_clock(smp_processor_id()) - timer->stolen;

	latency->calls++;
	tlb_stat_note(&latency->wall, wall);
	/* The reads of the host's clock and of this one are not at the same instant. */
	tlb_stat_note(&latency->ran, clamp_t(s64, wall - stolen, 0, wall));
}

static void tlb_stat_show_lengths(struct seq_file *seq,
				  enum pvsync_tlb_mechanism by, const char *name,
				  size_t offset)
{
	u64 sum = 0, most = 0;
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		void *latency = per_cpu_ptr(&latencies[by], cpu);
		struct lengths *lengths = latency + offset;

		sum += READ_ONCE(lengths->sum);
		most = max(most, READ_ONCE(lengths->max));
	}
	seq_printf(seq, "%s %llu %llu\n", name, sum, most);
}

static void tlb_stat_show_bins(struct seq_file *seq,
			       enum pvsync_tlb_mechanism by)
{
	unsigned int bin, cpu;

	for (bin = 0; bin < BINS; bin++) {
		u64 wall = 0, ran = 0;

		for_each_possible_cpu(cpu) {
			struct latency *latency = per_cpu_ptr(&latencies[by], cpu);

			wall += READ_ONCE(latency->wall.bins[bin]);
			ran += READ_ONCE(latency->ran.bins[bin]);
		}
		if (wall || ran)
			seq_printf(seq, "%llu %llu %llu\n", tlb_stat_lower_of(bin), wall, ran);
	}
}

static int latency_show(struct seq_file *seq, void *unused)
{
	unsigned int by, cpu;

	for (by = 0; by < PVSYNC_NR_TLB_MECHANISMS; by++) {
		u64 calls = 0;

		for_each_possible_cpu(cpu)
			calls += READ_ONCE(per_cpu_ptr(&latencies[by], cpu)->calls);
		if (!calls)
			continue;
		seq_printf(seq, "mechanism %s\ncalls %llu\n", pvsync_tlb_names[by], calls);
		tlb_stat_show_lengths(seq, by, "wall_ns", offsetof(struct latency, wall));
		tlb_stat_show_lengths(seq, by, "ran_ns",
				      offsetof(struct latency, ran));
		tlb_stat_show_bins(seq, by);
	}
	return 0;
}

static void tlb_stat_clear_lengths(struct lengths *lengths)
{
	unsigned int bin;

	WRITE_ONCE(lengths->sum, 0);
	WRITE_ONCE(lengths->max, 0);
	for (bin = 0; bin < BINS; bin++)
		WRITE_ONCE(lengths->bins[bin], 0);
}

/* Word by word: others may read the file meanwhile. */
static void tlb_stat_clear(unsigned int cpu)
{
	unsigned int by;

	for (by = 0; by < PVSYNC_NR_TLB_MECHANISMS; by++) {
		struct latency *latency = per_cpu_ptr(&latencies[by], cpu);

		WRITE_ONCE(latency->calls, 0);
		tlb_stat_clear_lengths(&latency->wall);
		tlb_stat_clear_lengths(&latency->ran);
	}
}

static ssize_t latency_write(struct file *file, const char __user *buf, size_t count,
			     loff_t *pos)
{
	return pvsync_clear_write(buf, count, tlb_stat_clear);
}
DEFINE_SHOW_STORE_ATTRIBUTE(latency);

static int __init pvsync_tlb_stat_init(void)
{
	struct dentry *dir = pvsync_debugfs();

	debugfs_create_file("tlb_latency", 0600, dir, NULL, &latency_fops);
	pvsync_create_switch("tlb_stat", dir, &pvsync_tlb_stat_key);
	return 0;
}
late_initcall(pvsync_tlb_stat_init);
