/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_LOCKS_H
#define _KERNEL_PVSYNC_LOCKS_H

#include <asm-generic/qspinlock_types.h>

void pvsync_busted_lock_slowpath(struct qspinlock *lock, u32 val);

#endif /* _KERNEL_PVSYNC_LOCKS_H */
