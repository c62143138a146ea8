/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_LOCKS_H
#define _KERNEL_PVSYNC_LOCKS_H

#include <asm-generic/qspinlock_types.h>

/* What a contended spinlock calls. */
typedef void (*slowpath_fn)(struct qspinlock *lock, u32 val);

#ifdef CONFIG_PVSYNC_PV_LOCKS

/* Iterations before a waiter of a paravirtual lock halts. */
extern u32 pvsync_halt_spins;

void pvsync_pv_pmt_lock_slowpath(struct qspinlock *lock, u32 val);
void pvsync_pv_ticket_lock_slowpath(struct qspinlock *lock, u32 val);
const char *pvsync_pv_unavailable(void);
void pvsync_pv_install(bool ordered);
void pvsync_pv_uninstall(void);

#endif /* CONFIG_PVSYNC_PV_LOCKS */

#ifdef CONFIG_PVSYNC_HELP

void pvsync_helped_native_slowpath(struct qspinlock *lock, u32 val);
void pvsync_helped_qspinlock_slowpath(struct qspinlock *lock, u32 val);
void pvsync_helped_tas_slowpath(struct qspinlock *lock, u32 val);
void pvsync_helped_ticket_slowpath(struct qspinlock *lock, u32 val);
void pvsync_helped_pmt_slowpath(struct qspinlock *lock, u32 val);
u64 pvsync_help_start(u64 cycles, u64 slowness);

#endif /* CONFIG_PVSYNC_HELP */

void pvsync_busted_lock_slowpath(struct qspinlock *lock, u32 val);

#endif /* _KERNEL_PVSYNC_LOCKS_H */
