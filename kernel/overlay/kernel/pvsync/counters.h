/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_COUNTERS_H
#define _KERNEL_PVSYNC_COUNTERS_H

struct dentry;
struct static_key_false;

struct dentry *pvsync_debugfs(void);
void pvsync_create_switch(const char *name, struct dentry *dir, struct static_key_false *key);

#endif /* _KERNEL_PVSYNC_COUNTERS_H */
