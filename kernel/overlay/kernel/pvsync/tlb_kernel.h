/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_TLB_KERNEL_H
#define _KERNEL_PVSYNC_TLB_KERNEL_H

/* Flushes of kernel addresses, see tlb_kernel.c; <linux/pvsync/tlb.h> has what mm calls. */

void pvsync_flush_kernel(unsigned long start, unsigned long end);

#endif /* _KERNEL_PVSYNC_TLB_KERNEL_H */
