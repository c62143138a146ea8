/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel whose structures the shims of these tests have: see <linux/pvsync/shims.h>. */
#ifndef PVSYNC_SHIM_VERSION_H
#define PVSYNC_SHIM_VERSION_H

#define KERNEL_VERSION(a, b, c)	(((a) << 16) + ((b) << 8) + (c))
#ifndef LINUX_VERSION_CODE
#define LINUX_VERSION_CODE	KERNEL_VERSION(6, 12, 0)
#endif

#endif
