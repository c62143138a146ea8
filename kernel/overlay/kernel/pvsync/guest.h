/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_GUEST_H
#define _KERNEL_PVSYNC_GUEST_H

#include <linux/types.h>

const char *pvsync_host_lacks(unsigned long feature);
unsigned long pvsync_host_offers(void);
bool pvsync_host_has_msrs(void);

/*
 * Each mechanism that a boot has chosen is told at times whether the host offers what the
 * mechanism needs: the host may be another one by then. Context: may sleep.
 */
#ifdef CONFIG_PVSYNC_HELP
void pvsync_help_offered(bool offered);
#else
static inline void pvsync_help_offered(bool offered) { }
#endif

#ifdef CONFIG_PVSYNC_TLB
void pvsync_tlb_is_offered(bool offered);
#else
static inline void pvsync_tlb_is_offered(bool offered) { }
#endif

#ifdef CONFIG_PVSYNC_PARK
void pvsync_park_offered(bool offered);
#else
static inline void pvsync_park_offered(bool offered) { }
#endif

#endif /* _KERNEL_PVSYNC_GUEST_H */
