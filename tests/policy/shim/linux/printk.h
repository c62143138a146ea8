/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_PRINTK_H
#define PVSYNC_TEST_PRINTK_H

#include <kernel.h>

/* How often the kernel would have said something, were it not for "once". */
static unsigned int kernel_said __attribute__((__unused__));

#define pr_info_once(...)	((void)kernel_said++)

#endif
