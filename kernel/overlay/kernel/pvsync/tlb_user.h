/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_TLB_USER_H
#define _KERNEL_PVSYNC_TLB_USER_H

/* Flushes of user addresses, see tlb_user.c. */

struct cpumask;
struct flush_tlb_info;

void pvsync_flush_tlb_multi(const struct cpumask *cpumask, const struct flush_tlb_info *info);

#endif /* _KERNEL_PVSYNC_TLB_USER_H */
