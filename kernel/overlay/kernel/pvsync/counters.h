/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_COUNTERS_H
#define _KERNEL_PVSYNC_COUNTERS_H

struct dentry;

struct dentry *pvsync_debugfs(void);

#endif /* _KERNEL_PVSYNC_COUNTERS_H */
