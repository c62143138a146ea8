/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_RW_SPINLOCK_H
#define PVSYNC_TEST_RW_SPINLOCK_H

/* As arch/x86/include/asm/spinlock.h includes them. */
#include <asm-generic/qspinlock.h>
#include <asm/pvsync_spinlock.h>

#endif
