// SPDX-License-Identifier: GPL-2.0-only
/*
 * Choice of the spinlock algorithm at boot, and the timeout of the preemptable
 * ticket lock.
 *
 * A contended lock calls its slow path through a pointer of the kernel's. The
 * kernel turns that into a direct call before it starts a second CPU. A choice
 * sets the pointer while the kernel parses early parameters. There is one CPU
 * then, and interrupts are off, so no lock can be contended yet.
 */
#define pr_fmt(fmt) "pvsync: " fmt

#include <linux/delay.h>
#include <linux/init.h>
#include <linux/jump_label.h>
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/sched/clock.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include <asm/paravirt.h>
#include <asm/qspinlock.h>

#include <linux/pvsync/abi.h>
#include <linux/pvsync/pmt_lock.h>
#include <linux/pvsync/shims.h>

#include "ecs_wait.h"
#include "guest.h"
#include "in_force.h"
#include "locks.h"

/**
 * struct lock_choice - an algorithm that pvsync.lock= can name
 * @name: value of the parameter
 * @slowpath: what a contended lock calls; NULL leaves the kernel's own
 * @helped: the slow path whose waiters ask the host for help; NULL for a choice
 *	whose waiters sleep
 * @plain: name of the choice to take where waiters cannot sleep; NULL for a
 *	choice whose waiters do not sleep
 */
struct lock_choice {
	const char	*name;
	slowpath_fn	slowpath;
	slowpath_fn	helped;
	const char	*plain;
};

#ifdef CONFIG_PVSYNC_HELP
#define HELPED(name)	pvsync_helped_##name##_slowpath
#else
#define HELPED(name)	NULL
#endif

static const struct lock_choice lock_choices[] = {
	{ "qspinlock",	NULL,				HELPED(qspinlock) },
	{ "tas",	NULL,				HELPED(tas) },
	{ "ticket",	pvsync_ticket_lock_slowpath,	HELPED(ticket) },
	{ "pmt",	pvsync_pmt_lock_slowpath,	HELPED(pmt) },
#ifdef CONFIG_PVSYNC_PV_LOCKS
	{ "pv-ticket",	pvsync_pv_ticket_lock_slowpath,	NULL, "ticket" },
	{ "pv-pmt",	pvsync_pv_pmt_lock_slowpath,	NULL, "pmt" },
#endif
#ifdef CONFIG_PVSYNC_BUSTED
	{ "busted",	pvsync_busted_lock_slowpath },
#endif
};

static unsigned int chosen __initdata;
static bool nopvspin_given __initdata;

/* pvsync.tau= in nanoseconds, or one of these. */
#define TAU_AUTO	(-1LL)
#define TAU_INF		(-2LL)

static long long tau_ns __initdata = TAU_AUTO;

/* pvsync.help= in cycles, or one of these. */
#define HELP_OFF	(-1LL)
#define HELP_AUTO	0LL

static long long help_cycles __initdata = HELP_OFF;

/*
 * The paper's tau is about 2 us, "slightly larger than typical lock holding
 * time" (section 4.2). Lock holding times grow with the cost of kernel code. So
 * the default keeps the ratio on slower machines, as an emulated one, and with
 * debugging compiled in: tau is TAU_SECTIONS short critical sections long. Such
 * a section is an allocation and its release. It takes 40 ns on the processors
 * that the paper's figure is for.
 */
#define TAU_DEFAULT_NS	2000U
#define SECTION_NS	40
#define TAU_SECTIONS	(TAU_DEFAULT_NS / SECTION_NS)

/*
 * So often a waiter looks at a free lock for each waiter in front, at least. A
 * hand-over has to fit in, or no order is left among waiters that run.
 */
#define FREE_LOOKS	8

static const struct lock_choice * __init lock_find_choice(const char *name)
{
	unsigned int i;

	for (i = 0; name && i < ARRAY_SIZE(lock_choices); i++) {
		if (!strcmp(name, lock_choices[i].name))
			return &lock_choices[i];
	}
	return NULL;
}

#ifdef CONFIG_PVSYNC_PV_LOCKS

/* @choice, or its plain one if waiters could not be woken here. */
static const struct lock_choice * __init
lock_possible_choice(const struct lock_choice *choice)
{
	const char *reason = choice->plain ? pvsync_pv_unavailable() : NULL;

	if (!reason)
		return choice;
	pr_info("pvsync.lock=%s is %s here: %s\n", choice->name,
		choice->plain, reason);
	return lock_find_choice(choice->plain);
}

static void __init lock_set_unlock(const struct lock_choice *choice)
{
	if (choice->plain)
		pvsync_pv_install(choice->slowpath ==
				  pvsync_pv_ticket_lock_slowpath);
	else
		pvsync_pv_uninstall();
}

#else

static const struct lock_choice * __init
lock_possible_choice(const struct lock_choice *choice)
{
	return choice;
}

static void __init lock_set_unlock(const struct lock_choice *choice) { }

#endif /* CONFIG_PVSYNC_PV_LOCKS */

/* The slow path that the parameters parsed so far ask for. */
static slowpath_fn __init lock_wanted_slowpath(void)
{
	const struct lock_choice *choice = &lock_choices[chosen];

	if (help_cycles != HELP_OFF && choice->helped)
		return choice->helped;
	return choice->slowpath ?: native_queued_spin_lock_slowpath;
}

static int __init lock_note_nopvspin(char *arg)
{
	nopvspin_given = true;
	return 0;
}
early_param("nopvspin", lock_note_nopvspin);

static int __init lock_parse_choice(char *arg)
{
	const struct lock_choice *choice = lock_find_choice(arg);
	unsigned int i;

	if (!choice) {
		pr_warn("pvsync.lock=%s is not known, spinlocks stay as they are; use qspinlock, tas, ticket, pmt, pv-ticket or pv-pmt\n",
			arg ?: "");
		return 0;
	}
	choice = lock_possible_choice(choice);
	i = choice - lock_choices;
	/*
	 * KVM and Xen make their own choices later, and those would win without
	 * nopvspin. The last pvsync.lock= counts, and nopvspin keeps its
	 * meaning.
	 */
	nopvspin = i || nopvspin_given;
	chosen = i;
	pvsync_set_slowpath(lock_wanted_slowpath());
	lock_set_unlock(choice);
	return 0;
}
early_param("pvsync.lock", lock_parse_choice);

static int __init lock_parse_tau(char *arg)
{
	unsigned int ns;

	if (arg && !strcmp(arg, "inf"))
		tau_ns = TAU_INF;
	else if (arg && !kstrtouint(arg, 10, &ns))
		tau_ns = ns;
	else
		pr_warn("pvsync.tau=%s is not a number of nanoseconds nor inf, the default stays\n",
			arg ?: "");
	return 0;
}
early_param("pvsync.tau", lock_parse_tau);

static unsigned int impatience_wanted __initdata = PVSYNC_IMPATIENCE;

static int __init lock_parse_impatience(char *arg)
{
	unsigned int times;

	if (arg && !kstrtouint(arg, 10, &times) && times)
		impatience_wanted = times;
	else
		pr_warn("pvsync.impatience=%s is not a number above 0, the default stays\n",
			arg ?: "");
	return 0;
}
early_param("pvsync.impatience", lock_parse_impatience);

#ifdef CONFIG_PVSYNC_HELP

/*
 * The guest asks here whether the host helps: later it is too late to choose
 * another slow path. If KVM's own locks come into force, they win; their
 * waiters sleep.
 */
static int __init lock_parse_help(char *arg)
{
	long long wanted = HELP_OFF;
	const char *reason;
	unsigned int cycles;

	if (arg && !strcmp(arg, "auto")) {
		wanted = HELP_AUTO;
	} else if (arg && !kstrtouint(arg, 10, &cycles) && cycles) {
		wanted = cycles;
	} else if (!arg || strcmp(arg, "off")) {
		pr_warn("pvsync.help=%s is not a number of cycles above 0, auto or off; nothing changes\n",
			arg ?: "");
		return 0;
	}
	reason = wanted == HELP_OFF ? NULL :
				      pvsync_host_lacks(PVSYNC_FEATURE_HELP);
	if (reason) {
		pr_info("pvsync.help=%s has no effect here: %s\n", arg, reason);
		wanted = HELP_OFF;
	}
	help_cycles = wanted;
	pvsync_set_slowpath(lock_wanted_slowpath());
	return 0;
}
early_param("pvsync.help", lock_parse_help);

static void __init lock_start_help(u64 section_ps, bool last)
{
	const struct lock_choice *choice = &lock_choices[chosen];
	u64 cycles;

	if (help_cycles == HELP_OFF)
		return;
	if (!choice->helped || pvsync_spin_slowpath() != choice->helped) {
		if (last)
			pr_info("pvsync.help= has no effect here: long waits do not spin\n");
		return;
	}
	cycles = pvsync_help_start(help_cycles,
				   section_ps * 1024 / (SECTION_NS * 1000));
	if (last && cycles)
		pr_info("the host is asked for help after %llu cycles of spinning\n",
			cycles);
}

#else

static void __init lock_start_help(u64 section_ps, bool last) { }

#endif /* CONFIG_PVSYNC_HELP */

#ifdef CONFIG_PVSYNC_PV_LOCKS
static int __init lock_parse_halt_spins(char *arg)
{
	if (!arg || kstrtouint(arg, 10, &pvsync_halt_spins))
		pr_warn("pvsync.halt_spins=%s is not a number of iterations, the default stays\n",
			arg ?: "");
	return 0;
}
early_param("pvsync.halt_spins", lock_parse_halt_spins);
#endif

static void __init lock_pause_once(struct qspinlock *lock)
{
	atomic_read(&lock->val);
	cpu_relax();
}

/* With PREEMPT_RT, allocations take sleeping locks: not with interrupts off. */
static void __init lock_section_once(struct qspinlock *lock)
{
	queued_spin_lock(lock);
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		kfree(kmalloc(128, GFP_NOWAIT));
	queued_spin_unlock(lock);
}

/*
 * Cost of one call of @fn in picoseconds. The least of some rounds counts, so
 * an interrupt in one of them, or a preemption of this vCPU, does not.
 */
static u64 __init lock_cost_ps(void (*fn)(struct qspinlock *lock))
{
	const unsigned int rounds = 8, calls = 256;
	struct qspinlock lock = __ARCH_SPIN_LOCK_UNLOCKED;
	u64 least = U64_MAX;
	unsigned int round, i;

	for (round = 0; round < rounds; round++) {
		unsigned long flags;
		u64 start;

		local_irq_save(flags);
		start = sched_clock();
		for (i = 0; i < calls; i++)
			fn(&lock);
		least = min(least, sched_clock() - start);
		local_irq_restore(flags);
	}
	return max(div_u64(least * 1000, calls), 1ULL);
}

/* The least of all measurements so far, in picoseconds. */
static u64 pause_ps __initdata = U64_MAX;
static u64 section_ps __initdata = U64_MAX;
static bool measured __initdata;

static void __init lock_measure_costs(void)
{
	pause_ps = min(pause_ps, lock_cost_ps(lock_pause_once));
	section_ps = min(section_ps, lock_cost_ps(lock_section_once));
}

static bool lock_uses_tau(const struct lock_choice *choice)
{
	return choice->slowpath == pvsync_pmt_lock_slowpath ||
	       (choice->plain && !strcmp(choice->plain, "pmt"));
}

/* The time that pvsync_tau_spins comes from. */
static u64 tau_set_ns __ro_after_init;

static void __init lock_set_tau(bool last)
{
	u64 ns = tau_ns, spins;

	if (!lock_uses_tau(&lock_choices[chosen]))
		return;
	if (tau_ns == TAU_INF) {
		WRITE_ONCE(pvsync_tau_spins, PVSYNC_TAU_INF);
		if (last)
			pr_info("tau is infinite, preemptable ticket locks are ticket locks\n");
		return;
	}
	if (tau_ns == TAU_AUTO)
		ns = max_t(u64, TAU_DEFAULT_NS,
			   div_u64(section_ps * TAU_SECTIONS, 1000));

	/* At least one spin unless tau is 0: no spins make a plain spinlock. */
	spins = ns ? max(div64_u64(ns * 1000, pause_ps), 1ULL) : 0;
	spins = min_t(u64, spins, PVSYNC_TAU_INF - 1);
	WRITE_ONCE(pvsync_tau_spins, spins);
	pvsync_impatience = clamp_t(u64, spins / FREE_LOOKS, 1,
				    impatience_wanted);
	tau_set_ns = ns;
	if (last)
		pr_info("tau %llu ns is %llu spins (a spin takes %llu ps, a critical section %llu ps), impatience %u\n",
			ns, spins, pause_ps, section_ps, pvsync_impatience);
}

/* Runs before the second CPU starts, so before the first contended lock. */
static int __init pvsync_locks_init(void)
{
	const struct lock_choice *choice = &lock_choices[chosen];
	slowpath_fn wanted = lock_wanted_slowpath();

	if (chosen && pvsync_spin_slowpath() != wanted) {
		pr_warn("pvsync.lock=%s gave way to the spinlocks of another hypervisor\n",
			choice->name);
		lock_start_help(0, true);
		return 0;
	}
	/* The kernel's own test-and-set lock, for any machine. */
	if (!strcmp(choice->name, "tas") &&
	    wanted == native_queued_spin_lock_slowpath)
		static_branch_enable(&virt_spin_lock_key);
	pr_info("spinlocks: %s\n", choice->name);
	/* A boot without any of the parameters measures nothing. */
	measured = lock_uses_tau(choice) || help_cycles != HELP_OFF;
	if (!measured)
		return 0;
	lock_measure_costs();
	lock_set_tau(false);
	lock_start_help(section_ps, false);
	return 0;
}
early_initcall(pvsync_locks_init);

/*
 * All rounds of a measurement are over in a fraction of a millisecond. For that
 * long this vCPU may have had half a core or less. So some more measurements
 * follow, spread over time and as late as possible, and the least counts.
 * pvsync_tau_spins may change under a waiter. That does no harm: what a waiter
 * may do after its timeout it may do at any time.
 */
static int __init pvsync_locks_measure_again(void)
{
	const unsigned int times = 8;
	unsigned int i;

	if (!measured)
		return 0;
	for (i = 0; i < times; i++) {
		usleep_range(1000, 2000);
		lock_measure_costs();
	}
	lock_set_tau(true);
	lock_start_help(section_ps, true);
	return 0;
}
late_initcall(pvsync_locks_measure_again);

/* The choice whose slow path is in force, NULL if there is none. */
static const struct lock_choice *lock_choice_in_force(void)
{
	slowpath_fn serves = pvsync_spin_slowpath();
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lock_choices); i++) {
		if (serves == lock_choices[i].slowpath ||
		    serves == lock_choices[i].helped)
			return &lock_choices[i];
	}
	return NULL;
}

static const char *lock_in_force(const struct lock_choice *choice)
{
	slowpath_fn serves = pvsync_spin_slowpath();

	if (serves == __pv_queued_spin_lock_slowpath)
		return "pvqspinlock";
	/* The native slow path, helped or not, first asks that key. */
	if (serves == native_queued_spin_lock_slowpath ||
	    choice == lock_choices)
		return static_key_enabled(&virt_spin_lock_key) ? "tas" :
								 "qspinlock";
	return choice ? choice->name : "other";
}

static u32 lock_halt_spins(void)
{
#ifdef CONFIG_PVSYNC_PV_LOCKS
	return pvsync_halt_spins;
#else
	return 0;
#endif
}

/**
 * pvsync_locks_in_force - show what a contended spinlock does, and its limits
 * @seq: where to
 *
 * Context: may sleep.
 */
void pvsync_locks_in_force(struct seq_file *seq)
{
	const struct lock_choice *choice = lock_choice_in_force();

	seq_printf(seq, "lock %s\n", lock_in_force(choice));
	if (!choice || !lock_uses_tau(choice))
		seq_puts(seq, "tau off\n");
	else if (READ_ONCE(pvsync_tau_spins) == PVSYNC_TAU_INF)
		seq_puts(seq, "tau inf\n");
	else
		seq_printf(seq, "tau %llu\n", tau_set_ns);
	if (!choice || !lock_uses_tau(choice) ||
	    READ_ONCE(pvsync_tau_spins) == PVSYNC_TAU_INF)
		seq_puts(seq, "impatience off\n");
	else
		seq_printf(seq, "impatience %u\n", pvsync_impatience);
	if (choice && choice->plain)
		seq_printf(seq, "halt_spins %u\n", lock_halt_spins());
	else
		seq_puts(seq, "halt_spins off\n");
}
