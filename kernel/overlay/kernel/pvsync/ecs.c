// SPDX-License-Identifier: GPL-2.0-only
/*
 * Critical sections that the host is told of, the guest's side: pvsync.ecs=, and what
 * is a section. After S. Kashyap, C. Min and T. Kim, "Scaling Guest OS Critical
 * Sections with eCS", USENIX ATC 2018, sections 3.1 and 5. Each of these files knows
 * only those above it, and this file all of them:
 *
 *   ecs_record.c	the record that each CPU shares with the host (struct pvsync_ecs)
 *   ecs_loan.c		time that a CPU borrows
 *   ecs_count.c	sections that count themselves
 *   ecs_wait.c		waits for spinlocks, where nothing counts
 *   ecs_share.c	when a CPU shares its record
 *
 * The parameter is one of
 *
 *   off	nothing
 *   count	each section counts itself in the record while it lasts
 *   free	the host reads what the kernel maintains anyway; no section has an
 *		instruction more, only waits have
 *
 * What is a section, and to whom:
 *
 *				count			free
 *   spinlocks			LOCK			preempt count
 *   rwlocks			LOCK, READ		preempt count
 *   hard interrupts		IRQ			preempt count
 *   soft interrupts		IRQ			preempt count
 *   mutexes			MUTEX			no
 *   rwsems			MUTEX, RWSEM_READ	no
 *   RCU readers, preemptible	RCU			nesting
 *   RCU readers, other		no			preempt count
 *   a driver's own		its calls of table 1	preempt count, if disabled
 *   NMIs			no			preempt count
 *   disabled preemption or
 *   soft interrupts alone	no			preempt count
 *   waits for spinlocks	SPINNER: no section	SPINNER: no section
 *   waits for other CPUs to
 *   run a function		SPINNER: no section	SPINNER: no section
 *   waits for rwlocks		SPINNER: no section	SPINNER: no section
 *   waits for mutexes and
 *   rwsems, awake		WAITER: no section	no
 *
 * Neither form has SRCU readers, semaphores, percpu rwsems, RT mutexes, and interrupts
 * that are disabled. Bit spinlocks are disabled preemption, and so is the idle task.
 *
 * A waiter is in no section, whatever it has locked: it goes on no sooner if it keeps its
 * CPU, and what it waits for may need that CPU. Interrupts on top of a wait are sections.
 * Many waits with a lock are for flushes of translations. munmap() waits for other CPUs
 * with mmap_lock, and what it waits longest for is a vCPU without a CPU.
 */
#define pr_fmt(fmt) "pvsync: " fmt

#include <linux/init.h>
#include <linux/jump_label.h>
#include <linux/kernel.h>
#include <linux/printk.h>
#include <linux/seq_file.h>
#include <linux/string.h>

#include <linux/pvsync/abi.h>
#include <linux/pvsync/ecs.h>

#include "ecs.h"
#include "ecs_count.h"
#include "ecs_record.h"
#include "ecs_share.h"
#include "ecs_wait.h"
#include "guest.h"
#include "in_force.h"

static const char * const form_names[] = {
	[FORM_OFF]	= "off",
	[FORM_COUNT]	= "count",
	[FORM_FREE]	= "free",
};

/* Share records although no section is told, for what the host has to say. */
static bool share_anyway __ro_after_init;

static void __init ecs_set_form(enum ecs_form wanted)
{
	pvsync_ecs_form = wanted;
	pvsync_ecs_count_sections(wanted == FORM_COUNT);
	pvsync_ecs_announce_spins(wanted == FORM_FREE);
	if (wanted == FORM_FREE)
		static_branch_enable(&pvsync_ecs_free_key);
	else
		static_branch_disable(&pvsync_ecs_free_key);
}

static const char * __init ecs_why_not(enum ecs_form wanted)
{
	if (wanted == FORM_OFF)
		return NULL;
	if (wanted == FORM_COUNT && !IS_ENABLED(CONFIG_PVSYNC_ECS_COUNT))
		return "this kernel is built without it";
	if (wanted == FORM_FREE && !IS_ENABLED(CONFIG_PREEMPT_COUNT))
		return "this kernel keeps no preempt count";
	return pvsync_host_lacks(PVSYNC_FEATURE_ECS);
}

/* There is one CPU, and interrupts are off. The last pvsync.ecs= counts. */
static int __init ecs_parse_form(char *arg)
{
	int wanted = match_string(form_names, ARRAY_SIZE(form_names), arg);
	const char *reason;

	if (wanted < 0) {
		pr_warn("pvsync.ecs=%s is not known, nothing changes; use off, count or free\n",
			arg);
		return 1;
	}
	reason = ecs_why_not(wanted);
	if (reason) {
		pr_info("pvsync.ecs=%s is off here: %s\n", arg, reason);
		wanted = FORM_OFF;
	}
	ecs_set_form(wanted);
	pr_info("critical sections: %s\n", form_names[wanted]);
	return 1;
}
__setup("pvsync.ecs=", ecs_parse_form);

/**
 * pvsync_ecs_share_anyway - share the records whether sections are told or not
 * @wanted: whether to; the last call counts
 *
 * Context: parameters, as ecs_parse_form().
 *
 * Return: the reason why that is impossible, for the log; NULL if it is possible.
 */
const char * __init pvsync_ecs_share_anyway(bool wanted)
{
	const char *reason = wanted ? pvsync_host_lacks(PVSYNC_FEATURE_ECS) : NULL;

	share_anyway = wanted && !reason;
	return reason;
}

static int __init pvsync_ecs_init(void)
{
	if (pvsync_ecs_form == FORM_OFF && !share_anyway)
		return 0;
	return pvsync_ecs_start_sharing();
}
core_initcall(pvsync_ecs_init);

static const char *ecs_records_in_force(void)
{
	if (pvsync_ecs_form == FORM_OFF && !share_anyway)
		return "none";
	return pvsync_ecs_all_taken() ? "taken" : "refused";
}

/**
 * pvsync_ecs_in_force - show the form, and whether the host has all CPUs' records
 * @seq: where to
 *
 * Context: may sleep.
 */
void pvsync_ecs_in_force(struct seq_file *seq)
{
	seq_printf(seq, "ecs %s\necs_record %s\n", form_names[pvsync_ecs_form],
		   ecs_records_in_force());
}
