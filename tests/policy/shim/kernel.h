/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_KERNEL_H
#define PVSYNC_TEST_KERNEL_H

/*
 * What the host's sources use of the kernel everywhere. One thread runs a test: what guards
 * against others only has to be in pairs, which kernel_is_left() looks at.
 */

#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

#define div64_u64(a, b)		((u64)(a) / (u64)(b))
#define __read_mostly
#define ____cacheline_aligned_in_smp
#define __acquires(x)
#define __releases(x)
#undef __always_inline
#define __always_inline		inline __attribute__((__always_inline__))
#define data_race(x)		(x)
#define likely(x)		(x)
#define unlikely(x)		(x)
#define NSEC_PER_SEC		1000000000L
#define NSEC_PER_MSEC		1000000L
#define NSEC_PER_USEC		1000L
#define fallthrough		__attribute__((__fallthrough__))
#define READ_ONCE(x)		(*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, val)	(*(volatile __typeof__(x) *)&(x) = (val))
#define smp_mb()		((void)0)
#define smp_wmb()		((void)0)
#define smp_load_acquire(p)	READ_ONCE(*(p))
#define smp_store_release(p, val)	WRITE_ONCE(*(p), val)
#define BUILD_BUG_ON(cond)	_Static_assert(!(cond), #cond)
#undef static_assert
#define static_assert(expr)	_Static_assert(expr, #expr)
#define EXPORT_SYMBOL_GPL(sym)	_Static_assert(sizeof(&(sym)), #sym)
#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))

struct task_struct;
struct seq_file;
struct pid;

int yield_to(struct task_struct *task, bool preempt);

/* Times that something is held or off. */
static int kernel_holds;

/* Of these, sections of RCU. */
static int kernel_rcu __attribute__((__unused__));

static inline bool kernel_is_left(void)
{
	return !kernel_holds;
}

#define preempt_disable()	(kernel_holds++)
#define preempt_enable()	(kernel_holds--)
#define rcu_read_lock()		(kernel_rcu++, kernel_holds++)
#define rcu_read_unlock()	(kernel_rcu--, kernel_holds--)
#define rcu_dereference(p)	(p)
#define srcu_read_lock(srcu)	(kernel_holds++, 0)
#define srcu_read_unlock(srcu, idx)	((void)(idx), kernel_holds--)

static inline void bit_spin_lock(int bit, unsigned long *word)
{
	if (*word & 1UL << bit)
		__builtin_trap();	/* A deadlock. */
	*word |= 1UL << bit;
	kernel_holds++;
}

static inline void bit_spin_unlock(int bit, unsigned long *word)
{
	*word &= ~(1UL << bit);
	kernel_holds--;
}

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	s64 counter;
} atomic64_t;

#define atomic_read(v)		((v)->counter)
#define atomic64_read(v)	READ_ONCE((v)->counter)
#define atomic64_inc_return(v)	(++(v)->counter)
#define atomic64_set(v, value)	__atomic_store_n(&(v)->counter, value, __ATOMIC_RELAXED)
#define atomic64_and(bits, v)	((void)__atomic_fetch_and(&(v)->counter, bits, __ATOMIC_RELAXED))
#define atomic64_try_cmpxchg(v, old, new)						\
	__atomic_compare_exchange_n(&(v)->counter, old, new, false, __ATOMIC_SEQ_CST,	\
				    __ATOMIC_SEQ_CST)
#define cmpxchg(where, old, new)					\
	({								\
		__typeof__(*(where)) __was = *(where);			\
		if (__was == (old))					\
			*(where) = (new);				\
		__was;							\
	})

typedef struct {
	int readers;
} rwlock_t;

#define read_lock(lock)		((lock)->readers++, kernel_holds++)
#define read_unlock(lock)	((lock)->readers--, kernel_holds--)

struct mutex {
	bool held;
};

#define mutex_init(mutex)	((mutex)->held = false)

static inline bool mutex_trylock(struct mutex *mutex)
{
	if (mutex->held)
		return false;
	mutex->held = true;
	kernel_holds++;
	return true;
}

static inline void mutex_lock(struct mutex *mutex)
{
	if (!mutex_trylock(mutex))
		__builtin_trap();	/* A deadlock. */
}

static inline void mutex_unlock(struct mutex *mutex)
{
	mutex->held = false;
	kernel_holds--;
}

#define GFP_KERNEL_ACCOUNT	1U
#define __GFP_NOWARN		2U

/* Answered by the test. */
void *kvzalloc(size_t size, unsigned int flags);
void kvfree(const void *memory);
u64 ktime_get_ns(void);
u64 rdtsc(void);

enum hrtimer_restart {
	HRTIMER_NORESTART
};

struct hrtimer {
	enum hrtimer_restart (*function)(struct hrtimer *timer);
	s64	ns;	/* From when it was set; 0 if it is not. */
};

typedef struct {
	int unused;
} raw_spinlock_t;

struct static_key_false {
	bool enabled;
};

#define DECLARE_STATIC_KEY_FALSE(name)	extern struct static_key_false name
#define DEFINE_STATIC_KEY_FALSE(name)	struct static_key_false name
#define static_branch_enable(key)	((key)->enabled = true)
#define static_branch_unlikely(key)	((key)->enabled)

#define TEST_CPUS	4
#define DEFINE_PER_CPU(type, name)	type name[TEST_CPUS]
#define per_cpu(name, cpu)		((name)[cpu])
#define per_cpu_ptr(name, cpu)		(&(*(name))[cpu])

static unsigned long jiffies __attribute__((__unused__));

#define time_before_eq(a, b)	((long)((b) - (a)) >= 0)

#define BITS_PER_LONG		64
#define BITS_PER_TYPE(type)	(sizeof(type) * 8)
#define BIT_WORD(nr)		((nr) / BITS_PER_LONG)
#define BITS_TO_LONGS(nr)	(((nr) + 63) / 64)
#define BIT(nr)			(1UL << (nr))
#define BIT_ULL(nr)		(1ULL << (nr))
#define DECLARE_BITMAP(name, bits)	unsigned long name[BITS_TO_LONGS(bits)]

static inline void __set_bit(unsigned long bit, unsigned long *map)
{
	map[bit / 64] |= 1UL << bit % 64;
}

static inline bool test_bit(unsigned long bit, const unsigned long *map)
{
	return map[bit / 64] >> bit % 64 & 1;
}

static inline void bitmap_set(unsigned long *map, unsigned int start, unsigned int nr)
{
	while (nr--)
		__set_bit(start++, map);
}

static inline unsigned int bitmap_weight(const unsigned long *map, unsigned int size)
{
	unsigned int weight = 0;

	while (size--)
		weight += test_bit(size, map);
	return weight;
}

#define for_each_set_bit(bit, map, size)		\
	for ((bit) = 0; (bit) < (unsigned long)(size); (bit)++)	\
		if (test_bit(bit, map))

/* The kernel's has no branch. */
#define array_index_nospec(index, size)	((index) < (size) ? (index) : 0)

#endif
