/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_CLIENT_H
#define PVSYNC_TEST_CLIENT_H

/*
 * What all runners share. LOCK_HEADER, from the command line, is one of lock/:
 * it names the lock (LOCK_NAME), its type (test_lock_t), its operations
 * (lock_acquire, lock_try, lock_release, lock_is_locked, lock_is_contended,
 * lock_value_unlocked, lock_set_tau, lock_set_impatience) and what may be expected
 * of it (first come, first served: LOCK_IS_FIFO; at how many CPUs: LOCK_CPUS; in
 * the queue after how many cpu_relax(): LOCK_QUEUES_AFTER). All zero is free.
 *
 * The lock guards two plain counters that only its owner writes. They match as
 * long as there is one owner, and their sum in the end is the number of turns.
 */

#include LOCK_HEADER

static struct {
	unsigned char before[60];	/* 0xa5: a lock stays within its word */
	test_lock_t lock;
	unsigned char after[60];
	unsigned long first;
	unsigned long second;
} __aligned(64) client;

static __maybe_unused void client_init(void)
{
	__builtin_memset(client.before, 0xa5, sizeof(client.before));
	__builtin_memset(client.after, 0xa5, sizeof(client.after));
	__builtin_memset(&client.lock, 0, sizeof(client.lock));
	client.first = 0;
	client.second = 0;
}

static __maybe_unused bool client_neighbours_intact(void)
{
	for (unsigned int i = 0; i < sizeof(client.before); i++)
		if (client.before[i] != 0xa5 || client.after[i] != 0xa5)
			return false;
	return true;
}

#endif /* PVSYNC_TEST_CLIENT_H */
