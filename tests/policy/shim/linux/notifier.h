/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_SHIM_NOTIFIER_H
#define PVSYNC_SHIM_NOTIFIER_H

#define NOTIFY_DONE	0

struct notifier_block {
	int (*notifier_call)(struct notifier_block *nb, unsigned long action, void *data);
};

#endif
