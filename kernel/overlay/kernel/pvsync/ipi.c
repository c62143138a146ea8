// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls to other CPUs, the guest's side: pvsync.ipi= chooses what a CPU does that waits
 * until others have run a function.
 *
 *   stock	KVM's own: after it has interrupted several CPUs at once, it yields once, to
 *		the first of them that the host has preempted. After it has interrupted a
 *		single CPU, it never yields, so a guest with two CPUs never does
 *   yield	it yields to a preempted CPU also if that is the only one. While it waits, it
 *		yields to each CPU that is preempted then and has not answered
 *
 * A caller that does not wait for the answer does not yield. A wake-up on another CPU goes
 * the same way, with the lock of a run queue or of a task held. Such callers have disabled
 * interrupts, and callers that wait must not have disabled them.
 *
 * How often
 * ---------
 *
 * A yield is an exit, and makes the caller's thread lose its place in the host's queue. So
 * after the first yield, the next one waits for YIELD_GAP cycles, and the gap doubles with
 * each yield, YIELDS times in all. By then the caller has waited for YIELD_GAP << YIELDS
 * cycles: 5 ms at 3.4 GHz, about as long as the host's slice. It waits on as in stock.
 *
 * The gap is time of the counter and not the caller's own: a caller that was preempted
 * itself has nothing to hold back for.
 */
#define pr_fmt(fmt) "pvsync: " fmt

#include <linux/cpumask.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/jump_label.h>
#include <linux/kvm_para.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/string.h>

#include <asm/msr.h>
#include <asm/paravirt.h>
#include <asm/processor.h>
#include <asm/smp.h>

#include <linux/pvsync/count.h>
#include <linux/pvsync/ipi.h>

#include "in_force.h"

#define YIELD_GAP	(1U << 16)
#define YIELDS		8

DEFINE_STATIC_KEY_FALSE(pvsync_ipi_key);

enum { IPI_STOCK, IPI_YIELD };

static const char * const ipi_names[] = {
	[IPI_STOCK]	= "stock",
	[IPI_YIELD]	= "yield",
};

static unsigned int wanted __initdata = IPI_STOCK;

static void ipi_yield_to_cpu(int cpu)
{
	__pvsync_count(PVSYNC_ipi_yields);
	kvm_hypercall1(KVM_HC_SCHED_YIELD, per_cpu(x86_cpu_to_apicid, cpu));
}

/*
 * As kvm_smp_send_call_func_ipi(), for a single CPU. The host is about to run an idle CPU
 * for the interrupt itself, so an idle CPU gets no yield.
 */
static void ipi_send_call_func_single(int cpu)
{
	native_send_call_func_single_ipi(cpu);
	if (in_task() && !irqs_disabled() && !idle_cpu(cpu) && vcpu_is_preempted(cpu))
		ipi_yield_to_cpu(cpu);
}

/* Return: a CPU that is preempted and has not answered; nr_cpu_ids if none is; -1 if all have. */
static int ipi_next_preempted(call_single_data_t __percpu *calls, const struct cpumask *cpus)
{
	int cpu, next = -1;

	for_each_cpu(cpu, cpus) {
		if (!(READ_ONCE(per_cpu_ptr(calls, cpu)->node.u_flags) & CSD_FLAG_LOCK))
			continue;
		if (vcpu_is_preempted(cpu))
			return cpu;
		next = nr_cpu_ids;
	}
	return next;
}

/**
 * __pvsync_ipi_wait - wait for a while until other CPUs have run a function, and yield to them
 * @calls: what they were asked to run, per CPU
 * @cpus: which CPUs
 *
 * Returns when all CPUs have run it, or after YIELD_GAP << YIELDS cycles. The caller waits for
 * the rest. The caller's acquire orders what it does afterwards; nothing here does.
 *
 * Context: as pvsync_ipi_waits().
 */
void __pvsync_ipi_wait(call_single_data_t __percpu *calls, const struct cpumask *cpus)
{
	u64 began = rdtsc(), gap = YIELD_GAP;
	unsigned int left = YIELDS;
	int cpu;

	while (left) {
		cpu = ipi_next_preempted(calls, cpus);
		if (cpu < 0)
			return;
		if (rdtsc() - began >= gap) {
			if (cpu < nr_cpu_ids)
				ipi_yield_to_cpu(cpu);
			gap *= 2;
			left--;
		}
		cpu_relax();
	}
}

static const char * __init ipi_why_not(void)
{
	if (!kvm_para_available())
		return "this is no KVM guest";
	if (kvm_para_has_hint(KVM_HINTS_REALTIME))
		return "the host dedicates CPUs to this guest";
	if (!kvm_para_has_feature(KVM_FEATURE_PV_SCHED_YIELD) ||
	    !kvm_para_has_feature(KVM_FEATURE_STEAL_TIME))
		return "the host does not offer it";
	return NULL;
}

/* The last pvsync.ipi= counts. */
static int __init ipi_parse_choice(char *arg)
{
	int choice = match_string(ipi_names, ARRAY_SIZE(ipi_names), arg);

	if (choice < 0)
		pr_warn("pvsync.ipi=%s is not known, nothing changes; use stock or yield\n", arg);
	else
		wanted = choice;
	return 1;
}
__setup("pvsync.ipi=", ipi_parse_choice);

/* Before there is a second CPU to call. */
static int __init pvsync_ipi_init(void)
{
	const char *reason;

	if (wanted == IPI_STOCK)
		return 0;
	reason = ipi_why_not();
	if (reason) {
		pr_info("pvsync.ipi=yield is stock here: %s\n", reason);
		return 0;
	}
	smp_ops.send_call_func_single_ipi = ipi_send_call_func_single;
	static_branch_enable(&pvsync_ipi_key);
	pr_info("calls to other CPUs: yield\n");
	return 0;
}
early_initcall(pvsync_ipi_init);

/**
 * pvsync_ipi_in_force - show what a CPU does that waits for others to run a function
 * @seq: where to
 *
 * Context: may sleep.
 */
void pvsync_ipi_in_force(struct seq_file *seq)
{
	bool yields = smp_ops.send_call_func_single_ipi == ipi_send_call_func_single &&
		      static_key_enabled(&pvsync_ipi_key);

	seq_printf(seq, "ipi %s\n", ipi_names[yields ? IPI_YIELD : IPI_STOCK]);
}
