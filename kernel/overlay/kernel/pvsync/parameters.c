// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parameters that begin with "pvsync." and that nothing reads. The kernel is silent
 * about any word with a dot: it could be for a module that is loaded later. pvsync
 * has no such module. A user who asks for pvsync.locks=ticket should know that the
 * measured lock is stock.
 */
#define pr_fmt(fmt) "pvsync: " fmt

#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/string.h>

#define PREFIX	"pvsync."

/* Read in user space, from /proc/cmdline. */
static const char * const read_elsewhere[] __initconst = {
	PREFIX "shell",
};

/* All known keys, for the log. */
static char known[640] __initdata;

static bool __init parameter_is_ours(const char *name)
{
	return !strncmp(name, PREFIX, strlen(PREFIX));
}

/* Length of the key of a __setup() or an early_param(), which may end with "=". */
static size_t __init parameter_key_length(const char *str)
{
	return strchrnul(str, '=') - str;
}

static bool __init parameter_is_key(const char *param, const char *str)
{
	size_t length = parameter_key_length(str);

	return strlen(param) == length && parameqn(param, str, length);
}

/* Return: whether something reads @param; without a value, what takes none does. */
static bool __init parameter_is_read(const char *param, const char *val)
{
	const struct obs_kernel_param *setup;
	const struct kernel_param *kp;
	unsigned int i;

	for (setup = __setup_start; setup < __setup_end; setup++) {
		if (parameter_is_key(param, setup->str))
			return val ||
			       !setup->str[parameter_key_length(setup->str)];
	}
	for (kp = __start___param; kp < __stop___param; kp++) {
		if (parameq(param, kp->name))
			return true;
	}
	for (i = 0; i < ARRAY_SIZE(read_elsewhere); i++) {
		if (parameq(param, read_elsewhere[i]))
			return true;
	}
	return false;
}

static void __init parameter_add_known(const char *name, size_t length)
{
	size_t end = strlen(known);

	if (parameter_is_ours(name))
		snprintf(known + end, sizeof(known) - end, " %.*s",
			 (int)(length - strlen(PREFIX)), name + strlen(PREFIX));
}

static void __init parameter_find_known(void)
{
	const struct obs_kernel_param *setup;
	const struct kernel_param *kp;

	for (setup = __setup_start; setup < __setup_end; setup++)
		parameter_add_known(setup->str,
				    parameter_key_length(setup->str));
	for (kp = __start___param; kp < __stop___param; kp++)
		parameter_add_known(kp->name, strlen(kp->name));
}

static int __init parameter_check(char *param, char *val, const char *unused,
				  void *arg)
{
	if (!parameter_is_ours(param) || parameter_is_read(param, val))
		return 0;
	if (!known[0])
		parameter_find_known();
	pr_warn("%s%s%s is not known, nothing changes; with a value, these are:%s\n",
		param, val ? "=" : "", val ?: "", known);
	return 0;
}

static int __init pvsync_check_parameters(void)
{
	char *line = kstrdup(saved_command_line, GFP_KERNEL);

	if (!line)
		return -ENOMEM;
	parse_args("pvsync", line, NULL, 0, 0, 0, NULL, parameter_check);
	kfree(line);
	return 0;
}
late_initcall(pvsync_check_parameters);
