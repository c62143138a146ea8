/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_SHIM_MODULE_H
#define PVSYNC_SHIM_MODULE_H

#include <stdbool.h>

struct notifier_block;

enum module_state { MODULE_STATE_LIVE, MODULE_STATE_COMING, MODULE_STATE_GOING };

/* From its first byte to before @end. */
struct module {
	unsigned long start, end;
};

static inline bool within_module(unsigned long address, const struct module *module)
{
	return address >= module->start && address < module->end;
}

/* Kept for the test to call. */
static struct notifier_block *module_notifier;

static inline int register_module_notifier(struct notifier_block *nb)
{
	module_notifier = nb;
	return 0;
}

#endif
