// SPDX-License-Identifier: GPL-2.0-only
/*
 * The record of critical sections that each CPU shares with the host (struct pvsync_ecs): what
 * stands in it, and the calls that share it and end that. This file knows nothing of what
 * counts a section (ecs_count.c), of loans (ecs_loan.c), or of when a CPU shares (ecs_share.c).
 */
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/hardirq.h>
#include <linux/init.h>
#include <linux/kvm_para.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/string.h>

#include <asm/page.h>

#include <linux/pvsync/abi.h>
#include <linux/pvsync/ecs.h>
#include <linux/pvsync/shims.h>

#include "counters.h"
#include "ecs_record.h"
#include "guest.h"

/* Not _GPL: inline code that releases locks uses it, and the releases are not _GPL. */
DEFINE_PER_CPU_ALIGNED(struct pvsync_ecs, pvsync_ecs);
EXPORT_PER_CPU_SYMBOL(pvsync_ecs);

DEFINE_STATIC_KEY_FALSE(pvsync_ecs_free_key);

enum ecs_form pvsync_ecs_form __ro_after_init = FORM_OFF;

/* Where a task has its nesting of RCU readers; 0 if it counts none. */
static unsigned long ecs_nesting_offset(void)
{
#ifdef CONFIG_PREEMPT_RCU
	BUILD_BUG_ON(offsetof(struct task_struct, rcu_read_lock_nesting) > PVSYNC_ECS_TASK_MASK);
	return offsetof(struct task_struct, rcu_read_lock_nesting);
#else
	return 0;
#endif
}

/*
 * For the host with free, so that the host need not be of this kernel's version. Its own version
 * says where the addresses are.
 */
static const struct pvsync_ecs_layout preempt_count_layout = {
	.interrupt	= NMI_MASK | HARDIRQ_MASK | SOFTIRQ_OFFSET,
	.section	= PREEMPT_MASK | (SOFTIRQ_MASK & ~SOFTIRQ_OFFSET),
	.nesting	= PREEMPT_MASK,
	.wait		= PREEMPT_OFFSET,
};

static const unsigned long record_forms[] = {
	[FORM_OFF]	= PVSYNC_ECS_SILENT,
	[FORM_COUNT]	= PVSYNC_ECS_COUNT,
	[FORM_FREE]	= PVSYNC_ECS_FREE,
};

/* What the host also reads with free, in the order of the hypercall's a1 to a3. */
static void ecs_get_addresses(u64 *addresses)
{
	unsigned long nesting = ecs_nesting_offset();

	addresses[0] = per_cpu_ptr_to_phys(this_cpu_ptr(&pvsync_preempt_count));
	if (!nesting)
		return;
	addresses[1] = per_cpu_ptr_to_phys(this_cpu_ptr(&pvsync_current_task));
	addresses[2] = PAGE_OFFSET | nesting;
}

/**
 * pvsync_ecs_share_record - have the host take the record of this CPU
 *
 * The guest may be saved in the midst of this. So each store to a record that is shared already
 * leaves there what was there.
 *
 * Context: interrupts disabled.
 *
 * Return: 0 if the host has the record; the host's answer if it refuses.
 */
long pvsync_ecs_share_record(void)
{
	struct pvsync_ecs *ecs = this_cpu_ptr(&pvsync_ecs);
	u64 record = per_cpu_ptr_to_phys(ecs) | record_forms[pvsync_ecs_form];
	struct pvsync_ecs_layout layout = preempt_count_layout;
	u64 addresses[ARRAY_SIZE(ecs->addresses)] = { };
	bool by_msr = pvsync_host_has_msrs();

	if (pvsync_ecs_form == FORM_FREE) {
		ecs_get_addresses(addresses);
		layout.version = by_msr ? PVSYNC_ECS_LAYOUT_MSR : PVSYNC_ECS_LAYOUT;
		ecs->layout = layout;
	}
	if (!by_msr) {
		memset(ecs->addresses, 0, sizeof(ecs->addresses));
		return kvm_hypercall4(PVSYNC_HC_ECS, record, addresses[0], addresses[1],
				      addresses[2]);
	}
	memcpy(ecs->addresses, addresses, sizeof(addresses));
	return pvsync_wrmsr_safe(MSR_PVSYNC_ECS, record) ? -KVM_EINVAL : 0;
}

/**
 * pvsync_ecs_unshare_record - have the host forget the record of this CPU
 *
 * Context: any that stays on its CPU.
 */
void pvsync_ecs_unshare_record(void)
{
	if (!pvsync_host_has_msrs() || pvsync_wrmsr_safe(MSR_PVSYNC_ECS, 0))
		kvm_hypercall4(PVSYNC_HC_ECS, 0, 0, 0, 0);
}

/**
 * pvsync_ecs_clear_told - clear what the host would write in the record of this CPU
 *
 * Without a host, a record says nothing.
 *
 * Context: interrupts disabled.
 */
void pvsync_ecs_clear_told(void)
{
	this_cpu_write(pvsync_ecs.preempted, 0);
	this_cpu_write(pvsync_ecs.overcommitted, 0);
	this_cpu_write(pvsync_ecs.borrowed, 0);
}

static void ecs_show_field(struct seq_file *seq, const char *name, u64 word, u64 unit)
{
	seq_printf(seq, " %s %llu", name, (word & ~PVSYNC_ECS_BORROWED) / unit & PVSYNC_ECS_FIELD);
}

/* For each CPU, the sections that it claims now, and what the host told it last. */
static int ecs_show(struct seq_file *seq, void *unused)
{
	unsigned int cpu;

	for_each_online_cpu(cpu) {
		struct pvsync_ecs *ecs = per_cpu_ptr(&pvsync_ecs, cpu);
		u64 stays = READ_ONCE(ecs->non_preemptable);
		u64 moves = READ_ONCE(ecs->preemptable);

		seq_printf(seq, "cpu %u", cpu);
		ecs_show_field(seq, "lock", stays, PVSYNC_ECS_LOCK);
		ecs_show_field(seq, "read", stays, PVSYNC_ECS_READ);
		ecs_show_field(seq, "irq", stays, PVSYNC_ECS_IRQ);
		ecs_show_field(seq, "spinner", stays, PVSYNC_ECS_SPINNER);
		ecs_show_field(seq, "mutex", moves, PVSYNC_ECS_MUTEX);
		ecs_show_field(seq, "rwsem_read", moves, PVSYNC_ECS_RWSEM_READ);
		ecs_show_field(seq, "rcu", moves, PVSYNC_ECS_RCU);
		ecs_show_field(seq, "waiter", moves, PVSYNC_ECS_WAITER);
		seq_printf(seq, " preempted %u overcommitted %u borrowed %u\n",
			   READ_ONCE(ecs->preempted), READ_ONCE(ecs->overcommitted),
			   READ_ONCE(ecs->borrowed));
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(ecs);

static int __init pvsync_ecs_debugfs_init(void)
{
	debugfs_create_file("ecs", 0400, pvsync_debugfs(), NULL, &ecs_fops);
	return 0;
}
late_initcall(pvsync_ecs_debugfs_init);
