// SPDX-License-Identifier: GPL-2.0-only
/*
 * Looks at what a host marks as preempted (pvsync.mark), where a guest does: in the byte of
 * the steal time record.
 *
 * One vCPU, the worker, makes exits of one kind. It learns from its own record how long it
 * was without a CPU during each exit. Another vCPU, the watcher, reads the worker's mark all
 * the time. An odd number says that the worker is in an operation:
 *
 *	worker, its interrupts off		watcher
 *	--------------------------		-------
 *	steal and time before
 *	odd number
 *	exits, loses its CPU: marked?		number of the operation
 *						mark
 *						the same number: of this operation
 *	has its CPU again
 *	own mark: none, the host has taken it away
 *	lost = steal - steal before
 *	ran = time - time before - lost
 *	even number				another number: lost long? ever seen marked?
 *
 * The watcher loses its CPU, too, and may be away just then. It counts an operation if it looked
 * for longer than the worker ran: the rest of its looks were at a worker without a CPU. A third
 * vCPU is busy, so that VMs do not lose and get their CPUs all at the same time.
 *
 * In one kind the worker halts with interrupts off, until the watcher kicks it. It sleeps then
 * and is not preempted: after a while, in which it has surely come to its halt, there must be
 * no mark.
 */
#define pr_fmt(fmt) "pvsync: marks: " fmt

#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/irqflags.h>
#include <linux/kvm_para.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/smp.h>
#include <linux/spinlock.h>

#include <asm/kvm_para.h>
#include <asm/msr.h>
#include <asm/processor.h>

#include <linux/pvsync/shims.h>

#include PVSYNC_CPUID_H

#include "each_cpu.h"

static unsigned int seconds = 5;
module_param(seconds, uint, 0444);
MODULE_PARM_DESC(seconds, "how long to look, all kinds of exits together");

#define PAUSES		8
#define LOST		NSEC_PER_MSEC		/* the least that counts as having lost the CPU */
#define LOOKED		(200 * NSEC_PER_USEC)	/* the watcher at a worker without a CPU, likewise */
#define GLANCE		(100 * NSEC_PER_USEC)	/* looks further apart have not seen what was between */
#define KEPT		1024U			/* operations */
#define AWAKE		(10 * USEC_PER_MSEC)	/* for a sleeper to see its kick, and to halt anew */
#define ASLEEP		(100 * USEC_PER_MSEC)	/* before the mark is looked at, and a kick */

static unsigned int watcher, worker;
static u64 end;

/* The worker's: the begins and ends of its operations, and where the latest went, ns. */
static u64 number;
static u64 lost[KEPT], ran[KEPT];
static bool begun, over;

/* What came of a kind. */
static unsigned long losses, marked, own, refused;

static const struct kvm_steal_time *mark_check_own_record(void)
{
	u64 value;

	if (pvsync_rdmsr_safe(MSR_KVM_STEAL_TIME, &value) || !(value & KVM_MSR_ENABLED))
		return NULL;
	return phys_to_virt(value & KVM_STEAL_VALID_BITS);
}

/* By a clock: jiffies may be the duty of a CPU that has halted with interrupts off. */
static bool mark_check_is_time(void)
{
	return ktime_get_ns() < end;
}

/* A worker that has begun may have to be woken; one that could not be made never begins. */
static bool mark_check_is_watched(void)
{
	return !READ_ONCE(over) && (READ_ONCE(begun) || mark_check_is_time());
}

static void mark_check_pause(void)
{
	unsigned int i;

	for (i = 0; i < PAUSES; i++)
		cpu_relax();
}

static void mark_check_hypercall(void)
{
	if (kvm_hypercall1(KVM_HC_SCHED_YIELD, cpu_physical_id(watcher)))
		refused++;
}

static void mark_check_cpuid(void)
{
	cpuid_eax(0);
}

/* Handled without the emulator as well, and not among the exits that mark=exit is about. */
static void mark_check_write_back(void)
{
	asm volatile("wbinvd" : : : "memory");
}

/* An operation begins, or ends. */
static void mark_check_step(void)
{
	/* With what was lost in it, for mark_check_judge(). */
	smp_store_release(&number, number + 1);
}

static void mark_check_work(const struct kvm_steal_time *record,
			    void (*make)(void))
{
	unsigned long flags;

	while (mark_check_is_time()) {
		u64 steal, begin, *loss;

		local_irq_save(flags);
		steal = READ_ONCE(record->steal);
		begin = ktime_get_ns();
		mark_check_step();
		make();
		own += READ_ONCE(record->preempted) != 0;
		loss = &lost[number % KEPT];
		*loss = READ_ONCE(record->steal) - steal;
		ran[number % KEPT] = ktime_get_ns() - begin - *loss;
		mark_check_step();
		local_irq_restore(flags);
		cond_resched();
	}
}

static void mark_check_judge(u64 operation, u64 looked, bool seen)
{
	u64 loss = lost[operation % KEPT];

	if (operation % 2 == 0 || loss < LOST || looked < ran[operation % KEPT] + LOOKED)
		return;
	losses++;
	marked += seen;
}

static void mark_check_watch(void)
{
	u64 looked = 0, latest = 0, current_one = 0;
	bool seen = false;

	while (mark_check_is_watched()) {
		/* After what was lost in the one before. */
		u64 one = smp_load_acquire(&number), now = ktime_get_ns();
		bool mark = vcpu_is_preempted(worker);

		/* A mark of this operation, which no other one has followed. */
		smp_rmb();
		mark &= READ_ONCE(number) == one;
		if (one != current_one) {
			if (one - current_one < KEPT)
				mark_check_judge(current_one, looked, seen);
			current_one = one;
			looked = 0;
			seen = false;
		} else if (now - latest < GLANCE) {
			looked += now - latest;
		}
		seen |= mark;
		latest = now;
		cond_resched();
	}
}

/* The worker's operation is a sleep. */
static void mark_check_halt_often(void)
{
	unsigned long flags;

	while (mark_check_is_time()) {
		local_irq_save(flags);
		mark_check_step();
		asm volatile("hlt" : : : "memory");
		mark_check_step();
		local_irq_restore(flags);
		cond_resched();
	}
}

static void mark_check_watch_sleeper(void)
{
	while (mark_check_is_watched()) {
		u64 one;

		/* The kick before wakes the worker meanwhile; the number is of the next sleep. */
		usleep_range(AWAKE, 2 * AWAKE);
		one = READ_ONCE(number);
		usleep_range(ASLEEP, 2 * ASLEEP);
		if (one % 2 && READ_ONCE(number) == one) {
			losses++;
			marked += vcpu_is_preempted(worker);
		}
		/* One too many makes it halt for nothing once. */
		if (kvm_hypercall2(KVM_HC_KICK_CPU, 0, cpu_physical_id(worker)))
			refused++;
	}
}

static const struct kind {
	const char	*name;
	void		(*make)(void);	/* NULL: it sleeps */
} kinds[] = {
	{ "pause",	mark_check_pause },
	{ "hypercall",	mark_check_hypercall },
	{ "cpuid",	mark_check_cpuid },
	{ "other",	mark_check_write_back },
	{ "sleep" },
};

static const struct kind *kind;

static void mark_check_keep_busy(void)
{
	while (mark_check_is_watched())
		cond_resched();
}

/* The thread that calls this is bound to its CPU. */
static void mark_check_work_or_watch(void)
{
	const struct kvm_steal_time *record = mark_check_own_record();

	if (smp_processor_id() == watcher) {
		if (kind->make)
			mark_check_watch();
		else
			mark_check_watch_sleeper();
		return;
	}
	if (smp_processor_id() != worker) {
		if (kind->make)
			mark_check_keep_busy();
		return;
	}
	WRITE_ONCE(begun, true);
	if (!kind->make)
		mark_check_halt_often();
	else if (record)
		mark_check_work(record, kind->make);
	WRITE_ONCE(over, true);
}

static void mark_check_one_kind(void)
{
	number = 0;
	begun = false;
	over = false;
	losses = 0;
	marked = 0;
	own = 0;
	refused = 0;
	end = ktime_get_ns() + seconds * NSEC_PER_SEC / ARRAY_SIZE(kinds);
	pvsync_on_each_cpu(mark_check_work_or_watch, 3);
	pr_warn("%s: %lu losses, %lu marked, %lu own, %lu refused, %llu operations\n", kind->name,
		losses, marked, own, refused, number / 2);
}

static int __init mark_check_init(void)
{
	watcher = cpumask_first(cpu_online_mask);
	worker = cpumask_next(watcher, cpu_online_mask);
	if (worker >= nr_cpu_ids || !mark_check_own_record())
		return -ENODEV;
	for (kind = kinds; kind < kinds + ARRAY_SIZE(kinds); kind++) {
		if (fatal_signal_pending(current))
			return -EINTR;
		mark_check_one_kind();
	}
	return 0;
}

static void __exit mark_check_exit(void)
{
}

module_init(mark_check_init);
module_exit(mark_check_exit);
MODULE_DESCRIPTION("Search for vCPUs that are marked as preempted, and for those that are not");
MODULE_LICENSE("GPL");
