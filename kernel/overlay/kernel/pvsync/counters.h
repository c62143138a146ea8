/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_COUNTERS_H
#define _KERNEL_PVSYNC_COUNTERS_H

#include <linux/compiler_types.h>
#include <linux/types.h>

struct dentry;
struct static_key_false;

struct dentry *pvsync_debugfs(void);
ssize_t pvsync_clear_write(const char __user *buf, size_t count, void (*clear)(unsigned int cpu));
void pvsync_create_switch(const char *name, struct dentry *dir, struct static_key_false *key);

#endif /* _KERNEL_PVSYNC_COUNTERS_H */
