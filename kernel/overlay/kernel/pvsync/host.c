// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parameters of the host, /sys/module/pvsync/parameters/ and the kernel's
 * command line. They are here, outside of KVM, so that they exist under the
 * same name whether KVM is a module or not.
 */
#define pr_fmt(fmt) "pvsync: " fmt

#include <linux/export.h>
#include <linux/kstrtox.h>
#include <linux/moduleparam.h>
#include <linux/printk.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include <linux/pvsync/extend.h>
#include <linux/pvsync/host.h>
#include <linux/pvsync/strong_yield.h>

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "pvsync."

static const char * const candidates[] = {
	[PVSYNC_CANDIDATE_KVM]		= "kvm",
	[PVSYNC_CANDIDATE_FRIEBEL]	= "friebel",
};

static const char * const yields[] = {
	[PVSYNC_YIELD_HINT]	= "hint",
	[PVSYNC_YIELD_STRONG]	= "strong",
};

static const char * const extends[] = {
	[PVSYNC_EXTEND_OFF]	= "off",
	[PVSYNC_EXTEND_ECS]	= "ecs",
};

static void yield_chosen(int value)
{
	if (value == PVSYNC_YIELD_STRONG)
		pvsync_strong_enable();
}

static void extend_chosen(int value)
{
	if (value == PVSYNC_EXTEND_ECS)
		pvsync_extend_enable();
}

struct pvsync_choice pvsync_candidate_choice = {
	.name = "candidate", .values = candidates, .nr = PVSYNC_NR_CANDIDATES,
};
EXPORT_SYMBOL_GPL(pvsync_candidate_choice);

struct pvsync_choice pvsync_yield_choice = {
	.name = "yield", .values = yields, .nr = PVSYNC_NR_YIELDS, .chosen = yield_chosen,
};
EXPORT_SYMBOL_GPL(pvsync_yield_choice);

struct pvsync_choice pvsync_extend_choice = {
	.name = "extend", .values = extends, .nr = PVSYNC_NR_EXTENDS, .chosen = extend_chosen,
};
EXPORT_SYMBOL_GPL(pvsync_extend_choice);

/*
 * How long a vCPU in a critical section may stay, us. The paper's schedule is
 * 1 ms; what is left of a section is mostly far shorter, and guests that can give
 * the CPU back as soon as they have left it.
 */
struct pvsync_number pvsync_extend_us = {
	.name = "extend_us", .least = 10, .most = 10000, .now = 1000,
};
EXPORT_SYMBOL_GPL(pvsync_extend_us);

/*
 * How much of its vCPUs' time a VM may borrow, permille. All of it is paid back,
 * but others wait for it: a guest that claims to be in a section for ever borrows
 * one length for each of its time slices, which are of some milliseconds.
 */
struct pvsync_number pvsync_extend_cap = {
	.name = "extend_cap", .least = 0, .most = 1000, .now = 200,
};
EXPORT_SYMBOL_GPL(pvsync_extend_cap);

/* Whether pvsync's hypercalls are answered; else they are as unknown as to stock KVM. */
bool pvsync_hypercalls = true;
EXPORT_SYMBOL_GPL(pvsync_hypercalls);
module_param_named(hypercalls, pvsync_hypercalls, bool, 0644);

/* Whether a guest may have the translations of its vCPUs flushed by the host. */
bool pvsync_shootdown = true;
EXPORT_SYMBOL_GPL(pvsync_shootdown);
module_param_named(shootdown, pvsync_shootdown, bool, 0644);

#ifdef CONFIG_PVSYNC_BUSTED
/* Answer such a request, and do nothing. */
bool pvsync_tlb_lost;
EXPORT_SYMBOL_GPL(pvsync_tlb_lost);
module_param_named(busted_shootdown, pvsync_tlb_lost, bool, 0644);
#endif

#ifdef CONFIG_PVSYNC_DEBUG_TLB
/* Whether to warn when a vCPU has run past a shootdown that it had not flushed for. */
bool pvsync_tlb_asserted = true;
EXPORT_SYMBOL_GPL(pvsync_tlb_asserted);
module_param_named(assert_shootdown, pvsync_tlb_asserted, bool, 0644);
#endif

/*
 * Signs of one vCPU that come faster than this are answered without doing
 * anything: a guest has nothing to gain from them, and a hostile one could
 * make other CPUs' run queue locks hot. The helping paper's guests wait for 2^16
 * cycles before each, about 25 us.
 */
unsigned int pvsync_spin_gap_us = 5;
EXPORT_SYMBOL_GPL(pvsync_spin_gap_us);
module_param_named(spin_gap_us, pvsync_spin_gap_us, uint, 0644);

static void tell_values(const struct pvsync_choice *choice)
{
	char all[80] = "";
	int i;

	for (i = 0; i < choice->nr; i++) {
		strlcat(all, " ", sizeof(all));
		strlcat(all, choice->values[i], sizeof(all));
	}
	pr_warn_ratelimited("%s does not have that value, it stays as it is; use one of:%s\n",
			    choice->name, all);
}

/**
 * pvsync_choose - find a value by its name, and get ready for it
 * @choice: the parameter
 * @text: the name, a newline may follow
 *
 * Context: may sleep.
 *
 * Return: the value, or -EINVAL after a line in the log that lists the values.
 */
int pvsync_choose(const struct pvsync_choice *choice, const char *text)
{
	int value = __sysfs_match_string(choice->values, choice->nr, text);

	if (value < 0)
		tell_values(choice);
	else if (choice->chosen)
		choice->chosen(value);
	return value;
}
EXPORT_SYMBOL_GPL(pvsync_choose);

static int choice_set(const char *text, const struct kernel_param *param)
{
	struct pvsync_choice *choice = param->arg;
	int value = pvsync_choose(choice, text);

	if (value < 0)
		return value;
	WRITE_ONCE(choice->now, value);
	return 0;
}

static int choice_get(char *buffer, const struct kernel_param *param)
{
	const struct pvsync_choice *choice = param->arg;

	return sysfs_emit(buffer, "%s\n", choice->values[READ_ONCE(choice->now)]);
}

static const struct kernel_param_ops choice_ops = {
	.set = choice_set,
	.get = choice_get,
};

module_param_cb(candidate, &choice_ops, &pvsync_candidate_choice, 0644);
module_param_cb(yield, &choice_ops, &pvsync_yield_choice, 0644);
module_param_cb(extend, &choice_ops, &pvsync_extend_choice, 0644);

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

static int number_set(const char *text, const struct kernel_param *param)
{
	struct pvsync_number *number = param->arg;
	u32 value;
	int err = pvsync_parse_number(number, text, &value);

	if (!err)
		WRITE_ONCE(number->now, value);
	return err;
}

static int number_get(char *buffer, const struct kernel_param *param)
{
	const struct pvsync_number *number = param->arg;

	return sysfs_emit(buffer, "%u\n", READ_ONCE(number->now));
}

static const struct kernel_param_ops number_ops = {
	.set = number_set,
	.get = number_get,
};

module_param_cb(extend_us, &number_ops, &pvsync_extend_us, 0644);
module_param_cb(extend_cap, &number_ops, &pvsync_extend_cap, 0644);
