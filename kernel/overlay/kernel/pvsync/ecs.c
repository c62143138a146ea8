// SPDX-License-Identifier: GPL-2.0-only
/*
 * Critical sections that the host is told of, the guest's side: pvsync.ecs= and
 * the record that each CPU shares with the host (struct pvsync_ecs). After
 * S. Kashyap, C. Min and T. Kim, "Scaling Guest OS Critical Sections with eCS",
 * USENIX ATC 2018, sections 3.1 and 5.
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
 * The counts
 * ----------
 *
 * A section begins to count after it has its lock, and stops counting after it has released
 * the lock. Each time one instruction adds to, or subtracts from, a word of the CPU that the
 * section is on.
 *
 *  - Interrupts and NMIs come between instructions, and what they add they subtract
 *    before they return.
 *  - Sections that are not preemptable end on the CPU that they began on. The section of
 *    a run queue's lock begins in one task and ends in the next, on the same CPU.
 *  - Preemptable sections belong to the task, and the word follows it.
 *    __pvsync_ecs_switch() puts the word of the outgoing task away, and takes out the word
 *    of the incoming task. A task that moves to another CPU is switched away from here
 *    first and to there later. So whichever CPU executes the one instruction, it is a CPU
 *    that this task runs on, and its word is this task's word.
 *  - The host changes the words while the vCPU does not run, so never within an
 *    instruction. It changes BORROWED only.
 *
 * A waiter is in no section, whatever it has locked: it goes on no sooner if it keeps its
 * CPU, and what it waits for may need that CPU. Interrupts on top of a wait are sections.
 * Many waits with a lock are for flushes of translations. munmap() waits for other CPUs
 * with mmap_lock, and what it waits longest for is a vCPU without a CPU.
 *
 * For some instructions a CPU has got a lock and not counted it yet, or has released it and
 * still counts it. The host knows too little then, or too much. Nothing but a chance is
 * lost.
 *
 * Borrowed time
 * -------------
 *
 * The host sets BORROWED in both words when it lets the vCPU run on. BORROWED is the
 * sign of the word, so the subtraction itself tells, and the CPU calls pvsync_ecs_left().
 * Anything may have come in between: interrupts that had sections of their own, and if
 * preemption is enabled, other tasks and another CPU. So pvsync_ecs_left() disables
 * interrupts and looks at the CPU that it runs on then: is there any section left? The CPU
 * that the task was on before does not need that look. It switched tasks, and the release of
 * its run queue's lock is a subtraction. The release comes after the preemptable sections of
 * the outgoing task have left the word.
 *
 * If no section is left, pvsync_ecs_left() clears BORROWED, which the host does not mind, and
 * asks the host to run somebody else. Interrupts or preemption may be disabled meanwhile, but
 * that alone is no section. NMI handlers leave all that to the code that they interrupted.
 *
 * With free no subtraction tells, and the host writes to nothing that the kernel maintains
 * for itself. The host looks at times whether the section is over. If the kernel chooses a
 * task meanwhile, __pvsync_ecs_reschedule() gives back the rest of the time.
 *
 * Mistakes
 * --------
 *
 * A section may end in another task than it began in, as an rwsem that up_read_non_owner()
 * releases. Then one task has a section too many, for as long as it lives, and the other
 * task has one too few.
 *
 * A negative word is seen as negative at the latest at the next switch of tasks, as nobody
 * waits for 2^14 locks at a time. Until then, a word that had BORROWED before the subtraction
 * looks like sections. The code sets a negative word to no section and counts the mistake.
 * The non-preemptable word has to be 1 at each switch of tasks, for the lock of the run
 * queue; the switch sets it right. A wrong claim can do no more than a lie could: the host
 * bounds both.
 *
 * Counting begins before there is a second CPU or task. Meanwhile locks are released that
 * were not counted when they were taken, so the words start from 0 after that.
 */
#define pr_fmt(fmt) "pvsync: " fmt

#include <linux/atomic.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/hardirq.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/kvm_para.h>
#include <linux/percpu.h>
#include <linux/platform_device.h>
#include <linux/pm.h>
#include <linux/rcupdate.h>
#include <linux/reboot.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/timer.h>

#include <asm/page.h>
#include <asm/paravirt.h>
#include <asm/qspinlock.h>

#include <linux/pvsync/abi.h>
#include <linux/pvsync/count.h>
#include <linux/pvsync/ecs.h>
#include <linux/pvsync/shims.h>

#include "counters.h"
#include "ecs.h"
#include "guest.h"
#include "in_force.h"
#include "locks.h"

/* Not _GPL: inline code that releases locks uses it, and the releases are not _GPL. */
DEFINE_PER_CPU_ALIGNED(struct pvsync_ecs, pvsync_ecs);
EXPORT_PER_CPU_SYMBOL(pvsync_ecs);

DEFINE_STATIC_KEY_FALSE(pvsync_ecs_free_key);

enum ecs_form {
	FORM_OFF,
	FORM_COUNT,
	FORM_FREE,
};

static const char * const form_names[] = {
	[FORM_OFF]	= "off",
	[FORM_COUNT]	= "count",
	[FORM_FREE]	= "free",
};

static enum ecs_form form __ro_after_init = FORM_OFF;

/* Share records although no section is told, for what the host has to say. */
static bool share_anyway __ro_after_init;

static void ecs_give_back(void)
{
	__pvsync_count(PVSYNC_ecs_given_back);
	kvm_hypercall1(PVSYNC_HC_GIVE_BACK, 0);
}

/**
 * __pvsync_ecs_reschedule - give back time that was borrowed with free
 *
 * Keeps the time of a reader that is preempted, or looks as if it were: nothing would tell
 * when the reader ends.
 *
 * Context: as pvsync_ecs_reschedule().
 */
void __pvsync_ecs_reschedule(void)
{
	if (this_cpu_read(pvsync_ecs.borrowed) && !rcu_preempt_depth())
		ecs_give_back();
}

#ifdef CONFIG_PARAVIRT_SPINLOCKS

/* With free, the slow path of spinlocks that ecs_announced_spin() calls. */
static slowpath_fn spin_slowpath __ro_after_init;

static void notrace __lockfunc ecs_announced_spin(struct qspinlock *lock, u32 val)
{
	pvsync_ecs_wait_begins();
	spin_slowpath(lock, val);
	pvsync_ecs_wait_ends();
}

/**
 * pvsync_spin_slowpath - what a contended spinlock calls, announced or not
 *
 * Context: any.
 */
slowpath_fn pvsync_spin_slowpath(void)
{
	return spin_slowpath ?: pvsync_get_slowpath();
}

/* Context: one CPU, before the alternatives turn the pointer into a direct call. */
static void __init ecs_announce_spins(bool on)
{
	slowpath_fn plain = pvsync_spin_slowpath();

	spin_slowpath = on ? plain : NULL;
	pvsync_set_slowpath(on ? ecs_announced_spin : plain);
}

#else

static void __init ecs_announce_spins(bool on) { }

#endif /* CONFIG_PARAVIRT_SPINLOCKS */

#ifdef CONFIG_PVSYNC_ECS_COUNT

DEFINE_STATIC_KEY_FALSE(pvsync_ecs_count_key);
EXPORT_SYMBOL(pvsync_ecs_count_key);

/* The counts of a word without BORROWED; negative if more sections ended than began. */
static __always_inline s64 ecs_word_counts(u64 word)
{
	return (s64)(word << 1) >> 1;
}

/* All fields but the last one are sections. */
static __always_inline bool ecs_in_section(u64 word)
{
	return ecs_word_counts(word) & (PVSYNC_ECS_SPINNER - 1);
}

/* Take away @surplus, which should be none. */
static __always_inline void ecs_set_right(u64 __percpu *word, s64 surplus)
{
	if (likely(!surplus))
		return;
	this_cpu_sub(*word, surplus);
	__pvsync_count(PVSYNC_ecs_unbalanced);
}

static __always_inline void ecs_set_right_negative(u64 __percpu *word)
{
	ecs_set_right(word,
		      min_t(s64, ecs_word_counts(this_cpu_read(*word)), 0));
}

/*
 * A section has ended, and the word is negative.
 *
 * Context: any, and within the release of any lock: nothing here may take one.
 */
__visible void pvsync_ecs_left(void);
__visible void notrace pvsync_ecs_left(void)
{
	unsigned long flags;

	if (in_nmi())
		return;
	raw_local_irq_save(flags);
	ecs_set_right_negative(&pvsync_ecs.non_preemptable);
	ecs_set_right_negative(&pvsync_ecs.preemptable);
	if (!ecs_in_section(this_cpu_read(pvsync_ecs.non_preemptable)) &&
	    !ecs_in_section(this_cpu_read(pvsync_ecs.preemptable))) {
		this_cpu_and(pvsync_ecs.non_preemptable, ~PVSYNC_ECS_BORROWED);
		this_cpu_and(pvsync_ecs.preemptable, ~PVSYNC_ECS_BORROWED);
		if (this_cpu_read(pvsync_ecs.borrowed))
			ecs_give_back();
	}
	raw_local_irq_restore(flags);
}

PV_CALLEE_SAVE_REGS_THUNK(pvsync_ecs_left);
EXPORT_SYMBOL(__raw_callee_save_pvsync_ecs_left);

/**
 * pvsync_ecs_spin - acquire a spinlock that is not free, and count the wait
 * @lock: the lock
 * @val: its value as the fast path found it
 *
 * Context: as arch_spin_lock(): preemption disabled, interrupts as they are.
 */
void notrace __lockfunc pvsync_ecs_spin(struct qspinlock *lock, u32 val)
{
	pvsync_ecs_enter(non_preemptable, PVSYNC_ECS_SPINNER);
	queued_spin_lock_slowpath(lock, val);
	pvsync_ecs_enter(non_preemptable, PVSYNC_ECS_LOCK);
	pvsync_ecs_drop(non_preemptable, PVSYNC_ECS_SPINNER);
}
EXPORT_SYMBOL_GPL(pvsync_ecs_spin);

/**
 * __pvsync_ecs_switch - the word follows the task
 * @prev: the task that this CPU switches from
 * @next: the task that it switches to
 *
 * Adds the difference of the two. So BORROWED stays with the CPU whenever the host sets
 * or clears it, and an NMI may come at any time.
 *
 * Context: as pvsync_ecs_switch().
 */
void notrace __pvsync_ecs_switch(struct task_struct *prev, struct task_struct *next)
{
	u64 goes, comes = next->pvsync.ecs;

	ecs_set_right_negative(&pvsync_ecs.preemptable);
	goes = ecs_word_counts(this_cpu_read(pvsync_ecs.preemptable));
	prev->pvsync.ecs = goes;
	next->pvsync.ecs = 0;
	this_cpu_add(pvsync_ecs.preemptable, comes - goes);

	ecs_set_right(&pvsync_ecs.non_preemptable,
		      ecs_word_counts(this_cpu_read(pvsync_ecs.non_preemptable)) - PVSYNC_ECS_LOCK);
}

/*
 * A release while the key changes leaves the words as they are, or subtracts from them. The
 * words must not seem negative then.
 *
 * Context: the one CPU, interrupts disabled.
 */
static void __init ecs_count_sections(bool on)
{
	if (on == static_key_enabled(&pvsync_ecs_count_key))
		return;
	this_cpu_write(pvsync_ecs.non_preemptable, PVSYNC_ECS_IRQ);
	this_cpu_write(pvsync_ecs.preemptable, PVSYNC_ECS_RCU);
	if (on)
		static_branch_enable(&pvsync_ecs_count_key);
	else
		static_branch_disable(&pvsync_ecs_count_key);
	this_cpu_write(pvsync_ecs.non_preemptable, 0);
	this_cpu_write(pvsync_ecs.preemptable, 0);
}

#else

static void __init ecs_count_sections(bool on) { }

#endif /* CONFIG_PVSYNC_ECS_COUNT */

static void __init ecs_set_form(enum ecs_form wanted)
{
	form = wanted;
	ecs_count_sections(form == FORM_COUNT);
	ecs_announce_spins(form == FORM_FREE);
	if (form == FORM_FREE)
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
	pr_info("critical sections: %s\n", form_names[form]);
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

/*
 * The guest may be saved in the midst of this. So each store to a record that is shared already
 * leaves there what was there.
 */
static long ecs_share_record(void)
{
	struct pvsync_ecs *ecs = this_cpu_ptr(&pvsync_ecs);
	u64 record = per_cpu_ptr_to_phys(ecs) | record_forms[form];
	struct pvsync_ecs_layout layout = preempt_count_layout;
	u64 addresses[ARRAY_SIZE(ecs->addresses)] = { };
	bool by_msr = pvsync_host_has_msrs();

	if (form == FORM_FREE) {
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

static void ecs_unshare_record(void)
{
	if (!pvsync_host_has_msrs() || pvsync_wrmsr_safe(MSR_PVSYNC_ECS, 0))
		kvm_hypercall4(PVSYNC_HC_ECS, 0, 0, 0, 0);
}

/* While it is false, CPUs share nothing. Soon after it becomes true, all CPUs share. */
static bool sharing = true;

/* Clear what the host would write: without a host, a record says nothing. */
static void ecs_tell_nothing(void)
{
	this_cpu_write(pvsync_ecs.preempted, 0);
	this_cpu_write(pvsync_ecs.overcommitted, 0);
	this_cpu_write(pvsync_ecs.borrowed, 0);
}

/* Whether the host has the record of this CPU, as the host said last. */
static DEFINE_PER_CPU(bool, taken);

/* The log says that a record is not taken. Atomic, as CPUs may share at the same tick. */
static atomic_t unheard = ATOMIC_INIT(0);

static bool ecs_all_taken(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu) {
		if (!READ_ONCE(per_cpu(taken, cpu)))
			return false;
	}
	return true;
}

/* A line when the first record is refused, and one when the last is taken again. */
static void ecs_say_whether_heard(long answer)
{
	if (answer && !atomic_xchg(&unheard, 1))
		pr_warn("critical sections go unheard: the host does not take the record of a CPU (%ld)\n",
			answer);
	else if (!answer && atomic_read(&unheard) && ecs_all_taken() && atomic_xchg(&unheard, 0))
		pr_info("critical sections are heard again\n");
}

/*
 * Disables interrupts. So this CPU either sees the store of ecs_set_sharing(false), or
 * ecs_unshare_cpu() runs here afterwards.
 */
static void ecs_share_cpu(void *unused)
{
	unsigned long flags;
	long answer = 0;

	local_irq_save(flags);
	if (READ_ONCE(sharing)) {
		answer = ecs_share_record();
		this_cpu_write(taken, !answer);
	}
	if (answer)
		ecs_tell_nothing();
	local_irq_restore(flags);
	ecs_say_whether_heard(answer);
}

static void ecs_unshare_cpu(void *unused)
{
	this_cpu_write(taken, false);
	ecs_unshare_record();
}

/* No CPU may go down meanwhile: it would miss the call, and share on. */
static void ecs_set_sharing(bool on)
{
	cpus_read_lock();
	WRITE_ONCE(sharing, on);
	on_each_cpu(on ? ecs_share_cpu : ecs_unshare_cpu, NULL, 1);
	cpus_read_unlock();
}

/*
 * A guest that is saved goes on under another host, or in another process of the same host.
 * Neither knows of the guest's records, and nobody tells the guest. So each CPU shares its
 * record again at times, when it is awake anyway and has a tick. A host that has the record
 * already leaves all as it is.
 */
#define SHARE_AGAIN	(10 * HZ)

static DEFINE_PER_CPU(struct timer_list, share_timer);

static void ecs_share_again(struct timer_list *timer)
{
	ecs_share_cpu(NULL);
	mod_timer(timer, jiffies + SHARE_AGAIN);
}

static int ecs_cpu_up(unsigned int cpu)
{
	struct timer_list *timer = this_cpu_ptr(&share_timer);

	ecs_share_cpu(NULL);
	timer_setup(timer, ecs_share_again, TIMER_PINNED | TIMER_DEFERRABLE);
	mod_timer(timer, jiffies + SHARE_AGAIN);
	return 0;
}

static int ecs_cpu_down(unsigned int cpu)
{
	timer_shutdown_sync(this_cpu_ptr(&share_timer));
	ecs_unshare_cpu(NULL);
	return 0;
}

/* The next kernel does not know that the host writes to its memory. */
static int ecs_unshare_at_reboot(struct notifier_block *nb, unsigned long code,
				 void *unused)
{
	ecs_set_sharing(false);
	return NOTIFY_DONE;
}

static struct notifier_block reboot_nb = {
	.notifier_call = ecs_unshare_at_reboot,
};

/*
 * A restored guest may have been saved under another host. And a guest may jump to another
 * kernel for a while, which no notifier tells. The kernel tells devices of both, so there is
 * a device. The callbacks of CPU hotplug see to CPUs that go down.
 */
static int ecs_freeze_sharing(struct device *dev)
{
	ecs_set_sharing(false);
	return 0;
}

static int ecs_thaw_sharing(struct device *dev)
{
	ecs_set_sharing(true);
	return 0;
}

static DEFINE_SIMPLE_DEV_PM_OPS(sleep_ops, ecs_freeze_sharing,
				ecs_thaw_sharing);

static struct platform_driver sleep_driver = {
	.driver = {
		.name	= "pvsync-ecs",
		.pm	= pm_sleep_ptr(&sleep_ops),
		.suppress_bind_attrs = true,
	},
};

static int __init ecs_see_sleep(void)
{
	struct platform_device *device;
	int error = platform_driver_register(&sleep_driver);

	if (error)
		return error;
	device = platform_device_register_simple(sleep_driver.driver.name, PLATFORM_DEVID_NONE,
						 NULL, 0);
	return PTR_ERR_OR_ZERO(device);
}

static int __init pvsync_ecs_init(void)
{
	int error;

	if (form == FORM_OFF && !share_anyway)
		return 0;
	error = ecs_see_sleep();
	if (error) {
		pr_warn("critical sections go unheard: error %d\n", error);
		return error;
	}
	register_reboot_notifier(&reboot_nb);
	return cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "pvsync/ecs:online",
				 ecs_cpu_up, ecs_cpu_down);
}
core_initcall(pvsync_ecs_init);

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

static const char *ecs_records_in_force(void)
{
	if (form == FORM_OFF && !share_anyway)
		return "none";
	return ecs_all_taken() ? "taken" : "refused";
}

/**
 * pvsync_ecs_in_force - show the form, and whether the host has all CPUs' records
 * @seq: where to
 *
 * Context: may sleep.
 */
void pvsync_ecs_in_force(struct seq_file *seq)
{
	seq_printf(seq, "ecs %s\necs_record %s\n", form_names[form],
		   ecs_records_in_force());
}

static int __init pvsync_ecs_debugfs_init(void)
{
	debugfs_create_file("ecs", 0400, pvsync_debugfs(), NULL, &ecs_fops);
	return 0;
}
late_initcall(pvsync_ecs_debugfs_init);
