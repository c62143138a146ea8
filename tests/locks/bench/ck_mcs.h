/* SPDX-License-Identifier: GPL-2.0-only */
#include <ck_spinlock.h>

#define LOCK_NAME	"ck mcs"
typedef ck_spinlock_mcs_t test_lock_t;

static __thread struct ck_spinlock_mcs ck_node;

#define lock_acquire(l)	ck_spinlock_mcs_lock(l, &ck_node)
#define lock_release(l)	ck_spinlock_mcs_unlock(l, &ck_node)
