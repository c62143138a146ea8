// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counting and timing of the locks, in debugfs, besides what counters.c shows:
 *
 *   pvsync/lock_waits	histogram of waits: a line "bin waits cycles" for each
 *			bin with waits of at least 2^(bin-1) and below 2^bin
 *			cycles, as in figures 1 and 2 of T. Friebel and
 *			S. Biemueller, Xen Summit 2008; cleared with
 *			pvsync/counters
 *   pvsync/lock_stat	1 while locks are counted, else 0
 *   pvsync/stall_spins	iterations of a wait that make it a stall
 */
#include <linux/bitops.h>
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/jump_label.h>
#include <linux/math64.h>
#include <linux/percpu.h>
#include <linux/seq_file.h>

#include <asm/msr.h>
#include <asm/paravirt.h>
#include <asm/qspinlock.h>
#include <asm/tsc.h>

#include <linux/pvsync/ecs.h>
#include <linux/pvsync/lock_stat.h>
#include <linux/pvsync/shims.h>

#include "counters.h"

DEFINE_STATIC_KEY_FALSE(pvsync_lock_stat_key);
EXPORT_SYMBOL_GPL(pvsync_lock_stat_key);

/* As in section 3 of the preemptable ticket spinlock paper. */
u32 pvsync_stall_spins = 2048;

#define WAIT_BINS	65	/* fls64() of any number of cycles */

/* Waits of one length: how many, and the cycles they took in all. */
struct wait_bin {
	u64	waits;
	u64	cycles;
};

static DEFINE_PER_CPU(struct wait_bin [WAIT_BINS], wait_bins);

static __always_inline u64 pvsync_cycles_to_ns(u64 cycles)
{
	return tsc_khz ? mul_u64_u32_div(cycles, USEC_PER_SEC, tsc_khz) : 0;
}

/**
 * pvsync_counted_lock - acquire a spinlock, count it and time the wait
 * @lock: the lock
 *
 * The cycles are those of the time stamp counter, from the first look at the
 * lock to its acquisition. Cycles in which this CPU was preempted are among
 * them. A host that offers its steal time tells how much time that was.
 *
 * Context: as arch_spin_lock(): preemption disabled, interrupts as they are.
 * One instruction advances each sum, so interrupts lose nothing.
 */
void notrace pvsync_counted_lock(struct qspinlock *lock)
{
	if (!queued_spin_trylock(lock)) {
		int cpu = raw_smp_processor_id();
		u64 stolen = paravirt_steal_clock(cpu);
		u64 start = rdtsc(), cycles;
		unsigned int bin;

		pvsync_ecs_enter(non_preemptable, PVSYNC_ECS_SPINNER);
		queued_spin_lock(lock);
		pvsync_ecs_enter(non_preemptable, PVSYNC_ECS_LOCK);
		pvsync_ecs_drop(non_preemptable, PVSYNC_ECS_SPINNER);
		cycles = rdtsc() - start;
		/* If two counters differ, a short wait would look huge. */
		bin = (s64)cycles > 0 ? fls64(cycles) : 0;
		this_cpu_inc(wait_bins[bin].waits);
		if (bin) {
			this_cpu_add(wait_bins[bin].cycles, cycles);
			__pvsync_add(PVSYNC_lock_wait_ns,
				     pvsync_cycles_to_ns(cycles));
			__pvsync_add(PVSYNC_lock_stolen_ns,
				     paravirt_steal_clock(cpu) - stolen);
		}
	} else {
		pvsync_ecs_enter(non_preemptable, PVSYNC_ECS_LOCK);
	}
	__pvsync_count(PVSYNC_lock_acquisitions);
}
EXPORT_SYMBOL_GPL(pvsync_counted_lock);

/**
 * pvsync_clear_waits - empty the histogram of a CPU
 * @cpu: the CPU
 *
 * Context: @cpu itself with interrupts disabled, or any while it is offline.
 */
void pvsync_clear_waits(unsigned int cpu)
{
	unsigned int i;

	for (i = 0; i < WAIT_BINS; i++) {
		WRITE_ONCE(per_cpu(wait_bins[i].waits, cpu), 0);
		WRITE_ONCE(per_cpu(wait_bins[i].cycles, cpu), 0);
	}
}

static int lock_waits_show(struct seq_file *seq, void *unused)
{
	unsigned int bin, cpu;

	for (bin = 0; bin < WAIT_BINS; bin++) {
		struct wait_bin sum = { };

		for_each_possible_cpu(cpu) {
			sum.waits +=
				READ_ONCE(per_cpu(wait_bins[bin].waits, cpu));
			sum.cycles +=
				READ_ONCE(per_cpu(wait_bins[bin].cycles, cpu));
		}
		if (sum.waits)
			seq_printf(seq, "%u %llu %llu\n", bin, sum.waits,
				   sum.cycles);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(lock_waits);

static int __init pvsync_lock_stat_init(void)
{
	struct dentry *dir = pvsync_debugfs();

	debugfs_create_file("lock_waits", 0400, dir, NULL, &lock_waits_fops);
	pvsync_create_switch("lock_stat", dir, &pvsync_lock_stat_key);
	debugfs_create_u32("stall_spins", 0600, dir, &pvsync_stall_spins);
	return 0;
}
late_initcall(pvsync_lock_stat_init);
