// SPDX-License-Identifier: GPL-2.0-only
/*
 * A guest that misbehaves: makes one hypercall from all CPUs, in a tight loop, and says
 * which answer it got, and how many calls it made. It tests a host, and measures what a
 * call costs.
 */
#define pr_fmt(fmt) "pvsync: " fmt

#include <linux/atomic.h>
#include <linux/jiffies.h>
#include <linux/kvm_para.h>
#include <linux/module.h>

#include <linux/pvsync/abi.h>

#include "each_cpu.h"

static unsigned int seconds = 10;
module_param(seconds, uint, 0444);
MODULE_PARM_DESC(seconds, "length of the loop");

static unsigned int ms;
module_param(ms, uint, 0444);
MODULE_PARM_DESC(ms, "milliseconds that it lasts besides");

static unsigned int nr = PVSYNC_HC_HELP;
module_param(nr, uint, 0444);
MODULE_PARM_DESC(nr, "number of the hypercall, that of help by default");

static unsigned long args[4];
module_param_array(args, ulong, NULL, 0444);
MODULE_PARM_DESC(args, "its arguments, a0 to a3, 0 by default");

static unsigned int cpus;
module_param(cpus, uint, 0444);
MODULE_PARM_DESC(cpus, "how many CPUs make it, all by default");

static atomic64_t calls;

static long torture_call_host(void)
{
	long answer = kvm_hypercall4(nr, args[0], args[1], args[2], args[3]);

	/* CPUs to await for what the host emulates: some now, others then. */
	return nr == PVSYNC_HC_TLB && answer > 0 ? 0 : answer;
}

/* Answers other than the first one, which all calls should share. */
static atomic64_t others;
static long first;

static unsigned int torture_length_ms(void)
{
	return seconds * 1000 + ms;
}

static void torture_host(void)
{
	unsigned long end = jiffies + msecs_to_jiffies(torture_length_ms());
	u64 mine = 0, differ = 0;

	do {
		differ += torture_call_host() != first;
		mine++;
		cond_resched();
	} while (time_before(jiffies, end));

	atomic64_add(mine, &calls);
	atomic64_add(differ, &others);
}

static int __init torture_init(void)
{
	if (!kvm_para_available()) {
		pr_err("hypercall torture: this is no KVM guest\n");
		return -ENODEV;
	}
	first = torture_call_host();
	pvsync_on_each_cpu(torture_host, cpus);
	pr_warn("hypercall torture: number %#x, arguments %#lx %#lx %#lx %#lx: %lld calls in %u ms, answer %ld, others %lld\n",
		nr, args[0], args[1], args[2], args[3], atomic64_read(&calls),
		torture_length_ms(), first, atomic64_read(&others));
	return 0;
}

static void __exit torture_exit(void)
{
}

module_init(torture_init);
module_exit(torture_exit);
MODULE_DESCRIPTION("Hypercalls in a tight loop, to test a host");
MODULE_LICENSE("GPL");
