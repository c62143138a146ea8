/* SPDX-License-Identifier: GPL-2.0-only */
#include <pthread.h>

#define LOCK_NAME	"pthread_spin"
typedef pthread_spinlock_t test_lock_t;
#define lock_acquire(l)	pthread_spin_lock(l)
#define lock_release(l)	pthread_spin_unlock(l)
#define lock_init(l)	pthread_spin_init(l, PTHREAD_PROCESS_PRIVATE)
