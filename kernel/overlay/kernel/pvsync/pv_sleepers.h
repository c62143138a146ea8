/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_PV_SLEEPERS_H
#define _KERNEL_PVSYNC_PV_SLEEPERS_H

/*
 * Who sleeps for which lock: for pv_lock.c, which says why none sleeps for
 * ever.
 *
 * A CPU that sleeps fills its slot, and has its bit in the bucket of the lock.
 * A release looks at the CPUs of that bucket: at the sleepers of its own lock,
 * and of the few locks that fall into the same bucket. A bit only says where to
 * look. The slot says which lock and which ticket its CPU has. The release
 * passes over a bit whose slot names another lock.
 *
 * Buckets are bitmaps and not lists, so a CPU enters and leaves by one
 * instruction, with nothing to wait for. Each bucket has a cache line of its
 * own. The 64 buckets take 4 KiB for up to 512 CPUs, and 64 KiB for 8,192, an
 * eighth of what the slots take.
 *
 * The project's tests also compile this file in user space.
 */
#include <linux/types.h>
#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/cpumask.h>
#include <linux/hash.h>
#include <linux/math.h>
#include <linux/percpu.h>
#include <linux/pvsync/pmt_lock.h>

#ifndef PVSYNC_BUCKETS
#define PVSYNC_BUCKETS	64
#endif

/**
 * struct pvsync_slot - what a sleeping CPU waits for
 * @lock: the lock; NULL while the CPU does not sleep
 * @ticket: its ticket
 * @woken: a release has chosen this CPU, and kicks it
 */
struct pvsync_slot {
	struct qspinlock	*lock;
	u32			ticket;
	bool			woken;
};

/**
 * struct pvsync_bucket - who may sleep for one of the locks that share it
 * @sleepers: CPUs whose slots a release has to look at
 */
struct pvsync_bucket {
	struct cpumask		sleepers;
} ____cacheline_aligned_in_smp;

static DEFINE_PER_CPU_SHARED_ALIGNED(struct pvsync_slot, pvsync_slots);

static struct pvsync_bucket pvsync_buckets[PVSYNC_BUCKETS];

static __always_inline struct cpumask *
pvsync_sleepers(const struct qspinlock *lock)
{
	return &pvsync_buckets[reciprocal_scale(hash_ptr(lock, 32),
						PVSYNC_BUCKETS)].sleepers;
}

/**
 * pvsync_sleep_begins - a CPU is about to sleep
 * @cpu: this CPU
 * @lock: what it waits for
 * @ticket: its ticket
 *
 * An atomic operation comes last, for smp_mb__after_atomic().
 *
 * Context: interrupts disabled.
 */
static __always_inline void pvsync_sleep_begins(int cpu, struct qspinlock *lock,
						u32 ticket)
{
	struct pvsync_slot *slot = per_cpu_ptr(&pvsync_slots, cpu);

	WRITE_ONCE(slot->ticket, ticket);
	WRITE_ONCE(slot->woken, false);
	WRITE_ONCE(slot->lock, lock);
	cpumask_set_cpu(cpu, pvsync_sleepers(lock));
}

/**
 * pvsync_may_sleep - is the slot still as it was filled?
 * @cpu: this CPU
 * @lock: what it waits for
 *
 * Something else may have waited on this CPU meanwhile. It left an empty slot,
 * and took the bit with it if its lock was of the same bucket.
 *
 * Context: as pvsync_sleep_begins().
 */
static __always_inline bool pvsync_may_sleep(int cpu,
					     const struct qspinlock *lock)
{
	return READ_ONCE(per_cpu_ptr(&pvsync_slots, cpu)->lock) == lock;
}

/**
 * pvsync_sleep_ends - a CPU is awake
 * @cpu: this CPU
 * @lock: what it waits for
 *
 * Context: as pvsync_sleep_begins().
 */
static __always_inline void pvsync_sleep_ends(int cpu, struct qspinlock *lock)
{
	cpumask_clear_cpu(cpu, pvsync_sleepers(lock));
	WRITE_ONCE(per_cpu_ptr(&pvsync_slots, cpu)->lock, NULL);
}

/**
 * pvsync_wake - wake the waiter that the release of a lock has to wake
 * @lock: the lock, whose address is compared, and which may be gone
 * @granted: what its word had when it was released
 * @ordered: waiters take it in their turn only
 * @kick: marks a sleeper as woken and ends its sleep
 *
 * See "Whom a release wakes" in pv_lock.c.
 *
 * Context: after the release, and (2) of pv_lock.c.
 */
static __always_inline void pvsync_wake(const struct qspinlock *lock,
					u32 granted, bool ordered,
					void (*kick)(int cpu))
{
	u32 nearest = U32_MAX;
	int cpu, next = -1;

	for_each_cpu(cpu, pvsync_sleepers(lock)) {
		struct pvsync_slot *slot = per_cpu_ptr(&pvsync_slots, cpu);
		u32 ahead;

		if (READ_ONCE(slot->lock) != lock)
			continue;
		ahead = READ_ONCE(slot->ticket) - granted;
		if (ordered) {
			if (!(ahead & PVSYNC_COUNT_MASK))
				kick(cpu);
			continue;
		}
		if (READ_ONCE(slot->woken))
			continue;
		/* Overtaken tickets, which are negative, come first. */
		ahead += (PVSYNC_COUNT_MASK + 1) / 2;
		ahead &= PVSYNC_COUNT_MASK;
		if (ahead < nearest) {
			nearest = ahead;
			next = cpu;
		}
	}
	if (next >= 0)
		kick(next);
}

#endif /* _KERNEL_PVSYNC_PV_SLEEPERS_H */
