/* SPDX-License-Identifier: GPL-2.0-only */
#include <ck_spinlock.h>

#define LOCK_NAME	"ck fas"
typedef ck_spinlock_fas_t test_lock_t;
#define lock_acquire(l)	ck_spinlock_fas_lock(l)
#define lock_release(l)	ck_spinlock_fas_unlock(l)
