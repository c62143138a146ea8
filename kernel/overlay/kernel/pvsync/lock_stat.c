// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counters of the locks in debugfs:
 *
 *   pvsync/counters	a line "name value" for each; writing 0 clears them
 *   pvsync/lock_waits	histogram of waits: a line "bin waits cycles" for each
 *			bin with waits of at least 2^(bin-1) and below 2^bin
 *			cycles, as in figures 1 and 2 of T. Friebel and
 *			S. Biemueller, Xen Summit 2008; cleared with the counters
 *   pvsync/lock_stat	1 while locks are counted, else 0
 *   pvsync/stall_spins	iterations of a wait that make it a stall
 */
#include <linux/cpumask.h>
#include <linux/bitops.h>
#include <linux/debugfs.h>
#include <linux/jump_label.h>
#include <linux/kstrtox.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/seq_file.h>

#include <asm/msr.h>
#include <asm/qspinlock.h>

#include <linux/pvsync/lock_stat.h>

DEFINE_STATIC_KEY_FALSE(pvsync_lock_stat_key);
EXPORT_SYMBOL_GPL(pvsync_lock_stat_key);

/* As in section 3 of the preemptable ticket spinlock paper. */
u32 pvsync_stall_spins = 2048;

static DEFINE_PER_CPU(u64 [PVSYNC_NR_COUNTERS], pvsync_counters);

#define WAIT_BINS	65	/* fls64() of any number of cycles */

/* Waits of one length: how many, and the cycles they took in all. */
struct wait_bin {
	u64	waits;
	u64	cycles;
};

static DEFINE_PER_CPU(struct wait_bin [WAIT_BINS], wait_bins);

static const char * const counter_names[] = {
#define PVSYNC_COUNTER(name, about)	#name,
#include <linux/pvsync/counters.h>
#undef PVSYNC_COUNTER
};

/**
 * __pvsync_count - add one to a counter of this CPU
 * @counter: which
 *
 * Context: any, NMI included; takes no lock.
 */
void notrace __pvsync_count(enum pvsync_counter counter)
{
	this_cpu_inc(pvsync_counters[counter]);
}
EXPORT_SYMBOL_GPL(__pvsync_count);

/**
 * pvsync_counted_lock - acquire a spinlock, count it and time the wait
 * @lock: the lock
 *
 * The cycles are those of the time stamp counter from the first look at the lock
 * to its acquisition, so those in which this CPU was preempted are among them.
 *
 * Context: as arch_spin_lock(): preemption disabled, interrupts as they are.
 * Each sum is advanced by one instruction, so interrupts lose nothing.
 */
void notrace pvsync_counted_lock(struct qspinlock *lock)
{
	if (!queued_spin_trylock(lock)) {
		u64 start = rdtsc(), cycles;
		unsigned int bin;

		queued_spin_lock(lock);
		cycles = rdtsc() - start;
		/* Counters that run apart would make a short wait a huge one. */
		bin = (s64)cycles > 0 ? fls64(cycles) : 0;
		this_cpu_inc(wait_bins[bin].waits);
		if (bin)
			this_cpu_add(wait_bins[bin].cycles, cycles);
	}
	this_cpu_inc(pvsync_counters[PVSYNC_lock_acquisitions]);
}
EXPORT_SYMBOL_GPL(pvsync_counted_lock);

static int waits_show(struct seq_file *seq, void *unused)
{
	unsigned int bin, cpu;

	for (bin = 0; bin < WAIT_BINS; bin++) {
		struct wait_bin sum = { };

		for_each_possible_cpu(cpu) {
			sum.waits += per_cpu(wait_bins[bin].waits, cpu);
			sum.cycles += per_cpu(wait_bins[bin].cycles, cpu);
		}
		if (sum.waits)
			seq_printf(seq, "%u %llu %llu\n", bin, sum.waits, sum.cycles);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(waits);

static int counters_show(struct seq_file *seq, void *unused)
{
	unsigned int i, cpu;

	for (i = 0; i < PVSYNC_NR_COUNTERS; i++) {
		u64 sum = 0;

		for_each_possible_cpu(cpu)
			sum += per_cpu(pvsync_counters[i], cpu);
		seq_printf(seq, "%s %llu\n", counter_names[i], sum);
	}
	return 0;
}

static ssize_t counters_write(struct file *file, const char __user *buf,
			      size_t count, loff_t *pos)
{
	unsigned int i, cpu, value;
	int err = kstrtouint_from_user(buf, count, 10, &value);

	if (err)
		return err;
	if (value)
		return -EINVAL;
	for_each_possible_cpu(cpu) {
		for (i = 0; i < PVSYNC_NR_COUNTERS; i++)
			WRITE_ONCE(per_cpu(pvsync_counters[i], cpu), 0);
		for (i = 0; i < WAIT_BINS; i++) {
			WRITE_ONCE(per_cpu(wait_bins[i].waits, cpu), 0);
			WRITE_ONCE(per_cpu(wait_bins[i].cycles, cpu), 0);
		}
	}
	return count;
}

static int counters_open(struct inode *inode, struct file *file)
{
	return single_open(file, counters_show, NULL);
}

static const struct file_operations counters_fops = {
	.open		= counters_open,
	.read		= seq_read,
	.write		= counters_write,
	.llseek		= seq_lseek,
	.release	= single_release,
};

static int lock_stat_get(void *data, u64 *value)
{
	*value = static_key_enabled(&pvsync_lock_stat_key);
	return 0;
}

static int lock_stat_set(void *data, u64 value)
{
	if (value > 1)
		return -EINVAL;
	if (value)
		static_branch_enable(&pvsync_lock_stat_key);
	else
		static_branch_disable(&pvsync_lock_stat_key);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(lock_stat_fops, lock_stat_get, lock_stat_set, "%llu\n");

static int __init pvsync_lock_stat_init(void)
{
	struct dentry *dir = debugfs_create_dir("pvsync", NULL);

	debugfs_create_file("counters", 0600, dir, NULL, &counters_fops);
	debugfs_create_file("lock_waits", 0400, dir, NULL, &waits_fops);
	debugfs_create_file("lock_stat", 0600, dir, NULL, &lock_stat_fops);
	debugfs_create_u32("stall_spins", 0600, dir, &pvsync_stall_spins);
	return 0;
}
late_initcall(pvsync_lock_stat_init);
