// SPDX-License-Identifier: GPL-2.0-only
/* The base kernel's queued rwlock, with the line that the series adds to it. */
#include <linux/spinlock.h>
#include <linux/pvsync/rwlock.h>

#include <kernel/locking/qrwlock.c>
