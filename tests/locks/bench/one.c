// SPDX-License-Identifier: GPL-2.0-only
/* The loops of the benchmark for one lock; compiled once for each. */
#include "bench.h"

#include LOCK_HEADER

#include "shim/shim.h"

static struct {
	test_lock_t lock;
} __aligned(64) locks[64], shared;

static unsigned long data[64] __aligned(64);

/* All zero is free, but not everywhere. */
#ifdef lock_init
static __attribute__((__constructor__)) void init(void)
{
	for (int i = 0; i < 64; i++)
		lock_init(&locks[i].lock);
	lock_init(&shared.lock);
}
#endif

#define LOOP __attribute__((__noinline__, __aligned__(64)))

static LOOP void tight(long pairs)
{
	while (pairs--) {
		lock_acquire(&locks[0].lock);
		barrier();
		lock_release(&locks[0].lock);
		barrier();
	}
}

static LOOP void tight_64(long pairs)
{
	while (pairs--) {
		test_lock_t *lock = &locks[pairs & 63].lock;

		lock_acquire(lock);
		barrier();
		lock_release(lock);
		barrier();
	}
}

static LOOP void acquire(test_lock_t *lock)
{
	lock_acquire(lock);
}

static LOOP void release(test_lock_t *lock)
{
	lock_release(lock);
}

static LOOP void call(long pairs)
{
	while (pairs--) {
		acquire(&locks[0].lock);
		barrier();
		release(&locks[0].lock);
		barrier();
	}
}

static __always_inline void instructions(unsigned long *word)
{
	unsigned long a = 1, b = 2, c = 3, d = 4;

	__asm__ __volatile__(".rept 8\n\tlea 1(%0,%0,2), %0\n\txor $3, %1\n\tadd $5, %2\n\t"
			     "ror $7, %3\n\t.endr"
			     : "+r"(a), "+r"(b), "+r"(c), "+r"(d) : : "cc");
	*(volatile unsigned long *)word = a + b + c + d;
}

static LOOP void work(long pairs)
{
	while (pairs--) {
		lock_acquire(&locks[0].lock);
		instructions(&data[0]);
		lock_release(&locks[0].lock);
		instructions(&data[32]);
	}
}

static LOOP unsigned long turns(const bool *stop)
{
	unsigned long count = 0;

	while (!__atomic_load_n(stop, __ATOMIC_RELAXED)) {
		lock_acquire(&shared.lock);
		data[8]++;
		data[9]++;
		lock_release(&shared.lock);
		for (int i = 0; i < 50; i++)
			barrier();
		count++;
	}
	return count;
}

extern const struct bench_lock BENCH;
const struct bench_lock BENCH = { LOCK_NAME, { tight, tight_64, call, work }, turns };
