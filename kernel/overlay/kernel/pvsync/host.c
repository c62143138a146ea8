// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parameters of the host, /sys/module/pvsync/parameters/ and the kernel's
 * command line. They are here, outside of KVM, so that they exist under the
 * same name whether KVM is a module or not.
 */
#define pr_fmt(fmt) "pvsync: " fmt

#include <linux/export.h>
#include <linux/kernel_stat.h>
#include <linux/kstrtox.h>
#include <linux/minmax.h>
#include <linux/moduleparam.h>
#include <linux/pid.h>
#include <linux/printk.h>
#include <linux/sched/cputime.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include <asm/msr.h>
#include <asm/processor.h>

#include <linux/pvsync/extend.h>
#include <linux/pvsync/host.h>
#include <linux/pvsync/strong_yield.h>
#include <linux/pvsync/vcpus.h>

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "pvsync."

static const char * const candidates[] = {
	[PVSYNC_CANDIDATE_KVM]		= "kvm",
	[PVSYNC_CANDIDATE_FRIEBEL]	= "friebel",
	[PVSYNC_CANDIDATE_HVS]		= "hvs",
	[PVSYNC_CANDIDATE_CPTH_R]	= "cpth-r",
	[PVSYNC_CANDIDATE_CPTH_L]	= "cpth-l",
	[PVSYNC_CANDIDATE_CCH]		= "cch",
	[PVSYNC_CANDIDATE_ECS]		= "ecs",
#ifdef CONFIG_PVSYNC_BPF
	[PVSYNC_CANDIDATE_BPF]		= "bpf",
#endif
};

static const char * const yields[] = {
	[PVSYNC_YIELD_HINT]	= "hint",
	[PVSYNC_YIELD_STRONG]	= "strong",
	[PVSYNC_YIELD_CREDIT]	= "credit",
};

static const char * const marks[] = {
	[PVSYNC_MARK_KVM]	= "kvm",
	[PVSYNC_MARK_YIELD]	= "yield",
	[PVSYNC_MARK_EXIT]	= "exit",
};

static const char * const extends[] = {
	[PVSYNC_EXTEND_OFF]	= "off",
	[PVSYNC_EXTEND_ECS]	= "ecs",
	[PVSYNC_EXTEND_KERNEL]	= "kernel",
};

static const char * const windows[] = {
	[PVSYNC_WINDOW_KVM]	= "kvm",
	[PVSYNC_WINDOW_FIXED]	= "fixed:",
	[PVSYNC_WINDOW_APLE]	= "aple",
	[PVSYNC_WINDOW_STEADY]	= "aple-steady",
};

static const char * const pauses[] = {
	[PVSYNC_PAUSE_KVM]	= "kvm",
	[PVSYNC_PAUSE_SOFT]	= "soft",
	[PVSYNC_PAUSE_OFF]	= "off",
};

/* Windows, cycles: as short as a gap between PAUSEs may be, and as long as a time slice. */
#define LEAST_WINDOW	128
#define MOST_WINDOW	BIT(22)

static const struct pvsync_number fixed_window = {
	.name = "window (fixed:N)", .least = LEAST_WINDOW, .most = MOST_WINDOW,
};

static void host_yield_chosen(int value)
{
	if (value != PVSYNC_YIELD_HINT)
		pvsync_strong_enable();
}

static void host_extend_chosen(int value)
{
	if (value != PVSYNC_EXTEND_OFF)
		pvsync_extend_enable();
}

struct pvsync_choice pvsync_candidate_choice = {
	.name = "candidate", .values = candidates, .nr = PVSYNC_NR_CANDIDATES,
};
EXPORT_SYMBOL_GPL(pvsync_candidate_choice);

struct pvsync_choice pvsync_yield_choice = {
	.name = "yield", .values = yields, .nr = PVSYNC_NR_YIELDS, .chosen = host_yield_chosen,
};
EXPORT_SYMBOL_GPL(pvsync_yield_choice);

struct pvsync_choice pvsync_mark_choice = {
	.name = "mark", .values = marks, .nr = PVSYNC_NR_MARKS,
};
EXPORT_SYMBOL_GPL(pvsync_mark_choice);

struct pvsync_choice pvsync_extend_choice = {
	.name = "extend", .values = extends, .nr = PVSYNC_NR_EXTENDS, .chosen = host_extend_chosen,
};
EXPORT_SYMBOL_GPL(pvsync_extend_choice);

struct pvsync_choice pvsync_window_choice = {
	.name = "window", .values = windows, .nr = PVSYNC_NR_WINDOWS, .number = &fixed_window,
};
EXPORT_SYMBOL_GPL(pvsync_window_choice);

struct pvsync_choice pvsync_pause_choice = {
	.name = "pause", .values = pauses, .nr = PVSYNC_NR_PAUSES,
};
EXPORT_SYMBOL_GPL(pvsync_pause_choice);

/* The search for a window; what the paper has (section 4.1). */
struct pvsync_number pvsync_aple_start = {
	.name = "aple_start", .least = LEAST_WINDOW, .most = MOST_WINDOW, .now = 8192,
};
EXPORT_SYMBOL_GPL(pvsync_aple_start);

struct pvsync_number pvsync_aple_min = {
	.name = "aple_min", .least = LEAST_WINDOW, .most = MOST_WINDOW, .now = 4096,
};
EXPORT_SYMBOL_GPL(pvsync_aple_min);

struct pvsync_number pvsync_aple_max = {
	.name = "aple_max", .least = LEAST_WINDOW, .most = MOST_WINDOW, .now = 32768,
};
EXPORT_SYMBOL_GPL(pvsync_aple_max);

struct pvsync_number pvsync_aple_step = {
	.name = "aple_step", .least = 1, .most = MOST_WINDOW, .now = 1024,
};
EXPORT_SYMBOL_GPL(pvsync_aple_step);

struct pvsync_number pvsync_aple_epoch = {
	.name = "aple_epoch", .least = 10, .most = 1000000, .now = 1000,
};
EXPORT_SYMBOL_GPL(pvsync_aple_epoch);

/*
 * Cycles of a window that a PAUSE counts for, where PAUSEs are counted. 0 stands for the
 * cycles that a PAUSE takes here, or for 1,024 with the filter in software, see
 * arch/x86/kvm/pvsync/window.c.
 */
struct pvsync_number pvsync_pause_cycles = {
	.name = "pause_cycles", .least = 0, .most = U16_MAX, .now = 0,
};
EXPORT_SYMBOL_GPL(pvsync_pause_cycles);

/*
 * PAUSE exits closer together than this are one spin for the filter in software. The gap
 * has to be a few times as long as an exit. An exit takes 1 us on a processor, some 10 us
 * below another hypervisor, up to 40 us in an emulator.
 */
struct pvsync_number pvsync_pause_gap_us = {
	.name = "pause_gap_us", .least = 1, .most = 10000, .now = 100,
};
EXPORT_SYMBOL_GPL(pvsync_pause_gap_us);

/* Cycles that a PAUSE takes here, as a loop of them does. */
unsigned int pvsync_pause_measured;
EXPORT_SYMBOL_GPL(pvsync_pause_measured);
module_param_named(pause_measured, pvsync_pause_measured, uint, 0444);

/*
 * How long a vCPU in a critical section may stay, us. The paper's schedule is 1 ms. The rest
 * of a section is mostly far shorter, and a guest can give the CPU back when it has left it.
 */
struct pvsync_number pvsync_extend_us = {
	.name = "extend_us", .least = 10, .most = 10000, .now = 1000,
};
EXPORT_SYMBOL_GPL(pvsync_extend_us);

/*
 * How much of its own run time each vCPU may borrow, permille. The vCPU pays all of it back,
 * but others wait for it. A guest that claims to be in a section for ever borrows one length
 * for each of its time slices, which are of some milliseconds.
 */
struct pvsync_number pvsync_extend_cap = {
	.name = "extend_cap", .least = 0, .most = 1000, .now = 200,
};
EXPORT_SYMBOL_GPL(pvsync_extend_cap);

/*
 * Whether a VM whose monitor has not said what it is to have (KVM_CAP_PVSYNC) has everything of
 * pvsync. Else it has nothing, and hypercalls are as unknown as to stock KVM. A lab's convenience:
 * no monitor knows the capability so far.
 */
bool pvsync_hypercalls = IS_ENABLED(CONFIG_PVSYNC_KVM_OFFER);
EXPORT_SYMBOL_GPL(pvsync_hypercalls);
module_param_named(hypercalls, pvsync_hypercalls, bool, 0644);

/* Whether the host flushes translations of a guest's vCPUs when the guest asks. */
bool pvsync_shootdown = true;
EXPORT_SYMBOL_GPL(pvsync_shootdown);
module_param_named(shootdown, pvsync_shootdown, bool, 0644);

#ifdef CONFIG_PVSYNC_BUSTED
/* Answer a request to flush, and do nothing. */
bool pvsync_tlb_lost;
EXPORT_SYMBOL_GPL(pvsync_tlb_lost);
module_param_named(busted_shootdown, pvsync_tlb_lost, bool, 0644);

/* Serve a request to flush, and let nobody wait for instructions that the host emulates. */
bool pvsync_tlb_unawaited;
EXPORT_SYMBOL_GPL(pvsync_tlb_unawaited);
module_param_named(busted_await, pvsync_tlb_unawaited, bool, 0644);

/* Count each preempted vCPU as marked, and let no guest see the mark. */
bool pvsync_mark_lost;
EXPORT_SYMBOL_GPL(pvsync_mark_lost);
module_param_named(busted_mark, pvsync_mark_lost, bool, 0644);
#endif

#ifdef CONFIG_PVSYNC_DEBUG_TLB
/* Whether to warn when a vCPU has run past a shootdown without the flush. */
bool pvsync_tlb_asserted = true;
EXPORT_SYMBOL_GPL(pvsync_tlb_asserted);
module_param_named(assert_shootdown, pvsync_tlb_asserted, bool, 0644);
#endif

/*
 * The host answers calls for help of one vCPU that come faster than this without doing
 * anything. A guest has nothing to gain from them, and a hostile guest could make other CPUs'
 * run queue locks hot. The helping paper's guests wait for 2^16 cycles before each call,
 * about 25 us.
 */
unsigned int pvsync_spin_gap_us = 5;
EXPORT_SYMBOL_GPL(pvsync_spin_gap_us);
module_param_named(spin_gap_us, pvsync_spin_gap_us, uint, 0644);

/*
 * How often the host looks whether a section has ended, on borrowed time, us; 0 for never. It
 * looks at a section that does not tell its end, and at a section during which somebody else
 * has asked for the CPU. Each look is an exit and a call of the scheduler, so a guest that is
 * looked at too often gets nowhere: in an emulator, 100 is too often.
 */
unsigned int pvsync_extend_look_us = 250;
EXPORT_SYMBOL_GPL(pvsync_extend_look_us);
module_param_named(extend_look_us, pvsync_extend_look_us, uint, 0644);

static bool choice_takes_number(const char *value)
{
	return value[strlen(value) - 1] == ':';
}

static void choice_tell_values(const struct pvsync_choice *choice)
{
	char all[128] = "";
	int i;

	for (i = 0; i < choice->nr; i++) {
		strlcat(all, " ", sizeof(all));
		strlcat(all, choice->values[i], sizeof(all));
		if (choice_takes_number(choice->values[i]))
			strlcat(all, "N", sizeof(all));
	}
	pr_warn_ratelimited("%s does not have that value, it stays as it is; use one of:%s\n",
			    choice->name, all);
}

static int choice_find_value(const struct pvsync_choice *choice,
			     const char *text)
{
	int i;

	for (i = 0; i < choice->nr; i++) {
		size_t length = strlen(choice->values[i]);
		u32 number;

		if (!choice_takes_number(choice->values[i])) {
			if (sysfs_streq(choice->values[i], text))
				return i;
			continue;
		}
		if (strncmp(choice->values[i], text, length))
			continue;
		if (pvsync_parse_number(choice->number, text + length, &number))
			return -EINVAL;
		return i | number << PVSYNC_CHOICE_BITS;
	}
	choice_tell_values(choice);
	return -EINVAL;
}

/**
 * pvsync_choose - find a value by its name, and get ready for it
 * @choice: the parameter
 * @text: the name, a newline may follow
 *
 * Context: may sleep.
 *
 * Return: the value, or -EINVAL after a line in the log that says what is allowed.
 */
int pvsync_choose(const struct pvsync_choice *choice, const char *text)
{
	int value = choice_find_value(choice, text);

	/* The first one of each is stock KVM's. */
	if (value > 0)
		pvsync_vcpus_enable();
	if (value >= 0 && choice->chosen)
		choice->chosen(value);
	return value;
}
EXPORT_SYMBOL_GPL(pvsync_choose);

/**
 * pvsync_tell_choice - the text of a value
 * @choice: the parameter
 * @value: the value
 * @text: where it goes, PVSYNC_CHOICE_TEXT bytes
 *
 * Context: any.
 */
void pvsync_tell_choice(const struct pvsync_choice *choice, int value, char *text)
{
	const char *name = choice->values[pvsync_choice_index(value)];

	if (choice_takes_number(name))
		snprintf(text, PVSYNC_CHOICE_TEXT, "%s%u", name, pvsync_choice_number(value));
	else
		strscpy(text, name, PVSYNC_CHOICE_TEXT);
}
EXPORT_SYMBOL_GPL(pvsync_tell_choice);

static int choice_param_set(const char *text, const struct kernel_param *param)
{
	struct pvsync_choice *choice = param->arg;
	int value = pvsync_choose(choice, text);

	if (value < 0)
		return value;
	WRITE_ONCE(choice->now, value);
	return 0;
}

static int choice_param_get(char *buffer, const struct kernel_param *param)
{
	const struct pvsync_choice *choice = param->arg;
	char text[PVSYNC_CHOICE_TEXT];

	pvsync_tell_choice(choice, READ_ONCE(choice->now), text);
	return sysfs_emit(buffer, "%s\n", text);
}

static const struct kernel_param_ops choice_ops = {
	.set = choice_param_set,
	.get = choice_param_get,
};

module_param_cb(candidate, &choice_ops, &pvsync_candidate_choice, 0644);
module_param_cb(yield, &choice_ops, &pvsync_yield_choice, 0644);
module_param_cb(mark, &choice_ops, &pvsync_mark_choice, 0644);
module_param_cb(extend, &choice_ops, &pvsync_extend_choice, 0644);
module_param_cb(window, &choice_ops, &pvsync_window_choice, 0644);
module_param_cb(pause, &choice_ops, &pvsync_pause_choice, 0644);

/**
 * pvsync_parse_number - read the value of a parameter that is a number
 * @number: the parameter
 * @text: decimal digits, a newline may follow
 * @value: where it goes
 *
 * Context: any.
 *
 * Return: 0, or -EINVAL after a line in the log that says what is allowed.
 */
int pvsync_parse_number(const struct pvsync_number *number, const char *text, u32 *value)
{
	u32 parsed;

	if (kstrtou32(text, 10, &parsed) || parsed < number->least || parsed > number->most) {
		pr_warn_ratelimited("%s does not have that value, it stays as it is; use a number from %u to %u\n",
				    number->name, number->least, number->most);
		return -EINVAL;
	}
	*value = parsed;
	return 0;
}
EXPORT_SYMBOL_GPL(pvsync_parse_number);

static int number_param_set(const char *text, const struct kernel_param *param)
{
	struct pvsync_number *number = param->arg;
	u32 value;
	int err = pvsync_parse_number(number, text, &value);

	if (!err)
		WRITE_ONCE(number->now, value);
	return err;
}

static int number_param_get(char *buffer, const struct kernel_param *param)
{
	const struct pvsync_number *number = param->arg;

	return sysfs_emit(buffer, "%u\n", READ_ONCE(number->now));
}

static const struct kernel_param_ops number_ops = {
	.set = number_param_set,
	.get = number_param_get,
};

module_param_cb(extend_us, &number_ops, &pvsync_extend_us, 0644);
module_param_cb(extend_cap, &number_ops, &pvsync_extend_cap, 0644);
module_param_cb(aple_start, &number_ops, &pvsync_aple_start, 0644);
module_param_cb(aple_min, &number_ops, &pvsync_aple_min, 0644);
module_param_cb(aple_max, &number_ops, &pvsync_aple_max, 0644);
module_param_cb(aple_step, &number_ops, &pvsync_aple_step, 0644);
module_param_cb(aple_epoch, &number_ops, &pvsync_aple_epoch, 0644);
module_param_cb(pause_cycles, &number_ops, &pvsync_pause_cycles, 0644);
module_param_cb(pause_gap_us, &number_ops, &pvsync_pause_gap_us, 0644);

/* The shortest of some loops: the others were interrupted. */
static int __init host_measure_pause(void)
{
	const unsigned int loops = 16, length = 64;
	u64 shortest = U64_MAX;
	unsigned int i, j;

	for (i = 0; i < loops; i++) {
		u64 start = rdtsc_ordered();

		for (j = 0; j < length; j++)
			cpu_relax();
		shortest = min(shortest, rdtsc_ordered() - start);
	}
	pvsync_pause_measured = clamp(shortest / length, 1ULL, (u64)U16_MAX);
	return 0;
}
late_initcall(host_measure_pause);

/**
 * pvsync_thread_ns - CPU time of a thread
 * @pid: its pid, or NULL
 *
 * Here, as KVM may be a module and the scheduler does not tell modules.
 *
 * Context: any but NMI, @pid protected by RCU; takes the lock of a run queue.
 *
 * Return: ns, up to now; 0 if there is no such thread.
 */
u64 pvsync_thread_ns(struct pid *pid)
{
	struct task_struct *task = pid_task(pid, PIDTYPE_PID);

	return task ? task_sched_runtime(task) : 0;
}
EXPORT_SYMBOL_GPL(pvsync_thread_ns);

/**
 * pvsync_cpu_switches - how often a CPU has switched tasks
 * @cpu: the CPU
 *
 * Here for the same reason.
 *
 * Context: any; not exact while the CPU switches.
 */
unsigned long long pvsync_cpu_switches(int cpu)
{
	return nr_context_switches_cpu(cpu);
}
EXPORT_SYMBOL_GPL(pvsync_cpu_switches);
