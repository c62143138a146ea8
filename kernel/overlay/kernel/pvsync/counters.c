// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counters in debugfs, pvsync/counters: a line "name value" for each, the sum
 * over all CPUs. A write of 0 clears them, and the histogram of lock_stat.c.
 */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/jump_label.h>
#include <linux/kstrtox.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/seq_file.h>

#include <linux/pvsync/count.h>
#include <linux/pvsync/lock_stat.h>

#include "counters.h"

static DEFINE_PER_CPU(u64 [PVSYNC_NR_COUNTERS], pvsync_counters);

static const char * const counter_names[] = {
#define PVSYNC_COUNTER(name, about)	#name,
#include <linux/pvsync/counters.h>
#undef PVSYNC_COUNTER
};

static struct dentry *pvsync_dir;

/**
 * __pvsync_add - add to a counter of this CPU
 * @counter: which
 * @amount: how much
 *
 * Context: any, NMI included; takes no lock.
 */
void notrace __pvsync_add(enum pvsync_counter counter, u64 amount)
{
	this_cpu_add(pvsync_counters[counter], amount);
}
EXPORT_SYMBOL_GPL(__pvsync_add);

/**
 * pvsync_counter_name - its name in debugfs
 * @counter: which
 */
const char *pvsync_counter_name(enum pvsync_counter counter)
{
	return counter_names[counter];
}
EXPORT_SYMBOL_GPL(pvsync_counter_name);

/**
 * pvsync_debugfs - the folder pvsync/ of debugfs
 *
 * Context: late_initcall() or later.
 */
struct dentry * __init pvsync_debugfs(void)
{
	return pvsync_dir;
}

static int counters_switch_get(void *data, u64 *value)
{
	struct static_key_false *key = data;

	*value = static_key_enabled(key);
	return 0;
}

static int counters_switch_set(void *data, u64 value)
{
	struct static_key_false *key = data;

	if (value > 1)
		return -EINVAL;
	if (value) {
		static_branch_enable(key);
		return 0;
	}
	static_branch_disable(key);
	/* Code that has preemption disabled, and has seen it on, notes nothing after this. */
	synchronize_rcu();
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(switch_fops, counters_switch_get, counters_switch_set,
			 "%llu\n");

/**
 * pvsync_create_switch - make a debugfs file that switches something, 0 or 1
 * @name: of the file
 * @dir: its folder
 * @key: what it switches
 *
 * Context: late_initcall() or later.
 */
void __init pvsync_create_switch(const char *name, struct dentry *dir,
				 struct static_key_false *key)
{
	debugfs_create_file(name, 0600, dir, key, &switch_fops);
}

static int counters_show(struct seq_file *seq, void *unused)
{
	unsigned int i, cpu;

	for (i = 0; i < PVSYNC_NR_COUNTERS; i++) {
		u64 sum = 0;

		for_each_possible_cpu(cpu)
			sum += READ_ONCE(per_cpu(pvsync_counters[i], cpu));
		seq_printf(seq, "%s %llu\n", counter_names[i], sum);
	}
	return 0;
}

static void counters_clear(unsigned int cpu)
{
	unsigned int i;

	for (i = 0; i < PVSYNC_NR_COUNTERS; i++)
		WRITE_ONCE(per_cpu(pvsync_counters[i], cpu), 0);
	if (IS_ENABLED(CONFIG_PVSYNC_LOCK_STAT))
		pvsync_clear_waits(cpu);
}

static void counters_clear_here(void *info)
{
	void (**clear)(unsigned int cpu) = info;

	(*clear)(smp_processor_id());
}

/**
 * pvsync_clear_write - clear what each CPU has counted, when a 0 is written to a file
 * @buf: what is written
 * @count: its length, bytes
 * @clear: clears what @cpu has counted. Runs there with interrupts disabled, or anywhere
 *	   while @cpu is offline: an addition under way could undo a store by another CPU
 *
 * Context: may sleep.
 *
 * Return: @count, or a negative error; -EINVAL for another number than 0.
 */
ssize_t pvsync_clear_write(const char __user *buf, size_t count, void (*clear)(unsigned int cpu))
{
	unsigned int cpu, value;
	int err = kstrtouint_from_user(buf, count, 10, &value);

	if (err)
		return err;
	if (value)
		return -EINVAL;
	cpus_read_lock();
	for_each_possible_cpu(cpu) {
		if (!cpu_online(cpu))
			clear(cpu);
	}
	on_each_cpu(counters_clear_here, &clear, 1);
	cpus_read_unlock();
	return count;
}

static ssize_t counters_write(struct file *file, const char __user *buf,
			      size_t count, loff_t *pos)
{
	return pvsync_clear_write(buf, count, counters_clear);
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

static int __init pvsync_counters_init(void)
{
	pvsync_dir = debugfs_create_dir("pvsync", NULL);
	debugfs_create_file("counters", 0600, pvsync_dir, NULL, &counters_fops);
	return 0;
}
fs_initcall(pvsync_counters_init);
